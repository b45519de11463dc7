/** The legend of colours and shapes, in a line under the graph. */

import { hueOf, scaleColours } from "./colours.js";
import { element, fill, nameOf, svgElement } from "./dom.js";
import { counted } from "./format.js";
import { shapeOf } from "./shapes.js";
import { on, state } from "./store.js";

const MOST_STATES = 8; // States in the legend. Chosen by hand.

/** @param {HTMLElement} place */
export function legendBox(place) {
  on("painted", (paint) => fill(place, ...legendParts(paint.legend)));
}

function legendParts(legend) {
  const title = legend.title && element("span", { class: "legend-title clip" }, nameOf(legend.title));
  if (legend.kind === "states") return [title, ...stateParts(), kindList()];
  if (legend.kind === "scale") return [title, ramp(legend.low, legend.name, legend.high), kindList()];
  if (legend.kind === "orbits") return [title, orbitList(legend.sizes), kindList()];
  return [kindList()];
}

function stateParts() {
  const { model } = state;
  if (model.allBinary)
    return [ramp(model.common?.[0] ?? "first state", "diverging", model.common?.[1] ?? "second state")];
  const most = Math.min(MOST_STATES, model.mostStates);
  const items = Array.from({ length: most }, (_, s) => swatchItem(hueOf(s), model.common?.[s] ?? `state ${s + 1}`));
  return [element("ul", {}, items), element("span", { class: "muted" }, "paler: less certain")];
}

function orbitList(sizes) {
  const items = sizes
    .filter((size) => size > 1)
    .map((size, rank) => swatchItem(hueOf(rank), counted(size, "variable")));
  return element("ul", {}, items.length ? items : element("li", {}, "no two variables are interchangeable"));
}

function swatchItem(colour, text) {
  return element(
    "li",
    {},
    element("span", { class: "swatch round", style: { "background-color": colour } }),
    nameOf(text, { class: "clip" }),
  );
}

function ramp(low, name, high) {
  const background = `linear-gradient(to right, ${scaleColours(name, 17).join(", ")})`;
  return element(
    "span",
    { class: "ramp" },
    nameOf(low),
    element("span", { class: "scale", style: { background } }),
    nameOf(high),
  );
}

function kindList() {
  const { model } = state;
  return element(
    "ul",
    { class: "kinds" },
    model.kindNames.map((kind, order) => {
      const { outline, colour } = shapeOf(kind, order);
      const points = outline.map(([x, y]) => `${7 + x * 4.4},${7 + y * 4.4}`).join(" ");
      return element(
        "li",
        {},
        svgElement(
          "svg",
          { width: 14, height: 14, "aria-hidden": "true" },
          svgElement("polygon", { points, fill: colour }),
        ),
        nameOf(kind, { class: "clip" }),
      );
    }),
  );
}
