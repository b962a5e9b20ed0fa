// Notices: no results, warnings and errors, each with the next step.

import { element, fill, percent } from "./elements.js";

const place = () => document.querySelector("#notice");

export const clearNotice = () => fill(place());

function show(kind, title, ...rest) {
  fill(place(), element("div", { class: `notice ${kind}` }, element("h2", {}, title), rest));
}

const paragraph = (text) => element("p", {}, text);
const button = (text, onclick, primary = true) => element("button", { type: "button", class: primary ? "primary" : "quiet", onclick }, text);

/** No results: no item is probable enough (`best` is the largest probability), or none matches the filters. */
export function showNothing({ minProbability, filtered, best, notes, onAny, onUnfiltered }) {
  if (minProbability && best !== null) {
    show("nothing", "No results", paragraph(`No item has a probability of ${percent(minProbability)} or more. The best one has ${percent(best)}.`),
      element("div", { class: "buttons" }, button("Show it anyway", onAny), filtered ? button("Remove the filters", onUnfiltered, false) : null));
    return;
  }
  const why = notes.length ? notes.map(sentence).join(" ") : filtered ? "No item matches the filters." : "The collection is empty.";
  show("nothing", "No results", paragraph(why),
    element("div", { class: "buttons" }, filtered ? button("Remove the filters", onUnfiltered) : null, minProbability ? button("Any probability", onAny, false) : null));
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.?!]$/.test(text) ? "" : "."}`;

/** Say how a text was understood, and why results may be unreliable; `onLiteral` searches for the text as it is. */
export function warn(messages, onLiteral) {
  fill(place(), element("p", { class: "warning" }, messages.map(sentence).join(" "),
    onLiteral ? [" ", element("button", { type: "button", class: "link", onclick: onLiteral }, "Search for exactly what I typed")] : null));
}

/** Show an error. */
export function showFailure(failure, { onRetry, onToken, seconds }) {
  if (failure.kind === "token") return showTokenForm(failure, onToken);
  if (failure.kind === "busy") {
    return show("failure", "The service is busy", paragraph(`${failure.message} Trying again in ${seconds} s.`), button("Try again now", onRetry));
  }
  if (failure.kind === "offline") {
    return show("failure", "No connection", paragraph(`${failure.message} Trying again in ${seconds} s.`), button("Try again now", onRetry));
  }
  return show("failure", "The search failed", paragraph(failure.message));
}

function showTokenForm(failure, onToken) {
  const field = element("input", {
    type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "token-why",
  });
  const form = element("form", {
    class: "token",
    onsubmit: (event) => {
      event.preventDefault();
      onToken(field.value);
    },
  }, element("label", { for: "token" }, "Token"), field, element("button", { class: "primary" }, "Open"));
  show("failure", "This collection is private",
    element("p", { id: "token-why" }, failure.message === "The token is wrong." ? "That token is wrong." : "Enter the token of this service. It is kept in this tab only."), form);
  field.focus();
}
