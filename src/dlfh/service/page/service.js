// Asks the service that the page came from, and nobody else.

const KEPT = "dlfh-token";

/** Why there is no answer: "offline", "token", "busy" or "refused", with one sentence. */
export class Failure extends Error {
  constructor(kind, sentence, seconds = 0) {
    super(sentence);
    this.kind = kind;
    this.seconds = seconds;
  }
}

// The token is kept until the tab is closed, where the browser allows it.
let token = null;
try {
  token = sessionStorage.getItem(KEPT);
} catch { /* it is asked for again */ }

export const hasToken = () => token !== null;

export function useToken(value) {
  token = value.trim() || null;
  try {
    if (token === null) sessionStorage.removeItem(KEPT);
    else sessionStorage.setItem(KEPT, token);
  } catch { /* it is asked for again */ }
}

/** Ask, and return the response; whatever goes wrong is a Failure, unless it was called off. */
export async function ask(path, options = {}) {
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
  const sentence = await sentenceOf(response);
  if (response.status === 401) throw new Failure("token", sentence);
  if (response.status === 503) throw new Failure("busy", sentence, Number(response.headers.get("Retry-After")) || 1);
  throw new Failure("refused", sentence);
}

async function sentenceOf(response) {
  try {
    const sentence = (await response.json()).error;
    return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}${sentence.endsWith(".") ? "" : "."}`;
  } catch {
    return `The service answered with status ${response.status}.`;
  }
}

const json = async (path, options) => (await ask(path, options)).json();

export const getCollection = () => json("v1/collection");
export const getMap = () => json("v1/map");
export const getItem = (id, signal) => json(`v1/items/${encodeURIComponent(id)}`, { signal });

/** Return what a search finds: its one result, and the state of the collection that it is of. */
export async function find(search, picture, signal) {
  const byPicture = picture !== null;
  const body = byPicture ? form(picture, optionsOf(search)) : JSON.stringify({ ...query(search), ...optionsOf(search) });
  const headers = byPicture ? {} : { "Content-Type": "application/json" };
  const found = await json(byPicture ? "v1/search/image" : "v1/search", { method: "POST", body, headers, signal });
  return { state: found.state, ...found.results[0] };
}

function form(picture, options) {
  const parts = new FormData();
  parts.set("image", picture, "image");
  parts.set("options", JSON.stringify(options));
  return parts;
}

function query(search) {
  if (search.id !== null) return { id: search.id };
  if (search.code !== null) return { code: search.code };
  return { text: search.text };
}

function optionsOf(search) {
  const options = { k: search.k };
  if (search.modalities !== null) options.modalities = search.modalities;
  if (search.least && hasChances(search)) options.min_probability = search.least;
  if (Object.keys(search.where).length) options.where = search.where;
  return options;
}

/** Whether answers can have probabilities: items and codes are compared by codes alone. */
export const hasChances = (search) => search.id === null && (search.code === null || search.picture !== null);
