// The view of the map: converts map coordinates (-1 to 1) to pixels and back, with pan and zoom.

const MARGIN = 48;
const MAX_ZOOM = 60;
const MAX_FIT_ZOOM = 3.2;

export class Camera {
  constructor() {
    this.x = 0;
    this.y = 0;
    this.zoom = 1;
    this.resize(1, 1);
  }

  /** Set the size in pixels; the whole map fills it at zoom 1. */
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

  /** Zoom around a pixel. */
  zoomAt(factor, left = this.width / 2, top = this.height / 2) {
    const [x, y] = this.toMap(left, top);
    this.zoom = Math.min(MAX_ZOOM, Math.max(1, this.zoom * factor));
    const [newX, newY] = this.toMap(left, top);
    this.x += x - newX;
    this.y += y - newY;
    this.settle();
  }

  /** Keep part of the map visible. */
  settle() {
    const limit = 1.1 - 0.7 / this.zoom;
    this.x = Math.min(limit, Math.max(-limit, this.x));
    this.y = Math.min(limit, Math.max(-limit, this.y));
  }

  /** The view that contains all given positions. */
  around(places) {
    const xs = places.map(([x]) => x);
    const ys = places.map(([, y]) => y);
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const zoom = Math.min(MAX_FIT_ZOOM, Math.max(1, Math.min(1.5 / (right - left + 1e-6), 1.5 / (high - low + 1e-6))));
    return { x: (left + right) / 2, y: (low + high) / 2, zoom };
  }
}
