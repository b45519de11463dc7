/** Shapes and colours of factors by kind; the shape alone identifies the kind. */

import { hueOf } from "./colours.js";
import { cssColour } from "./dom.js";

/** Outlines as lists of corners, about 1 from the centre. */
const OUTLINES = {
  square: [
    [-1, -1],
    [1, -1],
    [1, 1],
    [-1, 1],
  ],
  diamond: [
    [0, -1.35],
    [1.35, 0],
    [0, 1.35],
    [-1.35, 0],
  ],
  triangle: [
    [0, -1.3],
    [1.25, 0.95],
    [-1.25, 0.95],
  ],
  wedge: [
    [-1.25, -0.95],
    [1.25, -0.95],
    [0, 1.3],
  ],
  hexagon: [
    [-0.65, -1.15],
    [0.65, -1.15],
    [1.3, 0],
    [0.65, 1.15],
    [-0.65, 1.15],
    [-1.3, 0],
  ],
  bar: [
    [-1.35, -0.7],
    [1.35, -0.7],
    [1.35, 0.7],
    [-1.35, 0.7],
  ],
  tower: [
    [-0.7, -1.3],
    [0.7, -1.3],
    [0.7, 1.3],
    [-0.7, 1.3],
  ],
  kite: [
    [0, -1.4],
    [1, -0.2],
    [0, 1.4],
    [-1, -0.2],
  ],
};

/** Shape and colour number of the known kinds; other kinds take the shapes in turn. */
const KNOWN_KINDS = {
  table: ["square", -1],
  sparse: ["bar", 7],
  parity: ["diamond", 5],
  clause: ["triangle", 6],
  count: ["hexagon", 4],
  noisy_or: ["wedge", 2],
  potts: ["kite", 3],
  truncated_linear: ["tower", 0],
};

/** @param {string} kind @returns {{outline: number[][], colour: string}} */
export function shapeOf(kind, order = 0) {
  const names = Object.keys(OUTLINES);
  const other = [names[1 + (order % (names.length - 1))], order % 8];
  const [outline, hue] = Object.hasOwn(KNOWN_KINDS, kind) ? KNOWN_KINDS[kind] : other;
  return { outline: OUTLINES[outline], colour: hue < 0 ? cssColour("--muted") : hueOf(hue) };
}

/** Adds an outline around a point to a path. */
export function traceOutline(path, outline, x, y, size) {
  outline.forEach(([dx, dy], i) =>
    i ? path.lineTo(x + dx * size, y + dy * size) : path.moveTo(x + dx * size, y + dy * size),
  );
  path.closePath();
}
