// One item in a list: picture, title, caption and labels; as details, its code and distances.

import { withQuery, write } from "./address.js";
import { barcode } from "./barcode.js";
import { capital, element, icon, inWords, number, percent } from "./elements.js";
import { picture } from "./pictures.js";

/** The texts in the metadata of an item. */
export const textsOf = (metadata) => Object.entries(metadata).filter(([name, value]) => name !== "columns" && typeof value === "string").map(([, value]) => value);

/** The texts of an item but its title; `whole` keeps a text of which the title is only the beginning. */
export function captionsOf(item, whole = false) {
  const plain = (text) => text.trim().replace(/\s+/g, " ").replace(/…$/, "").toLowerCase();
  const title = plain(item.title);
  return textsOf(item.metadata).filter((text) => (whole ? plain(text) !== title : !plain(text).startsWith(title)));
}

/** A card that opens an item. `query` is the query of its list, if any; `tools` are buttons over the picture. */
export function card(item, { about, search, query = null, tools = [] }) {
  const [caption] = captionsOf(item);
  const hasPictures = Object.values(about.modalities).some(({ takes }) => takes === "images");
  const labels = item.labels.map(capital).join(" · ");
  return element("li", { "data-id": item.id },
    element("a", { class: "card", href: write({ ...(query ? search : withQuery(search, {})), view: "", item: item.id }), "data-id": item.id, "data-code": item.code ?? null },
      hasPictures ? element("span", { class: "tile" }, picture(item.thumbnail)) : null,
      element("span", { class: "body" },
        element("strong", {}, item.title),
        caption ? element("span", { class: "words" }, caption) : null,
        labels ? element("span", { class: "labels" }, labels) : null,
        chance(item),
        query && item.code ? codes(item, about, query) : null)),
    tools);
}

/** The probability of a result, in words and as a number. */
export function chance(item) {
  if (item.probability === null || item.probability === undefined) return null;
  return element("span", { class: `chance ${inWords(item.probability)}` }, capital(inWords(item.probability)), " ", element("span", { class: "percent" }, percent(item.probability)));
}

function codes(item, about, query) {
  const equal = item.n_equal > 1 ? `, equal to ${number(item.n_equal - 1)} others` : "";
  return element("span", { class: "detail" },
    barcode(item.code, about.bits, query.code),
    element("span", { class: "facts" },
      element("span", {}, `Hamming distance ${item.hamming_distance}`), element("span", {}, `distance ${item.distance.toFixed(1)}${equal}`),
      element("span", {}, item.learned ? "learned code" : "hashed code")));
}

/** A button over the picture of a card. */
export const tool = (name, sign, kind, pressed) => element("button", {
  type: "button", class: `tool ${kind}`, "data-tool": kind, "aria-label": name, title: name, "aria-pressed": String(pressed),
}, icon(sign));

/** Move the focus between the cards of a list with the arrow keys. */
export function moveFocus(event) {
  const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
  const from = event.target.closest("a.card");
  if (!step || !from || event.altKey || event.ctrlKey || event.metaKey) return;
  const cards = [...event.currentTarget.querySelectorAll("a.card")];
  const here = from.getBoundingClientRect();
  let next = cards[cards.indexOf(from) + step[0]];
  if (step[1]) {
    const candidates = cards.map((other) => [other, other.getBoundingClientRect()]).filter(([, box]) => Math.abs(box.left - here.left) < here.width / 2 && (box.top - here.top) * step[1] > 1);
    next = candidates.sort(([, a], [, b]) => (a.top - b.top) * step[1])[0]?.[0];
  }
  if (!next) return;
  event.preventDefault();
  next.focus();
}
