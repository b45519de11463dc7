/** Solvers side by side: answer, time, and difference from the first. */

import { isExport } from "./api.js";
import { statusTone } from "./answer.js";
import { element, nameOf, refill } from "./dom.js";
import { formatDifference, formatEstimate, formatSeconds, toNumber } from "./format.js";
import { solverKey } from "./marks.js";
import { largestDifference } from "./paint.js";
import { addSolver, removeSolver, showSolver, solveAll } from "./solving.js";
import { emit, on, state } from "./store.js";

/** @param {HTMLElement} panel */
export function solversPanel(panel) {
  const list = element("div", { "aria-live": "off" });
  const worst = element("div", {});
  panel.append(
    element(
      "p",
      { class: "note" },
      "The first solver is the reference for the others. Click a name to show its marginals on the graph.",
    ),
    element("div", { class: "gap-small" }),
    list,
    adder(),
    worst,
  );
  const show = () => {
    refill(list, state.runs.map(runCard));
    refill(worst, ...farthest());
  };
  on("runs theme", show);
  show();
}

/** Largest and mean difference of the marginals from those of the first solver, or null. */
export function differencesToFirst(run) {
  const [p, q] = [run.reply?.marginals, state.runs[0].reply?.marginals];
  if (!p || !q || run === state.runs[0]) return null;
  const gaps = p.map((values, v) => largestDifference(values, q[v]));
  return {
    largest: gaps.reduce((a, b) => Math.max(a, b), 0),
    mean: gaps.reduce((a, b) => a + b, 0) / Math.max(1, gaps.length),
    gaps,
  };
}

function runCard(run, index) {
  const differences = differencesToFirst(run);
  const pair = (term, value) => element("div", {}, element("dt", {}, term), element("dd", {}, value));
  const gapOfLogs = toNumber(run.reply?.log_z) - toNumber(state.runs[0].reply?.log_z);
  return element(
    "div",
    { class: `solver${index === state.shown ? " shown" : ""}`, "data-solver": run.text },
    element(
      "div",
      { class: "row" },
      solverKey(run.text),
      element(
        "button",
        {
          type: "button",
          class: "link",
          "data-focus": `show-${run.text}`,
          "aria-pressed": String(index === state.shown),
          onclick: () => showSolver(index),
        },
        nameOf(run.text),
      ),
      element("span", { class: "grow" }),
      run.reply && element("span", { class: `chip ${statusTone(run)}` }, run.reply.status),
      state.runs.length > 1 &&
        !isExport() &&
        element(
          "button",
          {
            type: "button",
            class: "quiet icon",
            "data-focus": `drop-${run.text}`,
            "aria-label": `Remove ${run.text}`,
            onclick: () => removeSolver(index),
          },
          "×",
        ),
    ),
    run.pending && element("p", { class: "muted small busy" }, "Solving …"),
    run.error && element("p", { class: run.missing ? "muted small" : "problem small" }, run.error),
    run.reply &&
      element(
        "dl",
        {},
        pair("ln Z", formatEstimate(run.reply.log_z, run.reply.log_z_error)),
        pair("time", formatSeconds(toNumber(run.reply.seconds))),
        run.reply.iterations ? pair("iterations", String(run.reply.iterations)) : null,
        differences && pair("largest diff.", formatDifference(differences.largest)),
        differences && pair("mean diff.", formatDifference(differences.mean)),
        index > 0 && Number.isFinite(gapOfLogs) ? pair("ln Z diff.", formatDifference(gapOfLogs)) : null,
      ),
    run.reply?.message && !run.error && element("p", { class: "muted small" }, run.reply.message),
  );
}

function adder() {
  if (isExport())
    return element(
      "p",
      { class: "note" },
      "This file contains the answers of these solvers. For others, use “equifactor view”.",
    );
  const input = element("input", {
    type: "text",
    class: "grow mono",
    list: "solver-names",
    placeholder: "bp(damping=0.5)",
    "aria-label": "Another solver",
    spellcheck: "false",
    autocomplete: "off",
  });
  const add = (event) => {
    event.preventDefault();
    addSolver(input.value.trim());
    input.value = "";
  };
  return element(
    "form",
    { class: "row", onsubmit: add },
    input,
    element(
      "datalist",
      { id: "solver-names" },
      (state.session.solvers ?? []).map((name) => element("option", { value: name })),
    ),
    element("button", { type: "submit", class: "primary" }, "Add"),
    element("button", { type: "button", onclick: () => solveAll() }, "Run again"),
  );
}

/** The variables at which the shown solver differs most from the first. */
function farthest() {
  const run = state.runs[state.shown || 1];
  const differences = run && differencesToFirst(run);
  if (!differences || differences.largest === 0) return [];
  const order = [...differences.gaps.keys()].sort((a, b) => differences.gaps[b] - differences.gaps[a]).slice(0, 12);
  return [
    element("h2", { class: "minor" }, "Where ", nameOf(run.text), " differs most"),
    element(
      "button",
      { type: "button", class: "small", "data-focus": "difference", onclick: colourByDifference },
      "Colour the graph by this difference",
    ),
    element(
      "ul",
      { class: "items" },
      order.map((v) =>
        element(
          "li",
          {},
          element(
            "button",
            { type: "button", class: "link", "data-focus": `far-${v}`, "data-variable": v },
            nameOf(state.model.names[v]),
          ),
          element("span", { class: "end" }, formatDifference(differences.gaps[v])),
        ),
      ),
    ),
  ];
}

function colourByDifference() {
  state.colourBy = "difference";
  emit("colours");
}
