// The map of the collection: similar items are near each other. Thumbnails appear where they fit.

import { write } from "./address.js";
import { Camera } from "./camera.js";
import { isDrawing } from "./drawings.js";
import { capital, element, fill, number } from "./elements.js";
import { follow } from "./gestures.js";
import { countLabels, covering, middle, setSpacing, shuffled } from "./layout.js";
import { PICTURE, drawCaptions, drawPicture } from "./marks.js";
import { loaded, picture } from "./pictures.js";

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
        element("p", { class: "keys", id: "map-keys" }, "Drag to move, scroll or pinch to zoom, click an item to open it. Arrow keys move between items, + and − zoom, Enter opens an item.")),
      this.legend);
    follow(this);
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
    for (const point of pictured) drawPicture(this, pen, point);
    drawCaptions(this, pen, pictured);
    this.load(pictured.toReversed());
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
      this.card.href = write({ ...this.search, view: "", item: point.id });
      fill(this.card,
        element("span", { class: "tile" }, picture(point.thumbnail, { lazy: false })),
        element("strong", {}, point.title),
        element("span", { class: "labels" }, point.labels.map(capital).join(" · ") || "no labels"));
      if (announced) this.announce([point.title, ...point.labels].join(", "));
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
