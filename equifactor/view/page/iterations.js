/** The run of a message-passing solver, iteration by iteration, and a second run beside it. */

import { isExport, postJson, storedRuns } from "./api.js";
import { Curves } from "./curves.js";
import { element, fill, nameOf, refill } from "./dom.js";
import { evidenceBody } from "./evidence.js";
import { formatDifference } from "./format.js";
import { mostProbable } from "./paint.js";
import { Player } from "./player.js";
import { emit, on, shownTrace, state } from "./store.js";

const ITERATIONS = 200;
const SETTLED = 1e-3; // a residual below which a run counts as settled
const DEFAULTS = ["bp", "fe-net"];

/**
 * @param {HTMLElement} panel
 * @param {import("./stage.js").Stage} stage
 * @returns {{opened: () => void, closed: () => void}}
 */
export function iterationsPanel(panel, stage) {
  const offered = storedRuns(evidenceBody()) ?? DEFAULTS.filter((name) => state.session.solvers.includes(name));
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
  const moving = element("div", {});
  const player = new Player("iterations", (t) => moveTo(t));
  let curves = null;
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
      onPick: (x) => {
        player.stop();
        moveTo(Math.round(x) - 1);
      },
    });
    body.append(chooser, ...traces.map(verdict), moving);
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
    refill(chooser, ...traceChoices(() => moveTo(state.iteration)));
    refill(moving, ...movingParts(own, stage));
    emit("colours");
    emit("highlight");
    clearTimeout(wait);
    wait = setTimeout(() => loadMarginals(own), 140);
  }

  /** Beliefs in full of the iteration where the slider rests. */
  async function loadMarginals(t) {
    const trace = shownTrace();
    try {
      const reply = await postJson("api/trace/at", { solver: trace.solver, evidence: trace.evidence, t });
      if (shownTrace() !== trace || Math.min(state.iteration, trace.iterations - 1) !== t) return;
      state.marginalsAt = reply.marginals;
      emit("colours");
    } catch {
      // The colours of the most probable states stand.
    }
  }

  on("evidence", () => {
    stale = true;
    state.traces = [];
    state.highlight = [];
    player.stop();
    fill(body, element("p", { class: "note" }, "The observations have changed: run it again."));
  });
  on("theme", () => curves?.draw());
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

async function loadTrace(solver) {
  const evidence = evidenceBody();
  const trace = { ...(await postJson("api/trace", { solver, evidence, iterations: ITERATIONS })), solver, evidence };
  trace.iterations = trace.residuals.length;
  let last = null;
  try {
    last = (await postJson("api/trace/at", { solver, evidence, t: trace.iterations - 1 })).marginals;
  } catch {
    last = state.runs.find((run) => run.text === solver)?.reply?.marginals ?? state.runs[0]?.reply?.marginals ?? null;
  }
  trace.winners = last ? last.map(mostProbable) : new Array(state.model.numVariables).fill(0);
  return trace;
}

/** How the run ended, in a sentence. */
function verdict({ solver, residuals, iterations, cycle }) {
  const end = residuals.at(-1);
  let about = ` has not settled after ${iterations} iterations: its last residual is ${formatDifference(end)}.`;
  if (cycle) {
    const circle = cycle.period === 1 ? "jumps" : `goes in circles of ${cycle.period} iterations`;
    about = ` ${circle} from iteration ${cycle.since + 1} on: its messages come back instead of settling.`;
  } else if (iterations < ITERATIONS && end >= SETTLED) {
    about = ` ends after ${iterations} iterations; its last residual is ${formatDifference(end)}.`;
  } else if (end < SETTLED) {
    about = ` settles: its last residual is ${formatDifference(end)} after ${iterations} iterations.`;
  }
  return element("p", { class: "note" }, nameOf(solver, { class: "mono" }), about);
}

/** Of two runs, which one is on the graph. */
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
    element("h2", { class: "minor" }, "Messages that move most, ", nameOf(solver)),
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
