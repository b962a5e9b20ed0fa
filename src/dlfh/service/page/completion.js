// Completions under the search box: labels and names while typing, recent and saved searches before.

import { write, EMPTY } from "./address.js";
import { capital, debounced, element, fill, icon, number } from "./elements.js";
import { clearRecent, recent, saved } from "./history.js";
import { complete } from "./service.js";

const PAUSE = 90;
const N = 7;

/** The last word of a text, with what is before it and a sign that excludes it. */
export function lastWord(text) {
  const [, before, sign, word] = /^(.*?)([-–]?)([^\s]*)$/s.exec(text);
  return { before, sign, word };
}

/** The text with its last word completed by the first label or name that has a word with this beginning; null if none has. */
export async function completeLastWord(text, signal) {
  const { before, sign, word } = lastWord(text);
  const { completions } = await complete(word, N, signal);
  const words = completions.flatMap(({ text: found }) => found.split(/[^\p{L}\p{N}]+/u));
  const whole = words.find((each) => each.length > word.length && each.toLowerCase().startsWith(word.toLowerCase()));
  return whole ? before + sign + whole.toLowerCase() : null;
}

/** Complete what is typed in `box`; `onText(text)` searches for a text, `onAddress(address)` opens an address. */
export function listenForCompletions(box, panel, { onText, onAddress }) {
  const [list, footer] = panel.children;
  let options = [];
  let active = -1;
  let pending = new AbortController();

  const close = () => {
    pending.abort();
    panel.hidden = true;
    active = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  };

  const mark = (place) => {
    active = place;
    [...list.querySelectorAll("[role=option]")].forEach((row, at) => row.setAttribute("aria-selected", String(at === place)));
    if (place < 0) box.removeAttribute("aria-activedescendant");
    else box.setAttribute("aria-activedescendant", `completion-${place}`);
  };

  const choose = (option) => {
    close();
    if (option.address) onAddress(option.address);
    else onText(box.value = option.text);
  };

  const show = (found, isClearable = false) => {
    options = found;
    fill(list, found.map((option, place) => element("li", {
      role: "option", id: `completion-${place}`, "aria-selected": "false",
      onpointerdown: (event) => event.preventDefault(), // the box keeps the focus
      onclick: () => choose(option),
    }, icon(option.icon), element("span", { class: "text" }, option.shown), option.count ? element("small", {}, number(option.count)) : null)));
    footer.hidden = !isClearable;
    panel.hidden = found.length === 0;
    box.setAttribute("aria-expanded", String(!panel.hidden));
    mark(-1);
  };

  const showKept = () => {
    const kept = [...saved().map((each) => ({ ...each, icon: "star" })), ...recent().slice(0, N).map((each) => ({ ...each, icon: "clock" }))];
    show(kept.map(({ address, name, icon: sign }) => ({ address, shown: name, icon: sign })), recent().length > 0);
  };

  const ask = debounced(async () => {
    const text = box.value;
    if (!text.trim()) return showKept();
    pending.abort();
    pending = new AbortController();
    const { signal } = pending;
    const { before, sign, word } = lastWord(text);
    try {
      let { completions } = sign && word ? { completions: [] } : await complete(text.trim(), N, signal);
      let prefix = "";
      if (!completions.length && word && (before || sign)) {
        prefix = before + sign; // complete the last word alone
        completions = (await complete(word, N, signal)).completions.filter(({ kind }) => kind === "label");
      }
      if (signal.aborted || document.activeElement !== box || box.value !== text) return undefined;
      const isWhole = completions.some((each) => each.kind === "label" && (prefix + each.text).toLowerCase() === text.trim().toLowerCase());
      const found = isWhole ? completions.filter((each) => each.kind === "label" && (prefix + each.text).toLowerCase() !== text.trim().toLowerCase()) : completions;
      show(found.map((each) => ({
        shown: prefix + (each.kind === "label" && !prefix ? capital(each.text) : each.text), icon: each.kind === "label" ? "tag" : "item", count: each.count,
        ...(each.kind === "name" && each.id ? { address: write({ ...EMPTY, item: each.id }) } : { text: prefix + (each.kind === "label" ? each.text.toLowerCase() : each.text) }),
      })));
    } catch (error) {
      if (error.name !== "AbortError") close(); // completions are optional
    }
    return undefined;
  }, PAUSE);

  footer.addEventListener("pointerdown", (event) => event.preventDefault());
  footer.firstChild.addEventListener("click", () => {
    clearRecent();
    showKept();
  });
  box.addEventListener("input", () => ask());
  box.addEventListener("focus", () => { if (!box.value.trim()) showKept(); });
  box.addEventListener("click", () => { if (panel.hidden && !box.value.trim()) showKept(); });
  box.addEventListener("blur", close);
  // Whoever moves the pointer to the results is done typing: do not cover them.
  document.querySelector("#results").addEventListener("pointermove", (event) => { if (event.pointerType === "mouse" && box.value.trim()) close(); });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !panel.hidden) {
      close();
      event.preventDefault();
      event.stopImmediatePropagation(); // the box keeps its text and the focus
    } else if (event.key === "Enter") {
      ask.cancel();
      if (active >= 0) {
        event.preventDefault();
        choose(options[active]);
      } else close();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !panel.hidden) {
      event.preventDefault();
      const n = options.length + 1; // one more for the box itself
      mark(((active + 1 + (event.key === "ArrowDown" ? 1 : -1) + n) % n) - 1);
    }
  });
  return { close };
}
