// The start page: saved searches, labels with a picture each, and the items that were added or changed last.

import { EMPTY, write } from "./address.js";
import { button, capital, count, element, fill, number, remember } from "./elements.js";
import { saved } from "./history.js";
import { picture } from "./pictures.js";
import { find } from "./service.js";

const N_LABELS = 8;

/** The labels to start from: frequent ones, spread over the list. */
export function examplesOf(about) {
  const labels = (about.filters.labels ?? []).slice(0, 24);
  return labels.slice(0, N_LABELS).map(({ value, count: n }) => ({ name: String(value), count: n, address: write({ ...EMPTY, text: String(value).toLowerCase() }) }));
}

/** Draw the head of the start page; `items` are some items of the collection, whose pictures stand for labels. */
export function drawHome(place, about, items) {
  const kept = saved();
  const covers = new Set();
  const coverOf = (name) => {
    const found = items.findLast((item) => item.thumbnail && item.labels.includes(name) && !covers.has(item.id));
    if (found) covers.add(found.id);
    const tile = element("span", { class: "tile" }, picture(found?.thumbnail ?? null, { lazy: false }));
    if (!found) find({ ...EMPTY, text: name }, { k: 1 }).then(({ answers }) => { if (answers[0]?.thumbnail) fill(tile, picture(answers[0].thumbnail)); }, () => {});
    return tile;
  };
  const tiles = examplesOf(about);
  const pictured = items.some(({ thumbnail }) => thumbnail);
  fill(place,
    element("h1", { class: "unseen" }, capital(about.name)),
    kept.length ? element("section", { class: "kept", "aria-label": "Saved searches" }, element("div", { class: "chips" },
      kept.map(({ address, name }) => element("span", { class: "chip label" }, element("a", { href: address }, name),
        button("×", () => {
          remember("saved", saved().filter((each) => each.address !== address));
          drawHome(place, about, items);
        }, { "aria-label": `Forget the search ${name}` }))))) : null,
    tiles.length ? element("section", { class: "topics", "aria-labelledby": "topics-title" },
      element("h2", { id: "topics-title" }, "Explore"),
      element("ul", { class: pictured ? "topic-tiles" : "chips" }, tiles.map(({ name, count: n, address }) => element("li", {}, element("a", { class: pictured ? "topic" : "chip", href: address },
        pictured ? coverOf(name) : null, element("strong", {}, capital(name)), element("small", {}, number(n))))))) : null,
    element("h2", { class: "newest" }, "Added or changed last", element("span", { class: "faint" }, ` ${count(about.items, "item")} in all`)));
}
