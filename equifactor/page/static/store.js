/**
 * The state of the page, and the listeners for its changes.
 *
 * @typedef {{text: string, reply: ?Object, error: ?string, pending: boolean, missing: boolean}} Run
 *   one solver of the list: its text, its last answer or error message, and the time of the request.
 */

export const state = {
  /** @type {Object} the reply of api/session */ session: {},
  /** @type {?import("./model.js").Model} */ model: null,
  /** @type {Map<number, number>} observed state of a variable */ evidence: new Map(),
  /** @type {Map<number, number>} the evidence of the model itself, which cannot be removed */
  fixed: new Map(),
  /** @type {Run[]} the first one is the reference of differences */ runs: [],
  /** @type {number} the run whose marginals colour the graph */ shown: 0,
  /** @type {?{states: number[], score: number}} */ map: null,
  /** @type {?string} */ mapProblem: null,
  /** @type {string} what the colours show; see paint.js */ colourBy: "marginal",
  /** @type {?{kind: "variable"|"factor", index: number}} */ selected: null,
  /** @type {Object[]} traces of iterations */ traces: [],
  /** @type {number} which of them is on the graph */ traceShown: 0,
  /** @type {number} iteration shown */ iteration: 0,
  /** @type {?number[][]} all marginals of that iteration, if they are loaded */ marginalsAt: null,
  /** @type {?Object} the reply of api/plan */ plan: null,
  /** @type {number} the number of eliminated variables */ step: 0,
  /** @type {?Object} the reply of api/symmetries */ symmetries: null,
  /** @type {{factor: number, variable: number}[]} messages to highlight */ highlight: [],
};

/** @type {Map<string, Set<Function>>} */
const listeners = new Map();

/**
 * Calls `callback` after each event of these names: `evidence`, `runs`, `selection`, `colours`, `theme`, `highlight`.
 * @param {string} names separated by spaces
 * @param {Function} callback
 */
export function on(names, callback) {
  for (const name of names.split(" ")) {
    if (!listeners.has(name)) listeners.set(name, new Set());
    listeners.get(name).add(callback);
  }
}

/** Calls all listeners of an event. */
export function emit(name, detail) {
  for (const callback of listeners.get(name) ?? []) callback(detail);
}

/** The run whose marginals are on the graph, or undefined before the first answer. */
export function shownRun() {
  return state.runs[state.shown];
}

/** The run whose iterations are on the graph. */
export function shownTrace() {
  return state.traces[state.traceShown];
}

/**
 * Selects a variable or a factor, or nothing.
 * @param {boolean} [inspect] whether to open its panel
 */
export function select(kind, index, inspect = false) {
  state.selected = kind === null ? null : { kind, index };
  emit("selection", inspect);
}
