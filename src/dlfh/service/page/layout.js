// Where things stand on the map: drawing order, spacing, colours and places of labels.

/** A deterministic random permutation (Fisher-Yates with xorshift). */
export function shuffled(n) {
  const order = Array.from({ length: n }, (_, place) => place);
  let seed = 2463534242;
  for (let place = n - 1; place > 0; place -= 1) {
    seed ^= seed << 13;
    seed ^= seed >>> 17;
    seed ^= seed << 5;
    const other = (seed >>> 0) % (place + 1);
    [order[place], order[other]] = [order[other], order[place]];
  }
  return order;
}

/** Set the spacing of each point: the distance at zoom 1 to the nearest point that precedes it in the drawing order. */
export function setSpacing(points, camera) {
  const sorted = [...points].sort((a, b) => a.order - b.order);
  sorted.forEach((point, place) => {
    point.spacing = Infinity;
    for (let other = 0; other < place; other += 1) {
      const x = Math.abs(sorted[other].x - point.x) * camera.perX;
      const y = Math.abs(sorted[other].y - point.y) * camera.perY;
      point.spacing = Math.min(point.spacing, Math.max(x, y));
    }
  });
}

/** Labels that together cover the most points, chosen greedily. */
export function covering(points, max) {
  const chosen = [];
  let remaining = points;
  while (chosen.length < max && remaining.length) {
    const [label] = [...countLabels(remaining)].reduce((best, pair) => (pair[1] > best[1] ? pair : best), [null, 0]);
    if (label === null) break;
    chosen.push(label);
    remaining = remaining.filter((point) => !point.labels.includes(label));
  }
  return chosen;
}

export function countLabels(points) {
  const counts = new Map();
  for (const point of points) for (const label of point.labels) counts.set(label, (counts.get(label) ?? 0) + 1);
  return counts;
}

/** The centre of the densest region: the point with the smallest sum of capped distances to a sample. */
export function middle(points) {
  const sample = points.filter((_, place) => place % Math.ceil(points.length / 60) === 0);
  const cost = (point) => sample.reduce((sum, other) => sum + Math.min(0.25, Math.hypot(point.x - other.x, point.y - other.y)), 0);
  const best = sample.reduce((a, b) => (cost(a) <= cost(b) ? a : b));
  return { x: best.x, y: best.y, n: points.length };
}
