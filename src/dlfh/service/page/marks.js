// What is drawn on the map: thumbnails, and the names of labels.

import { inverted } from "./drawings.js";
import { capital } from "./elements.js";
import { countLabels } from "./layout.js";

/** Side of a thumbnail in pixels. */
export const PICTURE = 34;
const dark = matchMedia("(prefers-color-scheme: dark)");

/** Draw the thumbnail of a point. */
export function drawPicture(map, pen, point) {
  const image = map.images.get(point.id);
  if (!(image instanceof HTMLImageElement)) return;
  const special = point === map.selected || map.found.has(point.id);
  const side = special ? PICTURE * 1.25 : PICTURE;
  const [left, top] = [point.left - side / 2, point.top - side / 2];
  const colour = point.colour < 0 ? map.muted : map.colours[point.colour];
  pen.globalAlpha = 1;
  pen.beginPath();
  pen.roundRect(left, top, side, side, 8);
  pen.fillStyle = image.drawing && dark.matches ? map.raised : "#fff";
  pen.fill();
  pen.save();
  pen.clip();
  const inner = image.drawing ? side - 10 : side;
  const fit = image.drawing ? Math.min : Math.max; // a drawing is shown whole, a photograph is cropped
  const scale = fit(inner / image.naturalWidth, inner / image.naturalHeight);
  const [width, height] = [image.naturalWidth * scale, image.naturalHeight * scale];
  if (image.drawing && dark.matches) image.inverted ??= inverted(image, map.raised);
  pen.drawImage(dark.matches && image.inverted || image, point.left - width / 2, point.top - height / 2, width, height);
  pen.restore();
  pen.lineWidth = special ? 2.5 : 1.5;
  pen.strokeStyle = point === map.selected ? map.accent : colour;
  pen.stroke();
}

/** Draw label names near most of their items, without overlaps. */
export function drawCaptions(map, pen, pictured) {
  const side = PICTURE * 0.55;
  const taken = pictured.map(({ left, top }) => [left - side, top - side, left + side, top + side]);
  const isFree = (box) => box[0] > 0 && box[1] > 0 && box[2] < map.camera.width && box[3] < map.camera.height
    && !taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);
  const minCount = 20 / map.camera.zoom ** 1.3;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  pen.lineWidth = 4;
  pen.strokeStyle = map.ground;
  for (const caption of captionsInOrder(map)) {
    if ((caption.n < minCount && !caption.found) || (map.labels && !map.labels.has(caption.label))) continue;
    const size = Math.min(16, 11.5 + Math.log2(1 + caption.n / 15));
    const text = capital(caption.label);
    pen.font = `600 ${size}px ${map.font}`;
    const half = pen.measureText(text).width / 2 + 3;
    const [x, y] = map.camera.toScreen(caption.x, caption.y);
    const beside = [[0, -0.9], [0, 0.9], [0, -1.6], [0, 1.6], [1, 0], [-1, 0]];
    const box = beside.map(([right, down]) => [x + right * (half + side), y + down * PICTURE])
      .map(([left, top]) => [left - half, top - size * 0.7, left + half, top + size * 0.7]).find(isFree);
    if (!box) continue;
    taken.push(box);
    const place = map.coloured.indexOf(caption.label);
    const [left, top] = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
    pen.globalAlpha = 0.9;
    pen.strokeText(text, left, top);
    pen.globalAlpha = map.found.size ? 0.75 : 1;
    pen.fillStyle = place < 0 ? map.ink : map.colours[place];
    pen.fillText(text, left, top);
  }
  pen.globalAlpha = 1;
}

/** Captions, ordered by the frequency of their labels among the results. */
function captionsInOrder(map) {
  if (!map.found.size) return map.captions;
  const counts = countLabels(map.points.filter((point) => map.found.has(point.id)));
  const counted = map.captions.map((caption) => ({ ...caption, found: counts.get(caption.label) ?? 0 }));
  return counted.sort((a, b) => b.found - a.found);
}
