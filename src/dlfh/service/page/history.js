// Recent and saved searches, kept in this browser only.

import { keyOf, read } from "./address.js";
import { remember, remembered } from "./elements.js";

const MAX_RECENT = 12;

const listOf = (name) => {
  const kept = remembered(name);
  return Array.isArray(kept) ? kept.filter((each) => /^\?/.test(each?.address) && typeof each?.name === "string") : [];
};

export const recent = () => listOf("recent");
export const saved = () => listOf("saved");
export const clearRecent = () => remember("recent", null);
export const isSaved = (search) => saved().some(({ address }) => address === keyOf(search));

const filtersOf = (search) => Object.values(search.where).flat().map(String);

/** What a search is called in lists. */
export const nameOf = (search, source = null) => [search.text.trim(), source?.name, ...filtersOf(search)].filter(Boolean).join(" · ");

/** Remember a search; a text that was typed on the way to it is replaced. */
export function noteRecent(search, source) {
  const entry = { address: keyOf(search), name: nameOf(search, source) };
  if (!entry.name) return;
  const isOnTheWay = ({ address }) => {
    const before = read(address.slice(1)).text;
    return address === entry.address || (before && search.text.startsWith(before));
  };
  const [last, ...others] = recent();
  const rest = [...(last && !isOnTheWay(last) ? [last] : []), ...others.filter(({ address }) => address !== entry.address)];
  remember("recent", [entry, ...rest].slice(0, MAX_RECENT));
}

/** Save a search, or forget it if it is saved. */
export function toggleSaved(search, source) {
  const address = keyOf(search);
  const rest = saved().filter((each) => each.address !== address);
  const wasSaved = rest.length < saved().length;
  remember("saved", wasSaved ? rest : [{ address, name: nameOf(search, source) || "Search" }, ...rest]);
  return !wasSaved;
}
