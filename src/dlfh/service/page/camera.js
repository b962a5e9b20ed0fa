// Where the map is looked at: from places between -1 and 1 to pixels and back, by pan and zoom.

const MARGIN = 48;
const MOST_ZOOM = 60;
const CLOSE = 3.2;

export class Camera {
  constructor() {
    this.x = 0;
    this.y = 0;
    this.zoom = 1;
    this.resize(1, 1);
  }

  /** Take a size in pixels; the whole map fills it at zoom 1. */
  resize(width, height) {
    this.width = width;
    this.height = height;
    this.perX = Math.max(1, width / 2 - MARGIN);
    this.perY = Math.max(1, height / 2 - MARGIN);
  }

  toScreen(x, y) {
    return [this.width / 2 + (x - this.x) * this.perX * this.zoom, this.height / 2 - (y - this.y) * this.perY * this.zoom];
  }

  toMap(left, top) {
    return [this.x + (left - this.width / 2) / (this.perX * this.zoom), this.y - (top - this.height / 2) / (this.perY * this.zoom)];
  }

  pan(right, down) {
    this.x -= right / (this.perX * this.zoom);
    this.y += down / (this.perY * this.zoom);
    this.settle();
  }

  /** Zoom so that what is below a pixel stays there. */
  zoomAt(factor, left = this.width / 2, top = this.height / 2) {
    const [x, y] = this.toMap(left, top);
    this.zoom = Math.min(MOST_ZOOM, Math.max(1, this.zoom * factor));
    const [newX, newY] = this.toMap(left, top);
    this.x += x - newX;
    this.y += y - newY;
    this.settle();
  }

  /** Keep some of the map in sight. */
  settle() {
    const room = 1.1 - 0.7 / this.zoom;
    this.x = Math.min(room, Math.max(-room, this.x));
    this.y = Math.min(room, Math.max(-room, this.y));
  }

  /** The view that shows all of some places. */
  around(places) {
    const xs = places.map(([x]) => x);
    const ys = places.map(([, y]) => y);
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const zoom = Math.min(CLOSE, Math.max(1, Math.min(1.5 / (right - left + 1e-6), 1.5 / (high - low + 1e-6))));
    return { x: (left + right) / 2, y: (low + high) / 2, zoom };
  }
}
