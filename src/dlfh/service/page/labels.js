// Editing the labels of one or several items. Every change is sent at once and can be undone.

import { capital, count, element, fill, percent } from "./elements.js";

let forms = 0;

/**
 * An editor of the labels of items. `suggested` is a list of `{ id, label, probability }`; `apply(ids, add, remove)` sends a change and returns the changed
 * items, or null if it failed.
 */
export function labelEditor({ items, known, suggested = [], apply, linkOf = null }) {
  const list = `known-labels-${forms += 1}`;
  const place = element("div", { class: "label-editor" });
  const field = element("input", { type: "text", list, id: `new-label-${forms}`, class: "field", placeholder: "Add a label", "aria-label": "Add a label", maxlength: 200, autocomplete: "off", autocapitalize: "off" });
  const chips = element("div", { class: "chips" });
  const hints = element("div", { class: "chips hints" });
  let current = items;
  let rest = suggested;

  const change = async (ids, add, remove, focus) => {
    const changed = await apply(ids, add, remove);
    if (!changed) return;
    const by = new Map(changed.map((item) => [item.id, item]));
    current = current.map((item) => by.get(item.id) ?? item);
    rest = rest.filter(({ id, label }) => !(ids.includes(id) && add.includes(label)));
    draw();
    (focus?.isConnected ? focus : place.querySelector(".chips button") ?? field).focus();
  };

  const draw = () => {
    const counts = new Map();
    for (const { labels } of current) for (const label of labels) counts.set(label, (counts.get(label) ?? 0) + 1);
    const all = current.map(({ id }) => id);
    fill(chips, [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).map(([label, n]) => element("span", { class: "chip label" },
      linkOf ? element("a", { href: linkOf(label) }, capital(label)) : element("span", {}, capital(label)),
      n < current.length ? element("small", {}, `${n} of ${current.length}`) : null,
      element("button", { type: "button", "aria-label": `Remove the label ${label}`, onclick: () => change(all, [], [label], field) }, "×"))));
    const grouped = Map.groupBy ? Map.groupBy(rest, ({ label }) => label) : grouping(rest);
    fill(hints, grouped.size ? element("span", { class: "faint" }, "Suggested") : null, [...grouped].slice(0, 8).map(([label, of]) => element("button", {
      type: "button", class: "chip hint", "aria-label": `Add the suggested label ${label}`, onclick: () => change(of.map(({ id }) => id), [label], [], field),
    }, `+ ${capital(label)}`, element("small", {}, current.length > 1 ? `${count(of.length, "item")}` : percent(of[0].probability)))));
    hints.hidden = grouped.size === 0;
  };

  const form = element("form", {
    class: "add-label",
    onsubmit: (event) => {
      event.preventDefault();
      const add = field.value.split(/[,;]/).map((name) => asKnown(name.trim(), known)).filter(Boolean);
      field.value = "";
      if (add.length) change(current.map(({ id }) => id), add, [], field);
    },
  }, field, element("datalist", { id: list }, known.map((label) => element("option", { value: label }))), element("button", { class: "quiet" }, "Add"));
  draw();
  fill(place, chips, hints, form);
  place.suggest = (more) => {
    rest = more.filter(({ id, label }) => !current.find((item) => item.id === id)?.labels.includes(label));
    draw();
  };
  place.field = field;
  return place;
}

/** A label typed in another case is the label that exists. */
export const asKnown = (name, known) => known.find((label) => label.toLowerCase() === name.toLowerCase()) ?? name;

function grouping(suggestions) {
  const groups = new Map();
  for (const each of suggestions) groups.set(each.label, [...(groups.get(each.label) ?? []), each]);
  return groups;
}

/** Items with labels added and removed. */
export const relabelled = (items, add, remove) => items.map((item) => ({ ...item, labels: [...new Set([...item.labels.filter((label) => !remove.includes(label)), ...add])] }));
