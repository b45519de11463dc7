/**
 * The picture of the graph, kept while nothing in it changes.
 *
 * Large graphs take longer to draw than a frame lasts. While such a graph is moved, its picture, which reaches beyond
 * the window, is moved and stretched; once the hand rests, it is drawn anew.
 */

import { Camera } from "./camera.js";
import { drawGraph } from "./draw.js";

const LARGE = 2500; // nodes from which on a picture is moved instead of drawn
const BEYOND = 0.25; // of the window, on each side
const STRETCH = 1.7; // until a stretched picture looks too coarse or too fine

export class Backing {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d");
    this.drop();
  }

  /** What is drawn is no longer true. */
  drop() {
    this.at = null;
  }

  /** Whether the picture was made for exactly this view. */
  isExact(camera) {
    return Boolean(this.at) && ["x", "y", "scale", "width", "height"].every((key) => this.at[key] === camera[key]);
  }

  /** Whether it can stand in for this view while the view moves. */
  canStandIn(camera) {
    if (!this.at || !this.isLarge || this.at.width !== camera.width || this.at.height !== camera.height) return false;
    const stretch = camera.scale / this.at.scale;
    if (stretch > STRETCH || stretch < 1 / STRETCH) return false;
    const halves = [this.at.width / 2 + this.marginX, this.at.height / 2 + this.marginY].map(
      (half) => half / this.at.scale,
    );
    const [left, top, right, bottom] = camera.window();
    const { content } = this;
    // Beyond the graph itself there is nothing that could be missing.
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

  /** Puts the picture onto the screen, moved and stretched to the present view. */
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

/** The bounds with the circles at the border in them. */
function widened({ left, right, top, bottom }) {
  return { left: left - 1, right: right + 1, top: top - 1, bottom: bottom + 1 };
}
