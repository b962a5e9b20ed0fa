// DOM elements, built from text nodes: metadata of items is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Create an element with attributes, listeners ("onclick") and children; null and false are ignored. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Create an SVG element. */
export function drawing(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  return fill(node, ...children);
}

/** Replace the children of an element; null and false are ignored. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const NUMBERS = new Intl.NumberFormat("en");

export const number = (value) => NUMBERS.format(value);
/** Format a probability; only exact values are shown as 0 % or 100 %. */
export function percent(value) {
  const rounded = Math.round(100 * value);
  if (value > 0 && rounded === 0) return "<1 %";
  return value < 1 && rounded === 100 ? ">99 %" : `${rounded} %`;
}
/** A probability in words. */
export const LIKELY = 0.5;
export const MAYBE = 0.2;
export const inWords = (value) => (value >= LIKELY ? "likely" : value >= MAYBE ? "maybe" : "unlikely");
export const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;
/** Join names: "a, b and c". */
export const listed = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);
export const capital = (name) => name.charAt(0).toUpperCase() + name.slice(1);

/** A text as a sentence: a capital letter and a full stop. */
export const sentence = (text) => `${capital(text)}${/[.?!]$/.test(text) ? "" : "."}`;

/** A button. */
export const button = (text, onclick, attributes = {}) => element("button", { type: "button", onclick, ...attributes }, text);

const ICONS = {
  back: "M12.5 4 6.5 10l6 6", next: "m7.5 4 6 6-6 6", close: "m5 5 10 10M15 5 5 15", more: "M4.5 10h.01M10 10h.01M15.5 10h.01",
  check: "m4.5 10.5 3.5 3.5 7.5-8", link: "M8.5 11.5a3 3 0 0 0 4.3 0l3-3a3 3 0 0 0-4.3-4.3l-1 1M11.5 8.5a3 3 0 0 0-4.3 0l-3 3a3 3 0 0 0 4.3 4.3l1-1",
  download: "M10 3.5v9m-3.5-3 3.5 3.5 3.5-3.5M4 16.5h12", bin: "M4 6h12M8 6V4h4v2m-6.5 0 .7 10.5h7.6L14.5 6M8.5 9v5m3-5v5",
  star: "m10 3 2.1 4.6 5 .6-3.7 3.4 1 5-4.4-2.5-4.4 2.5 1-5L2.9 8.2l5-.6z", tag: "M3.5 3.5h6l7 7-6 6-7-7zM7 7h.01", plus: "M10 4v12M4 10h12",
  right: "M7 9v7.5H4V9zm0 0 2.6-5.8c1.3 0 2.2.9 2.2 2.1V8h3.7c1 0 1.7.9 1.5 1.9l-1.1 5.2c-.2.8-.9 1.4-1.7 1.4H7",
  wrong: "M13 11V3.5h3V11zm0 0-2.6 5.8c-1.3 0-2.2-.9-2.2-2.1V12H4.5c-1 0-1.7-.9-1.5-1.9l1.1-5.2c.2-.8.9-1.4 1.7-1.4H13",
  clock: "M10 6v4.2l2.8 1.8M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14z", item: "M3.5 4.5h13v11h-13zm0 8.5 3.5-3 3 2.5 2.5-2.5 4 3.5",
  map: "M3.5 5.5 8 3.5l4 2 4.5-2v11L12 16.5l-4-2-4.5 2zM8 3.5v11m4-9v11", similar: "M4 4h7v7H4zm5 9v3h7V9h-3",
};

/** A small drawing. */
export const icon = (name) => drawing("svg", { class: `icon ${name}`, viewBox: "0 0 20 20", "aria-hidden": "true" }, drawing("path", { d: ICONS[name] }));

/** A value that the browser keeps for this collection; null if storage is disabled or empty. */
export function remembered(name) {
  try {
    return JSON.parse(localStorage.getItem(`dlfh-${name}:${location.pathname}`));
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    if (value === null) localStorage.removeItem(`dlfh-${name}:${location.pathname}`);
    else localStorage.setItem(`dlfh-${name}:${location.pathname}`, JSON.stringify(value));
  } catch { /* storage is disabled or full */ }
}

/** Delay a function until it has not been called for some time. */
export function debounced(work, milliseconds) {
  let timer = 0;
  const later = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds, ...values);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}
