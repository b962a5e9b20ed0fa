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
export const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;
/** Join names: "a, b and c". */
export const listed = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);
export const capital = (name) => name.charAt(0).toUpperCase() + name.slice(1);

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
