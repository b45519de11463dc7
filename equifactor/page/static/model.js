/** The factor graph as flat arrays, with a search for nodes by position. */

/** Square cells over the plane; each lists its nodes. */
class Cells {
  /** @param {Float64Array} x @param {Float64Array} y @param {number} size */
  constructor(x, y, size) {
    this.size = size;
    this.left = Math.min(0, ...rangeOf(x));
    this.top = Math.min(0, ...rangeOf(y));
    this.columns = Math.max(1, Math.floor((rangeOf(x)[1] - this.left) / size) + 1);
    this.rows = Math.max(1, Math.floor((rangeOf(y)[1] - this.top) / size) + 1);
    const cellOf = new Int32Array(x.length);
    this.start = new Int32Array(this.columns * this.rows + 1);
    for (let i = 0; i < x.length; i++) {
      cellOf[i] = Math.floor((y[i] - this.top) / size) * this.columns + Math.floor((x[i] - this.left) / size);
      this.start[cellOf[i] + 1] += 1;
    }
    for (let c = 0; c < this.columns * this.rows; c++) this.start[c + 1] += this.start[c];
    const next = this.start.slice();
    this.nodes = new Int32Array(x.length);
    for (let i = 0; i < x.length; i++) this.nodes[next[cellOf[i]]++] = i;
  }

  /** Calls `visit(node)` for every node of the cells that touch the box. */
  within(left, top, right, bottom, visit) {
    const first = Math.max(0, Math.floor((left - this.left) / this.size));
    const last = Math.min(this.columns - 1, Math.floor((right - this.left) / this.size));
    const low = Math.max(0, Math.floor((top - this.top) / this.size));
    const high = Math.min(this.rows - 1, Math.floor((bottom - this.top) / this.size));
    for (let row = low; row <= high; row++) {
      const from = this.start[row * this.columns + first];
      const to = first <= last ? this.start[row * this.columns + last + 1] : from;
      for (let k = from; k < to; k++) visit(this.nodes[k]);
    }
  }
}

/** A factor graph as it is drawn. */
export class Model {
  /** @param {Object} reply of api/graph */
  constructor(reply) {
    const { variables, factors } = reply;
    this.names = variables.names;
    this.numVariables = this.names.length;
    this.common = Array.isArray(variables.states) ? null : variables.states.common;
    this.states = variables.states;
    this.x = Float64Array.from(variables.x);
    this.y = Float64Array.from(variables.y);
    this.factorNames = factors.names;
    this.kinds = factors.kinds;
    this.entries = factors.entries;
    this.numFactors = this.kinds.length;
    this.ptr = Int32Array.from(factors.ptr);
    this.scope = Int32Array.from(factors.scope);
    this.factorX = Float64Array.from(factors.x);
    this.factorY = Float64Array.from(factors.y);
    this.layout = reply.layout;
    /** @type {number} how many times wider than necessary the room of names in layers is */
    this.stretch = reply.stretch ?? 1;
    /** @type {?number[]} in a Bayesian network, the variable whose conditional distribution each factor is */
    this.children = factors.children ?? null;
    /** @type {?number[][]} in layers, the points of the line of each pair of factor and variable, from top to bottom */
    this.routes = factors.routes ?? null;
    this.mostStates = (this.common ? [this.common] : this.states).reduce(
      (most, names) => Math.max(most, names.length),
      0,
    );
    this.allBinary = this.names.every((_, variable) => this.stateNames(variable).length === 2);
    this.kindNames = [...new Set(this.kinds)].sort();
    this.drawn = Uint8Array.from({ length: this.numFactors }, (_, f) => (this.arity(f) > 1 ? 1 : 0));
    this.bounds = boundsOf(...(this.routes ? outermost(this) : [this.x, this.y]));
    const size = cellSize(this.bounds, this.numVariables + this.numFactors);
    this.variableCells = new Cells(this.x, this.y, size);
    this.factorCells = new Cells(this.factorX, this.factorY, size);
    this.reach = longestEdge(this);
    this.factorsByVariable = invert(this);
  }

  /** @returns {string[]} */
  stateNames(variable) {
    return this.common ?? this.states[variable];
  }

  arity(factor) {
    return this.ptr[factor + 1] - this.ptr[factor];
  }

  /** @returns {Int32Array} the variables of a factor */
  scopeOf(factor) {
    return this.scope.subarray(this.ptr[factor], this.ptr[factor + 1]);
  }

  /** @returns {Int32Array} the factors of a variable */
  factorsOf(variable) {
    const { start, nodes } = this.factorsByVariable;
    return nodes.subarray(start[variable], start[variable + 1]);
  }

  /** The nearest node within `radius` of a point, variables first, or null. */
  nodeAt(x, y, radius) {
    return this.#nearest("variable", x, y, radius) ?? this.#nearest("factor", x, y, radius * 0.7);
  }

  /**
   * The nearest variable in a direction, for the arrow keys: sideways distance counts twice.
   * @returns {number} -1 if no variable lies in this direction
   */
  variableTowards(variable, dx, dy) {
    let best = -1;
    let least = Infinity;
    for (let v = 0; v < this.numVariables; v++) {
      const along = (this.x[v] - this.x[variable]) * dx + (this.y[v] - this.y[variable]) * dy;
      const across = Math.abs((this.x[v] - this.x[variable]) * dy - (this.y[v] - this.y[variable]) * dx);
      if (along <= 1e-9 || across > along * 1.75) continue;
      if (along + 2 * across < least) [best, least] = [v, along + 2 * across];
    }
    return best;
  }

  #nearest(kind, x, y, radius) {
    const isVariable = kind === "variable";
    const [xs, ys] = isVariable ? [this.x, this.y] : [this.factorX, this.factorY];
    let found = null;
    let least = radius * radius;
    (isVariable ? this.variableCells : this.factorCells).within(x - radius, y - radius, x + radius, y + radius, (i) => {
      const distance = (xs[i] - x) ** 2 + (ys[i] - y) ** 2;
      if (distance <= least && (isVariable || this.drawn[i])) [found, least] = [{ kind, index: i }, distance];
    });
    return found;
  }
}

function rangeOf(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return values.length ? [low, high] : [0, 0];
}

function boundsOf(x, y) {
  const [left, right] = rangeOf(x);
  const [top, bottom] = rangeOf(y);
  return { left, right, top, bottom };
}

/** The points at which a drawing in layers may end: sides of names, and bends of lines. */
function outermost({ names, x, y, routes, stretch }) {
  const half = names.map((name) => Math.min(name.length, 18) * 0.09 * stretch);
  const bends = routes.flatMap((route) => route.filter((_, i) => i % 2 === 0));
  return [[...x.map((place, v) => place - half[v]), ...x.map((place, v) => place + half[v]), ...bends], y];
}

function cellSize({ left, right, top, bottom }, nodes) {
  return Math.max(1, Math.sqrt(((right - left) * (bottom - top)) / Math.max(1, nodes)) * 4);
}

/** The longest edge: an edge that enters the window can begin this far outside it. */
function longestEdge(model) {
  let longest = 1;
  for (let f = 0; f < model.numFactors; f++) {
    if (!model.drawn[f]) continue;
    for (const v of model.scopeOf(f)) {
      longest = Math.max(longest, Math.hypot(model.x[v] - model.factorX[f], model.y[v] - model.factorY[f]));
    }
  }
  return longest;
}

function invert(model) {
  const start = new Int32Array(model.numVariables + 1);
  for (const v of model.scope) start[v + 1] += 1;
  for (let v = 0; v < model.numVariables; v++) start[v + 1] += start[v];
  const next = start.slice();
  const nodes = new Int32Array(model.scope.length);
  for (let f = 0; f < model.numFactors; f++) for (const v of model.scopeOf(f)) nodes[next[v]++] = f;
  return { start, nodes };
}
