// "What to label next": one item at a time, with suggested labels and keyboard shortcuts.

import { button, capital, count, element, fill, icon, percent } from "./elements.js";
import { asKnown, relabelled } from "./labels.js";
import { captionsOf } from "./cards.js";
import { picture } from "./pictures.js";
import { label, nextToLabel, relearn } from "./service.js";
import { toast } from "./toast.js";

const BATCH = 20;

export class Tagging {
  constructor(place, { editor, onClose, announce }) {
    Object.assign(this, { place, editor, onClose, announce, items: [], at: 0, chosen: new Set(), done: 0, seen: new Set(), saving: null });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  /** Load the items to label next, and show the first. */
  async show(about, signal) {
    this.about = about;
    fill(this.place, element("p", { class: "faint tagging-wait" }, "Looking for items to label…"));
    await this.load(signal);
  }

  async load(signal) {
    const { items } = await nextToLabel(BATCH + this.seen.size, signal);
    if (signal?.aborted) return;
    this.items = items.filter(({ id }) => !this.seen.has(id)).slice(0, BATCH);
    this.open(0);
  }

  open(at) {
    this.at = at;
    this.chosen = new Set();
    if (at >= this.items.length) this.finish();
    else this.draw();
  }

  get item() { return this.items[this.at]; }
  get choices() { return [...new Set([...this.item.suggestions.map((each) => each.label), ...this.added])].slice(0, 9); }

  draw() {
    const { item } = this;
    this.added = [...this.chosen].filter((name) => !item.suggestions.some((each) => each.label === name));
    const [caption] = captionsOf(item);
    const known = this.editor.known();
    const field = element("input", { type: "text", id: "tag-field", class: "field", list: "tag-known", placeholder: "Another label", "aria-label": "Another label", maxlength: 200, autocomplete: "off", autocapitalize: "off" });
    fill(this.place,
      element("header", { class: "item-bar" },
        element("button", { type: "button", class: "quiet", id: "close-tagging", onclick: () => this.onClose() }, icon("back"), "Back"),
        element("h1", { id: "tagging-title", tabindex: -1 }, "What to label next"), element("span", { class: "space" }),
        element("span", { class: "faint", id: "tag-progress" }, `${this.at + 1} of ${this.items.length}`)),
      element("article", { class: "tag-card" },
        item.thumbnail ? element("figure", { class: "stage-picture" }, picture(item.thumbnail, { lazy: false, large: `${item.thumbnail}?size=1024`, alt: item.title })) : null,
        element("div", { class: "about-item" },
          element("h2", {}, item.title),
          caption ? element("p", { class: "caption" }, caption) : null,
          item.labels.length ? element("p", { class: "faint" }, `Labels: ${item.labels.map(capital).join(", ")}`) : null,
          element("ol", { class: "choices", "aria-label": "Suggested labels" }, this.choices.map((name, place) => {
            const suggested = item.suggestions.find((each) => each.label === name);
            return element("li", {}, element("button", {
              type: "button", class: "choice", "aria-pressed": String(this.chosen.has(name)), "aria-keyshortcuts": String(place + 1), onclick: () => this.toggle(name),
            }, element("kbd", { "aria-hidden": "true" }, String(place + 1)), element("span", {}, capital(name)), suggested ? element("small", {}, percent(suggested.probability)) : null));
          })),
          element("form", {
            class: "add-label",
            onsubmit: (event) => {
              event.preventDefault();
              const name = asKnown(field.value.trim(), known);
              if (name) this.toggle(name, true);
              else this.save();
              document.querySelector("#tag-field")?.focus();
            },
          }, field, element("datalist", { id: "tag-known" }, known.map((name) => element("option", { value: name })))),
          element("div", { class: "buttons" },
            button("Save and next", () => this.save(), { class: "primary", id: "tag-save" }), button("Skip", () => this.skip(), { class: "quiet", id: "tag-skip" })),
          element("p", { class: "faint keys-hint" }, "1–9 choose, Enter saves, s skips, t types another label, ← goes back, Esc leaves."))));
    this.place.querySelector("#tagging-title").focus({ preventScroll: true });
  }

  toggle(name, on = !this.chosen.has(name)) {
    if (on) this.chosen.add(name);
    else this.chosen.delete(name);
    this.draw();
    this.announce(`${name} ${on ? "chosen" : "not chosen"}`);
  }

  /** Send the chosen labels while the next item is shown. */
  save() {
    const { item } = this;
    const add = [...this.chosen];
    if (!add.length) return this.skip();
    this.seen.add(item.id);
    this.done += 1;
    const before = this.saving ?? Promise.resolve();
    this.saving = before.then(() => this.editor.send(() => label([item.id], add, []))).then((sent) => {
      if (sent) this.editor.changed({ items: relabelled([item], add, []) });
      if (sent) this.editor.report(`${item.title}: ${add.join(", ")}.`, sent.undo);
    });
    this.open(this.at + 1);
    return undefined;
  }

  skip() {
    this.seen.add(this.item.id);
    this.open(this.at + 1);
  }

  finish() {
    const isAdmin = this.about.role === "admin";
    fill(this.place, element("div", { class: "notice" },
      element("h2", { id: "tagging-title", tabindex: -1 }, this.items.length ? `${count(this.done, "item")} labelled` : "Nothing left to label"),
      element("p", {}, this.done && isAdmin ? "The model can now learn from the new labels." : this.items.length ? "Thank you. New labels count as soon as they are saved." : "Every item has labels that the model is sure of."),
      element("div", { class: "buttons" },
        this.items.length ? button("More items", () => this.load().catch((error) => toast(error.message)), { class: "primary", id: "tag-more" }) : null,
        this.done && isAdmin ? button("Relearn now", (event) => this.relearn(event.target), { class: "quiet", id: "relearn" }) : null,
        button("Back", () => this.onClose(), { class: "quiet" }))));
    this.place.querySelector("#tagging-title").focus({ preventScroll: true });
  }

  async relearn(pressed) {
    pressed.disabled = true;
    fill(pressed, "Learning…");
    await this.saving;
    const done = await this.editor.send(() => relearn());
    fill(pressed, "Relearn now");
    pressed.disabled = false;
    if (!done) return;
    this.editor.changed({ everything: true });
    toast(`Learned from ${count(done.labelled, "labelled item")} in ${Math.ceil(done.seconds)} s.`);
  }

  key(event) {
    if (this.place.hidden || !this.item || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("dialog, [popover]")) return;
    const typing = event.target.closest("input");
    if (event.key === "Escape") {
      if (typing) typing.blur();
      else this.onClose();
    } else if (typing) return;
    else if (/^[1-9]$/.test(event.key) && this.choices[event.key - 1]) this.toggle(this.choices[event.key - 1]);
    else if ((event.key === "Enter" && !event.target.closest("button")) || event.key === "ArrowRight") this.save();
    else if (event.key === "s") this.skip();
    else if (event.key === "t") this.place.querySelector("#tag-field").focus();
    else if (event.key === "ArrowLeft" && this.at) this.open(this.at - 1);
    else return;
    event.preventDefault();
  }
}
