/** Traces of iterative solvers: the default solvers, loading, and a sentence on how a run ended. */

import { postJson, Refused, storedRuns } from "./api.js";
import { element, nameOf } from "./dom.js";
import { evidenceBody } from "./evidence.js";
import { counted, formatDifference } from "./format.js";
import { mostProbable } from "./paint.js";
import { state } from "./store.js";

const ITERATIONS = 200; // Iterations of a run, at most. Chosen by hand.
const DEFAULTS = ["bp", "fe-net"];

/** The two solvers to start with; an exported file may contain only others. */
export function offeredRuns() {
  const held = storedRuns(evidenceBody());
  const usual = DEFAULTS.filter((name) => (held ?? state.session.solvers).includes(name));
  return [...new Set([...usual, ...(held ?? [])])];
}

/** Loads a run given the current observations, with the state of each variable that wins in the end. */
export async function loadTrace(solver) {
  const evidence = evidenceBody();
  const trace = { ...(await postJson("api/trace", { solver, evidence, iterations: ITERATIONS })), solver, evidence };
  trace.iterations = trace.residuals.length;
  if (!trace.iterations) throw new Refused("The observations leave nothing to iterate.");
  let last = null;
  try {
    last = (await postJson("api/trace/at", { solver, evidence, t: trace.iterations - 1 })).marginals;
  } catch {
    last = state.runs.find((run) => run.text === solver)?.reply?.marginals ?? state.runs[0]?.reply?.marginals ?? null;
  }
  trace.winners = last ? last.map(mostProbable) : new Array(state.model.numVariables).fill(0);
  return trace;
}

/** The belief in a state over a run. A run stores the belief in its own winner; two states give both beliefs. */
export function beliefSeries(trace, variable, winner) {
  const same = trace.winners[variable] === winner;
  const isBinary = state.model.stateNames(variable).length === 2;
  const of = (p) => (same ? p : isBinary ? 1 - p : null);
  return {
    label: trace.solver,
    x: trace.beliefs.map((_, t) => t + 1),
    y: trace.beliefs.map((row) => of(row[variable])),
  };
}

/** A sentence on how the run ended, by the status of the solver itself, as in the other panels. */
export function verdict({ solver, residuals, iterations, cycle, status, complete }) {
  const length = counted(iterations, "iteration");
  const end = `its last residual is ${formatDifference(residuals.at(-1))}.`;
  let about = ` ended with the status ${status} after ${length}; ${end}`;
  if (cycle) {
    const period = counted(cycle.period, "iteration");
    about = ` does not converge: from iteration ${cycle.since + 1} on, it repeats every ${period}.`;
  } else if (!complete) {
    about = ` had not converged by iteration ${iterations}, the last one shown; ${end}`;
  } else if (status === "converged") {
    about = ` converged after ${length}; ${end}`;
  } else if (status === "iteration-limit") {
    about = ` had not converged at its limit of ${length}; ${end}`;
  }
  return element("p", { class: "note verdict" }, nameOf(solver, { class: "mono" }), about);
}
