/** Tables that sort by a column on a click or by keyboard. */

import { element, fill, nameOf } from "./dom.js";
import { formatCell, toNumber } from "./format.js";

/**
 * @param {string[]} columns
 * @param {any[][]} rows numbers, text or null
 * @param {(row: any[], column: number) => ?Node} [cell] special content of a cell, or null
 */
export function sortableTable(columns, rows, cell = () => null) {
  let by = -1;
  let down = false;
  const isText = columns.map((_, c) => rows.some((row) => Number.isNaN(cellNumber(row[c])) && !isMissing(row[c])));
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

/** Compares numbers by size and text alphabetically; missing cells come last in either direction. */
function compareCells(a, b, down) {
  if (isMissing(a) || isMissing(b)) return Number(isMissing(a)) - Number(isMissing(b));
  const [x, y] = [cellNumber(a), cellNumber(b)];
  const isText = Number.isNaN(x) || Number.isNaN(y);
  const order = isText ? String(a).localeCompare(String(b), undefined, { numeric: true }) : x - y;
  return down ? -order : order;
}

function isMissing(value) {
  return value === null || value === undefined || value === "" || value === "-" || value === "–";
}

/** The number in a cell, also if it is text. */
function cellNumber(value) {
  const number = toNumber(value);
  const isWritten = Number.isNaN(number) && typeof value === "string" && /^[-+]?[\d.]/.test(value);
  return isWritten ? Number(value.replace(/[,%\u2009]/g, "")) : number;
}
