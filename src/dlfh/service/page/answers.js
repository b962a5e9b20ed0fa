// Answers: what was found, how probable it is, and in which bits its code differs from the query's.

import { asking, write } from "./address.js";
import { barcode } from "./barcode.js";
import { capital, count, element, fill, listed, number, percent } from "./elements.js";
import { picture } from "./pictures.js";
import { pictureOf } from "./question.js";

/** The texts of an item: what its metadata say in words. */
export const textsOf = (metadata) => Object.entries(metadata).filter(([name, value]) => name !== "columns" && typeof value === "string").map(([, value]) => value);

/** Draw answers; `source` is what asked (an item, a picture), and every card is a link to what is like it. */
export function drawAnswers(place, { about, search, result, source, onMore }) {
  const { query, answers } = result;
  const byTexts = query.modalities.every((name) => about.modalities[name]?.takes === "texts") && !query.modalities.every((name) => about.modalities[name]?.takes === query.modality);
  const grid = element("ol", { class: byTexts ? "grid texts" : "grid" },
    answers.map((answer) => element("li", {}, card(answer, about, search, query))));
  const own = head(about, search, result, source);
  grid.addEventListener("keydown", moveFocus);
  const mark = (event) => markCode(own, about, query, event.target.closest?.("a.card")?.dataset.code ?? null);
  for (const kind of ["pointerover", "focusin"]) grid.addEventListener(kind, mark);
  for (const kind of ["pointerleave", "focusout"]) grid.addEventListener(kind, () => markCode(own, about, query, null));
  const more = answers.length === search.k && search.k < about.limits.k
    ? element("button", { type: "button", class: "quiet more", id: "more", onclick: onMore }, "Show more") : null;
  fill(place, own, grid, more);
}

function head(about, search, result, source) {
  const { query, answers } = result;
  const title = { text: search.text.trim(), id: search.id ?? "", image: "Your picture", code: "A code", vector: "A vector" }[query.by];
  const how = { codes: "by codes", words: "by words", both: "by codes and words" }[query.match];
  const compared = `${count(answers.length, "answer")}, compared with ${listed(query.modalities.map((name) => `${name}s`))} ${how}`;
  const seen = source?.blob ? pictureOf(source.blob) : source?.thumbnail ? picture(source.thumbnail, { lazy: false }) : null;
  const words = source?.item ? textsOf(source.item.metadata)[0] : null;
  return element("header", { class: "head" },
    seen ? element("span", { class: "tile" }, seen) : null,
    element("div", { class: "asked" },
      element("h1", {}, title),
      words ? element("p", { class: "words" }, words) : null,
      element("p", { class: "faint", id: "compared" }, compared)),
    element("figure", { class: "code" },
      element("div", { class: "bars" }, barcode(query.code, about.bits)),
      element("figcaption", {}, `Its code: ${about.bits} bits. `, element("span", { class: "key" }, "Bits that differ"), " are marked.")));
}

function markCode(own, about, query, code) {
  own.querySelector(".bars").replaceChildren(barcode(query.code, about.bits, code));
}

function card(answer, about, search, query) {
  const chance = answer.probability;
  const words = textsOf(answer.metadata)[0];
  const kind = answer.learned ? "learned" : "hashed";
  const bar = chance === null ? null : element("span", { class: "chance", "aria-hidden": "true" });
  bar?.style.setProperty("--chance", chance);
  const weighted = answer.distance !== answer.hamming_distance;
  return element("a", { class: "card", href: write(asking(search, { id: answer.id })), "data-id": answer.id, "data-code": answer.code },
    element("span", { class: "tile" }, picture(answer.thumbnail), bar),
    element("span", { class: "body" },
      element("span", { class: "title" },
        element("strong", {}, answer.id),
        chance === null ? null : element("span", { class: "percent", title: "How probable it is that this is right" }, percent(chance))),
      words ? element("span", { class: "words" }, words) : null,
      answer.labels.length ? element("span", { class: "labels" }, answer.labels.map(capital).join(" · ")) : null,
      barcode(answer.code, about.bits, query.code),
      element("span", { class: "facts" },
        element("span", {}, `${count(answer.hamming_distance, "bit")} apart`),
        weighted ? element("span", { title: "The bits apart, weighted by how sure the query is of each" }, `distance ${answer.distance.toFixed(1)}`) : null,
        element("span", { title: equals(answer) }, kind))));
}

const equals = (answer) => (answer.n_equal > 1 ? `One of ${number(answer.n_equal)} that are as near before ties are broken` : null);

/** Arrow keys go from card to card, as they lie on the screen. */
function moveFocus(event) {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  const from = event.target.closest("a.card");
  if (!step || !from || event.altKey || event.ctrlKey || event.metaKey) return;
  const cards = [...event.currentTarget.querySelectorAll("a.card")];
  const here = from.getBoundingClientRect();
  let next = cards[cards.indexOf(from) + step[0]];
  if (step[1]) {
    const there = cards.map((other) => [other, other.getBoundingClientRect()]).filter(([, box]) => Math.abs(box.left - here.left) < here.width / 2 && (box.top - here.top) * step[1] > 1);
    next = there.sort(([, a], [, b]) => (a.top - b.top) * step[1])[0]?.[0];
  }
  if (!next) return;
  event.preventDefault();
  next.focus();
}

/** Grey cards while the first answers are on their way. */
export function drawWaiting(place) {
  fill(place, element("ol", { class: "grid waiting", "aria-hidden": "true" },
    Array.from({ length: 12 }, () => element("li", {}, element("span", { class: "card" }, element("span", { class: "tile" }), element("span", { class: "body" }))))));
}
