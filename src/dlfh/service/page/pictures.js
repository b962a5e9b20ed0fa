// Pictures. An <img> cannot send a key, so with a key pictures are fetched and shown from memory.

import { isDrawing } from "./drawings.js";
import { element } from "./elements.js";
import { hasToken, request } from "./service.js";

const MAX_FETCHED = 400;
const SMALL = 160;
const fetched = new Map();

/** The address of a picture for an <img>; addresses of the service are relative to the page. */
async function source(path) {
  const address = path.replace(/^\//, "");
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

/** A picture; a placeholder if it is missing or broken. Until a `large` version has loaded, the thumbnail is shown. */
export function picture(path, { lazy = true, large = null, alt = "" } = {}) {
  if (!path) return element("span", { class: "blank", "aria-hidden": "true" });
  const image = element("img", { alt, loading: lazy ? "lazy" : "eager", decoding: "async", draggable: "false" });
  image.addEventListener("load", () => {
    image.classList.toggle("drawing", isDrawing(image));
    image.classList.toggle("small", Math.max(image.naturalWidth, image.naturalHeight) < SMALL);
    image.classList.add("loaded");
  });
  const broken = () => image.replaceWith(picture(null));
  image.addEventListener("error", broken, { once: true });
  source(path).then((address) => { image.src = address; }, broken);
  if (large) loaded(large).then((better) => { image.src = better.src; }, () => {});
  return image;
}

/** Load a picture to draw on a canvas. */
export async function loaded(path) {
  const image = new Image();
  image.src = await source(path);
  await image.decode();
  return image;
}

/** A picture in a file. */
export function pictureOf(blob) {
  const address = URL.createObjectURL(blob);
  const image = element("img", { alt: "", src: address });
  const done = () => URL.revokeObjectURL(address);
  image.addEventListener("load", done, { once: true });
  image.addEventListener("error", () => {
    done();
    image.replaceWith(picture(null));
  }, { once: true });
  return image;
}

/** Save what an address of the service returns as a file. */
export async function download(path, name) {
  const response = await request(path);
  const blob = await response.blob();
  const given = /filename="?([^";]+)"?/.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: given ?? `${name}.${blob.type.split("/")[1] ?? "bin"}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
