/** The view of the graph: its centre in units of the graph, and pixels per unit. */

import { wantsStillness } from "./dom.js";

const CLOSEST = 260; // Largest scale in pixels per unit. Chosen by hand.
const GLIDE = 260; // Milliseconds of an animated move. Chosen by hand.

export class Camera {
  /** @param {() => void} changed called whenever the view moves */
  constructor(changed) {
    this.changed = changed;
    [this.x, this.y, this.scale] = [0, 0, 60];
    [this.width, this.height] = [1, 1];
    this.farthest = 0.5;
    this.flight = 0;
  }

  screenX(x) {
    return (x - this.x) * this.scale + this.width / 2;
  }

  screenY(y) {
    return (y - this.y) * this.scale + this.height / 2;
  }

  /** @returns {number[]} the point of the graph under a pixel */
  toGraph(px, py) {
    return [(px - this.width / 2) / this.scale + this.x, (py - this.height / 2) / this.scale + this.y];
  }

  /** The visible part of the plane, extended by `margin` units on each side. */
  window(margin = 0) {
    const [left, top] = this.toGraph(0, 0);
    const [right, bottom] = this.toGraph(this.width, this.height);
    return [left - margin, top - margin, right + margin, bottom + margin];
  }

  pan(dx, dy) {
    this.flight += 1;
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
    this.changed();
  }

  /** Zooms by a factor; the point under the pixel does not move. */
  zoom(factor, px = this.width / 2, py = this.height / 2) {
    this.flight += 1;
    const [x, y] = this.toGraph(px, py);
    this.scale = Math.min(CLOSEST, Math.max(this.farthest, this.scale * factor));
    this.x = x - (px - this.width / 2) / this.scale;
    this.y = y - (py - this.height / 2) / this.scale;
    this.changed();
  }

  /** Shows the whole graph, clear of the boxes in the corners. */
  fit(bounds, glide = true) {
    const width = bounds.right - bounds.left + 1.6;
    const height = bounds.bottom - bounds.top + 1.6;
    // In narrow windows the buttons are in a row below the graph, and the choices above it take two lines; see app.css.
    const [above, beside, below] = this.width > 519 ? [72, 44, 20] : [96, 0, 56];
    const scale = Math.min((this.width - 24 - beside) / width, (this.height - above - below) / height, 100);
    this.farthest = Math.min(scale * 0.4, 8);
    const [right, up] = [beside / 2 / scale, (above - below) / 2 / scale];
    this.moveTo((bounds.left + bounds.right) / 2 + right, (bounds.top + bounds.bottom) / 2 - up, scale, glide);
  }

  /** Moves to a place smoothly, or at once if the reader prefers reduced motion. */
  moveTo(x, y, scale = this.scale, glide = true) {
    const flight = ++this.flight;
    if (!glide || wantsStillness()) {
      [this.x, this.y, this.scale] = [x, y, scale];
      this.changed();
      return;
    }
    const from = [this.x, this.y, Math.log(this.scale)];
    const began = performance.now();
    const advance = (now) => {
      if (flight !== this.flight) return;
      const share = Math.min(1, Math.max(0, (now - began) / GLIDE));
      const eased = 1 - (1 - share) ** 3;
      this.x = from[0] + (x - from[0]) * eased;
      this.y = from[1] + (y - from[1]) * eased;
      this.scale = Math.exp(from[2] + (Math.log(scale) - from[2]) * eased);
      this.changed();
      if (share < 1) requestAnimationFrame(advance);
    };
    requestAnimationFrame(advance);
  }

  /** Centres a point if it is outside the window or close to its border. */
  reveal(x, y, wanted = this.scale) {
    const margin = Math.min(this.width, this.height) * 0.12;
    const [px, py] = [this.screenX(x), this.screenY(y)];
    const inside = px > margin && px < this.width - margin && py > margin && py < this.height - margin;
    if (!inside || wanted > this.scale) this.moveTo(x, y, Math.max(wanted, this.scale));
  }
}
