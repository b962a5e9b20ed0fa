// Search options: modality, smallest probability, and filters.

import { byName } from "./address.js";
import { capital, count, debounced, element, fill, number } from "./elements.js";

const MAX_LISTED = 18;
const PROBABILITY_STEP = 5;

/** Draw the options of a search; `change(part, replace)` is called with changes, `replace` while the slider moves. */
export function drawControls(place, about, search, hasProbabilities, change) {
  const opened = place.querySelector("#filters-toggle")?.getAttribute("aria-expanded") === "true";
  const focused = place.contains(document.activeElement) ? document.activeElement.id : null;
  const names = Object.keys(about.filters).filter((name) => about.filters[name].length > 1 || search.where[name]);
  const panel = element("div", { class: "filters", id: "filters", hidden: !opened });
  panel.append(...names.map((name) => filter(name, about.filters[name], search, change)));
  const toggle = element("button", {
    type: "button", id: "filters-toggle", class: "quiet", "aria-expanded": String(opened), "aria-controls": "filters",
    onclick: () => {
      panel.hidden = !panel.hidden;
      toggle.setAttribute("aria-expanded", String(!panel.hidden));
    },
  }, "Filters");
  fill(place,
    element("div", { class: "row" }, modalities(about, search, change), names.length ? toggle : null, probability(about, search, hasProbabilities, change)),
    activeFilters(search, change),
    panel,
  );
  if (focused) document.getElementById(focused)?.focus();
}

function modalities(about, search, change) {
  const names = Object.keys(about.modalities);
  const choice = (value, label) => {
    const id = `modality-${value ?? "best"}`;
    const radio = element("input", {
      type: "radio", name: "modality", id, checked: search.modalities === value, onchange: () => change({ modalities: value }),
    });
    return [radio, element("label", { for: id }, label)];
  };
  return element("fieldset", { class: "segments" }, element("legend", { class: "unseen" }, "Search in"),
    choice(null, "Best"), names.map((name) => choice(name, capital(name))));
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

/** The active filters, each with a button that removes it. */
function activeFilters(search, change) {
  const chips = Object.entries(search.where).flatMap(([name, values]) => values.map((value) => element("button", {
    type: "button", class: "chip on", "aria-label": `Remove the filter ${name} ${value}`,
    onclick: () => change({ where: toggled(search.where, name, value) }),
  }, name === "labels" ? String(value) : `${name}: ${value}`, element("span", { "aria-hidden": "true" }, "×"))));
  return chips.length ? element("div", { class: "chips", id: "chosen" }, chips) : null;
}

function filter(name, values, search, change) {
  const on = search.where[name] ?? [];
  const list = element("div", { class: "chips" });
  const show = (text, all) => {
    const shown = values.filter(({ value }) => String(value).toLowerCase().includes(text.toLowerCase()));
    const more = shown.length - MAX_LISTED;
    fill(list,
      shown.slice(0, all ? undefined : MAX_LISTED).map(({ value, count: n }, place) => {
        const id = `where-${name}-${place}`;
        const box = element("input", {
          type: "checkbox", id, checked: on.includes(value), onchange: () => change({ where: toggled(search.where, name, value) }),
        });
        return element("span", { class: "pick" }, box, element("label", { class: "chip", for: id }, String(value), element("small", {}, number(n))));
      }),
      all || more <= 0 ? null : element("button", { type: "button", class: "chip more", onclick: () => show(text, true) }, `${number(more)} more`),
      shown.length ? null : element("p", { class: "faint" }, "No matches."),
    );
  };
  show("", false);
  const narrow = values.length <= MAX_LISTED ? null : element("input", {
    type: "search", class: "narrow", placeholder: `Find in ${count(values.length, "value")}`, "aria-label": `Find a value of ${name}`,
    oninput: (event) => show(event.target.value, false),
  });
  return element("fieldset", { class: "filter" }, element("legend", {}, capital(name)), narrow, list);
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
