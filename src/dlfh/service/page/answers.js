// Search results: cards with names, labels and probabilities and, as details, codes and distances.

import { withQuery, write } from "./address.js";
import { barcode } from "./barcode.js";
import { capital, count, element, fill, listed, number, percent } from "./elements.js";
import { picture } from "./pictures.js";
import { pictureOf } from "./searchbox.js";

/** The texts in the metadata of an item. */
export const textsOf = (metadata) => Object.entries(metadata).filter(([name, value]) => name !== "columns" && typeof value === "string").map(([, value]) => value);

/** Draw results; `source` is a query that is not a text, and every card is a link to similar items. */
export function drawAnswers(place, { about, search, result, source, onMore }) {
  const { query, answers } = result;
  const byTexts = query.modalities.every((name) => about.modalities[name]?.takes === "texts") && !query.modalities.every((name) => about.modalities[name]?.takes === query.modality);
  const grid = element("ol", { class: byTexts ? "grid texts" : "grid" },
    answers.map((answer) => element("li", {}, card(answer, about, search, query))));
  const header = head(about, search, result, source);
  grid.addEventListener("keydown", moveFocus);
  const mark = (event) => markCode(header, about, query, event.target.closest?.("a.card")?.dataset.code ?? null);
  for (const kind of ["pointerover", "focusin"]) grid.addEventListener(kind, mark);
  for (const kind of ["pointerleave", "focusout"]) grid.addEventListener(kind, () => markCode(header, about, query, null));
  const more = answers.length === search.k && search.k < about.limits.k
    ? element("button", { type: "button", class: "quiet more", id: "more", onclick: onMore }, "Show more") : null;
  fill(place, header, grid, more);
}

function head(about, search, result, source) {
  const { query, answers } = result;
  const words = search.text.trim();
  const name = { text: words, id: search.id ?? "", image: "Your picture", code: "Shared search", vector: "A vector" }[query.by];
  const title = words && query.by !== "text" ? `${name} + ${words}` : name;
  const match = { codes: "by codes", words: "by words", both: "by codes and words" }[query.match];
  const compared = `, compared with ${listed(query.modalities.map((name) => `${name}s`))} ${match}`;
  const seen = source?.blob ? pictureOf(source.blob) : source?.thumbnail ? picture(source.thumbnail, { lazy: false }) : null;
  const described = source?.item ? textsOf(source.item.metadata)[0] : null;
  return element("header", { class: "head" },
    seen ? element("span", { class: "tile" }, seen) : null,
    element("div", { class: "query" },
      element("h1", {}, title),
      described ? element("p", { class: "words" }, described) : null,
      element("p", { class: "faint", id: "compared" }, count(answers.length, "result"), element("span", { class: "detail" }, compared))),
    element("figure", { class: "code detail" },
      element("div", { class: "bars" }, barcode(query.code, about.bits)),
      element("figcaption", {}, `Code of the query, ${about.bits} bits. `, element("span", { class: "key" }, "Differing bits"), " are marked.")));
}

function markCode(header, about, query, code) {
  header.querySelector(".bars").replaceChildren(barcode(query.code, about.bits, code));
}

function card(answer, about, search, query) {
  const probability = answer.probability;
  const words = textsOf(answer.metadata)[0];
  const kind = answer.learned ? "learned" : "hashed";
  const bar = probability === null ? null : element("span", { class: "probability", "aria-hidden": "true" });
  bar?.style.setProperty("--probability", probability);
  const weighted = answer.distance !== answer.hamming_distance;
  return element("a", { class: "card", href: write(withQuery(search, { id: answer.id })), "data-id": answer.id, "data-code": answer.code },
    element("span", { class: "tile" }, picture(answer.thumbnail), bar),
    element("span", { class: "body" },
      element("span", { class: "title" },
        element("strong", {}, answer.id),
        probability === null ? null : element("span", { class: "percent", title: "Probability that this item is relevant" }, percent(probability))),
      words ? element("span", { class: "words" }, words) : null,
      answer.labels.length ? element("span", { class: "labels" }, answer.labels.map(capital).join(" · ")) : null,
      element("span", { class: "detail" }, barcode(answer.code, about.bits, query.code)),
      element("span", { class: "facts detail" },
        element("span", {}, `Hamming distance ${answer.hamming_distance}`),
        weighted ? element("span", { title: "Differing bits, weighted by the confidence of the query" }, `distance ${answer.distance.toFixed(1)}`) : null,
        element("span", { title: equals(answer) }, kind))));
}

const equals = (answer) => (answer.n_equal > 1 ? `One of ${number(answer.n_equal)} equally ranked items` : null);

/** Move the focus between cards with the arrow keys. */
function moveFocus(event) {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
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

/** Draw placeholders while the first results load. */
export function drawWaiting(place) {
  fill(place, element("ol", { class: "grid waiting", "aria-hidden": "true" },
    Array.from({ length: 12 }, () => element("li", {}, element("span", { class: "card" }, element("span", { class: "tile" }), element("span", { class: "body" }))))));
}
