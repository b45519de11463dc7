/** A folder of results: tables, curves against time, two solvers model by model, and a way into the models. */

import { fetchJson, isExport, postJson } from "./api.js";
import { Curves } from "./curves.js";
import { element, fill } from "./dom.js";
import { formatCell, formatSeconds } from "./format.js";
import { scatterPlot } from "./scatter.js";
import { sortableTable } from "./sortable.js";
import { on } from "./store.js";

const MEASURES = { error: "error", score: "score", seconds: "seconds" };

/** @param {HTMLElement} content */
export async function resultsView(content) {
  const report = element("div", { class: "report" });
  fill(content, report);
  const results = await fetchJson("api/results");
  const { tables = [], curves = [], models = [] } = results;
  document.getElementById("summary").textContent =
    `${models.length} models${results.updated ? `, ${results.updated}` : ""}`;
  labelRuns(models);
  report.append(...tables.map((table) => section(table.title, sortableTable(table.columns, table.rows))));
  const pairs = element("div", { class: "pairs" });
  report.append(pairs);
  if (curves.length) pairs.append(curveSection(curves, results));
  if (solversOf(models).length > 1) pairs.append(comparison(models));
  if (models.length) report.append(modelList(models));
  if (!report.textContent)
    report.append(section("Nothing yet", element("p", { class: "note" }, "This folder holds no results yet.")));
}

/** Opens a model of the collection in this page. */
export async function openModel(name) {
  await postJson("api/open", { model: name });
  location.reload();
}

function canOpen(model) {
  return Boolean(model.path) && !isExport();
}

function section(title, ...parts) {
  return element("section", {}, element("h2", {}, title), parts);
}

function curveSection(curves, results) {
  const label = results.score_label ?? "score";
  const place = section(`${label[0].toUpperCase()}${label.slice(1)} against time`);
  const positive = curves.every((curve) => curve.score.every((value) => value === null || value > 0));
  requestAnimationFrame(() => {
    const drawn = new Curves(place, {
      xLabel: "seconds",
      yLabel: label,
      logX: true,
      logY: positive,
      height: 340,
      series: curves.map((curve) => ({
        label: curve.solver,
        x: curve.seconds,
        y: curve.score,
        points: curve.seconds.length < 12,
      })),
    });
    on("theme", () => drawn.draw());
  });
  return place;
}

function solversOf(models) {
  return [...new Set(models.flatMap((model) => model.rows.map((row) => row.label)))];
}

/** Names runs by solver, and by task and time limit where there are several. */
function labelRuns(models) {
  const rows = models.flatMap((model) => model.rows);
  const several = (key) => new Set(rows.map((row) => row[key] ?? null)).size > 1;
  const [tasks, limits] = [several("task"), several("time_limit")];
  for (const row of rows) {
    const limit = limits && row.time_limit ? `, ${formatSeconds(row.time_limit)}` : "";
    row.label = `${row.solver}${tasks ? `, ${row.task}` : ""}${limit}`;
  }
}

/** Two solvers and a measure to choose, and a point for every model. */
function comparison(models) {
  const solvers = solversOf(models);
  const measures = Object.keys(MEASURES).filter((name) =>
    models.some((model) => model.rows.some((row) => typeof row[name] === "number")),
  );
  const choice = (label, values, at) =>
    element(
      "select",
      { "aria-label": label, onchange: () => show() },
      values.map((value, i) => element("option", { value, selected: i === at }, value)),
    );
  const [across, up, what] = [
    choice("Solver across", solvers, 0),
    choice("Solver up", solvers, 1),
    choice("Measure", measures, 0),
  ];
  const plot = element("div");
  function show() {
    const points = models.flatMap((model) => {
      const [x, y] = [across.value, up.value].map(
        (solver) => model.rows.find((row) => row.label === solver)?.[what.value],
      );
      return typeof x === "number" && typeof y === "number"
        ? [{ name: model.name, x, y, open: canOpen(model) ? () => openModel(model.name) : null }]
        : [];
    });
    fill(
      plot,
      scatterPlot(points, {
        x: `${what.value} of ${across.value}`,
        y: `${what.value} of ${up.value}`,
        log: what.value !== "score",
      }),
    );
  }
  show();
  return section("Two solvers, model by model", element("div", { class: "row wrap" }, what, across, "and", up), plot);
}

function modelList(models) {
  const solvers = solversOf(models);
  const measure = models.some((model) => model.rows.some((row) => typeof row.error === "number")) ? "error" : "score";
  const rows = models.map((model) => [
    model.name,
    ...solvers.map((solver) => model.rows.find((row) => row.label === solver)?.[measure] ?? null),
  ]);
  const openable = new Set(models.filter(canOpen).map((model) => model.name));
  const cell = (row, column) => {
    if (column > 0 || !openable.has(row[0])) return column > 0 ? element("span", {}, formatCell(row[column])) : null;
    return element(
      "button",
      { type: "button", class: "link", onclick: () => openModel(row[0]) },
      element("bdi", { dir: "auto" }, row[0]),
    );
  };
  return section(`Models: ${measure}`, sortableTable(["model", ...solvers], rows, cell));
}
