// What the model is, in plain words and with its numbers.

import { barcode } from "./barcode.js";
import { capital, count, element, fill, listed, number } from "./elements.js";

/** Fill the panel, and let it be opened and closed. */
export function drawAbout(panel, about, example) {
  const bytes = Math.ceil(about.bits / 8);
  const names = Object.keys(about.modalities);
  fill(panel,
    element("header", {},
      element("h2", { id: "about-title" }, "How it works"),
      element("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => panel.close() }, "×")),
    element("p", { class: "lead" },
      `Every item has a code of ${about.bits} bits (${bytes} bytes) for each of ${listed(names.map((name) => `its ${name}`))}. `
      + "Codes were learned so that items that share a label differ in few bits, whichever modality they come from: that is how words find pictures."),
    example ? element("figure", { class: "code" }, barcode(example.code, about.bits, example.query),
      element("figcaption", {}, "A code. Marked are the bits in which it differs from the query's; the fewer, the more alike.")) : null,
    element("dl", { class: "numbers" }, [
      [number(about.items), about.items === 1 ? "item" : "items"],
      [number(about.bits), "bits a code"],
      [number(about.labels), about.labels === 1 ? "label" : "labels"],
      [number(about.trained), "learned from"],
    ].map(([value, name]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
    element("h3", {}, "Learned or hashed"),
    element("p", {}, "A learned code knows the item's labels. Other items, and every query, have the code that a hash function makes of what is seen or read. Learned codes are nearer to the truth; hashed ones are what new items get."),
    names.map((name) => modality(name, about.modalities[name])),
    quality(about),
    calibration(about),
    element("h3", {}, "The method"),
    element("p", {}, `${about.method}, `, parameters(about.parameters)),
    about.name ? element("p", { class: "faint" }, `Collection ${about.name}, state ${about.state.slice(0, 12)}.`) : null,
  );
}

/** A bar of one part of a whole, with what it says beside it. */
function bar(share, label, kind = "") {
  const drawn = element("span", { class: `share ${kind}`, "aria-hidden": "true" });
  drawn.style.setProperty("--share", Math.max(0, Math.min(1, share)));
  return element("span", { class: "measure" }, drawn, element("span", {}, label));
}

function modality(name, own) {
  const n = own.learned + own.hashed;
  return element("div", { class: "modality" },
    element("h4", {}, capital(name)),
    n ? bar(own.learned / n, `${number(own.learned)} learned, ${number(own.hashed)} hashed`) : element("p", {}, "no items yet"),
    element("p", { class: "faint" }, `${count(own.n_features, "feature")}: ${own.features}`),
    element("p", { class: "faint" }, `Hash function: ${own.hash_function}`));
}

function quality(about) {
  if (!about.quality.length) return [];
  return [
    element("h3", {}, "How good answers are"),
    element("p", {}, "Mean average precision (MAP): 1 if everything right comes before everything wrong. Measured with items that were held out of training, asking for the hashed codes of the others; a random order gets what “chance” says."),
    element("table", {},
      element("thead", {}, element("tr", {}, ["Asks", "For", "MAP", "Chance"].map((title) => element("th", { scope: "col" }, title)))),
      element("tbody", {}, about.quality.map((own) => element("tr", {},
        element("th", { scope: "row" }, capital(own.query)),
        element("td", {}, own.database),
        element("td", {}, bar(own.asymmetric, own.asymmetric.toFixed(3))),
        element("td", {}, own.chance.toFixed(3)))))),
    element("p", { class: "faint" }, `${count(about.quality[0].n_queries, "query", "queries")}, ${count(about.quality[0].n_items, "item")}; whole ranking, by the query's real values against codes.`),
  ];
}

function calibration(about) {
  if (!about.calibrated) {
    return [element("h3", {}, "Probabilities"), element("p", {}, "Nobody knows how probable answers are: no items were held out to tell.")];
  }
  const told = "A probability says how likely an item shares a label with what you asked for. It was fitted to items that were held out of training.";
  if (!about.calibration.length) return [element("h3", {}, "Probabilities"), element("p", {}, told)];
  return [
    element("h3", {}, "Probabilities"),
    element("p", {}, `${told} The error is by how much probabilities differ from the share of right answers, on average.`),
    element("table", {},
      element("thead", {}, element("tr", {}, ["Asks", "Codes", "Error", "Brier score", "Of a constant"].map((title) => element("th", { scope: "col" }, title)))),
      element("tbody", {}, about.calibration.map((own) => element("tr", {},
        element("th", { scope: "row" }, capital(own.query)),
        element("td", {}, own.codes),
        element("td", {}, own.calibration_error.toFixed(3)),
        element("td", {}, own.brier.toFixed(3)),
        element("td", {}, (own.share * (1 - own.share)).toFixed(3)))))),
  ];
}

function parameters(all) {
  const text = Object.entries(all).map(([name, value]) => `${name}=${value === null ? "None" : value}`).join(", ");
  return element("code", {}, text);
}
