// The views beside results: an item, the map, and items to label.

import { isEmpty, write } from "./address.js";
import { toggled } from "./filters.js";
import { drawItem, drawSimilar } from "./item.js";
import { listKey } from "./results.js";
import { getItem, getMap } from "./service.js";
import { announce, page, parts } from "./state.js";

let map = null;
let mapState = null;
let tagging = null;

/** Show the page of an item; `leave()` goes back to the results, `mark(ids, kind)` judges it. */
export async function showItem(signal, { leave, mark, entitle }) {
  const { editor, search } = page;
  parts.item.setAttribute("aria-busy", "true");
  const item = await getItem(search.item, signal);
  if (signal.aborted) return;
  const { about, list } = page;
  const hasList = list !== null && page.shown === listKey(search);
  const ids = hasList ? list.ids : [];
  const place = ids.indexOf(item.id);
  const neighbour = (step) => (place >= 0 && ids[place + step] !== undefined ? write({ ...search, item: ids[place + step] }) : null);
  const answer = hasList && !isEmpty(search) ? list.items[place] ?? null : null;
  const judged = search.relevant.includes(item.id) ? "right" : search.irrelevant.includes(item.id) ? "wrong" : null;
  const similar = drawItem(parts.item, item, {
    about, editor, neighbours: [neighbour(-1), neighbour(1)], answer, judged, onClose: leave,
    onDelete: async () => { if (await editor.remove([item.id])) leave(); },
    onJudge: (kind) => mark([item.id], kind),
  });
  entitle(item.title);
  announce(item.title);
  parts.item.querySelector("#item-title").focus({ preventScroll: true });
  window.scrollTo(0, 0);
  if (hasList && place >= ids.length - 2 && !list.ended) list.more();
  await drawSimilar(similar, item, about, signal);
}

/** Show the items to label next. */
export async function showTagging(signal, leave) {
  const { Tagging } = await import("./tagging.js");
  tagging ??= new Tagging(parts.tagging, { editor: page.editor, onClose: leave, announce });
  await tagging.show(page.about, signal);
}

/** Show the map, with the results of a search marked. */
export async function showMap(signal, answers) {
  const { CollectionMap } = await import("./map.js");
  map ??= new CollectionMap(parts.map, {
    onChoose: (id) => page.go({ ...page.search, view: "", item: id }),
    onLabel: (label) => page.change({ where: toggled(page.search.where, "labels", label) }),
    announce,
  });
  if (mapState !== page.about.state) {
    parts.map.setAttribute("aria-busy", "true");
    const loaded = await getMap();
    if (mapState !== loaded.state) map.fill(loaded);
    mapState = loaded.state;
  }
  if (!signal.aborted) map.show(page.search, answers);
}
