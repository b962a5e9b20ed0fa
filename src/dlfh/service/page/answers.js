// Lists of items: search results with their dividers, and all items; both grow while the user scrolls.

import { barcode } from "./barcode.js";
import { card, moveFocus, tool } from "./cards.js";
import { LIKELY, MAYBE, button, count, element, fill, listed, number } from "./elements.js";

const AHEAD = "900px 0px"; // the next page is loaded this far before the end of the list

export class AnswerList {
  /**
   * A growing list in `place`. `load(start)` returns the next items, [] at the end; `editor` knows which items are selected and marked.
   * `query` is the query of a search; without it, items have no probabilities. `note` says why no result is right.
   */
  constructor(place, { about, search, query = null, head = null, max = Infinity, load, editor, note = null, onGrow = () => {} }) {
    Object.assign(this, { place, about, search, query, max, load, editor, note, onGrow, items: [], ended: false, loading: false, shown: 0, patient: false });
    this.header = head;
    this.end = element("p", { class: "end faint" });
    this.grids = element("div", { class: "grids" });
    this.grids.addEventListener("keydown", moveFocus);
    this.observer = new IntersectionObserver(([entry]) => { if (entry.isIntersecting) this.more(); }, { rootMargin: AHEAD });
    if (query && head) this.listenForCodes(head);
    fill(place, head, this.grids, this.end);
  }

  get ids() { return this.items.map(({ id }) => id); }

  /** Add items to the end of the list. */
  add(items, ended) {
    for (const item of items) this.addOne(item);
    this.items.push(...items);
    this.ended = ended || this.items.length >= this.max;
    this.describeEnd();
    this.observer.disconnect();
    if (!this.ended && !this.isUnlikely()) this.observer.observe(this.end);
    this.onGrow();
  }

  addOne(item) {
    const group = this.groupOf(item);
    if (group !== this.group) {
      const title = this.titleOf(group);
      if (title) this.grids.append(element("h2", { class: "divider" }, element("span", {}, title)));
      this.grid = element("ol", { class: this.isOfTexts() ? "grid texts" : "grid" });
      this.grids.append(this.grid);
      this.group = group;
    }
    this.grid.append(card(item, { about: this.about, search: this.search, query: this.query, tools: this.tools(item) }));
    this.editor?.drawn(this.grid.lastChild, item);
  }

  tools(item) {
    const { editor } = this;
    if (!editor) return [];
    return [
      editor.maySelect() ? tool(`Select ${item.title}`, "check", "select", editor.isSelected(item.id)) : null,
      this.query ? tool(`${item.title} is right`, "right", "right", this.search.relevant.includes(item.id)) : null,
      this.query ? tool(`${item.title} is wrong`, "wrong", "wrong", this.search.irrelevant.includes(item.id)) : null,
    ];
  }

  groupOf(item) {
    const p = item.probability;
    if (!this.query || p === null || p === undefined) return "all";
    return p >= LIKELY ? "likely" : p >= MAYBE ? "maybe" : "unlikely";
  }

  titleOf(group) {
    const first = this.group === undefined;
    if (first && this.note) return this.note;
    if (group === "maybe") return first ? "Nothing matches well. These may match" : "The likely results end here. These may match";
    if (group === "unlikely") return first ? "Nothing matches well. These are the closest" : this.group === "likely" ? "The likely results end here. The rest are unlikely" : "These are unlikely to match";
    return null;
  }

  /** Whether the user asked for texts: the words are shown before the picture. */
  isOfTexts() {
    return this.about.modalities[this.search.modalities]?.takes === "texts";
  }

  /** Scrolling stops where the remaining results are unlikely; a button shows them. */
  isUnlikely() {
    return this.group === "unlikely" && !this.patient;
  }

  describeEnd() {
    const n = this.items.length;
    if (this.ended) {
      const all = this.query ? `These are all ${count(n, "result")}.` : `These are all ${count(n, "item")}.`;
      fill(this.end, n >= this.max && n < this.about.items ? `These are the first ${number(this.max)} results. Add words or filters to narrow the search.` : n ? all : "");
    } else if (this.isUnlikely()) {
      fill(this.end, "The remaining items are unlikely to match. ", button("Show more anyway", () => {
        this.patient = true;
        this.more();
      }, { class: "link", id: "more" }));
    } else fill(this.end, "Loading more…");
  }

  async more() {
    if (this.loading || this.ended) return;
    this.loading = true;
    try {
      const items = await this.load(this.items.length);
      if (items) this.add(items.items, items.ended);
    } finally {
      this.loading = false;
    }
  }

  /** Results with a probability of at least one half, and whether there may be more of them. */
  likely() {
    const n = this.items.filter(({ probability }) => probability >= LIKELY).length;
    return { n, more: !this.ended && n === this.items.length };
  }

  card(id) {
    return this.grids.querySelector(`a.card[data-id="${CSS.escape(id)}"]`);
  }

  /** Draw an item again, with new labels. */
  replace(item) {
    const place = this.items.findIndex(({ id }) => id === item.id);
    if (place < 0) return;
    this.items[place] = { ...this.items[place], ...item };
    const old = this.card(item.id).parentElement;
    const drawn = card(this.items[place], { about: this.about, search: this.search, query: this.query, tools: this.tools(this.items[place]) });
    old.replaceWith(drawn);
    this.editor?.drawn(drawn, this.items[place]);
  }

  /** Take items out of the list. */
  remove(ids) {
    for (const id of ids) this.card(id)?.parentElement.remove();
    this.items = this.items.filter((item) => !ids.includes(item.id));
    this.describeEnd();
  }

  close() {
    this.observer.disconnect();
  }

  /** As details: while the pointer or the focus is on a result, mark the bits of the query that differ. */
  listenForCodes(head) {
    const bars = head.querySelector(".bars");
    if (!bars) return;
    const mark = (code) => fill(bars, barcode(this.query.code, this.about.bits, code));
    for (const kind of ["pointerover", "focusin"]) this.grids.addEventListener(kind, (event) => mark(event.target.closest?.("a.card")?.dataset.code ?? null));
    for (const kind of ["pointerleave", "focusout"]) this.grids.addEventListener(kind, () => mark(null));
  }
}

/** The code of the query, and how items were compared with it: details. */
export function codeOfQuery(about, query) {
  const match = { codes: "by codes", words: "by words", both: "by codes and words" }[query.match];
  return element("figure", { class: "code detail" },
    element("div", { class: "bars" }, barcode(query.code, about.bits)),
    element("figcaption", {}, `Code of the query, ${about.bits} bits, compared with ${listed(query.modalities.map((name) => `${name}s`))} ${match}. `,
      element("span", { class: "key" }, "Differing bits"), " are marked."));
}

/** Draw placeholders while the first results load. */
export function drawWaiting(place) {
  fill(place, element("ol", { class: "grid waiting", "aria-hidden": "true" },
    Array.from({ length: 12 }, () => element("li", {}, element("span", { class: "card" }, element("span", { class: "tile" }), element("span", { class: "body" }))))));
}
