/** Runs of message passing: which ones are offered, how they are loaded, what is said about them. */

import { postJson, Refused, storedRuns } from "./api.js";
import { hueOf } from "./colours.js";
import { element, nameOf } from "./dom.js";
import { evidenceBody } from "./evidence.js";
import { formatDifference } from "./format.js";
import { mostProbable } from "./paint.js";
import { state } from "./store.js";

const ITERATIONS = 200;
const SETTLED = 1e-3; // a residual below which a run counts as settled
const DEFAULTS = ["bp", "fe-net"];

/** The two solvers to begin with; an exported file may hold others only. */
export function offeredRuns() {
  const held = storedRuns(evidenceBody());
  const usual = DEFAULTS.filter((name) => (held ?? state.session.solvers).includes(name));
  return [...new Set([...usual, ...(held ?? [])])];
}

/** A run under the present observations, with the state of every variable that wins in the end. */
export async function loadTrace(solver) {
  const evidence = evidenceBody();
  const trace = { ...(await postJson("api/trace", { solver, evidence, iterations: ITERATIONS })), solver, evidence };
  trace.iterations = trace.residuals.length;
  if (!trace.iterations) throw new Refused("There is nothing to iterate.");
  let last = null;
  try {
    last = (await postJson("api/trace/at", { solver, evidence, t: trace.iterations - 1 })).marginals;
  } catch {
    last = state.runs.find((run) => run.text === solver)?.reply?.marginals ?? state.runs[0]?.reply?.marginals ?? null;
  }
  trace.winners = last ? last.map(mostProbable) : new Array(state.model.numVariables).fill(0);
  return trace;
}

/** A run knows the beliefs in its own winner; with two states the other one has the rest. */
export function beliefSeries(trace, variable, winner) {
  const same = trace.winners[variable] === winner;
  const isBinary = state.model.stateNames(variable).length === 2;
  const of = (p) => (same ? p : isBinary ? 1 - p : null);
  const colour = hueOf(state.traces.indexOf(trace));
  return {
    label: trace.solver,
    x: trace.beliefs.map((_, t) => t + 1),
    y: trace.beliefs.map((row) => of(row[variable])),
    colour,
  };
}

/** How the run ended, in a sentence. */
export function verdict({ solver, residuals, iterations, cycle }) {
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
