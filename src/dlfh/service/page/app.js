// The page: reads the address, and shows the start page, results, an item, the map or items to label.

import { drawAbout } from "./about.js";
import { EMPTY, isEmpty, keyOf, read, withQuery, write } from "./address.js";
import { drawWaiting } from "./answers.js";
import { listenForCompletions } from "./completion.js";
import { Editor } from "./editing.js";
import { capital, count, fill } from "./elements.js";
import { nameOf, noteRecent } from "./history.js";
import { drawMenu, listenToMenu } from "./menu.js";
import { clearNotice, showFailure } from "./notices.js";
import { drawRefinements, firstResults, forgetResults, listKey, querySource, showHome, showResults } from "./results.js";
import { listen, showQuerySource } from "./searchbox.js";
import { Failure, getCollection, keepPicture, useToken } from "./service.js";
import { announce, page, parts } from "./state.js";
import { toast } from "./toast.js";
import { showItem, showMap, showTagging } from "./views.js";

let typing = false; // while typing, the address is replaced instead of added to the history
let typed = null; // the text in the box while results for its completion are shown
let retry = { timer: 0, tries: 0 };
let scrolled = 0; // where the results were when an item was opened

const editor = new Editor({
  list: () => (page.search.item === null && page.search.view === "" ? page.list : null),
  known: () => (page.about?.filters.labels ?? []).map(({ value }) => String(value)),
  changed, restored, mark, announce,
});
Object.assign(page, { editor, go, change: (part, replace = false) => go({ ...page.search, item: null, ...part }, { replace }) });

// ------------------------------------------------------------------------------------------------ addresses

function go(next, { replace = false, completes = false } = {}) {
  if (page.search.item === null && next.item !== null) scrolled = scrollY;
  const entry = [{ inner: replace ? history.state?.inner ?? false : true }, "", write(next)];
  if (replace) history.replaceState(...entry);
  else history.pushState(...entry);
  const isShown = page.about !== null && listKey(next) === page.shown && next.item === null && next.view === "";
  show(next, { completes });
  if (!replace && !typing && !isShown) window.scrollTo(0, 0);
}

/** Leave an item or a view: go back if the user came from this page, else to the results. */
function leave() {
  if (history.state?.inner) history.back();
  else go({ ...page.search, item: null, view: "" }, { replace: true });
}

// ---------------------------------------------------------------------------------------------------- showing

async function show(next, { again = false, completes = false } = {}) {
  const from = page.search;
  typed = null;
  page.search = next;
  page.pending.abort();
  page.pending = new AbortController();
  clearTimeout(retry.timer);
  if (!again) retry.tries = 0;
  const { signal } = page.pending;
  try {
    if (page.about === null) await loadCollection();
    if (signal.aborted) return;
    frame();
    if (next.view === "label") await showTagging(signal, leave);
    else if (next.item !== null) await showItem(signal, { leave, mark, entitle });
    else await showList(signal, from, completes);
  } catch (error) {
    if (!signal.aborted) failed(error);
  } finally {
    if (!signal.aborted) for (const part of [parts.answers, parts.item, parts.map]) part.removeAttribute("aria-busy");
  }
}

async function loadCollection() {
  const about = await getCollection();
  page.about = about;
  forgetResults();
  editor.mayWrite = about.writable && about.role !== "read";
  parts.name.textContent = capital(about.name);
  const images = Object.values(about.modalities).some(({ takes }) => takes === "images");
  parts.text.placeholder = `Search ${count(about.items, "item")}${images ? " by words or a picture" : ""}`;
  document.querySelector(".choose").hidden = !images;
  drawAbout(parts.about, about, null);
}

/** Show everything but the contents. */
function frame() {
  const { about, search } = page;
  const empty = isEmpty(search);
  const view = search.item !== null ? "item" : search.view || (empty ? "start" : "results");
  parts.start.hidden = view !== "start";
  parts.controls.hidden = view !== "results";
  parts.answers.hidden = view !== "results" && view !== "start";
  parts.item.hidden = view !== "item";
  parts.tagging.hidden = view !== "label";
  parts.map.hidden = view !== "map";
  document.body.classList.toggle("on-map", view === "map");
  if (view !== "results") clearNotice();
  if (editor.selected.size) editor.clear();
  drawMenu(about, search);
  if (search.id === null && search.image === null && search.code === null) showQuerySource(search.text, page.source = null);
  entitle({ label: "What to label next", map: empty ? "Map" : null }[view] ?? (view === "start" ? "" : nameOf(search, page.source)));
}

const entitle = (name) => { document.title = name ? `${name} · ${page.about.name}` : page.about.name; };

async function showList(signal, from, completes) {
  const { search } = page;
  if (listKey(search) === page.shown && search.view === "") { // back from an item: everything is still there
    if (!isEmpty(search)) drawRefinements();
    window.scrollTo(0, scrolled);
    if (from.item !== null) page.list.card(from.item)?.focus({ preventScroll: true });
    return;
  }
  if (isEmpty(search)) {
    if (search.view === "map") await showMap(signal, null);
    else await showHome(signal);
    return;
  }
  if (page.shown === null) drawWaiting(parts.answers);
  parts.answers.setAttribute("aria-busy", "true");
  const stale = async () => {
    await loadCollection();
    if (!signal.aborted) frame();
  };
  const [result, source] = await Promise.all([firstResults(search, signal, { onStale: stale, completes }), querySource(search, signal)]);
  if (signal.aborted) return;
  if (result.typed !== undefined) adopt(result);
  page.source = source;
  if (source) showQuerySource(search.text, source, removeSource);
  entitle(nameOf(search, source));
  if (search.view === "map") await showMap(signal, result.answers);
  else await showResults(result, signal);
}

/** Results are for a completed text: so is the address, and the box once the user leaves it. */
function adopt(result) {
  typed = result.typed;
  page.search = { ...page.search, text: result.text };
  history.replaceState(history.state, "", write(page.search));
}

function removeSource() {
  go(withQuery(page.search, { text: page.search.text }));
  parts.text.focus();
}

// --------------------------------------------------------------------------------------------------- changes

/** Show a change of items without searching again; after a change of everything, the list is loaded again. */
function changed({ items = [], removed = [], everything = false }) {
  for (const item of items) page.list?.replace(item);
  if (removed.length) page.list?.remove(removed);
  forgetResults();
  if (everything) page.shown = null;
  const key = page.shown;
  const before = page.about.state;
  getCollection().then((about) => {
    page.about = about;
    if (key !== null && page.shown === key) page.shown = key.slice(0, -before.length) + about.state; // the list shows the change already
    if (page.list) page.list.about = about;
  }, () => {});
}

/** Show the state after an undo or after items were added. */
async function restored() {
  const y = scrollY;
  page.about = null;
  page.shown = null;
  await show(page.search);
  window.scrollTo(0, y);
}

/** Mark results as right or wrong, and rank again; a mark that is set is removed. */
function mark(ids, kind) {
  const { search } = page;
  const [name, other] = kind === "right" ? ["relevant", "irrelevant"] : ["irrelevant", "relevant"];
  const isSet = ids.every((id) => search[name].includes(id));
  const rest = search[name].filter((id) => !ids.includes(id));
  go({ ...search, [name]: isSet ? rest : [...rest, ...ids], [other]: search[other].filter((id) => !ids.includes(id)), item: null }, { replace: search.item === null });
  const what = isSet ? "Mark removed." : `Marked ${count(ids.length, "item")} as ${kind}.`;
  announce(what);
  toast(what, () => go({ ...search, item: null }, { replace: true }));
}

// --------------------------------------------------------------------------------------------------- errors

function failed(error) {
  if (!(error instanceof Failure)) throw error;
  page.list?.close();
  Object.assign(page, { list: null, shown: null });
  fill(parts.answers);
  for (const part of [parts.start, parts.item, parts.map, parts.tagging, parts.controls]) part.hidden = true;
  const again = () => show(page.search, { again: true });
  const seconds = error.kind === "busy" ? error.seconds : Math.min(30, 2 ** (retry.tries + 1));
  showFailure(error, {
    seconds,
    onRetry: again,
    onHome: () => go(EMPTY),
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

const adding = async (files) => {
  if (!editor.mayWrite) return;
  const takesTexts = Object.values(page.about.modalities).some(({ takes }) => takes === "texts");
  const { addPictures } = await import("./adding.js");
  addPictures(files, { editor, takesTexts, onAdded: restored });
};

/** Search for a text. Unless it is `done`, its last word may be completed; `exact` takes a completion back. */
function searchText(text, done, exact = false) {
  const { search } = page;
  const isReplacing = typing;
  typing = !done;
  if (text === typed && !exact) {
    if (done) parts.text.value = search.text;
  } else if (text.trim() !== search.text.trim()) {
    const { id, image } = search; // words beside an item or a picture: items must match both
    const next = withQuery(search, { text: text.trim() ? text : "", id, image });
    go({ ...next, view: search.view === "map" ? "map" : "" }, { replace: isReplacing, completes: !done });
  }
  if (done && !isEmpty(page.search)) noteRecent(page.search, page.source);
}

const completions = listenForCompletions(parts.text, document.getElementById("completions-panel"), {
  onText: (text) => searchText(text, true),
  onAddress(address) {
    const next = read(address.replace(/^[^?]*/, ""));
    parts.text.value = next.text;
    go(next);
  },
});

listen({
  onText: searchText,
  async onPicture(blob) {
    typing = false;
    completions.close();
    showQuerySource(page.search.text, { name: "your picture", blob }, removeSource);
    try {
      const image = await keepPicture(blob);
      go(withQuery(page.search, { image }));
    } catch (error) {
      failed(error);
    }
  },
  onRemove: removeSource,
  onAdd: adding,
  mayAdd: () => editor.mayWrite,
});

listenToMenu({
  isReady: () => page.about !== null,
  onAdd: () => adding([]),
  onToken: () => {
    Object.assign(page, { about: null, shown: null });
    show(page.search);
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
  if (!isEmpty(page.search) && page.search.item === null) noteRecent(page.search, page.source);
  go(read(target.search), { replace: link.hasAttribute("data-replace") });
  if (link.id === "home") parts.text.focus();
  else if (!link.matches("a.card, [data-replace]")) parts.results.focus({ preventScroll: true });
});

document.addEventListener("keydown", (event) => {
  if (parts.item.hidden || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, dialog, [popover], a.card")) return;
  const step = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  if (event.key === "Escape") leave();
  else if (step) parts.item.querySelector(`a[rel=${step}]`)?.click();
  else return;
  event.preventDefault();
});

history.scrollRestoration = "manual";
window.addEventListener("popstate", () => {
  typing = false;
  const next = read(location.search);
  if (page.search.item === null && page.search.view === "" && next.item !== null) scrolled = scrollY;
  parts.text.value = next.text;
  show(next);
});
window.addEventListener("online", () => { if (retry.tries) show(page.search, { again: true }); });

page.search = read(location.search);
parts.text.value = page.search.text;
if (write(page.search) === "./" && matchMedia("(hover: hover)").matches) parts.text.focus();
show(page.search);
