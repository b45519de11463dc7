/** Training logs: one chart per column with all runs, updated during a run. */

import { fetchJson, isExport } from "./api.js";
import { Curves } from "./curves.js";
import { element, fill, nameOf } from "./dom.js";
import { formatCell, toNumber } from "./format.js";
import { solverKey } from "./marks.js";
import { on } from "./store.js";

const PAUSE = 2000; // Milliseconds between two requests during a run. Chosen by hand.
const PLACES = ["step", "epoch", "iteration"];

/** @param {HTMLElement} content */
export async function trainingView(content) {
  const runs = new Map();
  const charts = new Map();
  const head = element("section", { "aria-live": "polite" });
  const grid = element("div", { class: "pairs" });
  fill(content, element("div", { class: "report" }, head, grid));

  async function look() {
    const since = runs.size ? Math.min(...[...runs.values()].map((run) => run.rows.length)) : 0;
    const reply = await fetchJson("api/training", { since });
    const changed = reply.runs.filter((news) => mergeRun(runs, news, since)).length > 0;
    if (changed || !head.childElementCount) fill(head, ...headParts([...runs.values()]));
    if (changed) drawCharts(grid, charts, [...runs.values()]);
    return [...runs.values()].some((run) => !run.done) || !runs.size;
  }
  async function follow() {
    let going = true;
    try {
      going = await look();
      head.querySelector(".problem")?.remove();
    } catch (problem) {
      if (!head.querySelector(".problem")) head.append(element("p", { class: "problem" }, problem.message));
    }
    if (!isExport()) setTimeout(follow, going ? PAUSE : 5 * PAUSE);
  }
  on("theme", () => charts.forEach((chart) => chart.draw()));
  await follow();
}

/** Appends new rows to the known ones; returns whether anything is new. */
function mergeRun(runs, news, since) {
  const known = runs.get(news.name);
  const start = news.start ?? since;
  const rows = [...(known?.rows.slice(0, start) ?? []), ...news.rows];
  const changed = !known || rows.length !== known.rows.length || known.done !== news.done;
  runs.set(news.name, { ...news, rows });
  return changed;
}

function headParts(runs) {
  if (!runs.length)
    return [
      element("h2", {}, "Training"),
      element("p", { class: "note" }, "No run has written a log yet. This page checks every two seconds."),
    ];
  return [
    element("h2", {}, "Training"),
    element(
      "ul",
      { class: "items" },
      runs.map((run) =>
        element(
          "li",
          {},
          solverKey(run.name),
          nameOf(run.name),
          element("span", { class: `chip ${run.done ? "good" : "warn"}` }, run.done ? "done" : "running"),
          element("span", { class: "end" }, bestText(run)),
        ),
      ),
    ),
  ];
}

function bestText(run) {
  const best =
    run.best === null || run.best === undefined
      ? ""
      : `best ${
          typeof run.best === "object"
            ? Object.entries(run.best)
                .map(([k, v]) => `${k} ${formatCell(v)}`)
                .join(", ")
            : formatCell(run.best)
        }, `;
  return `${best}${run.rows.length} rows`;
}

/** Draws one chart per column of numbers, logarithmic if all numbers are positive and differ by more than 8x. */
function drawCharts(grid, charts, runs) {
  const columns = [...new Set(runs.flatMap((run) => run.columns))].filter((column) => !PLACES.includes(column));
  for (const column of columns) {
    const series = runs.flatMap((run) => seriesOf(run, column));
    if (!series.length) continue;
    const values = series.flatMap((one) => one.y).filter(Number.isFinite);
    if (charts.has(column)) {
      charts.get(column).draw(series);
      continue;
    }
    const place = element("section", {}, element("h2", {}, nameOf(column)));
    grid.append(place);
    const logY = values.length > 1 && Math.min(...values) > 0 && Math.max(...values) > 8 * Math.min(...values);
    charts.set(
      column,
      new Curves(place, { xLabel: placeColumn(runs[0]) ?? "row", yLabel: column, series, logY, height: 240 }),
    );
  }
}

function placeColumn(run) {
  return PLACES.find((name) => run.columns.includes(name));
}

function seriesOf(run, column) {
  const at = run.columns.indexOf(column);
  const place = run.columns.indexOf(placeColumn(run));
  if (at < 0) return [];
  const rows = run.rows
    .map((row, i) => [place < 0 ? i : toNumber(row[place]), toNumber(row[at])])
    .filter(([, y]) => !Number.isNaN(y));
  return rows.length ? [{ label: run.name, x: rows.map(([x]) => x), y: rows.map(([, y]) => y) }] : [];
}
