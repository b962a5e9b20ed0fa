// Pictures of items. An <img> sends no token: where there is one, pictures are fetched and shown from memory.

import { isDrawing } from "./drawings.js";
import { element } from "./elements.js";
import { ask, hasToken } from "./service.js";

const MOST = 400;
const SMALL = 160;
const fetched = new Map();

/** Where the picture of an item is, as an address that an <img> takes. */
async function source(thumbnail) {
  const address = thumbnail.replace(/^\//, "");
  if (!hasToken()) return address;
  if (!fetched.has(address)) {
    fetched.set(address, ask(address).then((response) => response.blob()).then(URL.createObjectURL));
    forget();
  }
  return fetched.get(address);
}

function forget() {
  for (const [address, kept] of fetched) {
    if (fetched.size <= MOST) return;
    fetched.delete(address);
    kept.then(URL.revokeObjectURL, () => {});
  }
}

/** A picture that appears when it is there; an item without one, or with a broken one, has a blank. */
export function picture(thumbnail, { lazy = true } = {}) {
  if (!thumbnail) return element("span", { class: "blank", "aria-hidden": "true" });
  const image = element("img", { alt: "", loading: lazy ? "lazy" : "eager", decoding: "async", draggable: "false" });
  image.addEventListener("load", () => {
    image.classList.toggle("drawing", isDrawing(image));
    image.classList.toggle("small", Math.max(image.naturalWidth, image.naturalHeight) < SMALL);
  });
  image.addEventListener("error", () => image.replaceWith(picture(null)), { once: true });
  source(thumbnail).then((address) => { image.src = address; }, () => image.replaceWith(picture(null)));
  return image;
}

/** A picture to draw on a canvas. */
export async function loaded(thumbnail) {
  const image = new Image();
  image.src = await source(thumbnail);
  await image.decode();
  return image;
}
