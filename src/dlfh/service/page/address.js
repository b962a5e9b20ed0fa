// Searches and their addresses: a shared address shows the same search.

/** Number of results per page. */
export const PAGE_SIZE = 24;

/** Values by name, without a prototype, so that names such as "constructor" are not taken. */
export const byName = (...parts) => Object.assign(Object.create(null), ...parts);

/**
 * A search: its query (`text`, `literal` if it is not to be corrected, item `id`, `code`, or `picture`, the key of an uploaded picture, which is shared by its
 * code; a text may accompany an item or a picture), the modality to search, the smallest probability, filters, the number of results, and whether the map is shown.
 */
export const EMPTY = Object.freeze({
  text: "", literal: false, id: null, code: null, picture: null, modalities: null, minProbability: 0, where: Object.freeze(byName()), k: PAGE_SIZE, map: false,
});

export const isEmpty = (search) => !search.text.trim() && search.id === null && search.code === null && search.picture === null;

/** The same search with another query, from its first page. */
export const withQuery = (search, by) => ({ ...search, text: "", literal: false, id: null, code: null, picture: null, k: PAGE_SIZE, map: false, ...by });

export function write(search) {
  const parameters = new URLSearchParams();
  if (search.id !== null) parameters.set("id", search.id);
  else if (search.code !== null && !search.text.trim()) parameters.set("code", search.code);
  if (search.text.trim()) parameters.set("q", search.text);
  if (search.literal) parameters.set("literal", "1");
  if (search.modalities !== null) parameters.set("modalities", search.modalities);
  if (search.minProbability) parameters.set("p", String(Math.round(100 * search.minProbability)));
  for (const [name, values] of Object.entries(search.where)) {
    for (const value of values) parameters.append(`where.${name}`, serialised(value));
  }
  if (search.k !== PAGE_SIZE) parameters.set("k", String(search.k));
  if (search.map) parameters.set("view", "map");
  const written = parameters.toString();
  return written ? `?${written}` : "./";
}

/** Read an address; invalid parts are ignored. */
export function read(address, picture = null) {
  const parameters = new URLSearchParams(address);
  const where = byName();
  for (const [name, value] of parameters) {
    if (name.startsWith("where.") && name.length > 6) (where[name.slice(6)] ??= []).push(parsed(value));
  }
  const code = parameters.get("code");
  const percents = Number(parameters.get("p"));
  const k = Number(parameters.get("k"));
  return {
    text: parameters.get("q") ?? "",
    literal: parameters.get("literal") === "1",
    id: parameters.get("id") || null,
    code: code && /^([0-9a-f]{2})+$/i.test(code) ? code : null,
    picture,
    modalities: parameters.get("modalities") || null,
    minProbability: percents > 0 && percents < 100 ? percents / 100 : 0,
    where,
    k: Number.isInteger(k) && k > 0 ? k : PAGE_SIZE,
    map: parameters.get("view") === "map",
  };
}

// Filter values are written as plain text or, if that would be read as another value, as JSON.
function serialised(value) {
  return typeof value === "string" && parsed(value) === value ? value : JSON.stringify(value);
}

function parsed(text) {
  try {
    const value = JSON.parse(text);
    return ["string", "number", "boolean"].includes(typeof value) ? value : text;
  } catch {
    return text;
  }
}
