// Search results and the start page, both lists of items.

import { drawAbout } from "./about.js";
import { EMPTY, PAGE_SIZE, keyOf } from "./address.js";
import { AnswerList, codeOfQuery, drawWaiting } from "./answers.js";
import { count, element, fill, listed, number } from "./elements.js";
import { completeLastWord, lastWord } from "./completion.js";
import { drawControls } from "./filters.js";
import { isSaved, nameOf, toggleSaved } from "./history.js";
import { drawHome, examplesOf } from "./home.js";
import { closestNote, explain, showNothing } from "./notices.js";
import { find, getItem, getItems, hasProbabilities, keepMarks, pictureAddress } from "./service.js";
import { announce, page, parts } from "./state.js";
import { toast } from "./toast.js";

const MAX_RESULTS = 1000;
const MAX_CACHED = 40;
const COUNT_PAUSE = 150;
const cache = new Map(); // first results, by search, so that going back is instant
let facets = null;

/** The key of a list: its search and the state of the collection. */
export const listKey = (search) => keyOf(search) + page.about.state;

export const forgetResults = () => cache.clear();

/** The first results of a search. `onStale` is called if the collection has changed; `completes` completes the last word if it is unknown. */
export async function firstResults(search, signal, { onStale, completes = false }) {
  const key = keyOf(search);
  if (!cache.has(key)) {
    const result = await find(search, { k: PAGE_SIZE }, signal);
    if (result.state !== page.about.state && !signal.aborted) await onStale();
    cache.set(key, result);
    if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value);
  }
  const found = cache.get(key);
  if (!completes || search.literal || !isUnknown(lastWord(search.text).word, found)) return found;
  const text = await completeLastWord(search.text, signal);
  return text === null ? found : { ...await firstResults({ ...search, text }, signal, { onStale }), typed: search.text, text };
}

/** Whether a word is not one of the collection, and may therefore be the beginning of one. */
function isUnknown(word, { understanding }) {
  const { corrected = {}, alternatives = {}, unknown = [] } = understanding ?? {};
  return word.length > 1 && [...Object.keys(corrected), ...Object.keys(alternatives), ...unknown].includes(word.toLowerCase());
}

/** A query that is not a text, to show in the box. */
export async function querySource(search, signal) {
  if (search.image !== null) return { name: "your picture", thumbnail: pictureAddress(search.image) };
  if (search.id !== null) {
    const item = await getItem(search.id, signal);
    return { name: item.title, thumbnail: item.thumbnail, item };
  }
  return search.code === null ? null : { name: "a code" };
}

export async function showResults(result, signal) {
  const { about, search, source, editor } = page;
  const { answers, query } = result;
  facets = null;
  const heading = element("h1", { class: "unseen", id: "heading", tabindex: -1 }, `Results for ${nameOf(search, source) || "this search"}`);
  replaceList(new AnswerList(parts.answers, {
    about, search, query, editor, max: MAX_RESULTS, head: element("header", { class: "head" }, heading, codeOfQuery(about, query)), note: closestNote(result), onGrow: drawSummary,
    load: async (start) => {
      const k = Math.min(PAGE_SIZE, MAX_RESULTS - start);
      const next = await find(search, { start, k }, page.pending.signal).catch(failedPage);
      return next && { items: next.answers, ended: next.answers.length < k };
    },
  }));
  page.list.add(answers, answers.length < PAGE_SIZE);
  if (answers.length) {
    explain(search, result);
    drawAbout(parts.about, about, { code: answers[0].code, query: query.code });
  } else {
    fill(parts.answers, heading);
    await explainNoResults(signal, result);
    if (signal.aborted) return;
  }
  drawRefinements();
  announce(answers.length ? `${count(answers.length, "result")}: ${listed(answers.slice(0, 3).map(({ title }) => title))}` : "No results");
  setTimeout(countValues, COUNT_PAUSE, search, signal);
}

/** Count the labels and columns of the results, unless the user types on. */
async function countValues(search, signal) {
  if (signal.aborted) return;
  const counted = await find(search, { k: 1, facets: true }, signal).catch(() => null); // counts are optional
  if (signal.aborted || !counted) return;
  facets = counted.facets ?? null;
  drawRefinements();
}

function replaceList(next) {
  page.list?.close();
  page.list = next;
  page.shown = listKey(page.search);
}

/** A page that cannot be loaded while scrolling is reported; scrolling again retries. */
function failedPage(error) {
  if (error.name !== "AbortError") toast(error.message);
  return null;
}

function summary() {
  const { list, search, source } = page;
  if (!list.items.length) return "";
  if (!hasProbabilities(search) || list.items[0].probability === null) return source ? `Similar to ${source.name}` : "Results";
  const { n, more } = list.likely();
  return n ? `${number(n)}${more ? "+" : ""} likely ${n === 1 && !more ? "result" : "results"}` : "No likely result";
}

function drawSummary() {
  const place = document.querySelector("#summary");
  if (place) place.textContent = summary();
}

/** Draw the row above the results. */
export function drawRefinements() {
  const { about, search, source, change, editor, list } = page;
  const { n, more } = list.likely();
  drawControls(parts.controls, {
    about, search, facets, total: list.items[0]?.probability === null ? facets?.counted ?? null : more ? null : n, summary: summary(), hasProbabilities: hasProbabilities(search), isSaved: isSaved(search), change,
    onKeep: editor.mayWrite && isKept(search) ? () => keep(search) : null,
    onSave: () => {
      toast(toggleSaved(search, source) ? "Search saved in this browser." : "Search forgotten.");
      drawRefinements();
    },
  });
}

/** Whether the marks of a search can be kept: those of a text or a picture alone. */
const isKept = ({ text, id, image, code }) => [text.trim() || null, id, image, code].filter((each) => each !== null).length === 1 && id === null && code === null;

async function keep(search) {
  try {
    await keepMarks(search);
    toast("Kept in the collection.");
  } catch (error) {
    toast(error.message);
  }
}

async function explainNoResults(signal, result) {
  const { about, search, change } = page;
  let best = null;
  if (search.minProbability && hasProbabilities(search)) {
    const wider = await find({ ...search, minProbability: 0 }, { k: 1 }, signal);
    if (signal.aborted) return;
    best = wider.answers[0]?.probability ?? null;
  }
  showNothing({
    search, best, result, examples: examplesOf(about),
    onAny: () => change({ minProbability: 0 }),
    onUnfiltered: () => change({ where: EMPTY.where, all: EMPTY.all }),
  });
}

/** Show the start page: all items, those that were added or changed last first. */
export async function showHome(signal) {
  const { about, search, editor } = page;
  if (page.shown === null) drawWaiting(parts.answers);
  // Items are listed in the order in which they were added or changed.
  const load = async (start, from) => {
    const end = about.items - start;
    const n = Math.min(2 * PAGE_SIZE, end);
    const { items } = n > 0 ? await getItems(end - n, n, from) : { items: [] };
    return { items: items.reverse(), ended: n >= end };
  };
  const first = await load(0, signal);
  if (signal.aborted) return;
  drawHome(parts.start, about, first.items);
  replaceList(new AnswerList(parts.answers, { about, search, editor, load: (start) => load(start, page.pending.signal).catch(failedPage) }));
  page.list.add(first.items, first.ended);
}
