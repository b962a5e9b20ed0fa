// Codes as barcodes: one bar per bit, in another colour where it differs from a second code.

import { drawing } from "./elements.js";

const BITS_PER_ROW = 64;
const GAP = 0.22;

/** The bits of a hexadecimal code, most significant bit first. */
export function bitsOf(code, n) {
  const bits = new Uint8Array(n);
  for (let place = 0; place < n; place += 1) {
    const byte = parseInt(code.slice((place >> 3) * 2, (place >> 3) * 2 + 2), 16);
    bits[place] = (byte >> (7 - (place & 7))) & 1;
  }
  return bits;
}

/** Draw a code of n bits, and mark the bits that differ from `other`. */
export function barcode(code, n, other = null) {
  const bits = bitsOf(code, n);
  const others = other === null ? bits : bitsOf(other, n);
  const columns = Math.min(n, BITS_PER_ROW);
  const rows = Math.ceil(n / columns);
  const paths = { zero: "", one: "", "zero differs": "", "one differs": "" };
  let distance = 0;
  bits.forEach((bit, place) => {
    const differs = bit !== others[place];
    distance += differs;
    const x = place % columns;
    const y = Math.floor(place / columns);
    paths[(bit ? "one" : "zero") + (differs ? " differs" : "")] += `M${x} ${y}h${1 - GAP}v${1 - GAP / 2}h${GAP - 1}z`;
  });
  const label = other === null ? `A code of ${n} bits` : `${distance} of ${n} bits differ`;
  const drawn = drawing(
    "svg",
    { class: "barcode", viewBox: `0 0 ${columns - GAP} ${rows - GAP / 2}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    Object.entries(paths).map(([name, d]) => (d ? drawing("path", { class: name, d }) : null)),
  );
  drawn.style.setProperty("--rows", rows);
  return drawn;
}
