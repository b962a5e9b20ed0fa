// The search box, and files that are chosen, dropped or pasted.

import { debounced, element, fill } from "./elements.js";
import { picture, pictureOf } from "./pictures.js";

const PAUSE = 110;

/**
 * Listen to the search box.
 *
 * `onText(text, done, exact)` is called while the user types, with `done` set at the end, and `exact` if the user pressed Enter; `onPicture(blob)` for a picture to search by; `onRemove()` when an item
 * or a picture is removed from the box; `onAdd(files)` for files to add, if `mayAdd()`.
 */
export function listen({ onText, onPicture, onRemove, onAdd, mayAdd }) {
  const form = document.querySelector("#search");
  const box = document.querySelector("#text");
  const chooser = document.querySelector("#file");
  const soon = debounced(() => onText(box.value, false), PAUSE);

  let isEdited = false;
  box.addEventListener("input", () => {
    isEdited = true;
    soon();
  });
  const done = (exact) => {
    soon.cancel();
    isEdited = false;
    onText(box.value, true, exact);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    done(true);
  });
  box.addEventListener("blur", () => { if (isEdited) done(false); });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Backspace" && !box.value && !document.querySelector("#query-source").hidden) onRemove();
    if (event.key !== "Escape") return;
    event.preventDefault(); // browsers would clear the box
    box.blur();
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
    if (!image || event.target.closest("dialog")) return;
    event.preventDefault();
    onPicture(image);
  });
  listenForDrops(onPicture, onAdd, mayAdd);
}

/** Dropped pictures are added if the visitor may, and if they are several or dropped on that half of the page. */
function listenForDrops(onPicture, onAdd, mayAdd) {
  const sign = document.querySelector("#drop");
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  let depth = 0; // dragenter and dragleave are sent for every element below the pointer
  const show = (change) => {
    depth = Math.max(0, depth + change);
    sign.hidden = depth === 0;
    sign.classList.toggle("both", mayAdd());
  };
  const isAdding = (event) => mayAdd() && event.clientX > innerWidth / 2;
  document.addEventListener("dragenter", (event) => { if (hasFiles(event)) show(1); });
  document.addEventListener("dragleave", (event) => { if (hasFiles(event)) show(-1); });
  document.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    sign.classList.toggle("adding", isAdding(event));
  });
  document.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    show(-depth);
    const { files } = event.dataTransfer;
    const image = imageOf(event.dataTransfer) ?? files[0];
    if (mayAdd() && (files.length > 1 || isAdding(event))) onAdd(files);
    else if (image) onPicture(image);
  });
}

const imageOf = (transfer) => [...(transfer?.files ?? [])].find((file) => file.type.startsWith("image/"));

/** Show the query in the box: a text and, with a button that removes it, an item, a picture or a code. */
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
