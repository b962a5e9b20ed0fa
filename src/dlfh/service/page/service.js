// Requests to the service that the page came from.

const TOKEN_KEY = "dlfh-token";

/** A failed request: "offline", "token", "busy" or "refused", with a message. */
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

export const getCollection = () => json("v1/collection");
export const getMap = () => json("v1/map");
export const getItem = (id, signal) => json(`v1/items/${encodeURIComponent(id)}`, { signal });

/** Return the result of a search, and the state of the collection. */
export async function find(search, picture, signal) {
  const byPicture = picture !== null;
  const body = byPicture ? form(picture, { ...textOf(search), ...optionsOf(search) }) : JSON.stringify({ ...query(search), ...optionsOf(search) });
  const headers = byPicture ? {} : { "Content-Type": "application/json" };
  const response = await json(byPicture ? "v1/search/image" : "v1/search", { method: "POST", body, headers, signal });
  return { state: response.state, ...response.results[0] };
}

function form(picture, options) {
  const parts = new FormData();
  parts.set("image", picture, "image");
  parts.set("options", JSON.stringify(options));
  return parts;
}

function query(search) {
  if (search.id !== null) return { id: search.id, ...textOf(search) };
  return search.code !== null ? { code: search.code } : textOf(search);
}

function textOf(search) {
  if (!search.text.trim()) return {};
  return search.literal ? { text: search.text, literal: true } : { text: search.text };
}

function optionsOf(search) {
  const options = { k: search.k };
  if (search.modalities !== null) options.modalities = search.modalities;
  if (search.minProbability && hasProbabilities(search)) options.min_probability = search.minProbability;
  if (Object.keys(search.where).length) options.where = search.where;
  return options;
}

/** Whether results have probabilities: searches by an item or a code have none, unless combined with a text. */
export const hasProbabilities = (search) => Boolean(search.text.trim()) || search.id === null && (search.code === null || search.picture !== null);
