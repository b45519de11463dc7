/** Requests to the solvers: the shown one first, then the others, then the most probable assignment. */

import { canAnswer, NotStored, postJson } from "./api.js";
import { evidenceBody } from "./evidence.js";
import { emit, state } from "./store.js";

const SECONDS = 5; // Time limit of each solver. Chosen by hand.
let round = 0;
let mapRound = 0;
/** @type {?AbortController} */
let underway = null;

/** Adds a solver to the list and runs it. */
export function addSolver(text) {
  if (!text || state.runs.some((run) => run.text === text)) return;
  state.runs.push(newRun(text));
  emit("runs");
  solveAll([state.runs.length - 1]);
}

/** Removes a solver from the list. */
export function removeSolver(index) {
  const before = state.runs[state.shown];
  state.runs.splice(index, 1);
  const shown = state.runs.indexOf(before);
  if (shown < 0) return showSolver(Math.max(0, index - 1));
  state.shown = shown;
  emit("runs");
}

/** Shows the marginals of another solver on the graph, and requests its assignment. */
export function showSolver(index) {
  state.shown = index;
  forgetMap(); // It is the assignment of another solver.
  emit("runs");
  if (state.runs[index].reply) askMap(round);
}

/** @returns {import("./store.js").Run} */
export function newRun(text) {
  return { text, reply: null, error: null, pending: false, missing: false };
}

/**
 * Requests marginals from solvers given the current observations. A later call makes these answers stale.
 * @param {?number[]} [only] indices into the list; all by default
 */
export async function solveAll(only = null) {
  const mine = only ? round : ++round;
  if (!only) {
    underway?.abort();
    underway = new AbortController();
    forgetMap();
  }
  const asked = only ?? [state.shown, ...state.runs.keys()].filter((run, i, all) => all.indexOf(run) === i);
  const runs = asked.map((index) => state.runs[index]).filter(Boolean);
  for (const run of runs) run.pending = true;
  emit("runs");
  for (const run of runs) {
    await askRun(run, mine);
    if (mine !== round) return;
    emit("runs");
  }
  await askMap(mine);
}

async function askRun(run, mine) {
  try {
    const reply = await postJson("api/solve", bodyFor(run), underway?.signal);
    if (mine !== round) return;
    run.reply = reply;
    run.error = reply.answered ? null : reply.message;
    run.missing = false;
  } catch (problem) {
    if (mine !== round || problem.name === "AbortError") return;
    run.reply = null;
    run.error = problem.message;
    run.missing = problem instanceof NotStored;
  }
  run.pending = false;
}

function forgetMap() {
  state.map = null;
  state.mapProblem = null;
}

async function askMap(mine) {
  const asked = ++mapRound;
  const run = state.runs[state.shown];
  if (!run || !canAnswer("api/map", bodyFor(run))) return;
  try {
    const reply = await postJson("api/map", bodyFor(run), underway?.signal);
    if (mine !== round || asked !== mapRound) return;
    state.map = reply.states ? reply : null;
    state.mapProblem = reply.states ? null : reply.message;
  } catch (problem) {
    if (mine !== round || asked !== mapRound || problem.name === "AbortError") return;
    state.map = null;
    state.mapProblem = problem.message;
  }
  emit("runs");
}

function bodyFor(run) {
  return { solver: run.text, evidence: evidenceBody(), seconds: SECONDS };
}
