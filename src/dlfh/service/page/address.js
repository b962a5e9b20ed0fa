// A search, and the address that holds it: what one person sees, another sees by the same address.

/** How many answers there are at first, and how many more at a time. */
export const PAGE_SIZE = 24;

/**
 * A search: what asks (a text, an item's id, or a code; `picture` is a key of one that was dropped here, and its code
 * stands for it elsewhere), what is searched, how probable answers must be, filters, how many, and what is looked at.
 */
export const NOTHING = Object.freeze({
  text: "", id: null, code: null, picture: null, modalities: null, least: 0, where: Object.freeze({}), k: PAGE_SIZE, map: false,
});

export const asksNothing = (search) => !search.text.trim() && search.id === null && search.code === null && search.picture === null;

/** The same search asked by something else, from its first answers. */
export const asking = (search, by) => ({ ...search, text: "", id: null, code: null, picture: null, k: PAGE_SIZE, map: false, ...by });

export function write(search) {
  const words = new URLSearchParams();
  if (search.id !== null) words.set("id", search.id);
  else if (search.code !== null) words.set("code", search.code);
  else if (search.text.trim()) words.set("q", search.text);
  if (search.modalities !== null) words.set("modalities", search.modalities);
  if (search.least) words.set("p", String(Math.round(100 * search.least)));
  for (const [name, values] of Object.entries(search.where)) {
    for (const value of values) words.append(`where.${name}`, plain(value));
  }
  if (search.k !== PAGE_SIZE) words.set("k", String(search.k));
  if (search.map) words.set("view", "map");
  const written = words.toString();
  return written ? `?${written}` : "./";
}

/** Read an address; what makes no sense in it is as if it were not there. */
export function read(address, picture = null) {
  const words = new URLSearchParams(address);
  const where = {};
  for (const [name, value] of words) {
    if (name.startsWith("where.") && name.length > 6) (where[name.slice(6)] ??= []).push(meant(value));
  }
  const code = words.get("code");
  const percents = Number(words.get("p"));
  const k = Number(words.get("k"));
  return {
    text: words.get("q") ?? "",
    id: words.get("id") || null,
    code: code && /^([0-9a-f]{2})+$/i.test(code) ? code : null,
    picture,
    modalities: words.get("modalities") || null,
    least: percents > 0 && percents < 100 ? percents / 100 : 0,
    where,
    k: Number.isInteger(k) && k > 0 ? k : PAGE_SIZE,
    map: words.get("view") === "map",
  };
}

// Values are of several types, and most are words: these are written as they are, others as JSON has them.
function plain(value) {
  return typeof value === "string" && meant(value) === value ? value : JSON.stringify(value);
}

function meant(written) {
  try {
    const value = JSON.parse(written);
    return ["string", "number", "boolean"].includes(typeof value) ? value : written;
  } catch {
    return written;
  }
}
