// Thumbnails. An <img> cannot send a token, so private thumbnails are fetched and shown from memory.

import { isDrawing } from "./drawings.js";
import { element } from "./elements.js";
import { hasToken, request } from "./service.js";

const MAX_FETCHED = 400;
const SMALL = 160;
const fetched = new Map();

/** The address of a thumbnail for an <img>. */
async function source(thumbnail) {
  const address = thumbnail.replace(/^\//, "");
  if (!hasToken()) return address;
  if (!fetched.has(address)) {
    fetched.set(address, request(address).then((response) => response.blob()).then(URL.createObjectURL));
    forget();
  }
  return fetched.get(address);
}

function forget() {
  for (const [address, kept] of fetched) {
    if (fetched.size <= MAX_FETCHED) return;
    fetched.delete(address);
    kept.then(URL.revokeObjectURL, () => {});
  }
}

/** A thumbnail; a placeholder if it is missing or broken. */
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

/** Load a thumbnail to draw on a canvas. */
export async function loaded(thumbnail) {
  const image = new Image();
  image.src = await source(thumbnail);
  await image.decode();
  return image;
}
