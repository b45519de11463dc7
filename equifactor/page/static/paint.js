/**
 * What the colours of variables show. A paint assigns every variable a position in a list of colours, so that the
 * graph can be drawn colour by colour.
 *
 * @typedef {{bucket: Uint16Array, palette: string[], legend: Object, value: (variable: number) => string,
 *   factorColour?: (factor: number) => ?string}} Paint `value` is the text for the colour of a variable.
 */

import { hueOf, mixed, scaleColours } from "./colours.js";
import { cssColour } from "./dom.js";
import { formatDifference, formatProbability } from "./format.js";
import { shownRun, shownTrace, state } from "./store.js";

const DIVERGING = 65; // Colours of the scale between two states.
const LEVELS = 33; // Colours of the other scales.
const SATURATIONS = 12; // Shades of the colour of one state.
const MAX_HUES = 40; // Colours of states or orbits, which then repeat.

/** The choices, each with a test whether its data is available. */
export const PAINTS = {
  marginal: { title: "Marginals", ready: () => Boolean(shownRun()?.reply?.marginals) },
  map: { title: "Most probable assignment", ready: () => Boolean(state.map) },
  entropy: { title: "Entropy", ready: () => Boolean(shownRun()?.reply?.marginals) },
  difference: { title: "Difference between two solvers", ready: () => Boolean(comparedRuns()) },
  iteration: { title: "Iteration", ready: () => state.traces.length > 0 },
  step: { title: "Elimination step", ready: () => Boolean(state.plan) },
  orbit: { title: "Orbits", ready: () => Boolean(state.symmetries) },
};

/** The two runs whose difference is shown: the first, and the selected one or the next with marginals. */
export function comparedRuns() {
  const reference = state.runs[0];
  const other = state.runs[state.shown || state.runs.findIndex((run, i) => i > 0 && run.reply?.marginals)];
  return reference?.reply?.marginals && other?.reply?.marginals && other !== reference ? [reference, other] : null;
}

/** The largest difference of two distributions. */
export function largestDifference(p, q) {
  let largest = 0;
  for (let s = 0; s < p.length; s++) largest = Math.max(largest, Math.abs(p[s] - q[s]));
  return largest;
}

/** The most probable state of a distribution. */
export function mostProbable(p) {
  return p.reduce((best, value, s) => (value > p[best] ? s : best), 0);
}

/** @returns {string} the choice of what the colours show; a solver that answers MAP alone has no marginals to show */
export function colouring() {
  const onlyMap = shownRun()?.reply?.answered && !PAINTS.marginal.ready() && PAINTS.map.ready();
  return onlyMap && state.colourBy === "marginal" ? "map" : state.colourBy;
}

/** @returns {Paint} for the current choice; grey while its data is missing */
export function currentPaint() {
  const chosen = colouring();
  if (!PAINTS[chosen].ready()) return plainPaint();
  if (chosen === "marginal") return marginalPaint(shownRun().reply.marginals);
  if (chosen === "map") return mapPaint();
  if (chosen === "entropy") return entropyPaint(shownRun().reply.marginals);
  if (chosen === "difference") return differencePaint(...comparedRuns());
  if (chosen === "iteration") return iterationPaint();
  return chosen === "step" ? stepPaint() : orbitPaint();
}

/** The colour of a state of a variable, as bars and legends show it. */
export function stateColour(variable, index) {
  return state.model.stateNames(variable).length === 2 ? scaleColours("diverging", 2)[index] : hueOf(index);
}

function plainPaint() {
  return {
    bucket: new Uint16Array(state.model.numVariables),
    palette: [cssColour("--neutral")],
    legend: { kind: "none" },
    value: () => "",
  };
}

/** With two states, a scale between two colours; with more, the colour of the top state, paler if less certain. */
function distributionPaint(winnerOf, legend, value) {
  const { model } = state;
  const hues = Math.min(MAX_HUES, Math.max(2, model.mostStates));
  const palette = scaleColours("diverging", DIVERGING);
  const grey = cssColour("--neutral");
  for (let h = 0; h < hues && !model.allBinary; h++) {
    const full = hueOf(h);
    for (let level = 0; level < SATURATIONS; level++) palette.push(mixed(grey, full, level / (SATURATIONS - 1)));
  }
  const bucket = new Uint16Array(model.numVariables);
  for (let v = 0; v < model.numVariables; v++) {
    const [winner, p] = winnerOf(v);
    const count = model.stateNames(v).length;
    if (count === 2) {
      bucket[v] = Math.round((winner === 1 ? p : 1 - p) * (DIVERGING - 1));
    } else {
      const sure = count > 1 ? Math.max(0, (p - 1 / count) / (1 - 1 / count)) : 1;
      bucket[v] = DIVERGING + (winner % hues) * SATURATIONS + Math.round(sure * (SATURATIONS - 1));
    }
  }
  return { bucket, palette, legend, value };
}

function marginalPaint(marginals) {
  const winnerOf = (v) => {
    const winner = mostProbable(marginals[v]);
    return [winner, marginals[v][winner]];
  };
  const value = (v) => {
    const [winner, p] = winnerOf(v);
    return `${state.model.stateNames(v)[winner]} ${formatProbability(p)}`;
  };
  return distributionPaint(winnerOf, { kind: "states", title: "Marginal" }, value);
}

function mapPaint() {
  const { states } = state.map;
  const value = (v) => String(state.model.stateNames(v)[states[v]]);
  return distributionPaint((v) => [states[v], 1], { kind: "states", title: "Most probable assignment" }, value);
}

function iterationPaint() {
  const trace = shownTrace();
  const legend = { kind: "states", title: `${trace.solver}, iteration ${state.iteration + 1}` };
  if (state.marginalsAt) return { ...marginalPaint(state.marginalsAt), legend };
  const at = trace.beliefs?.[Math.min(state.iteration, trace.iterations - 1)];
  if (!at) return plainPaint();
  // Only the probability of the state that wins in the end is known; with two states, it gives the other one.
  const value = (v) => `${state.model.stateNames(v)[trace.winners[v]]} ${at[v].toFixed(3)}`;
  return distributionPaint((v) => [trace.winners[v], at[v]], legend, value);
}

function scalePaint(name, values, legend, value) {
  const bucket = Uint16Array.from(values, (share) => Math.round(Math.min(1, Math.max(0, share)) * (LEVELS - 1)));
  return { bucket, palette: scaleColours(name, LEVELS), legend: { kind: "scale", name, ...legend }, value };
}

function entropyPaint(marginals) {
  const nats = marginals.map((p) => -p.reduce((sum, value) => sum + (value > 0 ? value * Math.log(value) : 0), 0));
  const shares = nats.map((h, v) => (marginals[v].length > 1 ? h / Math.log(marginals[v].length) : 0));
  const legend = { title: "Entropy", low: "certain", high: "uniform" };
  return scalePaint("entropy", shares, legend, (v) => `entropy ${Math.max(0, nats[v]).toFixed(4)} nats`);
}

function differencePaint(reference, other) {
  const gaps = other.reply.marginals.map((p, v) => largestDifference(p, reference.reply.marginals[v]));
  const top = gaps.reduce((a, b) => Math.max(a, b), 0);
  const legend = { title: `${other.text} against ${reference.text}`, low: "0", high: formatDifference(top) };
  return scalePaint(
    "difference",
    gaps.map((gap) => (top ? gap / top : 0)),
    legend,
    (v) => `differs by ${formatDifference(gaps[v])}`,
  );
}

function stepPaint() {
  const { order } = state.plan;
  const paint = scalePaint(
    "step",
    new Float64Array(state.model.numVariables),
    {
      title: "Elimination step",
      low: "first",
      high: "last",
    },
    (v) => (steps[v] < 0 ? "not eliminated" : `step ${steps[v] + 1} of ${order.length}`),
  );
  const steps = new Int32Array(state.model.numVariables).fill(-1);
  order.forEach((v, step) => {
    steps[v] = step;
  });
  paint.palette = [...paint.palette, cssColour("--neutral")];
  steps.forEach((step, v) => {
    const done = step >= 0 && step < state.step;
    paint.bucket[v] = done ? Math.round((step / Math.max(1, order.length - 1)) * (LEVELS - 1)) : LEVELS;
  });
  return paint;
}

function orbitPaint() {
  const { ranks, sizes } = orbitsBySize(state.symmetries.variables);
  const alike = sizes.filter((size) => size > 1).length;
  const hues = Math.min(MAX_HUES, alike);
  const palette = [cssColour("--neutral"), ...Array.from({ length: hues }, (_, h) => hueOf(h))];
  const bucket = Uint16Array.from(ranks, (rank) => (sizes[rank] > 1 ? 1 + (rank % hues) : 0));
  const value = (v) => (sizes[ranks[v]] > 1 ? `one of ${sizes[ranks[v]]} interchangeable variables` : "unique");
  const legend = { kind: "orbits", title: "Orbits", sizes: sizes.slice(0, 6) };
  const factors = orbitsBySize(state.symmetries.factors);
  const factorHues = Array.from({ length: MAX_HUES }, (_, h) => hueOf(h));
  const factorColour = (f) => (factors.sizes[factors.ranks[f]] > 1 ? factorHues[factors.ranks[f] % MAX_HUES] : null);
  return { bucket, palette, legend, value, factorColour };
}

/** The orbits, largest first: the rank of each node's orbit, and the size and members of each orbit. */
export function orbitsBySize(ids) {
  const members = new Map();
  ids.forEach((id, node) => (members.get(id) ?? members.set(id, []).get(id)).push(node));
  const sorted = [...members.entries()].sort((a, b) => b[1].length - a[1].length || a[0] - b[0]);
  const rankOf = new Map(sorted.map(([id], rank) => [id, rank]));
  const lists = sorted.map(([, list]) => list);
  return { ranks: ids.map((id) => rankOf.get(id)), sizes: lists.map((list) => list.length), members: lists };
}
