/**
 * The picture of the graph, cached until something in it changes.
 *
 * A large graph takes longer to draw than one frame. While the view moves, the cached picture, which is larger than
 * the window, is moved and stretched. When the view stops, the graph is drawn again.
 */

import { Camera } from "./camera.js";
import { drawGraph } from "./draw.js";

const LARGE = 2500; // Graphs with more nodes are moved as a picture instead of drawn. Chosen by hand.
const BEYOND = 0.25; // The picture extends beyond the window by this share of its side. Chosen by hand.
const STRETCH = 1.7; // Largest factor by which a picture is stretched or shrunk. Chosen by hand.

export class Backing {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d");
    this.drop();
  }

  /** Discards the picture, because something in it has changed. */
  drop() {
    this.at = null;
  }

  /** Whether the picture was made for exactly this view. */
  isExact(camera) {
    return Boolean(this.at) && ["x", "y", "scale", "width", "height"].every((key) => this.at[key] === camera[key]);
  }

  /** Whether the picture can be shown for this view while the view moves. */
  canStandIn(camera) {
    if (!this.at || !this.isLarge || this.at.width !== camera.width || this.at.height !== camera.height) return false;
    const stretch = camera.scale / this.at.scale;
    if (stretch > STRETCH || stretch < 1 / STRETCH) return false;
    const halves = [this.at.width / 2 + this.marginX, this.at.height / 2 + this.marginY].map(
      (half) => half / this.at.scale,
    );
    const [left, top, right, bottom] = camera.window();
    const { content } = this;
    // The picture needs to cover only the part of the window that the graph reaches.
    const needed = [
      Math.max(left, content.left),
      Math.max(top, content.top),
      Math.min(right, content.right),
      Math.min(bottom, content.bottom),
    ];
    const { x, y } = this.at;
    return (
      needed[0] >= x - halves[0] &&
      needed[1] >= y - halves[1] &&
      needed[2] <= x + halves[0] &&
      needed[3] <= y + halves[1]
    );
  }

  /** Draws the graph for a view. */
  render(camera, ratio, scene) {
    this.isLarge = scene.model.numVariables + scene.model.numFactors > LARGE;
    this.content = widened(scene.model.bounds);
    this.marginX = this.isLarge ? Math.round(camera.width * BEYOND) : 0;
    this.marginY = this.isLarge ? Math.round(camera.height * BEYOND) : 0;
    const wide = Object.assign(Object.create(Camera.prototype), camera);
    wide.width += 2 * this.marginX;
    wide.height += 2 * this.marginY;
    const [width, height] = [Math.round(wide.width * ratio), Math.round(wide.height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawGraph(this.context, wide, scene);
    const { x, y, scale } = camera;
    this.at = { x, y, scale, width: camera.width, height: camera.height };
  }

  /** Shows the picture, moved and stretched to the current view. */
  show(context, camera) {
    const stretch = camera.scale / this.at.scale;
    const width = (this.at.width + 2 * this.marginX) * stretch;
    const height = (this.at.height + 2 * this.marginY) * stretch;
    context.clearRect(0, 0, camera.width, camera.height);
    context.drawImage(
      this.canvas,
      camera.screenX(this.at.x) - width / 2,
      camera.screenY(this.at.y) - height / 2,
      width,
      height,
    );
  }
}

/** The bounds, extended to include the circles at the border. */
function widened({ left, right, top, bottom }) {
  return { left: left - 1, right: right + 1, top: top - 1, bottom: bottom + 1 };
}
