/** Tables whose columns sort at a click, also by keyboard. */

import { element, fill, nameOf } from "./dom.js";
import { formatCell, toNumber } from "./format.js";

/**
 * @param {string[]} columns
 * @param {any[][]} rows numbers, text or null
 * @param {(row: any[], column: number) => ?Node} [cell] own content of a cell, null for the usual one
 */
export function sortableTable(columns, rows, cell = () => null) {
  let by = -1;
  let down = false;
  const isText = columns.map((_, c) =>
    rows.some((row) => typeof row[c] === "string" && Number.isNaN(toNumber(row[c]))),
  );
  const body = element("tbody");
  const heads = columns.map((name, c) =>
    element(
      "th",
      { scope: "col", class: isText[c] ? "text" : null },
      element("button", { type: "button", onclick: () => sortBy(c) }, nameOf(name)),
    ),
  );
  function sortBy(column) {
    down = by === column ? !down : false;
    by = column;
    heads.forEach((head, c) =>
      c === by ? head.setAttribute("aria-sort", down ? "descending" : "ascending") : head.removeAttribute("aria-sort"),
    );
    show();
  }
  function show() {
    const order = [...rows];
    if (by >= 0) order.sort((a, b) => compareCells(a[by], b[by], down));
    fill(
      body,
      order.map((row) =>
        element(
          "tr",
          {},
          columns.map((_, c) =>
            element(
              "td",
              { class: isText[c] ? "text" : null },
              cell(row, c) ?? (isText[c] ? nameOf(row[c] ?? "–") : formatCell(row[c])),
            ),
          ),
        ),
      ),
    );
  }
  show();
  return element(
    "div",
    { class: "scroll", tabindex: 0 },
    element("table", {}, element("thead", {}, element("tr", {}, heads)), body),
  );
}

/** Numbers by size, text by letters, what is missing last in either direction. */
function compareCells(a, b, down) {
  const missing = (value) => value === null || value === undefined || value === "";
  if (missing(a) || missing(b)) return Number(missing(a)) - Number(missing(b));
  const [x, y] = [toNumber(a), toNumber(b)];
  const order =
    Number.isNaN(x) || Number.isNaN(y) ? String(a).localeCompare(String(b), undefined, { numeric: true }) : x - y;
  return down ? -order : order;
}
