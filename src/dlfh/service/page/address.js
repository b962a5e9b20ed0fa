// Searches and their addresses: a shared address shows the same search.

/** Number of results that are loaded at a time. */
export const PAGE_SIZE = 24;

/** Values by name, without a prototype, so that names such as "constructor" are not taken. */
export const byName = (...parts) => Object.assign(Object.create(null), ...parts);

/**
 * What the page shows: a query (`text`, `literal` if it is not to be corrected, item `id`, `code`, or `image`, the key of an uploaded picture; a text may
 * accompany an item or a picture), its options (modality, smallest probability, filters, names whose filter values must all match, results marked right or
 * wrong), the `view` ("map", "label" or "" for results) and the item that is open.
 */
export const EMPTY = Object.freeze({
  text: "", literal: false, id: null, code: null, image: null, modalities: null, minProbability: 0,
  where: Object.freeze(byName()), all: Object.freeze([]), relevant: Object.freeze([]), irrelevant: Object.freeze([]), view: "", item: null,
});

export const isEmpty = (search) => !search.text.trim() && search.id === null && search.code === null && search.image === null;

/** The same options with another query; marks belong to the old one. */
export const withQuery = (search, by) => ({
  ...search, text: "", literal: false, id: null, code: null, image: null, relevant: EMPTY.relevant, irrelevant: EMPTY.irrelevant, view: "", item: null, ...by,
});

/** What identifies the results of a search: everything but the view and the open item. */
export const keyOf = (search) => write({ ...search, view: "", item: null });

export function write(search) {
  const parameters = new URLSearchParams();
  const set = (name, value) => { if (value) parameters.set(name, value); };
  set("q", search.text.trim() ? search.text : "");
  set("id", search.id);
  set("image", search.image);
  set("code", search.code);
  set("literal", search.literal ? "1" : "");
  set("modalities", search.modalities);
  set("p", search.minProbability ? String(Math.round(100 * search.minProbability)) : "");
  for (const [name, values] of Object.entries(search.where)) {
    for (const value of values) parameters.append(`where.${name}`, serialised(value));
  }
  for (const name of search.all) parameters.append("all", name);
  for (const id of search.relevant) parameters.append("right", id);
  for (const id of search.irrelevant) parameters.append("wrong", id);
  set("view", search.view);
  set("item", search.item);
  const written = parameters.toString();
  return written ? `?${written}` : "./";
}

/** Read an address; invalid parts are ignored. */
export function read(address) {
  const parameters = new URLSearchParams(address);
  const where = byName();
  for (const [name, value] of parameters) {
    if (name.startsWith("where.") && name.length > 6) (where[name.slice(6)] ??= []).push(parsed(value));
  }
  const hexadecimal = (name, form) => (form.test(parameters.get(name) ?? "") ? parameters.get(name) : null);
  const percents = Number(parameters.get("p"));
  const view = parameters.get("view");
  return {
    text: parameters.get("q") ?? "",
    literal: parameters.get("literal") === "1",
    id: parameters.get("id") || null,
    code: hexadecimal("code", /^([0-9a-f]{2})+$/i),
    image: hexadecimal("image", /^[0-9a-f]{8,64}$/),
    modalities: parameters.get("modalities") || null,
    minProbability: percents > 0 && percents < 100 ? percents / 100 : 0,
    where,
    all: parameters.getAll("all"),
    relevant: parameters.getAll("right"),
    irrelevant: parameters.getAll("wrong"),
    view: ["map", "label"].includes(view) ? view : "",
    item: parameters.get("item") || null,
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
