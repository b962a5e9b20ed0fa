// Refining a search: active filters, labels of the results, and the panel with all filters and options.

import { byName } from "./address.js";
import { button, capital, count, debounced, element, fill, icon, number } from "./elements.js";

const MAX_LISTED = 18;
const MAX_REFINEMENTS = 8;
const PROBABILITY_STEP = 5;

/**
 * Draw the row above the results and the panel of filters. `facets` has the counts of the current results, `total` the number of likely ones, both null if
 * unknown; `change(part, replace)` is called with changes, `replace` while the slider moves; `onKeep` keeps marked results, null if the visitor may not.
 */
export function drawControls(place, { about, search, facets, total, summary, hasProbabilities, isSaved, onSave, onKeep, change }) {
  const opened = place.querySelector("#filters-toggle")?.getAttribute("aria-expanded") === "true";
  const focused = place.contains(document.activeElement) ? document.activeElement.id : null;
  const panel = element("div", { class: "filters", id: "filters", role: "region", "aria-label": "Filters", hidden: !opened });
  const values = facets ? byName(...Object.entries(facets.values).map(([name, of]) => ({ [name]: likelyFirst(of) }))) : about.filters;
  const names = [...new Set([...Object.keys(about.filters), ...Object.keys(search.where)])].filter((name) => (about.filters[name]?.length ?? 0) > 1 || search.where[name]);
  const options = { about, search, change };
  panel.append(searchOptions(options, hasProbabilities), ...names.map((name) => filter(name, withOthers(values[name] ?? [], [...search.where[name] ?? []], about.filters[name] ?? []), facets, options)));
  const show = (shown) => {
    panel.hidden = !shown;
    toggle.setAttribute("aria-expanded", String(shown));
    if (!shown) toggle.focus();
  };
  const toggle = element("button", { type: "button", id: "filters-toggle", class: "quiet", "aria-expanded": String(opened), "aria-controls": "filters", onclick: () => show(panel.hidden) }, "Filters");
  place.onkeydown = (event) => {
    if (event.key !== "Escape" || panel.hidden) return;
    event.stopPropagation();
    show(false);
  };
  fill(place,
    element("div", { class: "row" },
      element("p", { class: "summary", id: "summary" }, summary),
      chips(search, facets, total, { change, onKeep }),
      element("span", { class: "space" }),
      element("button", { type: "button", id: "save-search", class: "quiet plain-icon", "aria-pressed": String(isSaved), "aria-label": isSaved ? "Forget this search" : "Save this search", title: isSaved ? "Forget this search" : "Save this search", onclick: onSave }, icon("star")),
      element("button", { type: "button", id: "details-toggle", class: "quiet wide-only", "aria-pressed": String(document.body.classList.contains("with-details")) }, "Details"),
      toggle),
    panel);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

/** The active filters, each with a button that removes it, and labels of the results that would narrow them. */
function chips(search, facets, total, { change, onKeep }) {
  const active = Object.entries(search.where).flatMap(([name, values]) => values.map((value) => element("button", {
    type: "button", class: "chip on", "aria-label": `Remove the filter ${name} ${value}`, onclick: () => change(without(search, name, value)),
  }, name === "labels" ? capital(String(value)) : `${name}: ${value}`, element("span", { "aria-hidden": "true" }, "×"))));
  const chosen = new Set((search.where.labels ?? []).map((value) => String(value).toLowerCase()));
  const counted = (each) => each.likely ?? each.count;
  // A label that all results have narrows nothing.
  const all = total ?? Math.max(0, ...(facets?.values.labels ?? []).map(counted));
  const refinements = (facets?.values.labels ?? []).filter((each) => counted(each) > 0 && counted(each) < all && !chosen.has(String(each.value).toLowerCase()))
    .sort((a, b) => counted(b) - counted(a)).slice(0, MAX_REFINEMENTS)
    .map((each) => element("button", { type: "button", class: "chip refine", "aria-label": `Only ${each.value}`, onclick: () => change(refined(search, each.value)) }, capital(String(each.value)), element("small", {}, number(counted(each)))));
  return element("div", { class: "chips scroll", id: "chosen" }, marks(search, { change, onKeep }), active, refinements);
}

/** The number of results marked right and wrong, with buttons that remove the marks and keep them. */
function marks({ relevant, irrelevant }, { change, onKeep }) {
  if (!relevant.length && !irrelevant.length) return null;
  const text = [[relevant.length, "right"], [irrelevant.length, "wrong"]].filter(([n]) => n).map(([n, kind]) => `${number(n)} ${kind}`).join(", ");
  return [
    element("button", { type: "button", class: "chip on", id: "marks", "aria-label": `Remove the marks: ${text}`, onclick: () => change({ relevant: [], irrelevant: [] }) }, text, element("span", { "aria-hidden": "true" }, "×")),
    onKeep ? element("button", { type: "button", class: "chip", id: "keep-marks", title: "Store this search and its marks in the collection", onclick: onKeep }, "Keep") : null,
  ];
}

/** A search whose results must also have a label. */
function refined(search, value) {
  const labels = [...(search.where.labels ?? []), value];
  return { where: byName(search.where, { labels }), all: labels.length > 1 ? [...new Set([...search.all, "labels"])] : search.all };
}

function without(search, name, value) {
  const where = toggled(search.where, name, value);
  return { where, all: search.all.filter((each) => (where[each]?.length ?? 0) > 1) };
}

/** Values of the likely results first, with their number among those; of all results if none is likely. */
function likelyFirst(values) {
  if (!values.some(({ likely }) => likely > 0)) return values;
  return values.map(({ value, likely }) => ({ value, count: likely })).sort((a, b) => b.count - a.count);
}

/** Values of the results, with those that are chosen or that only other items have. */
function withOthers(values, chosen, all) {
  const listed = new Set(values.map(({ value }) => plain(value)));
  const missing = chosen.filter((value) => !listed.has(plain(value)));
  for (const value of missing) listed.add(plain(value));
  const others = all.filter(({ value }) => !listed.has(plain(value)));
  return [...missing.map((value) => ({ value, count: 0 })), ...values, ...others.map(({ value }) => ({ value, count: 0 }))];
}

const plain = (value) => (typeof value === "string" ? value.toLowerCase() : value);

const same = (a, b) => plain(a) === plain(b);

function searchOptions({ about, search, change }, hasProbabilities) {
  return element("div", { class: "options" }, modalities(about, search, change), probability(about, search, hasProbabilities, change));
}

function modalities(about, search, change) {
  const names = Object.keys(about.modalities);
  const choice = (value, label) => {
    const id = `modality-${value ?? "best"}`;
    const radio = element("input", { type: "radio", name: "modality", id, checked: search.modalities === value, onchange: () => change({ modalities: value }) });
    return [radio, element("label", { for: id }, label)];
  };
  return element("fieldset", { class: "segments" }, element("legend", { class: "unseen" }, "Search in"), choice(null, "Best"), names.map((name) => choice(name, capital(name))));
}

function probability(about, search, hasProbabilities, change) {
  if (!about.calibrated) return null;
  const label = (value) => (value ? `${value} % or more` : "any");
  const output = element("output", { for: "min-probability" });
  const slider = element("input", { type: "range", id: "min-probability", min: 0, max: 95, step: PROBABILITY_STEP, disabled: !hasProbabilities });
  slider.value = Math.round(100 * search.minProbability);
  const show = () => {
    output.value = hasProbabilities ? label(Number(slider.value)) : "not available";
    slider.style.setProperty("--at", `${(100 * slider.value) / 95}%`);
    slider.setAttribute("aria-valuetext", output.value);
  };
  const soon = debounced(() => change({ minProbability: Number(slider.value) / 100 }, true), 120);
  slider.addEventListener("input", () => {
    show();
    soon();
  });
  show();
  const why = hasProbabilities ? null : "Probabilities are available only for searches by words or pictures.";
  return element("label", { class: "min-probability", title: why }, element("span", {}, "Probability"), slider, output);
}

function filter(name, values, facets, { search, change }) {
  const on = search.where[name] ?? [];
  const list = element("div", { class: "chips" });
  const show = (text, all) => {
    const shown = values.filter(({ value }) => String(value).toLowerCase().includes(text.trim().toLowerCase()));
    const more = shown.length - MAX_LISTED;
    fill(list,
      shown.slice(0, all ? undefined : MAX_LISTED).map(({ value, count: n }, place) => {
        const id = `where-${name}-${place}`;
        const box = element("input", { type: "checkbox", id, checked: on.some((each) => same(each, value)), onchange: () => change(without(search, name, on.find((each) => same(each, value)) ?? value)) });
        return element("span", { class: "pick" }, box, element("label", { class: n ? "chip" : "chip none", for: id }, capital(String(value)), element("small", {}, number(n))));
      }),
      all || more <= 0 ? null : button(`${number(more)} more`, () => show(text, true), { class: "chip more" }),
      shown.length ? null : element("p", { class: "faint" }, "No matches."),
    );
  };
  show("", false);
  const narrow = values.length <= MAX_LISTED ? null : element("input", {
    type: "search", class: "field narrow", id: `narrow-${name}`, placeholder: `Find in ${count(values.length, "value")}`, "aria-label": `Find a value of ${name}`,
    oninput: (event) => show(event.target.value, false),
    onkeydown: (event) => {
      if (event.key !== "Enter" || !event.target.value.trim()) return;
      const first = values.find(({ value }) => same(value, event.target.value.trim())) ?? values.find(({ value }) => String(value).toLowerCase().includes(event.target.value.trim().toLowerCase()));
      if (first && !on.some((each) => same(each, first.value))) change(without(search, name, first.value));
    },
  });
  return element("fieldset", { class: "filter" }, element("legend", {}, capital(name)), narrow, list, on.length > 1 && isMultiple(name, values, facets) ? anyOrAll(name, search, change) : null);
}

/** Whether an item can have several values of a name. */
const isMultiple = (name, values, facets) => name === "labels" || (facets !== null && values.reduce((sum, { count: n }) => sum + n, 0) > facets.counted);

function anyOrAll(name, search, change) {
  const isAll = search.all.includes(name);
  const choice = (value, text) => {
    const id = `match-${name}-${value}`;
    const all = value === "all" ? [...search.all, name] : search.all.filter((each) => each !== name);
    return [element("input", { type: "radio", name: `match-${name}`, id, checked: isAll === (value === "all"), onchange: () => change({ all }) }), element("label", { for: id }, text)];
  };
  return element("fieldset", { class: "segments small" }, element("legend", { class: "unseen" }, `Match any or all values of ${name}`), choice("any", "Any of them"), choice("all", "All of them"));
}

/** Filters with a value added or removed. */
export function toggled(where, name, value) {
  const selected = where[name] ?? [];
  const rest = selected.includes(value) ? selected.filter((other) => other !== value) : [...selected, value];
  const next = byName(where);
  if (rest.length) next[name] = rest;
  else delete next[name];
  return next;
}
