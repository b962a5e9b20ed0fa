// The map of the collection: similar items are near each other. Thumbnails appear where they fit.

import { withQuery, write } from "./address.js";
import { Camera } from "./camera.js";
import { inverted, isDrawing } from "./drawings.js";
import { capital, element, fill, number } from "./elements.js";
import { loaded, picture } from "./pictures.js";

const PICTURE = 34;
const CLICK_RADIUS = 16;
const MAX_LOADING = 6;
const COLOURS = 12;
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");

export class CollectionMap {
  /** `onChoose(id)` is called when an item is opened, `onLabel(label)` when a label is clicked. */
  constructor(place, { onChoose, onLabel, announce }) {
    this.place = place;
    this.camera = new Camera();
    this.points = [];
    this.found = new Map(); // ranks of results by id
    this.labels = null; // labels to highlight; null for all
    this.images = new Map();
    this.loading = 0;
    this.selected = null;
    Object.assign(this, { onChoose, onLabel, announce, search: null, dirty: false, flight: 0, colours: [] });

    this.canvas = element("canvas", {
      tabindex: 0, role: "application", "aria-roledescription": "map", "aria-describedby": "map-keys",
      "aria-label": "Map of the collection",
    });
    this.legend = element("div", { class: "legend", role: "group", "aria-label": "Labels" });
    this.card = element("a", { class: "peek", hidden: true, tabindex: -1 });
    const act = (label, sign, work) => element("button", { type: "button", "aria-label": label, title: label, onclick: work }, sign);
    fill(place,
      element("div", { class: "stage" },
        this.canvas, this.card,
        element("div", { class: "zooms" },
          act("Zoom in", "+", () => this.zoom(1.6)), act("Zoom out", "−", () => this.zoom(1 / 1.6)), act("Whole map", "⤢", () => this.whole())),
        element("p", { class: "keys", id: "map-keys" }, "Drag to move, scroll or pinch to zoom, click an item to find similar ones. Arrow keys move between items, + and − zoom, Enter opens an item.")),
      this.legend);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    dark.addEventListener("change", () => this.restyle());
  }

  /** Set the points of the map. */
  fill(data) {
    const order = shuffled(data.points.length);
    this.points = data.points.map((point, place) => ({ ...point, order: order[place], spacing: 0, colour: -1 }));
    this.byId = new Map(this.points.map((point) => [point.id, point]));
    this.counts = countLabels(this.points);
    this.named = [...this.counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).map(([label]) => label);
    this.captions = this.named.map((label) => ({ label, ...middle(this.points.filter((point) => point.labels.includes(label))) }));
    this.coloured = covering(this.points, COLOURS);
    const top = new Map(this.coloured.map((label, place) => [label, place]));
    for (const point of this.points) {
      const candidates = point.labels.filter((label) => top.has(label));
      // The rarest label is the most specific one.
      point.colour = candidates.length ? top.get(candidates.reduce((a, b) => (this.counts.get(a) <= this.counts.get(b) ? a : b))) : -1;
    }
    this.resize();
    this.drawLegend();
  }

  /** Highlight the results of a search, and dim items that do not match its filters. */
  show(search, answers) {
    this.search = search;
    this.found = new Map((answers ?? []).map((answer) => [answer.id, answer.rank]));
    this.labels = search.where.labels?.length ? new Set(search.where.labels) : null;
    const places = (answers ?? []).map((answer) => this.byId?.get(answer.id)).filter(Boolean).map((point) => [point.x, point.y]);
    this.restyle();
    this.drawLegend();
    if (places.length) this.fly(this.camera.around(places));
  }

  drawLegend() {
    const shown = this.coloured ?? [];
    const others = (this.named?.length ?? 0) - shown.length;
    fill(this.legend,
      shown.map((label, place) => element("button", {
        type: "button", class: `swatch c${place}`, "aria-pressed": String(this.labels?.has(label) ?? false), onclick: () => this.onLabel(label),
      }, capital(label), element("small", {}, number(this.counts.get(label))))),
      others > 0 ? element("span", { class: "faint" }, `and ${number(others)} more`) : null);
  }

  restyle() {
    const style = getComputedStyle(this.place);
    const value = (name) => style.getPropertyValue(name).trim();
    this.colours = Array.from({ length: COLOURS }, (_, place) => value(`--c${place}`));
    this.ink = value("--ink");
    this.muted = value("--faint");
    this.ground = value("--ground");
    this.accent = value("--accent");
    this.raised = value("--raised");
    this.font = style.fontFamily;
    this.redraw();
  }

  // ------------------------------------------------------------------------------------------ view

  resize() {
    const { width, height } = this.canvas.getBoundingClientRect();
    if (!width || !height) return;
    const density = Math.min(3, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    this.density = density;
    this.camera.resize(width, height);
    setSpacing(this.points, this.camera);
    this.restyle();
  }

  redraw() {
    if (this.dirty) return;
    this.dirty = true;
    requestAnimationFrame(() => {
      this.dirty = false;
      if (this.place.hidden || !this.points.length) return;
      this.draw();
    });
  }

  zoom(factor, left, top) {
    this.stop();
    this.camera.zoomAt(factor, left, top);
    this.peek(this.selected);
    this.redraw();
  }

  whole() {
    this.select(null);
    this.fly({ x: 0, y: 0, zoom: 1 });
  }

  stop() {
    cancelAnimationFrame(this.flight);
  }

  /** Move the camera to a view, without animation if reduced motion is preferred. */
  fly(to) {
    this.stop();
    const { x, y, zoom } = this.camera;
    const began = performance.now();
    const step = (now) => {
      const t = reducedMotion.matches ? 1 : Math.min(1, (now - began) / 450);
      const eased = 1 - (1 - t) ** 3;
      this.camera.zoom = zoom * (to.zoom / zoom) ** eased;
      this.camera.x = x + (to.x - x) * eased;
      this.camera.y = y + (to.y - y) * eased;
      this.camera.settle();
      this.peek(this.selected);
      this.redraw();
      if (t < 1) this.flight = requestAnimationFrame(step);
    };
    step(reducedMotion.matches ? began : performance.now());
  }

  isDim(point) {
    if (this.labels && !point.labels.some((label) => this.labels.has(label))) return true;
    return this.found.size > 0 && !this.found.has(point.id);
  }

  /** Whether the thumbnail of an item is drawn: for results, the selected item, and where it fits. */
  isPictured(point) {
    if (!point.thumbnail) return false;
    if (point === this.selected || this.found.has(point.id)) return true;
    return !this.isDim(point) && point.spacing * this.camera.zoom >= PICTURE * 1.12;
  }

  draw() {
    const { camera } = this;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(this.density, 0, 0, this.density, 0, 0);
    pen.clearRect(0, 0, camera.width, camera.height);
    const seen = [];
    for (const point of this.points) {
      const [left, top] = camera.toScreen(point.x, point.y);
      if (left < -PICTURE || top < -PICTURE || left > camera.width + PICTURE || top > camera.height + PICTURE) continue;
      point.left = left;
      point.top = top;
      seen.push(point);
    }
    const radius = Math.min(5, 2.1 + 0.5 * Math.log2(camera.zoom));
    const pictured = [];
    for (const point of seen) {
      if (this.isPictured(point)) pictured.push(point);
      const dim = this.isDim(point);
      pen.globalAlpha = dim ? 0.3 : 0.78;
      pen.fillStyle = point.colour < 0 ? this.muted : this.colours[point.colour];
      pen.beginPath();
      pen.arc(point.left, point.top, dim ? radius * 0.8 : radius, 0, 2 * Math.PI);
      pen.fill();
    }
    const rank = (point) => (point === this.selected ? -1 : this.found.get(point.id) ?? 1e9);
    pictured.sort((a, b) => rank(b) - rank(a) || a.order - b.order);
    for (const point of pictured) this.drawPicture(pen, point);
    this.drawCaptions(pen, pictured);
    this.load(pictured.toReversed());
  }

  drawPicture(pen, point) {
    const image = this.images.get(point.id);
    if (!(image instanceof HTMLImageElement)) return;
    const special = point === this.selected || this.found.has(point.id);
    const side = special ? PICTURE * 1.25 : PICTURE;
    const [left, top] = [point.left - side / 2, point.top - side / 2];
    const colour = point.colour < 0 ? this.muted : this.colours[point.colour];
    pen.globalAlpha = 1;
    pen.beginPath();
    pen.roundRect(left, top, side, side, 8);
    pen.fillStyle = image.drawing && dark.matches ? this.raised : "#fff";
    pen.fill();
    pen.save();
    pen.clip();
    const inner = image.drawing ? side - 10 : side;
    const fit = image.drawing ? Math.min : Math.max; // a drawing is shown whole, a photograph is cropped
    const scale = fit(inner / image.naturalWidth, inner / image.naturalHeight);
    const [width, height] = [image.naturalWidth * scale, image.naturalHeight * scale];
    if (image.drawing && dark.matches) image.inverted ??= inverted(image, this.raised);
    pen.drawImage(dark.matches && image.inverted || image, point.left - width / 2, point.top - height / 2, width, height);
    pen.restore();
    pen.lineWidth = special ? 2.5 : 1.5;
    pen.strokeStyle = point === this.selected ? this.accent : colour;
    pen.stroke();
  }

  /** Draw label names near most of their items, without overlaps. */
  drawCaptions(pen, pictured) {
    const side = PICTURE * 0.55;
    const taken = pictured.map(({ left, top }) => [left - side, top - side, left + side, top + side]);
    const isFree = (box) => box[0] > 0 && box[1] > 0 && box[2] < this.camera.width && box[3] < this.camera.height
      && !taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);
    const minCount = 20 / this.camera.zoom ** 1.3;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    pen.lineWidth = 4;
    pen.strokeStyle = this.ground;
    for (const caption of this.captionsInOrder()) {
      if ((caption.n < minCount && !caption.found) || (this.labels && !this.labels.has(caption.label))) continue;
      const size = Math.min(16, 11.5 + Math.log2(1 + caption.n / 15));
      const text = capital(caption.label);
      pen.font = `600 ${size}px ${this.font}`;
      const half = pen.measureText(text).width / 2 + 3;
      const [x, y] = this.camera.toScreen(caption.x, caption.y);
      const beside = [[0, -0.9], [0, 0.9], [0, -1.6], [0, 1.6], [1, 0], [-1, 0]];
      const box = beside.map(([right, down]) => [x + right * (half + side), y + down * PICTURE])
        .map(([left, top]) => [left - half, top - size * 0.7, left + half, top + size * 0.7]).find(isFree);
      if (!box) continue;
      taken.push(box);
      const place = this.coloured.indexOf(caption.label);
      const [left, top] = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
      pen.globalAlpha = 0.9;
      pen.strokeText(text, left, top);
      pen.globalAlpha = this.found.size ? 0.75 : 1;
      pen.fillStyle = place < 0 ? this.ink : this.colours[place];
      pen.fillText(text, left, top);
    }
    pen.globalAlpha = 1;
  }

  /** Captions, ordered by the frequency of their labels among the results. */
  captionsInOrder() {
    if (!this.found.size) return this.captions;
    const counts = countLabels(this.points.filter((point) => this.found.has(point.id)));
    const counted = this.captions.map((caption) => ({ ...caption, found: counts.get(caption.label) ?? 0 }));
    return counted.sort((a, b) => b.found - a.found);
  }

  /** Load the thumbnails of visible items, a few at a time. */
  load(points) {
    for (const point of points) {
      if (this.loading >= MAX_LOADING) return;
      if (this.images.has(point.id)) continue;
      this.loading += 1;
      this.images.set(point.id, "loading");
      loaded(point.thumbnail).then((image) => this.images.set(point.id, Object.assign(image, { drawing: isDrawing(image) })), () => this.images.set(point.id, "broken"))
        .finally(() => {
          this.loading -= 1;
          this.redraw();
        });
    }
  }

  // ----------------------------------------------------------------------------------------- input

  listen() {
    const { canvas } = this;
    const fingers = new Map();
    let moved = 0;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      this.stop();
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, at(event));
      if (fingers.size === 1) moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const here = at(event);
      const before = fingers.get(event.pointerId);
      if (!before) {
        if (event.pointerType === "mouse") this.select(this.near(...here), false);
        return;
      }
      const [right, down] = [here[0] - before[0], here[1] - before[1]];
      moved += Math.hypot(right, down);
      if (fingers.size === 1) {
        this.camera.pan(right, down);
      } else {
        const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
        const [old, now] = [Math.hypot(before[0] - other[0], before[1] - other[1]), Math.hypot(here[0] - other[0], here[1] - other[1])];
        if (old > 0) this.camera.zoomAt(now / old, (here[0] + other[0]) / 2, (here[1] + other[1]) / 2);
      }
      fingers.set(event.pointerId, here);
      canvas.classList.toggle("dragged", moved > 4);
      this.peek(this.selected);
      this.redraw();
    });
    const lift = (event) => {
      const alone = fingers.size === 1;
      if (!fingers.delete(event.pointerId)) return;
      canvas.classList.remove("dragged");
      if (event.type !== "pointerup" || !alone || moved > 8) return;
      const point = this.near(...at(event));
      this.card.classList.toggle("touched", event.pointerType !== "mouse");
      // A finger hides the item: the first touch shows its card, and a touch of the card opens it.
      if (event.pointerType === "mouse" && point) this.onChoose(point.id);
      else this.select(point);
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse" && !fingers.size) this.select(null, false); });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      this.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0018)), ...at(event));
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => this.zoom(2, ...at(event)));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", (event) => { if (event.relatedTarget !== this.card) this.select(null, false); });
  }

  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    if (step && event.shiftKey) {
      this.camera.pan(-step[0] * 80, -step[1] * 80);
      this.peek(this.selected);
      this.redraw();
    } else if (step) this.walk(step);
    else if (event.key === "+" || event.key === "=") this.zoom(1.6);
    else if (event.key === "-") this.zoom(1 / 1.6);
    else if (event.key === "0" || event.key === "Home") this.whole();
    else if (event.key === "Escape" && this.selected) this.select(null);
    else if (event.key === "Enter" && this.selected) this.onChoose(this.selected.id);
    else return;
    event.preventDefault();
  }

  /** Select the next item in a direction, and keep it visible. */
  walk([right, down]) {
    const from = this.selected ? this.camera.toScreen(this.selected.x, this.selected.y) : [this.camera.width / 2, this.camera.height / 2];
    let best = null;
    let smallest = Infinity;
    for (const point of this.points) {
      if (point === this.selected || this.isDim(point)) continue;
      const [left, top] = this.camera.toScreen(point.x, point.y);
      const [x, y] = [left - from[0], top - from[1]];
      const along = x * right + y * down;
      const across = Math.abs(x * down) + Math.abs(y * right);
      const distance = this.selected ? along + 2 * across : Math.hypot(x, y);
      if ((this.selected === null || along > Math.max(1, across / 2)) && distance < smallest) [best, smallest] = [point, distance];
    }
    if (!best) return;
    this.select(best);
    const [left, top] = this.camera.toScreen(best.x, best.y);
    const edge = 90;
    if (left < edge || top < edge || left > this.camera.width - edge || top > this.camera.height - edge) {
      this.fly({ x: best.x, y: best.y, zoom: this.camera.zoom });
    }
  }

  /** The item nearest to a pixel, if one is close. */
  near(left, top) {
    let best = null;
    let smallest = Infinity;
    for (const point of this.points) {
      const [x, y] = this.camera.toScreen(point.x, point.y);
      const distance = Math.hypot(x - left, y - top) - (this.isPictured(point) ? PICTURE / 2 : 0);
      if (distance < CLICK_RADIUS && distance < smallest) [best, smallest] = [point, distance];
    }
    return best;
  }

  select(point, announced = true) {
    if (point === this.selected) return;
    this.selected = point;
    this.canvas.classList.toggle("over", point !== null);
    if (point) {
      this.card.href = write(withQuery(this.search, { id: point.id }));
      fill(this.card,
        element("span", { class: "tile" }, picture(point.thumbnail, { lazy: false })),
        element("strong", {}, point.id),
        element("span", { class: "labels" }, point.labels.map(capital).join(" · ") || "no labels"));
      if (announced) this.announce([point.id, ...point.labels].join(", "));
    }
    this.peek(point);
    this.redraw();
  }

  /** Show the card of an item beside it. */
  peek(point) {
    const [left, top] = point ? this.camera.toScreen(point.x, point.y) : [-1, -1];
    this.card.hidden = left < 0 || top < 0 || left > this.camera.width || top > this.camera.height;
    if (this.card.hidden) return;
    const { offsetWidth: width, offsetHeight: height } = this.card;
    const within = (value, max) => Math.round(Math.min(max - 8, Math.max(8, value)));
    const x = within(left + width + 34 < this.camera.width ? left + 26 : left - width - 26, this.camera.width - width);
    const y = within(top - height / 2, this.camera.height - height);
    this.card.style.transform = `translate(${x}px, ${y}px)`;
  }
}

/** A deterministic random permutation (Fisher-Yates with xorshift). */
function shuffled(n) {
  const order = Array.from({ length: n }, (_, place) => place);
  let seed = 2463534242;
  for (let place = n - 1; place > 0; place -= 1) {
    seed ^= seed << 13;
    seed ^= seed >>> 17;
    seed ^= seed << 5;
    const other = (seed >>> 0) % (place + 1);
    [order[place], order[other]] = [order[other], order[place]];
  }
  return order;
}

/** Set the spacing of each point: the distance at zoom 1 to the nearest point that precedes it in the drawing order. */
function setSpacing(points, camera) {
  const sorted = [...points].sort((a, b) => a.order - b.order);
  sorted.forEach((point, place) => {
    point.spacing = Infinity;
    for (let other = 0; other < place; other += 1) {
      const x = Math.abs(sorted[other].x - point.x) * camera.perX;
      const y = Math.abs(sorted[other].y - point.y) * camera.perY;
      point.spacing = Math.min(point.spacing, Math.max(x, y));
    }
  });
}

/** Labels that together cover the most points, chosen greedily. */
function covering(points, max) {
  const chosen = [];
  let remaining = points;
  while (chosen.length < max && remaining.length) {
    const [label] = [...countLabels(remaining)].reduce((best, pair) => (pair[1] > best[1] ? pair : best), [null, 0]);
    if (label === null) break;
    chosen.push(label);
    remaining = remaining.filter((point) => !point.labels.includes(label));
  }
  return chosen;
}

function countLabels(points) {
  const counts = new Map();
  for (const point of points) for (const label of point.labels) counts.set(label, (counts.get(label) ?? 0) + 1);
  return counts;
}

/** The centre of the densest region: the point with the smallest sum of capped distances to a sample. */
function middle(points) {
  const sample = points.filter((_, place) => place % Math.ceil(points.length / 60) === 0);
  const cost = (point) => sample.reduce((sum, other) => sum + Math.min(0.25, Math.hypot(point.x - other.x, point.y - other.y)), 0);
  const best = sample.reduce((a, b) => (cost(a) <= cost(b) ? a : b));
  return { x: best.x, y: best.y, n: points.length };
}
