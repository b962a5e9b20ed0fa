// Selecting items, and changing those that are selected. Shown only to visitors who may write.

import { button, count, element, fill, icon } from "./elements.js";
import { labelEditor, relabelled } from "./labels.js";
import { Failure, label, removeItems, suggest, undo } from "./service.js";
import { toast, undoLast } from "./toast.js";

const LONG_PRESS = 450;

export class Editor {
  /**
   * `list()` is the list on the screen; `changed({ items, removed, everything })` is called after a change, `restored()` after an undo, `mark(ids, kind)` when results are
   * marked "right" or "wrong".
   */
  constructor({ list, changed, restored, mark, announce, known }) {
    Object.assign(this, { list, changed, restored, mark, announce, known, selected: new Set(), last: null, mayWrite: false });
    this.bar = document.querySelector("#actions");
    this.dialog = document.querySelector("#labels");
    this.listen(document.querySelector("#results"));
  }

  maySelect() { return this.mayWrite; }
  isSelected(id) { return this.selected.has(id); }

  /** A card has been drawn: show whether it is selected. */
  drawn(row, item) {
    row.classList.toggle("selected", this.selected.has(item.id));
  }

  listen(place) {
    let press = 0;
    let held = false; // the click after a long press does not open the item
    const idOf = (event) => event.target.closest("li[data-id]")?.dataset.id;
    place.addEventListener("click", (event) => {
      const id = idOf(event);
      const kind = event.target.closest(".tool")?.dataset.tool;
      if (!id || (!kind && !event.target.closest("a.card"))) return;
      if (held) held = false; // the long press has selected it
      else if (kind === "right" || kind === "wrong") this.mark([id], kind);
      else if (kind === "select" || (this.selected.size && !event.ctrlKey && !event.metaKey)) this.toggle(id, event.shiftKey);
      else return;
      event.preventDefault();
      event.stopPropagation();
    }, true);
    place.addEventListener("pointerdown", (event) => {
      held = false;
      const id = idOf(event);
      if (event.pointerType === "mouse" || !id || !this.mayWrite) return;
      press = setTimeout(() => {
        held = true;
        this.toggle(id);
      }, LONG_PRESS);
    });
    for (const kind of ["pointerup", "pointercancel", "pointermove", "scroll"]) place.addEventListener(kind, () => clearTimeout(press), { passive: true });
    place.addEventListener("contextmenu", (event) => { if (held) event.preventDefault(); });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.target.closest("input, textarea, select, dialog, [popover]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const list = this.list();
    const id = list && event.target.closest("li[data-id]")?.dataset.id;
    const chosen = this.selected.size ? [...this.selected] : id ? [id] : [];
    const mayChange = chosen.length > 0 && this.mayWrite;
    const mayMark = chosen.length > 0 && Boolean(list?.query);
    const key = event.key;
    if ((key === "x" || key === "X") && id && this.mayWrite) this.toggle(id, key === "X");
    else if (key === "l" && mayChange) this.editLabels(chosen);
    else if (key === "Delete" && mayChange) this.remove(chosen);
    else if (key === "r" && mayMark) this.mark(chosen, "right");
    else if (key === "w" && mayMark) this.mark(chosen, "wrong");
    else if (key === "z" && !undoLast()) return;
    else if (key === "Escape" && this.selected.size) this.clear();
    else if (key !== "z") return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  toggle(id, range = false) {
    const ids = this.list()?.ids ?? [];
    const [from, to] = [ids.indexOf(this.last), ids.indexOf(id)].sort((a, b) => a - b);
    if (range && from >= 0) for (const each of ids.slice(from, to + 1)) this.selected.add(each);
    else if (!this.selected.delete(id)) this.selected.add(id);
    this.last = id;
    this.show();
  }

  clear() {
    this.selected.clear();
    this.last = null;
    this.show();
  }

  show() {
    for (const row of document.querySelectorAll("#results li[data-id]")) {
      const on = this.selected.has(row.dataset.id);
      row.classList.toggle("selected", on);
      row.querySelector(".tool.select")?.setAttribute("aria-pressed", String(on));
    }
    document.body.classList.toggle("selecting", this.selected.size > 0);
    this.bar.hidden = this.selected.size === 0;
    if (this.bar.hidden) return;
    const ids = [...this.selected];
    const list = this.list();
    const act = (sign, text, work, id) => element("button", { type: "button", id, "aria-label": text, title: text, onclick: work }, icon(sign), element("span", {}, text));
    fill(this.bar,
      element("button", { type: "button", class: "plain", "aria-label": "Clear the selection", title: "Clear the selection", onclick: () => this.clear() }, icon("close")),
      element("strong", { "aria-live": "polite" }, `${ids.length} selected`),
      ids.length < (list?.ids.length ?? 0) ? button("Select all", () => this.selectAll(), { class: "plain wide", id: "select-all" }) : null,
      element("span", { class: "space" }),
      act("tag", "Labels", () => this.editLabels(ids), "edit-labels"),
      list?.query ? [act("right", "Right", () => this.mark(ids, "right"), "mark-right"), act("wrong", "Wrong", () => this.mark(ids, "wrong"), "mark-wrong")] : null,
      act("bin", "Delete", () => this.remove(ids), "delete"));
  }

  selectAll() {
    for (const id of this.list().ids) this.selected.add(id);
    this.show();
  }

  /** Open the dialog that edits the labels of items. */
  editLabels(ids) {
    const items = this.list().items.filter(({ id }) => ids.includes(id));
    const editor = labelEditor({ items, known: this.known(), apply: (...change) => this.relabel(items, ...change) });
    fill(this.dialog,
      element("header", {}, element("h2", { id: "labels-title" }, items.length === 1 ? items[0].title : `Labels of ${count(items.length, "item")}`),
        element("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => this.dialog.close() }, icon("close"))),
      editor,
      element("div", { class: "buttons" }, button("Done", () => this.dialog.close(), { class: "primary" })));
    this.dialog.addEventListener("close", () => this.clear(), { once: true });
    this.dialog.showModal();
    editor.field.focus();
    suggest(ids).then(({ suggestions }) => editor.suggest(suggestions), () => {}); // suggestions are optional
  }

  /** Add and remove labels of the given `items`; return the changed items, or null. */
  async relabel(items, ids, add, remove) {
    const done = await this.send(() => label(ids, add, remove));
    if (!done) return null;
    const changed = relabelled(items.map((item) => this.list()?.items.find(({ id }) => id === item.id) ?? item).filter(({ id }) => ids.includes(id)), add, remove);
    this.changed({ items: changed });
    const what = add.length ? `Added ${add.join(", ")} to` : `Removed ${remove.join(", ")} from`;
    this.report(`${what} ${count(ids.length, "item")}.`, done.undo);
    return changed;
  }

  async remove(ids) {
    const done = await this.send(() => removeItems(ids));
    if (!done) return false;
    this.clear();
    this.changed({ removed: ids });
    this.report(`Deleted ${count(ids.length, "item")}.`, done.undo);
    return true;
  }

  /** Report a change, and offer to undo it. */
  report(text, ...keys) {
    this.announce(text);
    const back = async () => {
      for (const key of keys.toReversed()) if (!await this.send(() => undo(key))) return;
      await this.restored();
      toast("Undone.");
    };
    toast(text, keys.every(Boolean) && keys.length ? back : null);
  }

  /** Send a change; report a failure, and return null. */
  async send(work) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      toast(error.message);
      this.announce(error.message);
      return null;
    }
  }
}
