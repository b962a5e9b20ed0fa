// In dark mode, black-on-white drawings are inverted; photographs are not.

const SIDE = 48;
const COLOURLESS = 3;
const WHITE = 235;
const BLACK = 16;
const MIN_BLACK = 0.3;
const CORNERS = [0, SIDE - 1, SIDE * (SIDE - 1), SIDE * SIDE - 1];

let scratch = null;

/**
 * Whether a picture is a drawing: no colours, at least three white corners, and much black where it is not white.
 * Photographs of black objects on white have shades of grey.
 */
export function isDrawing(image) {
  scratch ??= Object.assign(document.createElement("canvas"), { width: SIDE, height: SIDE }).getContext("2d", { willReadFrequently: true });
  scratch.imageSmoothingEnabled = false;
  scratch.fillStyle = "#fff";
  scratch.fillRect(0, 0, SIDE, SIDE);
  scratch.drawImage(image, 0, 0, SIDE, SIDE);
  const { data } = scratch.getImageData(0, 0, SIDE, SIDE);
  if (CORNERS.filter((corner) => data[4 * corner] < WHITE).length > 1) return false;
  let [grey, black] = [0, 0];
  for (let place = 0; place < data.length; place += 4) {
    const [r, g, b] = [data[place], data[place + 1], data[place + 2]];
    if (Math.max(r, g, b) - Math.min(r, g, b) > COLOURLESS) return false;
    grey += r < WHITE;
    black += r < BLACK;
  }
  return black > 0 && black >= MIN_BLACK * grey;
}

/** A drawing with inverted colours, on a given background. */
export function inverted(image, background) {
  const canvas = Object.assign(document.createElement("canvas"), { width: image.naturalWidth, height: image.naturalHeight });
  const pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  pen.globalCompositeOperation = "difference";
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.globalCompositeOperation = "lighten";
  pen.fillStyle = background;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  return canvas;
}
