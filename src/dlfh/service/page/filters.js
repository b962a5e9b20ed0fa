// What is searched, how probable answers must be, and which items may be found.

import { capital, count, debounced, element, fill, number } from "./elements.js";

const LISTED = 18;
const LEAST_STEP = 5;

/** Draw the controls for a search; `change(part)` is called with what people change, and `replace` while they slide. */
export function drawControls(place, about, search, chances, change) {
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
    element("div", { class: "row" }, modalities(about, search, change), names.length ? toggle : null, least(about, search, chances, change)),
    chosen(search, change),
    panel,
  );
  if (focused) document.getElementById(focused)?.focus();
}

function modalities(about, search, change) {
  const names = Object.keys(about.modalities);
  const choice = (value, label) => {
    const id = `in-${value ?? "best"}`;
    const radio = element("input", {
      type: "radio", name: "in", id, checked: search.modalities === value, onchange: () => change({ modalities: value }),
    });
    return [radio, element("label", { for: id }, label)];
  };
  return element("fieldset", { class: "segments" }, element("legend", { class: "unseen" }, "Compare with"),
    choice(null, "Best"), names.map((name) => choice(name, capital(name))));
}

function least(about, search, chances, change) {
  if (!about.calibrated) return null;
  const says = (value) => (value ? `${value} % or more` : "any");
  const output = element("output", { for: "least" });
  const slider = element("input", { type: "range", id: "least", min: 0, max: 95, step: LEAST_STEP, disabled: !chances });
  slider.value = Math.round(100 * search.least);
  const show = () => {
    output.value = chances ? says(Number(slider.value)) : "unknown here";
    slider.style.setProperty("--at", `${(100 * slider.value) / 95}%`);
    slider.setAttribute("aria-valuetext", output.value);
  };
  const soon = debounced(() => change({ least: Number(slider.value) / 100 }, true), 120);
  slider.addEventListener("input", () => {
    show();
    soon();
  });
  show();
  const why = chances ? null : "Items and codes are compared by their codes alone; how probable answers are was measured for texts and images.";
  return element("label", { class: "least", title: why }, element("span", {}, "Probability"), slider, output);
}

/** The filters that are on, each with a way to take it off. */
function chosen(search, change) {
  const chips = Object.entries(search.where).flatMap(([name, values]) => values.map((value) => element("button", {
    type: "button", class: "chip on", "aria-label": `Remove the filter ${name} ${value}`,
    onclick: () => change({ where: toggled(search.where, name, value) }),
  }, name === "labels" ? String(value) : `${name}: ${value}`, element("span", { "aria-hidden": "true" }, "×"))));
  return chips.length ? element("div", { class: "chips", id: "chosen" }, chips) : null;
}

function filter(name, values, search, change) {
  const on = search.where[name] ?? [];
  const list = element("div", { class: "chips" });
  const show = (words, all) => {
    const shown = values.filter(({ value }) => String(value).toLowerCase().includes(words.toLowerCase()));
    const more = shown.length - LISTED;
    fill(list,
      shown.slice(0, all ? undefined : LISTED).map(({ value, count: n }, place) => {
        const id = `where-${name}-${place}`;
        const box = element("input", {
          type: "checkbox", id, checked: on.includes(value), onchange: () => change({ where: toggled(search.where, name, value) }),
        });
        return element("span", { class: "pick" }, box, element("label", { class: "chip", for: id }, String(value), element("small", {}, number(n))));
      }),
      all || more <= 0 ? null : element("button", { type: "button", class: "chip more", onclick: () => show(words, true) }, `${number(more)} more`),
      shown.length ? null : element("p", { class: "faint" }, "None has that name."),
    );
  };
  show("", false);
  const narrow = values.length <= LISTED ? null : element("input", {
    type: "search", class: "narrow", placeholder: `Find in ${count(values.length, "value")}`, "aria-label": `Find a value of ${name}`,
    oninput: (event) => show(event.target.value, false),
  });
  return element("fieldset", { class: "filter" }, element("legend", {}, capital(name)), narrow, list);
}

/** Filters with a value more, or less. */
export function toggled(where, name, value) {
  const own = where[name] ?? [];
  const rest = own.includes(value) ? own.filter((other) => other !== value) : [...own, value];
  const next = { ...where, [name]: rest };
  if (!rest.length) delete next[name];
  return next;
}
