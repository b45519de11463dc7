/** The table of a factor; larger entries have a stronger colour. */

import { fetchJson } from "./api.js";
import { inkOn, mixed } from "./colours.js";
import { cssColour, element, fill, nameOf } from "./dom.js";
import { formatCell, formatCount, toNumber } from "./format.js";
import { state } from "./store.js";

const MOST_ROWS = 200; // Rows of a table that are shown. Chosen by hand.

/** An element that shows a factor's table as soon as it is loaded. */
export function factorTable(index) {
  const place = element("div", {}, element("p", { class: "note busy" }, "Loading the table …"));
  fetchJson("api/factor", { index }).then(
    (reply) => fill(place, ...tableParts(reply)),
    (problem) => fill(place, element("p", { class: "note" }, problem.message)),
  );
  return place;
}

function tableParts(reply) {
  const parts = [reply.text && element("p", { class: "note" }, reply.text)];
  if (!reply.values) {
    parts.push(
      element(
        "p",
        { class: "note" },
        `Its table of ${formatCount(reply.shape.reduce((a, b) => a * b, 1))} entries is too large to show.`,
      ),
    );
    return parts;
  }
  const logs = reply.values.map(toNumber);
  const top = logs.reduce((a, b) => Math.max(a, b), -Infinity);
  const columns = reply.shape.at(-1) ?? 1;
  const rows = logs.length / columns;
  const last = reply.scope.at(-1);
  const others = reply.scope.slice(0, -1);
  const head = element(
    "tr",
    {},
    others.map((v) => element("th", { class: "text", scope: "col" }, nameOf(state.model.names[v]))),
    (last === undefined ? [] : namesOf(last, columns)).map((name) => element("th", { scope: "col" }, nameOf(name))),
  );
  const body = Array.from({ length: Math.min(rows, MOST_ROWS) }, (_, row) =>
    element(
      "tr",
      {},
      statesOfRow(row, reply.shape.slice(0, -1)).map((s, k) =>
        element("td", { class: "text" }, nameOf(namesOf(others[k], s + 1)[s])),
      ),
      logs.slice(row * columns, (row + 1) * columns).map((log) => entryCell(log, top)),
    ),
  );
  parts.push(
    last !== undefined &&
      element(
        "p",
        { class: "small muted" },
        "Columns: states of ",
        nameOf(state.model.names[last]),
        ". Values are potentials; larger ones have a stronger colour.",
      ),
    element(
      "div",
      { class: "scroll heat", tabindex: 0 },
      element("table", {}, element("thead", {}, head), element("tbody", {}, body)),
    ),
    rows > MOST_ROWS && element("p", { class: "note" }, `The first ${MOST_ROWS} of ${formatCount(rows)} rows.`),
  );
  return parts;
}

function entryCell(log, top) {
  const share = top > -Infinity ? Math.exp(log - top) : 0;
  const ground = mixed(cssColour("--panel"), cssColour("--accent"), 0.85 * share);
  return element(
    "td",
    { style: { "background-color": ground, color: inkOn(ground) }, title: `ln ${formatCell(log)}` },
    formatCell(Math.exp(log)),
  );
}

/** Names of the states of a variable, or numbers if the table has more states than names. */
function namesOf(variable, count) {
  const names = state.model.stateNames(variable);
  return names.length >= count ? names : Array.from({ length: count }, (_, s) => String(s));
}

/** The states of all variables except the last in one row; the first variable changes slowest. */
function statesOfRow(row, shape) {
  const states = new Array(shape.length);
  for (let k = shape.length - 1; k >= 0; k--) {
    states[k] = row % shape[k];
    row = Math.floor(row / shape[k]);
  }
  return states;
}
