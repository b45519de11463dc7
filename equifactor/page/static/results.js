/** A folder of results: tables, score against time, two solvers model by model, and links to the models. */

import { fetchJson, isExport, postJson } from "./api.js";
import { styledPicture } from "./chartPicture.js";
import { Curves } from "./curves.js";
import { element, fill } from "./dom.js";
import { counted, formatCell, formatSeconds } from "./format.js";
import { chartButtons } from "./saving.js";
import { scatterPlot } from "./scatter.js";
import { sortableTable } from "./sortable.js";
import { on } from "./store.js";

const PAUSE_OF_RESULTS = 5000; // Milliseconds between two requests for results. Chosen by hand.
const MEASURES = { error: "error", score: "score", seconds: "seconds" };

/** @param {HTMLElement} content */
export async function resultsView(content) {
  const report = element("div", { class: "report" });
  fill(content, report);
  let shown = null;
  /** Looks for new results again and again, because an evaluation may still be running. */
  async function look() {
    const results = await fetchJson("api/results");
    if (shown === null || results.updated !== shown) fill(report, ...reportParts(results));
    shown = results.updated;
    if (!isExport()) setTimeout(() => look().catch(() => {}), PAUSE_OF_RESULTS);
  }
  await look();
}

function reportParts(results) {
  const { tables = [], curves = [], models = [] } = results;
  const when = results.updated ? `, ${String(results.updated).slice(0, 16).replace("T", " ")} UTC` : "";
  document.getElementById("summary").textContent = `${counted(models.length, "model")}${when}`;
  labelRuns(models);
  const parts = joinedTables(tables).map((table) => section(table.title, sortableTable(table.columns, table.rows)));
  const pairs = element("div", { class: "pairs" });
  if (curves.length) pairs.append(curveSection(curves, results));
  if (solversOf(models).length > 1) pairs.append(comparison(models));
  if (pairs.childElementCount) parts.push(pairs);
  if (models.length) parts.push(modelList(models));
  const nothing = section("No results yet", element("p", { class: "note" }, "This folder contains no results yet."));
  return parts.length ? parts : [nothing];
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
  const place = section("Score against time");
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

/** Names each run by its solver, and by task and time limit if there are several. */
function labelRuns(models) {
  const rows = models.flatMap((model) => model.rows);
  const several = (key) => new Set(rows.map((row) => row[key] ?? null)).size > 1;
  const [tasks, limits] = [several("task"), several("time_limit")];
  for (const row of rows) {
    const limit = limits && row.time_limit ? `, ${formatSeconds(row.time_limit)}` : "";
    row.label = `${row.solver}${tasks ? `, ${row.task}` : ""}${limit}`;
  }
}

/** Joins tables with equal columns, with their titles as the first column, so that solvers can be sorted too. */
function joinedTables(tables) {
  const alike = tables.every((table) => String(table.columns) === String(tables[0].columns));
  if (tables.length < 2 || !alike) return tables;
  const rows = tables.flatMap((table) => table.rows.map((row) => [table.title, ...row]));
  return [{ title: "Scores", columns: ["run", ...tables[0].columns], rows }];
}

/** A choice of two solvers and a measure, and a point for every model. */
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
    choice("Solver on the horizontal axis", solvers, 0),
    choice("Solver on the vertical axis", solvers, 1),
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
    const drawn = scatterPlot(points, {
      x: `${what.value} of ${across.value}`,
      y: `${what.value} of ${up.value}`,
      log: what.value !== "score",
    });
    fill(plot, drawn, points.length > 0 && chartButtons("two-solvers", () => styledPicture(drawn)));
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
