// The page of one item: large picture, columns, labels, similar items.

import { EMPTY, write } from "./address.js";
import { barcode } from "./barcode.js";
import { captionsOf, card, moveFocus } from "./cards.js";
import { capital, element, fill, icon } from "./elements.js";
import { labelEditor } from "./labels.js";
import { download, picture } from "./pictures.js";
import { find, originalAddress, suggest } from "./service.js";
import { toast } from "./toast.js";

const N_SIMILAR = 12;

/** Draw an item; `neighbours` are the addresses of the previous and next results, `close` the address of the results. */
export function drawItem(place, item, { about, editor, neighbours, onClose, onDelete, onJudge, judged, answer }) {
  const columns = Object.entries(item.metadata.columns ?? {}).filter(([, value]) => value !== null && value !== "" && value !== item.title);
  const linkOf = (label) => write({ ...EMPTY, text: label.toLowerCase() });
  const labels = editor.mayWrite
    ? labelEditor({ items: [item], known: editor.known(), linkOf, apply: (...change) => editor.relabel([item], ...change) })
    : element("div", { class: "chips" }, item.labels.map((label) => element("a", { class: "chip", href: linkOf(label) }, capital(label))));
  const similar = element("section", { class: "similar-items", "aria-labelledby": "similar-title", hidden: true });
  const step = (address, sign, name) => (address ? element("a", { class: "round", href: address, rel: sign === "back" ? "prev" : "next", "aria-label": name, title: name, "data-replace": "" }, icon(sign)) : null);
  fill(place,
    element("header", { class: "item-bar" },
      element("button", { type: "button", class: "quiet", id: "close-item", onclick: onClose }, icon("back"), "Back"),
      element("span", { class: "space" }),
      step(neighbours[0], "back", "Previous result"), step(neighbours[1], "next", "Next result")),
    element("article", { class: item.thumbnail ? "item" : "item textual" },
      item.thumbnail ? element("figure", { class: "stage-picture" },
        picture(item.thumbnail, { lazy: false, large: `${item.thumbnail}?size=1024`, alt: item.title })) : null,
      element("div", { class: "about-item" },
        element("h1", { id: "item-title", tabindex: -1 }, item.title),
        captionsOf(item, true).map((text) => element("p", { class: "caption" }, text)),
        item.labels.length || editor.mayWrite ? element("section", { "aria-label": "Labels" }, labels) : null,
        columns.length ? element("dl", { class: "columns" }, columns.map(([name, value]) => element("div", {}, element("dt", {}, capital(name)), element("dd", {}, shown(value))))) : null,
        actions(item, about, editor, onDelete),
        answer ? element("div", { class: "judge", role: "group", "aria-label": "Is this a right answer?" },
          element("span", {}, "Is this a right answer?"),
          ["right", "wrong"].map((kind) => element("button", { type: "button", id: kind, class: "action", "aria-pressed": String(judged === kind), onclick: () => onJudge(kind) }, icon(kind), capital(kind)))) : null,
        codes(item, about, answer))),
    similar);
  if (editor.mayWrite) suggest([item.id]).then(({ suggestions }) => labels.suggest(suggestions), () => {});
  return similar;
}

const shown = (value) => (Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value));

function actions(item, about, editor, onDelete) {
  const act = (sign, text, work, id) => element("button", { type: "button", class: "action", id, onclick: work }, icon(sign), text);
  const file = about.originals ? originalAddress(item.id) : item.thumbnail ? `${item.thumbnail.replace(/^\//, "")}?size=1024` : null;
  return element("div", { class: "item-actions" },
    element("a", { class: "action", id: "similar", href: write({ ...EMPTY, id: item.id }) }, icon("similar"), "Similar items"),
    item.thumbnail && file ? act("download", "Download", () => download(file, item.title).catch((error) => toast(error.message)), "download") : null,
    act("link", "Copy link", () => copyLink(item), "copy-link"),
    editor.mayWrite ? act("bin", "Delete", onDelete, "delete-item") : null);
}

async function copyLink(item) {
  const address = new URL(write({ ...EMPTY, item: item.id }), location).href;
  try {
    await navigator.clipboard.writeText(address);
    toast("Link copied.");
  } catch {
    prompt("Copy this link:", address); // the clipboard needs a permission or https
  }
}

function codes(item, about, answer) {
  const facts = answer ? `Hamming distance ${answer.hamming_distance}, distance ${answer.distance.toFixed(1)}` : null;
  return element("section", { class: "detail codes", "aria-label": "Codes" },
    Object.entries(item.codes).map(([name, { code, learned }]) => element("figure", { class: "code" },
      barcode(code, about.bits), element("figcaption", {}, `${capital(name)}: ${learned ? "learned" : "hashed"} code `, element("code", {}, code)))),
    element("p", { class: "faint" }, "Id ", element("code", {}, item.id)),
    facts ? element("p", { class: "faint" }, facts) : null);
}

/** Load and draw similar items below an item. */
export async function drawSimilar(place, item, about, signal) {
  const { answers } = await find({ ...EMPTY, id: item.id }, { k: N_SIMILAR }, signal);
  if (signal.aborted || !answers.length) return;
  const grid = element("ol", { class: "grid compact" }, answers.map((each) => card({ ...each, probability: null }, { about, search: EMPTY })));
  grid.addEventListener("keydown", moveFocus);
  fill(place, element("h2", { id: "similar-title" }, "Similar items"), grid);
  place.hidden = false;
}
