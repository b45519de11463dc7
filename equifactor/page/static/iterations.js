/** The run of an iterative solver, iteration by iteration, optionally beside a second run. */

import { isExport, postJson } from "./api.js";
import { Curves } from "./curves.js";
import { element, fill, nameOf, refill } from "./dom.js";
import { formatDifference } from "./format.js";
import { Player } from "./player.js";
import { emit, on, shownTrace, state } from "./store.js";
import { beliefSeries, loadTrace, offeredRuns, verdict } from "./traces.js";

/**
 * @param {HTMLElement} panel
 * @param {import("./stage.js").Stage} stage
 * @returns {{opened: () => void, closed: () => void}}
 */
export function iterationsPanel(panel, stage) {
  const offered = offeredRuns();
  const first = solverBox("Solver of the run", offered[0] ?? "");
  const second = solverBox("Second solver, optional", offered[1] ?? "");
  const run = element("button", { type: "submit", class: "primary" }, "Run");
  const form = element(
    "form",
    {
      class: "row",
      onsubmit: (event) => {
        event.preventDefault();
        load();
      },
    },
    first,
    second,
    run,
  );
  const body = element("div", {});
  const chooser = element("div", { class: "row wrap" });
  const belief = element("div", {});
  const moving = element("div", {});
  const player = new Player("iterations", (t) => moveTo(t));
  let curves = null;
  let beliefCurves = null;
  let wait = 0;
  let stale = true;
  let isOpen = false;
  panel.append(form, body);

  async function load() {
    stale = false;
    player.stop();
    fill(body, element("p", { class: "note busy" }, "Running …"));
    const texts = [first.value.trim(), second.value.trim()].filter((text, i, all) => text && all.indexOf(text) === i);
    const traces = [];
    const problems = [];
    for (const solver of texts) {
      try {
        traces.push(await loadTrace(solver));
      } catch (problem) {
        problems.push([solver, problem.message]);
      }
    }
    state.traces = traces;
    state.traceShown = 0;
    state.marginalsAt = null;
    fill(
      body,
      problems.map(([solver, text]) =>
        element("p", { class: isExport() ? "note" : "problem" }, nameOf(solver), ": ", text),
      ),
    );
    if (!traces.length) return emit("colours");
    body.append(element("div", { class: "gap-small" }), player.element);
    curves = new Curves(body, {
      xLabel: "iteration",
      yLabel: "residual",
      logY: true,
      series: traces.map((trace) => ({
        label: trace.solver,
        x: trace.residuals.map((_, t) => t + 1),
        y: trace.residuals,
      })),
      cursor: () => state.iteration + 1,
      onPick: pick,
    });
    body.append(chooser, ...traces.map(verdict), belief, moving);
    drawBelief();
    moveTo(0);
  }

  function moveTo(t) {
    const last = Math.max(...state.traces.map((trace) => trace.iterations)) - 1;
    state.iteration = Math.min(Math.max(0, t), last);
    const trace = shownTrace();
    const own = Math.min(state.iteration, trace.iterations - 1);
    state.marginalsAt = null;
    state.highlight = isOpen ? (trace.moving?.[own] ?? []) : [];
    if (isOpen) state.colourBy = "iteration";
    player.set(last, state.iteration, `${state.iteration + 1} of ${last + 1}`);
    curves?.moveCursor();
    beliefCurves?.moveCursor();
    refill(chooser, ...traceChoices(() => moveTo(state.iteration)));
    refill(moving, ...movingParts(own, stage));
    emit("colours");
    emit("highlight");
    clearTimeout(wait);
    wait = setTimeout(() => loadMarginals(own), 140);
  }

  /** Draws the belief of the selected variable over all iterations. */
  function drawBelief() {
    fill(belief);
    beliefCurves = null;
    const variable = state.selected?.kind === "variable" ? state.selected.index : -1;
    const known = state.traces.filter((trace) => trace.beliefs);
    if (variable < 0 || !known.length) return;
    const wins = state.model.stateNames(variable)[known[0].winners[variable]];
    belief.append(
      element("h2", { class: "minor" }, "Belief in ", nameOf(state.model.names[variable]), " = ", nameOf(wins)),
    );
    beliefCurves = new Curves(belief, {
      xLabel: "iteration",
      yLabel: "probability",
      height: 160,
      rangeY: [0, 1],
      series: known.map((trace) => beliefSeries(trace, variable, known[0].winners[variable])),
      cursor: () => state.iteration + 1,
      onPick: pick,
    });
  }

  function pick(x) {
    player.stop();
    moveTo(Math.round(x) - 1);
  }

  /** Loads all marginals of the iteration at which the slider stops. */
  async function loadMarginals(t) {
    const trace = shownTrace();
    try {
      const reply = await postJson("api/trace/at", { solver: trace.solver, evidence: trace.evidence, t });
      if (shownTrace() !== trace || Math.min(state.iteration, trace.iterations - 1) !== t) return;
      state.marginalsAt = reply.marginals;
      emit("colours");
    } catch {
      // The colours of the most probable states remain.
    }
  }

  on("evidence", () => {
    stale = true;
    state.traces = [];
    state.highlight = [];
    player.stop();
    fill(body, element("p", { class: "note" }, "The observations have changed. Run again to update."));
  });
  on("selection", drawBelief);
  on("theme", () => [curves, beliefCurves].forEach((drawn) => drawn?.draw()));
  return {
    opened() {
      isOpen = true;
      if (stale) load();
      else if (state.traces.length) moveTo(state.iteration);
    },
    closed() {
      isOpen = false;
      player.stop();
      state.highlight = [];
      emit("highlight");
    },
  };
}

function solverBox(label, value) {
  return element("input", {
    type: "text",
    class: "grow mono",
    list: "solver-names",
    value,
    "aria-label": label,
    spellcheck: "false",
    autocomplete: "off",
    size: 8,
  });
}

/** Buttons that choose which of two runs is on the graph. */
function traceChoices(changed) {
  if (state.traces.length < 2) return [];
  const choose = (index) => {
    state.traceShown = index;
    changed();
  };
  return [
    element("span", { class: "muted small" }, "On the graph:"),
    state.traces.map((trace, i) =>
      element(
        "button",
        {
          type: "button",
          class: "small",
          "aria-pressed": String(i === state.traceShown),
          "data-focus": `trace-${i}`,
          onclick: () => choose(i),
        },
        nameOf(trace.solver),
      ),
    ),
  ];
}

function movingParts(t, stage) {
  const { solver, moving } = shownTrace();
  const list = moving?.[t] ?? [];
  if (!list.length) return [];
  const { model } = state;
  return [
    element("h2", { class: "minor" }, "Messages that change most, ", nameOf(solver)),
    element(
      "ul",
      { class: "items" },
      list.map(({ factor, variable, change }) =>
        element(
          "li",
          {},
          element(
            "button",
            {
              type: "button",
              class: "link",
              "data-focus": `move-${factor}-${variable}`,
              onclick: () => stage.goTo("variable", variable, false),
            },
            nameOf(model.factorNames[factor]),
            " → ",
            nameOf(model.names[variable]),
          ),
          element("span", { class: "end" }, formatDifference(change)),
        ),
      ),
    ),
  ];
}
