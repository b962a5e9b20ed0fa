// Requests to the service that the page came from.

import { byName } from "./address.js";

const TOKEN_KEY = "dlfh-token";

/** A failed request: "offline", "token", "busy", "missing" or "refused", with a message. */
export class Failure extends Error {
  constructor(kind, message, seconds = 0) {
    super(message);
    this.kind = kind;
    this.seconds = seconds;
  }
}

// The token is kept until the tab is closed, if the browser allows it.
let token = null;
try {
  token = sessionStorage.getItem(TOKEN_KEY);
} catch { /* storage is disabled */ }

export const hasToken = () => token !== null;

export function useToken(value) {
  token = value.trim() || null;
  try {
    if (token === null) sessionStorage.removeItem(TOKEN_KEY);
    else sessionStorage.setItem(TOKEN_KEY, token);
  } catch { /* storage is disabled */ }
}

/** Send a request; throw a Failure on any error except an abort. */
export async function request(path, options = {}) {
  const headers = new Headers(options.headers);
  if (token !== null) headers.set("Authorization", `Bearer ${token}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("offline", "The service cannot be reached.");
  }
  if (response.ok) return response;
  const message = await messageOf(response);
  if (response.status === 401) throw new Failure("token", message);
  if (response.status === 503) throw new Failure("busy", message, Number(response.headers.get("Retry-After")) || 1);
  if (response.status === 404) throw new Failure("missing", message);
  throw new Failure("refused", message);
}

async function messageOf(response) {
  try {
    const message = (await response.json()).error;
    return `${message.charAt(0).toUpperCase()}${message.slice(1)}${message.endsWith(".") ? "" : "."}`;
  } catch {
    return `The service responded with status ${response.status}.`;
  }
}

const json = async (path, options) => (await request(path, options)).json();

const send = (path, body, signal) => json(path, { method: "POST", body: JSON.stringify(body), signal, headers: { "Content-Type": "application/json" } });
const itemPath = (id) => `v1/items/${encodeURIComponent(id)}`;

export async function getCollection() {
  const about = await json("v1/collection");
  return { ...about, filters: byName(about.filters) };
}
export const getMap = () => json("v1/map");
export const getItem = (id, signal) => json(itemPath(id), { signal });
export const getItems = (start, n, signal, at = "") => json(`${at}v1/items?start=${start}&n=${n}`, { signal });
/** The collections of a service that has several. */
export const getCollections = () => json("v1/collections");
export const complete = (text, n, signal) => json(`v1/complete?q=${encodeURIComponent(text.slice(0, 200))}&n=${n}`, { signal });
export const nextToLabel = (n, signal) => json(`v1/label/next?n=${n}`, { signal });
export const suggest = (ids, signal) => send("v1/suggest", { ids, missing: true, k: 6, precision: 0.5 }, signal);

// Changes. Each response has a key for `undo`.
export const label = (ids, add, remove) => send("v1/label", { ids, add, remove });
export const addItem = (item) => send("v1/items", { items: [item] });
export const removeItems = (ids) => send("v1/remove", { ids });
/** Keep which results of a text or a picture are right and wrong. */
export const keepMarks = ({ text, image, relevant, irrelevant }) => send("v1/feedback", { ...(image === null ? { text } : { image }), relevant, irrelevant });
export const undo = (key) => send("v1/undo", { undo: key });
export const relearn = () => json("v1/relearn", { method: "POST" });

export const pictureAddress = (key) => `v1/queries/${key}`;
export const originalAddress = (id) => `${itemPath(id)}/image`;

/** Keep a picture as a query, and return its key. */
export async function keepPicture(blob, signal) {
  const form = new FormData();
  form.set("image", blob, "image");
  return (await json("v1/queries/image", { method: "POST", body: form, signal })).key;
}

/** Return results of a search from `start` on, and the state of the collection; `facets` counts values among the results. */
export async function find(search, { start = 0, k, facets = false }, signal) {
  const response = await send("v1/search", { ...query(search), ...optionsOf(search), start, k, facets }, signal);
  return { state: response.state, ...response.results[0] };
}

function query(search) {
  const text = search.text.trim() ? { text: search.text, ...(search.literal ? { literal: true } : {}) } : {};
  if (search.image !== null) return { image: search.image, ...text };
  if (search.id !== null) return { id: search.id, ...text };
  return search.code !== null ? { code: search.code } : text;
}

function optionsOf(search) {
  const options = {};
  if (search.modalities !== null) options.modalities = search.modalities;
  if (search.minProbability && hasProbabilities(search)) options.min_probability = search.minProbability;
  const filters = Object.entries(search.where);
  if (filters.length) options.where = Object.fromEntries(filters.map(([name, values]) => [name, search.all.includes(name) ? { all: values } : values]));
  if (search.relevant.length) options.relevant = search.relevant;
  if (search.irrelevant.length) options.irrelevant = search.irrelevant;
  return options;
}

/** Whether results have probabilities: searches by an item or a code have none, unless combined with a text. */
export const hasProbabilities = (search) => Boolean(search.text.trim()) || search.image !== null;
