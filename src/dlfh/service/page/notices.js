// Notices: how a text was understood, no results, and errors, each with the next step.

import { write } from "./address.js";
import { button, capital, element, fill, percent, sentence } from "./elements.js";

const place = () => document.querySelector("#notice");

export const clearNotice = () => fill(place());

function show(kind, title, ...rest) {
  fill(place(), element("div", { class: `notice ${kind}` }, element("h2", {}, title), rest));
}

const paragraph = (text) => element("p", {}, text);

/** A note of the service: quoted words are emphasised. */
const note = (text) => element("span", {}, sentence(text).split(/(“[^”]+”)/).map((part) => (part.startsWith("“") ? element("strong", {}, part.slice(1, -1)) : part)), " ");

/** No results: no item is probable enough (`best` is the largest probability), none matches the filters, or no word is known. */
export function showNothing({ search, best, result, examples, onAny, onUnfiltered }) {
  const filtered = Object.keys(search.where).length > 0;
  const any = { class: "primary" };
  if (search.minProbability && best !== null) {
    show("nothing", "No results", paragraph(`No item has a probability of ${percent(search.minProbability)} or more. The best one has ${percent(best)}.`),
      element("div", { class: "buttons" }, button("Show it anyway", onAny, any), filtered ? button("Remove the filters", onUnfiltered, { class: "quiet" }) : null));
    return;
  }
  // The warning names the unknown words, and the links say what the collection is about.
  const isSaid = (text) => examples.length > 0 && text.startsWith("This collection is about") || Boolean(result.warning) && text.startsWith("Not in this collection");
  const notes = [...(result.warning ? [result.warning] : []), ...result.notes.filter((text) => !isSaid(text))];
  const why = notes.length ? element("p", {}, notes.map(note)) : paragraph(filtered ? "No item matches the filters." : "The collection is empty.");
  show("nothing", "No results", why, alternatives(search, result),
    element("div", { class: "buttons" }, filtered ? button("Remove the filters", onUnfiltered, any) : null, search.minProbability ? button("Any probability", onAny, { class: "quiet" }) : null),
    examples.length ? [element("p", { class: "faint" }, "This collection is about:"), element("div", { class: "chips" }, examples.map(({ name, address }) => element("a", { class: "chip", href: address }, capital(name))))] : null);
}

/** Links that replace an unknown word by a similar one. */
function alternatives(search, { understanding }) {
  const links = Object.entries(understanding?.alternatives ?? {}).flatMap(([typed, words]) => words.map((word) => {
    const text = search.text.replace(new RegExp(`(?<![\\p{L}\\p{N}])${typed.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\p{L}\\p{N}])`, "iu"), word);
    return element("a", { class: "chip", href: write({ ...search, text }) }, text);
  }));
  return links.length ? element("div", { class: "chips alternatives" }, links) : null;
}

/** The note that nothing has all that was asked for, if there is one: it stands above the closest items. */
export const closestNote = ({ notes }) => notes.find((text) => /^(Nothing here is|No item (has|is))/.test(text)) ?? null;

/** Say how a text was understood, and why results may be unreliable; a link searches for the text as it is. */
export function explain(search, result) {
  const { understanding, warning, notes } = result;
  const typed = result.typed ?? search.text;
  const changed = !search.literal && understanding && understanding.text.trim() !== typed.trim();
  const completed = result.typed ? [`Showing results for “${search.text}” instead of “${typed}”`] : [];
  const messages = [...completed, ...notes.filter((text) => text !== closestNote(result)), ...(warning ? [warning] : [])];
  if (!messages.length && !changed) return clearNotice();
  const literal = changed ? element("a", { class: "link", id: "literal", href: write({ ...search, text: typed, literal: true, item: null }) }, "Search for exactly what I typed") : null;
  const undo = search.literal ? element("a", { class: "link", href: write({ ...search, literal: false, item: null }) }, "Correct my words") : null;
  return fill(place(), element("div", { class: "understood" }, element("p", {}, messages.map(note), literal ?? undo), alternatives(search, result)));
}

/** Show an error. */
export function showFailure(failure, { onRetry, onToken, seconds, onHome }) {
  if (failure.kind === "token") return showTokenForm(failure, onToken);
  const again = button("Try again now", onRetry, { class: "primary" });
  if (failure.kind === "busy") return show("failure", "The service is busy", paragraph(`${failure.message} Trying again in ${seconds} s.`), again);
  if (failure.kind === "offline") return show("failure", "No connection", paragraph(`${failure.message} Trying again in ${seconds} s.`), again);
  const title = failure.kind === "missing" ? "Not found" : "The search failed";
  return show("failure", title, paragraph(failure.message), element("div", { class: "buttons" }, button("New search", onHome, { class: "quiet" })));
}

/** A form that asks for a key. */
export function tokenForm(onToken, name = "token") {
  const field = element("input", { type: "password", id: name, class: "field", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": `${name}-why` });
  const form = element("form", {
    class: "token",
    onsubmit: (event) => {
      event.preventDefault();
      onToken(field.value);
    },
  }, element("label", { for: name }, "Key"), field, element("button", { class: "primary" }, "Open"));
  form.field = field;
  return form;
}

function showTokenForm(failure, onToken) {
  const form = tokenForm(onToken);
  const wrong = /wrong|invalid|unknown/i.test(failure.message) && !/missing/i.test(failure.message);
  show("failure", "This collection is private",
    element("p", { id: "token-why" }, wrong ? "That key is wrong." : "Enter a key of this service. It is kept in this tab only."), form);
  form.field.focus();
}
