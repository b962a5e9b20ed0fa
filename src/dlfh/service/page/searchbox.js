// The search box, and pictures that are chosen, dropped or pasted.

import { debounced, element, fill } from "./elements.js";
import { picture } from "./pictures.js";

const PAUSE = 110;

/**
 * Listen to the search box.
 *
 * `onText(text, done)` is called while the user types, and with `done` set at the end; `onPicture(blob)` for a new picture;
 * `onRemove()` when an item or a picture is removed from the box.
 */
export function listen({ onText, onPicture, onRemove }) {
  const form = document.querySelector("#search");
  const box = document.querySelector("#text");
  const chooser = document.querySelector("#file");
  const soon = debounced(() => onText(box.value, false), PAUSE);

  box.addEventListener("input", () => soon());
  const done = () => {
    soon.cancel();
    onText(box.value, true);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    done();
  });
  box.addEventListener("change", done);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Backspace" && !box.value && !document.querySelector("#query-source").hidden) onRemove();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, dialog");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    box.focus();
    box.select();
  });

  chooser.addEventListener("change", () => {
    if (chooser.files.length) onPicture(chooser.files[0]);
    chooser.value = "";
  });
  document.addEventListener("paste", (event) => {
    const image = imageOf(event.clipboardData);
    if (!image) return;
    event.preventDefault();
    onPicture(image);
  });
  listenForDrops(onPicture);
}

function listenForDrops(onPicture) {
  const sign = document.querySelector("#drop");
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  let depth = 0; // dragenter and dragleave are sent for every element below the pointer
  const show = (change) => {
    depth = Math.max(0, depth + change);
    sign.hidden = depth === 0;
  };
  document.addEventListener("dragenter", (event) => { if (hasFiles(event)) show(1); });
  document.addEventListener("dragleave", (event) => { if (hasFiles(event)) show(-1); });
  document.addEventListener("dragover", (event) => { if (hasFiles(event)) event.preventDefault(); });
  document.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    show(-depth);
    const image = imageOf(event.dataTransfer) ?? event.dataTransfer.files[0];
    if (image) onPicture(image);
  });
}

const imageOf = (transfer) => [...(transfer?.files ?? [])].find((file) => file.type.startsWith("image/"));

/** Show the query in the box: a text and, with a button that removes it, an item, a picture or a shared search. */
export function showQuerySource(text, source, onRemove) {
  const box = document.querySelector("#text");
  const place = document.querySelector("#query-source");
  if (document.activeElement !== box || (source && !text)) box.value = text;
  place.hidden = source === null;
  fill(place);
  if (source === null) return;
  const image = source.blob ? pictureOf(source.blob) : picture(source.thumbnail ?? null, { lazy: false });
  const remove = element("button", { type: "button", "aria-label": `Remove ${source.name} from the search`, onclick: onRemove }, "×");
  fill(place, image, element("span", {}, source.name), remove);
}

/** An uploaded picture. */
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
