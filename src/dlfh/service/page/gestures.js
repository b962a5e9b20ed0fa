// Input on the map: drags, pinches, wheels, touches and keys.

/** Follow the mouse, fingers and the keyboard on the canvas of a map. */
export function follow(map) {
  const { canvas } = map;
  const fingers = new Map();
  let moved = 0;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    map.stop();
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    if (fingers.size === 1) moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const here = at(event);
    const before = fingers.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") map.select(map.near(...here), false);
      return;
    }
    const [right, down] = [here[0] - before[0], here[1] - before[1]];
    moved += Math.hypot(right, down);
    if (fingers.size === 1) {
      map.camera.pan(right, down);
    } else {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      const [old, now] = [Math.hypot(before[0] - other[0], before[1] - other[1]), Math.hypot(here[0] - other[0], here[1] - other[1])];
      if (old > 0) map.camera.zoomAt(now / old, (here[0] + other[0]) / 2, (here[1] + other[1]) / 2);
    }
    fingers.set(event.pointerId, here);
    canvas.classList.toggle("dragged", moved > 4);
    map.peek(map.selected);
    map.redraw();
  });
  const lift = (event) => {
    const alone = fingers.size === 1;
    if (!fingers.delete(event.pointerId)) return;
    canvas.classList.remove("dragged");
    if (event.type !== "pointerup" || !alone || moved > 8) return;
    const point = map.near(...at(event));
    map.card.classList.toggle("touched", event.pointerType !== "mouse");
    // A finger hides the item: the first touch shows its card, and a touch of the card opens it.
    if (event.pointerType === "mouse" && point) map.onChoose(point.id);
    else map.select(point);
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse" && !fingers.size) map.select(null, false); });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    map.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0018)), ...at(event));
  }, { passive: false });
  canvas.addEventListener("dblclick", (event) => map.zoom(2, ...at(event)));
  canvas.addEventListener("keydown", (event) => key(map, event));
  canvas.addEventListener("blur", (event) => { if (event.relatedTarget !== map.card) map.select(null, false); });
}

function key(map, event) {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (event.altKey || event.metaKey || event.ctrlKey) return;
  if (step && event.shiftKey) {
    map.camera.pan(-step[0] * 80, -step[1] * 80);
    map.peek(map.selected);
    map.redraw();
  } else if (step) walk(map, step);
  else if (event.key === "+" || event.key === "=") map.zoom(1.6);
  else if (event.key === "-") map.zoom(1 / 1.6);
  else if (event.key === "0" || event.key === "Home") map.whole();
  else if (event.key === "Escape" && map.selected) map.select(null);
  else if (event.key === "Enter" && map.selected) map.onChoose(map.selected.id);
  else return;
  event.preventDefault();
}

/** Select the next item in a direction, and keep it visible. */
function walk(map, [right, down]) {
  const from = map.selected ? map.camera.toScreen(map.selected.x, map.selected.y) : [map.camera.width / 2, map.camera.height / 2];
  let best = null;
  let smallest = Infinity;
  for (const point of map.points) {
    if (point === map.selected || map.isDim(point)) continue;
    const [left, top] = map.camera.toScreen(point.x, point.y);
    const [x, y] = [left - from[0], top - from[1]];
    const along = x * right + y * down;
    const across = Math.abs(x * down) + Math.abs(y * right);
    const distance = map.selected ? along + 2 * across : Math.hypot(x, y);
    if ((map.selected === null || along > Math.max(1, across / 2)) && distance < smallest) [best, smallest] = [point, distance];
  }
  if (!best) return;
  map.select(best);
  const [left, top] = map.camera.toScreen(best.x, best.y);
  const edge = 90;
  if (left < edge || top < edge || left > map.camera.width - edge || top > map.camera.height - edge) {
    map.fly({ x: best.x, y: best.y, zoom: map.camera.zoom });
  }
}
