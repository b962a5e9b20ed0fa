// A message at the bottom of the page, with an undo button after changes.

import { button, element, fill } from "./elements.js";

const SECONDS = 12;
const SECONDS_OF_NOTES = 4;
let timer = 0;
let lastUndo = null;

const place = () => document.querySelector("#toast");

/** Show a message; `onUndo` takes back the change that it reports. */
export function toast(text, onUndo = null) {
  clearTimeout(timer);
  if (onUndo) lastUndo = onUndo;
  fill(place(), element("span", {}, text), onUndo ? button("Undo", () => undoLast(), { id: "undo" }) : null,
    button("×", hide, { class: "close", "aria-label": "Close this message" }));
  place().hidden = false;
  timer = setTimeout(hide, 1000 * (onUndo ? SECONDS : SECONDS_OF_NOTES));
}

function hide() {
  if (place().contains(document.activeElement)) document.querySelector("#results").focus({ preventScroll: true });
  place().hidden = true;
}

/** Take back the last change, even if its message is gone. */
export function undoLast() {
  const work = lastUndo;
  lastUndo = null;
  if (!work) return false;
  hide();
  work();
  return true;
}
