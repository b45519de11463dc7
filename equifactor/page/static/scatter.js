/** Two solvers model by model: one point per model. Below the diagonal, the solver of the vertical axis is lower. */

import { element, svgElement } from "./dom.js";
import { formatCell, formatTick } from "./format.js";

const SIDE = 430; // Side of the picture in pixels.
const EDGE = 66; // Room for the axes in pixels.

/**
 * @param {{name: string, x: number, y: number, open: ?() => void}[]} points
 * @param {{x: string, y: string, log: boolean}} labels
 */
export function scatterPlot(points, labels) {
  if (!points.length) return element("p", { class: "note" }, "No model has numbers of both solvers.");
  const scaled = labels.log && points.every((point) => point.x > 0 && point.y > 0) ? Math.log10 : (value) => value;
  const values = points.flatMap((point) => [scaled(point.x), scaled(point.y)]);
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  [low, high] = [low - margin, high + margin];
  const across = (value) => EDGE + ((scaled(value) - low) / (high - low)) * (SIDE - EDGE - 12);
  const up = (value) => SIDE - across(value);
  const ends = [low, (low + high) / 2, high].map((value) => (scaled === Math.log10 ? 10 ** value : value));
  return svgElement(
    "svg",
    {
      class: "scatter",
      viewBox: `0 0 ${SIDE} ${SIDE}`,
      width: SIDE,
      height: SIDE,
      role: "group",
      "aria-label": `${labels.y} against ${labels.x}, ${points.length} models`,
    },
    svgElement("path", { class: "axis", fill: "none", d: `M${EDGE} 12V${SIDE - EDGE}H${SIDE - 12}` }),
    svgElement("line", { class: "even", x1: across(ends[0]), y1: up(ends[0]), x2: across(ends[2]), y2: up(ends[2]) }),
    ends.map((value, i) => [
      svgElement(
        "text",
        { x: across(value), y: SIDE - EDGE + 18, "text-anchor": ["start", "middle", "end"][i] },
        formatTick(Number(value.toPrecision(2))),
      ),
      svgElement(
        "text",
        { x: EDGE - 6, y: up(value) + [0, 4, 10][i], "text-anchor": "end" },
        formatTick(Number(value.toPrecision(2))),
      ),
    ]),
    svgElement("text", { x: SIDE / 2, y: SIDE - 10, "text-anchor": "middle" }, labels.x),
    svgElement(
      "text",
      { x: 0, y: 0, "text-anchor": "middle", transform: `translate(14 ${SIDE / 2}) rotate(-90)` },
      labels.y,
    ),
    points.map((point) => pointMark(point, across(point.x), up(point.y))),
  );
}

function pointMark(point, cx, cy) {
  const about = `${point.name}: ${formatCell(point.x)} and ${formatCell(point.y)}`;
  const key = (event) => event.key === "Enter" && point.open?.();
  return svgElement(
    "circle",
    {
      class: "point",
      cx,
      cy,
      r: 5,
      tabindex: point.open ? 0 : null,
      role: point.open ? "link" : null,
      "aria-label": about,
      onclick: () => point.open?.(),
      onkeydown: key,
    },
    svgElement("title", {}, about),
  );
}
