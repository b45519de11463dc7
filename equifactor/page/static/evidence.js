/** Observations, with undo and redo. */

import { canAnswer } from "./api.js";
import { announce } from "./dom.js";
import { emit, state } from "./store.js";

/** @type {Map<number, number>[]} */
let past = [];
/** @type {Map<number, number>[]} */
let future = [];

/** Observes a state of a variable; observing the same state again removes the observation. */
export function observe(variable, index) {
  if (state.fixed.has(variable)) return announce(`${state.model.names[variable]} is observed by the model itself.`);
  const next = new Map(state.evidence);
  if (next.get(variable) === index) next.delete(variable);
  else next.set(variable, index);
  changeEvidence(next);
}

/** Observes the next state of a variable; after the last state, removes the observation. */
export function cycleObservation(variable) {
  const next = (state.evidence.get(variable) ?? -1) + 1;
  if (next < state.model.stateNames(variable).length) observe(variable, next);
  else observe(variable, next - 1);
}

/** Removes all observations. */
export function clearEvidence() {
  if (state.evidence.size) changeEvidence(new Map());
}

export function canUndo() {
  return past.length > 0;
}

export function canRedo() {
  return future.length > 0;
}

export function undoEvidence() {
  if (past.length) replaceEvidence(past.pop(), future);
}

export function redoEvidence() {
  if (future.length) replaceEvidence(future.pop(), past);
}

/** The observations in the form that the server expects. */
export function evidenceBody(evidence = state.evidence) {
  return Object.fromEntries([...evidence].sort((a, b) => a[0] - b[0]));
}

/** Whether the answer after a click on this state is available: always from a server, not always from a file. */
export function canObserve(variable, index) {
  if (state.fixed.has(variable)) return false;
  const next = new Map(state.evidence);
  if (next.get(variable) === index) next.delete(variable);
  else next.set(variable, index);
  return state.runs.some((run) => canAnswer("api/solve", { solver: run.text, evidence: evidenceBody(next) }));
}

function changeEvidence(next) {
  future = [];
  replaceEvidence(next, past);
}

function replaceEvidence(next, keepIn) {
  keepIn.push(state.evidence);
  const changed = [...new Set([...state.evidence.keys(), ...next.keys()])].filter(
    (v) => state.evidence.get(v) !== next.get(v),
  );
  state.evidence = next;
  const told = changed.slice(0, 3).map((v) => {
    const name = state.model.names[v];
    return next.has(v) ? `${name} observed as ${state.model.stateNames(v)[next.get(v)]}` : `${name} no longer observed`;
  });
  announce(told.join(", "));
  emit("evidence");
}
