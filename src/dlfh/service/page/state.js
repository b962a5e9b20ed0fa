// What the page shows now. Its parts change it; `app.js` sets the functions that change the address.

import { EMPTY } from "./address.js";

export const parts = Object.fromEntries(["start", "controls", "answers", "item", "tagging", "map", "about", "status", "name", "text", "home", "results"]
  .map((id) => [id, document.getElementById(id)]));

export const page = {
  about: null, // the collection
  search: EMPTY,
  source: null, // a query that is not a text: { name, thumbnail, item }
  list: null, // the results or items on the screen
  shown: null, // the key of what `list` shows
  pending: new AbortController(), // of the requests for the current address
  editor: null,
  /** Show another search; `replace` replaces the entry in the history. */
  go: (search, { replace } = {}) => undefined,
  /** Change a part of the search. */
  change: (part, replace) => undefined,
};

export const announce = (text) => { parts.status.textContent = text; };
