// The menu at the top right: views, switches, the dialogs about the collection, shortcuts and keys.

import { EMPTY, write } from "./address.js";
import { button, element, fill, icon, remember, remembered } from "./elements.js";
import { tokenForm } from "./notices.js";
import { hasToken, useToken } from "./service.js";

const SHORTCUTS = [
  ["Everywhere", [["/", "search"], ["?", "this list"], ["d", "show or hide details"], ["Esc", "close, or go back"], ["z", "undo the last change"]]],
  ["Results", [["← ↑ → ↓", "move between items"], ["Enter", "open the item"], ["x", "select; Shift+x up to here"], ["l", "edit labels"], ["r", "mark right"], ["w", "mark wrong"], ["Delete", "delete"]]],
  ["An item", [["← →", "previous and next result"], ["Esc", "back to the results"]]],
  ["What to label next", [["1–9", "choose a suggested label"], ["t", "type another label"], ["Enter", "save, next item"], ["s", "skip"], ["←", "previous item"]]],
];

const at = (id) => document.getElementById(id);

/** Show or hide details: codes, distances and the model. */
export function showDetails(shown) {
  document.body.classList.toggle("with-details", shown);
  at("to-details").setAttribute("aria-checked", String(shown));
  at("details-toggle")?.setAttribute("aria-pressed", String(shown));
  remember("details", shown || null);
}

/** Make the menu and the dialogs work. `onToken()` is called when a key was entered or forgotten, `onAdd()` to add pictures. */
export function listenToMenu({ onToken, onAdd, isReady }) {
  const menu = at("menu");
  const items = () => [...menu.querySelectorAll("[role^=menuitem]")].filter((item) => item.checkVisibility());
  menu.addEventListener("toggle", (event) => {
    at("to-menu").setAttribute("aria-expanded", String(event.newState === "open"));
    if (event.newState === "open") items()[0]?.focus();
  });
  menu.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = items();
    all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus();
  });
  menu.addEventListener("click", (event) => { if (event.target.closest("[role^=menuitem]")) menu.hidePopover(); });
  const toggleDetails = () => showDetails(!document.body.classList.contains("with-details"));
  at("to-details").addEventListener("click", toggleDetails);
  at("controls").addEventListener("click", (event) => { if (event.target.closest("#details-toggle")) toggleDetails(); });
  at("to-about").addEventListener("click", () => { if (isReady()) at("about").showModal(); });
  at("to-keys").addEventListener("click", showKeys);
  for (const id of ["to-add", "add-button"]) at(id).addEventListener("click", onAdd);
  at("to-sign").addEventListener("click", () => {
    if (!hasToken()) return signIn(onToken);
    useToken("");
    return onToken();
  });
  for (const dialog of document.querySelectorAll("dialog")) dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select, dialog, [popover]") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "?") showKeys();
    else if (event.key === "d") toggleDetails();
    else return;
    event.preventDefault();
  });
  showDetails(remembered("details") === true);
}

/** Show the entries that this visitor can use. */
export function drawMenu(about, search) {
  const mayWrite = about.writable && about.role !== "read";
  const takesImages = Object.values(about.modalities).some(({ takes }) => takes === "images");
  for (const id of ["to-add", "add-button"]) at(id).hidden = !mayWrite || !takesImages;
  for (const id of ["to-label", "label-button"]) {
    at(id).hidden = !mayWrite;
    at(id).href = write({ ...EMPTY, view: "label" });
  }
  for (const id of ["to-map", "map-button"]) {
    at(id).href = write({ ...search, item: null, view: search.view === "map" ? "" : "map" });
    if (search.view === "map") at(id).setAttribute("aria-current", "true");
    else at(id).removeAttribute("aria-current");
  }
  at("to-all").hidden = !about.multiple;
  at("to-sign").hidden = !hasToken() && !(about.writable && about.role === "read");
  at("to-sign").lastChild.textContent = hasToken() ? "Sign out" : "Sign in with a key";
}

function dialogHead(dialog, id, title) {
  return element("header", {}, element("h2", { id }, title), element("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => dialog.close() }, icon("close")));
}

function showKeys() {
  const dialog = at("keys");
  fill(dialog, dialogHead(dialog, "keys-title", "Keyboard shortcuts"), element("div", { class: "shortcuts" }, SHORTCUTS.map(([title, rows]) => element("section", {},
    element("h3", {}, title), element("dl", {}, rows.map(([key, what]) => element("div", {}, element("dt", {}, key.split(" ").map((each) => element("kbd", {}, each))), element("dd", {}, what))))))));
  dialog.showModal();
}

function signIn(onToken) {
  const dialog = at("sign");
  const form = tokenForm((token) => {
    useToken(token);
    dialog.close();
    onToken();
  }, "sign-token");
  fill(dialog, dialogHead(dialog, "sign-title", "Sign in with a key"), element("p", { class: "faint", id: "sign-token-why" }, "A key with the role write or admin allows changes. It is kept in this tab only."), form);
  dialog.showModal();
  form.field.focus();
}
