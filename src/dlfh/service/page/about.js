// The panel about the collection and, as details, its model.

import { barcode } from "./barcode.js";
import { capital, count, element, fill, listed, number } from "./elements.js";

/** Fill the panel. */
export function drawAbout(panel, about, example) {
  const bytes = Math.ceil(about.bits / 8);
  const names = Object.keys(about.modalities);
  fill(panel,
    element("header", {},
      element("h2", { id: "about-title" }, "How it works"),
      element("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => panel.close() }, "×")),
    element("p", { class: "lead" },
      `The model was trained on ${count(about.trained, "labelled item")} to tell which ${listed(names.map((name) => `${name}s`))} belong together. `
      + "A search finds the items that most likely share a label with your query, even if they share no words with it."),
    element("dl", { class: "numbers" }, [
      [number(about.items), about.items === 1 ? "item" : "items"],
      [number(about.labels), about.labels === 1 ? "label" : "labels"],
      [number(about.trained), "training items"],
    ].map(([value, name]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
    probabilities(about),
    element("div", { class: "detail" },
      codes(about, bytes, names, example),
      names.map((name) => modality(name, about.modalities[name])),
      quality(about),
      calibration(about),
      element("h3", {}, "Method"),
      element("p", {}, `${about.method}, `, parameters(about.parameters))),
    about.name ? element("p", { class: "faint detail" }, `Collection ${about.name}, state ${about.state.slice(0, 12)}.`) : null,
  );
}

function codes(about, bytes, names, example) {
  return [
    element("h3", {}, "Codes"),
    element("p", {}, `Every item has a code of ${about.bits} bits (${bytes} bytes) for each modality: ${listed(names)}. Items that share a label have similar codes, in every modality.`),
    example ? element("figure", { class: "code" }, barcode(example.code, about.bits, example.query),
      element("figcaption", {}, "Code of the first result. Bits that differ from the query are marked.")) : null,
    element("p", {}, "Learned codes are computed from the labels of an item. Queries and unlabelled items have hashed codes, which a hash function computes from their features."),
  ];
}

/** A labelled bar of a fraction. */
function bar(share, label, kind = "") {
  const drawn = element("span", { class: `share ${kind}`, "aria-hidden": "true" });
  drawn.style.setProperty("--share", Math.max(0, Math.min(1, share)));
  return element("span", { class: "measure" }, drawn, element("span", {}, label));
}

function modality(name, info) {
  const n = info.learned + info.hashed;
  return element("div", { class: "modality" },
    element("h4", {}, capital(name)),
    n ? bar(info.learned / n, `${number(info.learned)} learned, ${number(info.hashed)} hashed`) : element("p", {}, "no items yet"),
    element("p", { class: "faint" }, `${count(info.n_features, "feature")}: ${info.features}`),
    element("p", { class: "faint" }, `Hash function: ${info.hash_function}`));
}

function quality(about) {
  if (!about.quality.length) return [];
  return [
    element("h3", {}, "Retrieval quality"),
    element("p", {}, "Mean average precision (MAP) of held-out queries: 1 if all relevant items are ranked first. “Chance” is the MAP of a random ranking."),
    element("table", {},
      element("thead", {}, element("tr", {}, ["Query", "Items", "MAP", "Chance"].map((title) => element("th", { scope: "col" }, title)))),
      element("tbody", {}, about.quality.map((row) => element("tr", {},
        element("th", { scope: "row" }, capital(row.query)),
        element("td", {}, row.database),
        element("td", {}, bar(row.asymmetric, row.asymmetric.toFixed(3))),
        element("td", {}, row.chance.toFixed(3)))))),
    element("p", { class: "faint" }, `${count(about.quality[0].n_queries, "query", "queries")}, ${count(about.quality[0].n_items, "item")}; asymmetric ranking of the whole collection.`),
  ];
}

function probabilities(about) {
  const text = about.calibrated
    ? "The percentage beside a result is the probability that it is relevant to your query. It was calibrated on items that were not used for training."
    : "This collection has no probabilities, because no items were held out to calibrate them.";
  return [element("h3", {}, "Probabilities"), element("p", {}, text)];
}

function calibration(about) {
  if (!about.calibration.length) return [];
  return [
    element("h3", {}, "Calibration"),
    element("p", {}, "The calibration error is the mean difference between probabilities and the observed share of relevant items. The last column is the Brier score of a constant probability."),
    element("table", {},
      element("thead", {}, element("tr", {}, ["Query", "Codes", "Error", "First ten", "Brier score", "Constant"].map((title) => element("th", { scope: "col" }, title)))),
      element("tbody", {}, about.calibration.map((row) => element("tr", {},
        element("th", { scope: "row" }, capital(row.query)),
        element("td", {}, row.codes),
        element("td", {}, row.calibration_error.toFixed(3)),
        element("td", {}, row.first_ten.toFixed(3)),
        element("td", {}, row.brier.toFixed(3)),
        element("td", {}, (row.share * (1 - row.share)).toFixed(3)))))),
  ];
}

function parameters(all) {
  const text = Object.entries(all).map(([name, value]) => `${name}=${value === null ? "None" : value}`).join(", ");
  return element("code", {}, text);
}
