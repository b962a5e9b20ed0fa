// The page: an address is a search, a search is asked, and what comes back is shown.

import { drawAbout } from "./about.js";
import { NOTHING, PAGE_SIZE, asking, asksNothing, read, write } from "./address.js";
import { drawAnswers, drawWaiting } from "./answers.js";
import { capital, count, element, fill, listed } from "./elements.js";
import { drawControls, toggled } from "./filters.js";
import { CollectionMap } from "./map.js";
import { clearNotice, showFailure, showNothing, warn } from "./notices.js";
import { listen, showQuerySource } from "./question.js";
import { Failure, find, getCollection, getItem, getMap, hasChances, useToken } from "./service.js";

const parts = Object.fromEntries(["welcome", "controls", "answers", "map", "about", "said", "name", "text", "to-map", "to-about", "home", "found"]
  .map((id) => [id, document.getElementById(id)]));

const pictures = new Map(); // what people dropped, by a key that the history of the tab holds
const remembered = new Map(); // the last results, by what was asked: going back takes no time
const MOST_REMEMBERED = 60;

let about = null;
let search = NOTHING;
let typing = false; // what is typed replaces the last address, until people pause by Enter or elsewhere
let underWay = new AbortController();
let retry = { timer: 0, tries: 0 };
let map = null;
let mapState = null;
let lastResult = null;

const say = (text) => { parts.said.textContent = text; };

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

// ---------------------------------------------------------------------------------------------------- asking

async function show(next, { again = false } = {}) {
  search = next;
  underWay.abort();
  underWay = new AbortController();
  clearTimeout(retry.timer);
  if (!again) retry.tries = 0;
  const { signal } = underWay;
  try {
    if (about === null) await meet();
    if (signal.aborted) return;
    frame();
    if (asksNothing(search)) {
      clearNotice();
      lastResult = null;
      fill(parts.answers);
      await showMap(signal);
      return;
    }
    if (!parts.answers.childElementCount) drawWaiting(parts.answers);
    parts.answers.setAttribute("aria-busy", "true");
    const [result, source] = await Promise.all([ask(search, signal), querySource(search, signal)]);
    if (signal.aborted) return;
    await showResult(result, source, signal);
  } catch (error) {
    if (!signal.aborted) failed(error);
  } finally {
    if (!signal.aborted) parts.answers.removeAttribute("aria-busy");
  }
}

/** Learn what the collection is. */
async function meet() {
  about = await getCollection();
  remembered.clear();
  parts.name.textContent = capital(about.name);
  parts.text.placeholder = `Search ${count(about.items, "item")} by words or a picture`;
  drawAbout(parts.about, about, null);
}

async function ask(asked, signal) {
  const key = JSON.stringify({ ...asked, map: false });
  const known = remembered.get(key);
  if (known) return known;
  const result = await find(asked, asked.picture === null ? null : pictures.get(asked.picture), signal);
  if (result.state !== about.state) {
    await meet(); // the collection has changed
    frame();
  }
  remembered.set(key, result);
  if (remembered.size > MOST_REMEMBERED) remembered.delete(remembered.keys().next().value);
  return result;
}

/** What asks, if it is no text: shown in the box and above the answers. */
async function querySource(asked, signal) {
  if (asked.picture !== null) return { name: "your picture", blob: pictures.get(asked.picture) };
  if (asked.id !== null) {
    const item = await getItem(asked.id, signal);
    return { name: item.id, thumbnail: item.thumbnail, item };
  }
  return asked.code === null ? null : { name: "a code" };
}

// --------------------------------------------------------------------------------------------------- showing

/** Show everything but answers. */
function frame() {
  const nothing = asksNothing(search);
  const onMap = nothing || search.map;
  parts.welcome.hidden = !nothing;
  parts.controls.hidden = nothing;
  parts.answers.hidden = onMap;
  parts.map.hidden = !onMap;
  document.body.classList.toggle("on-map", onMap);
  parts["to-map"].setAttribute("aria-pressed", String(onMap && !nothing));
  parts["to-map"].hidden = nothing;
  document.title = nothing ? about.name : `${search.text.trim() || search.id || "Picture"} · ${about.name}`;
  if (nothing) welcome();
  else drawControls(parts.controls, about, search, hasChances(search), change);
  if (nothing || search.text) showQuerySource(search.text, null);
}

function welcome() {
  const labels = (about.filters.labels ?? []).slice(0, 40);
  const step = Math.max(1, Math.floor(labels.length / 8));
  const tries = labels.filter((_, place) => place % step === 0).slice(0, 8).map(({ value }) => String(value));
  const takes = Object.values(about.modalities).map((own) => own.takes);
  fill(parts.welcome,
    element("h1", {}, "Ask with words, or with a picture."),
    element("p", {}, `${count(about.items, "item")}, found by ${about.bits}-bit codes: what is alike has a similar code. `
      + (takes.includes("images") ? "Type, drop or paste a picture, or wander on the map." : "Type, or wander on the map.")),
    tries.length ? element("div", { class: "chips" }, tries.map((label) => element("a", { class: "chip", href: write({ ...NOTHING, text: label.toLowerCase() }) }, label))) : null,
  );
}

async function showResult(result, source, signal) {
  lastResult = result;
  if (search.picture !== null && search.code === null) {
    // The picture stays here; its code can be shared.
    search = { ...search, code: result.query.code };
    remembered.set(JSON.stringify({ ...search, map: false }), result);
    history.replaceState({ picture: search.picture }, "", write(search));
  }
  if (source || search.id !== null) showQuerySource("", source, () => go(asking(search, {})));
  const { answers, warning } = result;
  if (!answers.length) {
    fill(parts.answers);
    await explainNothing(signal);
  } else {
    drawAnswers(parts.answers, { about, search, result, source, onMore: () => go({ ...search, k: search.k + PAGE_SIZE }, { replace: true }) });
    drawAbout(parts.about, about, { code: answers[0].code, query: result.query.code });
    if (warning) warn(warning);
    else clearNotice();
  }
  say(answers.length ? `${count(answers.length, "answer")}: ${listed(answers.slice(0, 3).map((answer) => answer.id))}` : "Nothing found");
  if (search.map) await showMap(signal);
}

async function explainNothing(signal) {
  const filtered = Object.keys(search.where).length > 0;
  let best = null;
  if (search.least && hasChances(search)) {
    const wider = await ask({ ...search, least: 0, k: 1 }, signal);
    if (signal.aborted) return;
    best = wider.answers[0]?.probability ?? null;
  }
  showNothing({
    least: search.least, filtered, best,
    onAny: () => change({ least: 0 }),
    onUnfiltered: () => change({ where: {} }),
  });
}

async function showMap(signal) {
  map ??= new CollectionMap(parts.map, {
    onChoose: (id) => go(asking(search, { id })),
    onLabel: (label) => change({ where: toggled(search.where, "labels", label) }),
    say,
  });
  if (mapState !== about.state) {
    parts.map.setAttribute("aria-busy", "true");
    const drawn = await getMap();
    if (mapState !== drawn.state) map.fill(drawn);
    mapState = drawn.state;
    parts.map.removeAttribute("aria-busy");
  }
  if (!signal.aborted) map.show(search, lastResult?.answers);
}

// --------------------------------------------------------------------------------------------------- failing

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
  say(error.message);
  if (error.kind === "busy" || error.kind === "offline") {
    retry.tries += 1;
    retry.timer = setTimeout(again, 1000 * seconds);
  }
}

// --------------------------------------------------------------------------------------------------- starting

listen({
  onText(text, done) {
    if (text.trim() !== search.text.trim() || (text.trim() && search.id !== null)) {
      const next = text.trim() ? asking(search, { text }) : asking(search, {});
      go({ ...next, map: search.map && !asksNothing(search) }, { replace: typing });
    }
    typing = !done;
  },
  onPicture(blob) {
    typing = false;
    const key = `${Date.now()}-${pictures.size}`;
    pictures.set(key, blob);
    go(asking(search, { picture: key }));
  },
  onDrop() {
    go(asking(search, {}));
    parts.text.focus();
  },
});

// Links within the page are searches; other ways to open them (a new tab) stay what they are.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const target = new URL(link.href);
  if (target.origin !== location.origin || target.pathname !== location.pathname || target.hash) return;
  event.preventDefault();
  typing = false;
  go(read(target.search));
  if (link.id === "home") parts.text.focus();
  else parts.found.focus({ preventScroll: true });
});

parts["to-map"].addEventListener("click", () => go({ ...search, map: !search.map }));
parts["to-about"].addEventListener("click", () => { if (about) parts.about.showModal(); });
parts.about.addEventListener("click", (event) => { if (event.target === parts.about) parts.about.close(); });
window.addEventListener("popstate", () => {
  typing = false;
  const next = current();
  parts.text.value = next.text;
  show(next);
});
window.addEventListener("online", () => { if (retry.tries) show(search, { again: true }); });

search = current();
parts.text.value = search.text;
show(search);
