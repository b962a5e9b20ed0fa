// What is said instead of answers: nothing found, and whatever went wrong, each with a way on.

import { element, fill, percent } from "./elements.js";

const place = () => document.querySelector("#notice");

export const clearNotice = () => fill(place());

function show(kind, title, ...rest) {
  fill(place(), element("div", { class: `notice ${kind}` }, element("h2", {}, title), rest));
}

const says = (text) => element("p", {}, text);
const button = (text, onclick, primary = true) => element("button", { type: "button", class: primary ? "primary" : "quiet", onclick }, text);

/** No item is probable enough, or none passes the filters; `best` is how probable the best one would be. */
export function showNothing({ least, filtered, best, onAny, onUnfiltered }) {
  if (least && best !== null) {
    show("nothing", "Nothing found", says(`No item is at least ${percent(least)} probable. The best one is ${percent(best)} probable.`),
      element("div", { class: "buttons" }, button("Show it anyway", onAny), filtered ? button("Remove the filters", onUnfiltered, false) : null));
    return;
  }
  const why = filtered ? "No item has what the filters ask for." : "The collection has no items to find.";
  show("nothing", "Nothing found", says(why),
    element("div", { class: "buttons" }, filtered ? button("Remove the filters", onUnfiltered) : null, least ? button("Any probability", onAny, false) : null));
}

/** Answers that should not be believed. */
export function warn(sentence) {
  fill(place(), element("p", { class: "warning" }, `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`));
}

/** Something went wrong. */
export function showFailure(failure, { onRetry, onToken, seconds }) {
  if (failure.kind === "token") return showTokenForm(failure, onToken);
  if (failure.kind === "busy") {
    return show("failure", "The service is busy", says(`${failure.message} Asking again in ${seconds} s.`), button("Ask again now", onRetry));
  }
  if (failure.kind === "offline") {
    return show("failure", "Nobody answers", says(`${failure.message} Trying again in ${seconds} s.`), button("Try again now", onRetry));
  }
  return show("failure", "That cannot be answered", says(failure.message));
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
    element("p", { id: "token-why" }, failure.message === "The token is wrong." ? "That token is wrong." : "Whoever runs the service has its token. It is kept in this tab alone."), form);
  field.focus();
}
