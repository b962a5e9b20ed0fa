// Elements of the page, made of text: nothing that an item says is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element with attributes, listeners ("onclick") and children; what is null or false is left out. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same of SVG. */
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

/** Give an element other children; what is null or false is left out. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const NUMBERS = new Intl.NumberFormat("en");

export const number = (value) => NUMBERS.format(value);
/** Nothing that is not certain is said to be. */
export function percent(value) {
  const rounded = Math.round(100 * value);
  if (value > 0 && rounded === 0) return "<1 %";
  return value < 1 && rounded === 100 ? ">99 %" : `${rounded} %`;
}
export const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;
/** "a, b and c" */
export const listed = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);
export const capital = (name) => name.charAt(0).toUpperCase() + name.slice(1);

/** Run a function when it has not been asked for again for a while. */
export function debounced(work, milliseconds) {
  let timer = 0;
  const later = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds, ...values);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}
