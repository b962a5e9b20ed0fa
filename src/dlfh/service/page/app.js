// The page: reads the search from the address, runs it, and shows its results.

import { drawAbout } from "./about.js";
import { EMPTY, PAGE_SIZE, isEmpty, read, withQuery, write } from "./address.js";
import { drawAnswers, drawWaiting } from "./answers.js";
import { capital, count, element, fill, listed } from "./elements.js";
import { drawControls, toggled } from "./filters.js";
import { CollectionMap } from "./map.js";
import { clearNotice, showFailure, showNothing, warn } from "./notices.js";
import { listen, showQuerySource } from "./searchbox.js";
import { Failure, find, getCollection, getItem, getMap, hasProbabilities, useToken } from "./service.js";

const parts = Object.fromEntries(["welcome", "controls", "answers", "map", "about", "status", "name", "text", "to-map", "to-details", "to-about", "home", "results"]
  .map((id) => [id, document.getElementById(id)]));

const pictures = new Map(); // uploaded pictures, by keys in the history of the tab
const cache = new Map(); // the last results, by search, so that going back is instant
const MAX_CACHED = 60;
const DETAILS_KEY = "dlfh-details";

let about = null;
let search = EMPTY;
let typing = false; // while typing, the address is replaced instead of added to the history
let pending = new AbortController();
let retry = { timer: 0, tries: 0 };
let map = null;
let mapState = null;
let lastResult = null;

const announce = (text) => { parts.status.textContent = text; };

// ------------------------------------------------------------------------------------------------ addresses

function go(next, { replace = false } = {}) {
  const entry = [{ picture: next.picture }, "", write(next)];
  if (replace) history.replaceState(...entry);
  else history.pushState(...entry);
  show(next);
  if (!replace && !typing) window.scrollTo(0, 0);
}

function current() {
  const key = history.state?.picture ?? null;
  return read(location.search, pictures.has(key) ? key : null);
}

const change = (part, replace = false) => go({ ...search, k: PAGE_SIZE, ...part }, { replace });

// ---------------------------------------------------------------------------------------------------- searching

async function show(next, { again = false } = {}) {
  search = next;
  pending.abort();
  pending = new AbortController();
  clearTimeout(retry.timer);
  if (!again) retry.tries = 0;
  const { signal } = pending;
  try {
    if (about === null) await loadCollection();
    if (signal.aborted) return;
    frame();
    if (isEmpty(search)) {
      clearNotice();
      lastResult = null;
      fill(parts.answers);
      await showMap(signal);
      return;
    }
    if (!parts.answers.childElementCount) drawWaiting(parts.answers);
    parts.answers.setAttribute("aria-busy", "true");
    const [result, source] = await Promise.all([run(search, signal), querySource(search, signal)]);
    if (signal.aborted) return;
    await showResult(result, source, signal);
  } catch (error) {
    if (!signal.aborted) failed(error);
  } finally {
    if (!signal.aborted) parts.answers.removeAttribute("aria-busy");
  }
}

/** Load the description of the collection. */
async function loadCollection() {
  about = await getCollection();
  cache.clear();
  parts.name.textContent = capital(about.name);
  parts.text.placeholder = `Search ${count(about.items, "item")} by words or a picture`;
  drawAbout(parts.about, about, null);
}

async function run(search, signal) {
  const key = JSON.stringify({ ...search, map: false });
  const cached = cache.get(key);
  if (cached) return cached;
  const result = await find(search, search.picture === null ? null : pictures.get(search.picture), signal);
  if (result.state !== about.state) {
    await loadCollection(); // it has changed
    frame();
  }
  cache.set(key, result);
  if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value);
  return result;
}

/** A query that is not a text, to show in the box and above the results. */
async function querySource(search, signal) {
  if (search.picture !== null) return { name: "your picture", blob: pictures.get(search.picture) };
  if (search.id !== null) {
    const item = await getItem(search.id, signal);
    return { name: item.id, thumbnail: item.thumbnail, item };
  }
  return search.code === null ? null : { name: "shared search" };
}

// --------------------------------------------------------------------------------------------------- display

/** Show everything but the results. */
function frame() {
  const empty = isEmpty(search);
  const onMap = empty || search.map;
  parts.welcome.hidden = !empty;
  parts.controls.hidden = empty;
  parts.answers.hidden = onMap;
  parts.map.hidden = !onMap;
  document.body.classList.toggle("on-map", onMap);
  parts["to-map"].setAttribute("aria-pressed", String(onMap && !empty));
  parts["to-map"].hidden = empty;
  document.title = empty ? about.name : `${search.text.trim() || search.id || "Picture"} · ${about.name}`;
  if (empty) welcome();
  else drawControls(parts.controls, about, search, hasProbabilities(search), change);
  if (empty || (search.text && search.id === null && search.picture === null)) showQuerySource(search.text, null);
}

function welcome() {
  const labels = (about.filters.labels ?? []).slice(0, 40);
  const step = Math.max(1, Math.floor(labels.length / 8));
  const examples = labels.filter((_, place) => place % step === 0).slice(0, 8).map(({ value }) => String(value));
  const kinds = Object.values(about.modalities).map((modality) => modality.takes);
  fill(parts.welcome,
    element("h1", {}, kinds.includes("images") ? "Search by words or by a picture." : "Search by words."),
    element("p", {}, `${count(about.items, "item")}. `
      + (kinds.includes("images") ? "Type, drop or paste a picture, or explore the map." : "Type, or explore the map.")),
    examples.length ? element("div", { class: "chips" }, examples.map((label) => element("a", { class: "chip", href: write({ ...EMPTY, text: label.toLowerCase() }) }, label))) : null,
  );
}

async function showResult(result, source, signal) {
  lastResult = result;
  if (search.picture !== null && search.code === null) {
    // The address contains the code of the picture, so that the search can be shared.
    search = { ...search, code: result.query.code };
    cache.set(JSON.stringify({ ...search, map: false }), result);
    history.replaceState({ picture: search.picture }, "", write(search));
  }
  if (source || search.id !== null) showQuerySource(search.text, source, () => go(withQuery(search, { text: search.text })));
  const { answers, warning, notes, understanding } = result;
  const changed = understanding && understanding.text !== search.text;
  if (!answers.length) {
    fill(parts.answers);
    await explainNoResults(signal, warning ? [...notes, warning] : notes);
  } else {
    drawAnswers(parts.answers, { about, search, result, source, onMore: () => go({ ...search, k: search.k + PAGE_SIZE }, { replace: true }) });
    drawAbout(parts.about, about, { code: answers[0].code, query: result.query.code });
    if (warning || notes.length) warn(warning ? [...notes, warning] : notes, changed ? () => go({ ...search, literal: true }) : null);
    else clearNotice();
  }
  announce(answers.length ? `${count(answers.length, "result")}: ${listed(answers.slice(0, 3).map((answer) => answer.id))}` : "No results");
  if (search.map) await showMap(signal);
}

async function explainNoResults(signal, notes) {
  const filtered = Object.keys(search.where).length > 0;
  let best = null;
  if (search.minProbability && hasProbabilities(search)) {
    const wider = await run({ ...search, minProbability: 0, k: 1 }, signal);
    if (signal.aborted) return;
    best = wider.answers[0]?.probability ?? null;
  }
  showNothing({
    minProbability: search.minProbability, filtered, best, notes,
    onAny: () => change({ minProbability: 0 }),
    onUnfiltered: () => change({ where: EMPTY.where }),
  });
}

async function showMap(signal) {
  map ??= new CollectionMap(parts.map, {
    onChoose: (id) => go(withQuery(search, { id })),
    onLabel: (label) => change({ where: toggled(search.where, "labels", label) }),
    announce,
  });
  if (mapState !== about.state) {
    parts.map.setAttribute("aria-busy", "true");
    const loaded = await getMap();
    if (mapState !== loaded.state) map.fill(loaded);
    mapState = loaded.state;
    parts.map.removeAttribute("aria-busy");
  }
  if (!signal.aborted) map.show(search, lastResult?.answers);
}

/** Show or hide details: codes, distances and the model. */
function showDetails(shown) {
  document.body.classList.toggle("with-details", shown);
  parts["to-details"].setAttribute("aria-pressed", String(shown));
  try {
    localStorage.setItem(DETAILS_KEY, String(shown));
  } catch { /* storage is disabled */ }
}

function readDetails() {
  try {
    return localStorage.getItem(DETAILS_KEY) === "true";
  } catch {
    return false;
  }
}

// --------------------------------------------------------------------------------------------------- errors

function failed(error) {
  if (!(error instanceof Failure)) throw error;
  fill(parts.answers);
  parts.welcome.hidden = true;
  parts.map.hidden = true;
  const again = () => show(search, { again: true });
  const seconds = error.kind === "busy" ? error.seconds : Math.min(30, 2 ** (retry.tries + 1));
  showFailure(error, {
    seconds,
    onRetry: again,
    onToken: (token) => {
      useToken(token);
      again();
    },
  });
  announce(error.message);
  if (error.kind === "busy" || error.kind === "offline") {
    retry.tries += 1;
    retry.timer = setTimeout(again, 1000 * seconds);
  }
}

// --------------------------------------------------------------------------------------------------- start

listen({
  onText(text, done) {
    if (text.trim() !== search.text.trim()) {
      const { id, picture } = search; // words beside an item or a picture: items must match both
      const next = withQuery(search, { text: text.trim() ? text : "", id, picture });
      go({ ...next, map: search.map && !isEmpty(search) }, { replace: typing });
    }
    typing = !done;
  },
  onPicture(blob) {
    typing = false;
    const key = `${Date.now()}-${pictures.size}`;
    pictures.set(key, blob);
    go(withQuery(search, { picture: key }));
  },
  onRemove() {
    go(withQuery(search, { text: search.text }));
    parts.text.focus();
  },
});

// Links within the page are searches. Opening them in a new tab works as usual.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const target = new URL(link.href);
  if (target.origin !== location.origin || target.pathname !== location.pathname || target.hash) return;
  event.preventDefault();
  typing = false;
  go(read(target.search));
  if (link.id === "home") parts.text.focus();
  else parts.results.focus({ preventScroll: true });
});

parts["to-map"].addEventListener("click", () => go({ ...search, map: !search.map }));
parts["to-details"].addEventListener("click", () => showDetails(parts["to-details"].getAttribute("aria-pressed") !== "true"));
parts["to-about"].addEventListener("click", () => { if (about) parts.about.showModal(); });
parts.about.addEventListener("click", (event) => { if (event.target === parts.about) parts.about.close(); });
window.addEventListener("popstate", () => {
  typing = false;
  const next = current();
  parts.text.value = next.text;
  show(next);
});
window.addEventListener("online", () => { if (retry.tries) show(search, { again: true }); });

showDetails(readDetails());
search = current();
parts.text.value = search.text;
show(search);
