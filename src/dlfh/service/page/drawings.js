// Drawings in black on white are shown in white on black to people who want it dark; photographs never are.

const SIDE = 24;
const GREY = 26;
const WHITE = 235;

let scratch = null;

/** Whether a picture is a drawing: without colours, and white at its corners. */
export function isDrawing(image) {
  scratch ??= Object.assign(document.createElement("canvas"), { width: SIDE, height: SIDE }).getContext("2d", { willReadFrequently: true });
  scratch.fillStyle = "#fff";
  scratch.fillRect(0, 0, SIDE, SIDE);
  scratch.drawImage(image, 0, 0, SIDE, SIDE);
  const { data } = scratch.getImageData(0, 0, SIDE, SIDE);
  for (let place = 0; place < data.length; place += 4) {
    const [r, g, b] = [data[place], data[place + 1], data[place + 2]];
    if (Math.max(r, g, b) - Math.min(r, g, b) > GREY) return false;
  }
  return [0, SIDE - 1, SIDE * (SIDE - 1), SIDE * SIDE - 1].every((corner) => data[4 * corner] >= WHITE);
}

/** A drawing with black and white exchanged, on a ground of its own. */
export function inverted(image, ground) {
  const canvas = Object.assign(document.createElement("canvas"), { width: image.naturalWidth, height: image.naturalHeight });
  const pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  pen.globalCompositeOperation = "difference";
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.globalCompositeOperation = "lighten";
  pen.fillStyle = ground;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  return canvas;
}
