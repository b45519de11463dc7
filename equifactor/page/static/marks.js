/** Markers of curves, and their keys: line, marker and colour together identify a curve. */

import { hueOf } from "./colours.js";
import { svgElement } from "./dom.js";
import { styleOf } from "./palette.js";
import { traceOutline } from "./shapes.js";

const CIRCLE_CORNERS = 20;

/** Corners of the markers, about 1 from the centre. */
const MARKS = {
  circle: around(CIRCLE_CORNERS, () => 1),
  square: around(4, () => 1.2, 0.5),
  diamond: around(4, () => 1.25),
  triangle: around(3, () => 1.3),
  wedge: around(3, () => 1.3, 1.5),
  plus: cross(0),
  cross: cross(Math.PI / 4),
  star: around(10, (k) => (k % 2 ? 0.6 : 1.45)),
};

/** The colour of a solver or of a training run in the current theme. */
export function solverColour(text) {
  return hueOf(styleOf(text).colour);
}

/** Draws the marker of a solver on a canvas. */
export function drawMarker(context, text, x, y, size) {
  const path = new Path2D();
  traceOutline(path, MARKS[styleOf(text).marker] ?? MARKS.circle, x, y, size);
  context.fillStyle = solverColour(text);
  context.fill(path);
}

/** The corners of the marker of a solver, as an SVG polygon takes them. */
export function markerPoints(text, x, y, size) {
  const corners = MARKS[styleOf(text).marker] ?? MARKS.circle;
  return corners.map(([dx, dy]) => [x + size * dx, y + size * dy].map((value) => value.toFixed(2)).join(",")).join(" ");
}

/** The key of a solver: a short line with its marker. */
export function solverKey(text) {
  const { marker, dash } = styleOf(text);
  const colour = solverColour(text);
  const points = markerPoints(text, 11, 6, 4);
  return svgElement(
    "svg",
    { class: "key", width: 22, height: 12, "aria-hidden": "true", "data-marker": marker, "data-colour": colour },
    svgElement("line", { x1: 0, y1: 6, x2: 22, y2: 6, stroke: colour, "stroke-dasharray": dash?.join(" ") }),
    svgElement("polygon", { points, fill: colour }),
  );
}

function around(count, radius, turn = 0) {
  return Array.from({ length: count }, (_, k) => {
    const angle = (2 * Math.PI * (k + turn)) / count - Math.PI / 2;
    return [radius(k) * Math.cos(angle), radius(k) * Math.sin(angle)];
  });
}

function cross(turn) {
  const arm = [
    [-0.42, -1.25],
    [0.42, -1.25],
    [0.42, -0.42],
  ];
  return [0, 1, 2, 3].flatMap((quarter) => {
    const angle = turn + (quarter * Math.PI) / 2;
    return arm.map(([x, y]) => [x * Math.cos(angle) - y * Math.sin(angle), x * Math.sin(angle) + y * Math.cos(angle)]);
  });
}
