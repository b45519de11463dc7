/** Charts as SVG elements that need no style sheet, for files. */

import { cssColour, shortened, svgElement } from "./dom.js";
import { markerPoints, solverColour } from "./marks.js";
import { styleOf } from "./palette.js";
import { xmlText } from "./svgContext.js";

const CHART_FONT = { "font-family": "Inter, system-ui, sans-serif", "font-size": 12 };
const TITLE_HEIGHT = 22; // Pixels for the label of the vertical axis, above the chart.
const KEY_HEIGHT = 20; // Pixels for each line of the legend, below the chart.
const LONGEST_KEY = 60; // Characters of a name in the legend, at most.
const COPIED_STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family",
];

/**
 * A chart of uPlot, drawn again.
 * @param {uPlot} plot
 * @param {import("./curves.js").CurveOptions} options
 * @param {(values: (number|null)[], points: boolean) => number[]} marked the numbers of the points with a marker
 */
export function curvePicture(plot, { series, xLabel, yLabel }, marked) {
  const ratio = devicePixelRatio;
  const [left, top, width, height] = ["left", "top", "width", "height"].map((side) => plot.bbox[side] / ratio);
  const across = (value) => plot.valToPos(value, "x", true) / ratio;
  const down = (value) => TITLE_HEIGHT + plot.valToPos(value, "y", true) / ratio;
  const [low, high] = [TITLE_HEIGHT + top, TITLE_HEIGHT + top + height];
  const size = [plot.width, TITLE_HEIGHT + plot.height + KEY_HEIGHT * series.length + 8];
  const ticks = (axis) => axis._splits.map((value, n) => [value, axis._values[n]]).filter(([, label]) => label);
  const text = (x, y, anchor, content) =>
    svgElement("text", { x, y, "text-anchor": anchor, fill: cssColour("--ink"), ...CHART_FONT }, xmlText(content));
  const line = (x1, y1, x2, y2) => svgElement("line", { x1, y1, x2, y2, stroke: cssColour("--line") });
  return onPaper(
    size,
    text(4, 15, "start", yLabel),
    ticks(plot.axes[0]).map(([value, label]) => [
      line(across(value), low, across(value), high),
      text(across(value), high + 16, "middle", label),
    ]),
    ticks(plot.axes[1]).map(([value, label]) => [
      line(left, down(value), left + width, down(value)),
      text(left - 6, down(value) + 4, "end", label),
    ]),
    text(left + width / 2, TITLE_HEIGHT + plot.height - 4, "middle", xLabel),
    series.map((one, k) => curveMarks(one, plot.data[0].map(across), plot.data[k + 1], down, marked)),
    series.map((one, k) => keyMarks(one.label, 12, TITLE_HEIGHT + plot.height + KEY_HEIGHT * (k + 0.5), text)),
  );
}

/** A picture of the page with the colours that it has now. @param {SVGElement} drawn */
export function styledPicture(drawn) {
  const copy = drawn.cloneNode(true);
  const originals = [drawn, ...drawn.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((part, n) => {
    const style = getComputedStyle(originals[n]);
    for (const name of COPIED_STYLES) part.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role"]) part.removeAttribute(name);
  });
  return onPaper([Number(drawn.getAttribute("width")), Number(drawn.getAttribute("height"))], copy);
}

function onPaper([width, height], ...content) {
  return svgElement(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` },
    svgElement("rect", { width, height, fill: cssColour("--panel") }),
    ...content,
  );
}

/** One curve; like the chart on the page it bridges gaps. */
function curveMarks({ label, points }, across, values, down, marked) {
  const [colour, { dash }] = [solverColour(label), styleOf(label)];
  const known = [...values.keys()].filter((n) => Number.isFinite(values[n]));
  const corners = known.map((n) => `${across[n].toFixed(2)},${down(values[n]).toFixed(2)}`).join(" ");
  const drawn = { fill: "none", stroke: colour, "stroke-width": 1.75, "stroke-dasharray": dash?.join(" ") };
  return [
    svgElement("polyline", { points: corners, ...drawn }),
    marked(values, points).map((n) =>
      svgElement("polygon", { points: markerPoints(label, across[n], down(values[n]), 3.6), fill: colour }),
    ),
  ];
}

function keyMarks(label, x, y, text) {
  const colour = solverColour(label);
  return [
    svgElement("line", {
      x1: x,
      y1: y,
      x2: x + 22,
      y2: y,
      stroke: colour,
      "stroke-width": 2,
      "stroke-dasharray": styleOf(label).dash?.join(" "),
    }),
    svgElement("polygon", { points: markerPoints(label, x + 11, y, 4), fill: colour }),
    text(x + 30, y + 4, "start", shortened(label, LONGEST_KEY)),
  ];
}
