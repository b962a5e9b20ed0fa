// The list of collections of a service that has several.

import { capital, count, element, fill } from "./elements.js";
import { showFailure } from "./notices.js";
import { picture } from "./pictures.js";
import { Failure, getCollections, getItems, useToken } from "./service.js";

const N_PICTURES = 4;
const RETRY_SECONDS = 5;
const list = document.querySelector("#collections");

async function show() {
  try {
    const { collections } = await getCollections();
    fill(document.querySelector("#notice"));
    fill(list, collections.map(entry));
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    fill(list);
    const onToken = (token) => {
      useToken(token);
      show();
    };
    showFailure(error, { onToken, onRetry: show, onHome: show, seconds: error.seconds || RETRY_SECONDS });
    if (error.kind === "busy" || error.kind === "offline") setTimeout(show, 1000 * (error.seconds || RETRY_SECONDS));
  }
}

function entry({ name, address, items }) {
  const covers = element("span", { class: "covers", "aria-hidden": "true" });
  getItems(Math.max(0, items - N_PICTURES), N_PICTURES, null, address).then((found) => {
    const seen = found.items.filter(({ thumbnail }) => thumbnail);
    fill(covers, seen.map(({ thumbnail }) => element("span", { class: "tile" }, picture(address + thumbnail.slice(1)))));
  }, () => {}); // pictures are optional
  return element("li", {}, element("a", { class: "collection", href: address }, covers, element("strong", {}, capital(name)), element("span", { class: "faint" }, count(items, "item"))));
}

show();
