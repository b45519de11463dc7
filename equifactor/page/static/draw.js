/**
 * Draws the visible part of the graph, with more detail at a larger scale.
 *
 * All shapes of one colour form one path, so that a frame of a grid of 6,400 variables needs only tens of fills.
 */

import { Batches, newPath } from "./batches.js";
import { mixed } from "./colours.js";
import { cssColour } from "./dom.js";
import { drawGridImage } from "./gridImage.js";
import { drawNames } from "./names.js";
import { shapeOf, traceOutline } from "./shapes.js";
import { state } from "./store.js";

const RADIUS = 0.3; // Radius of a variable, in units of the graph.
const HALF = 0.085; // Half the side of a factor, in units of the graph.
const EDGES_FROM = 3.5; // Pixels per unit from which edges are drawn. Chosen by hand.
const FACTORS_FROM = 15; // Pixels per unit from which factors are drawn. Chosen by hand.
const TILES_BELOW = 11; // Pixels per unit below which a grid is drawn as an image. Chosen by hand.
const NAMES_FROM = 25; // Pixels per unit from which names are drawn. Chosen by hand.
const NAMES_IN_GRIDS_FROM = 64; // The same for grids, where a factor lies under each circle. Chosen by hand.
const NAMES_IN_LAYERS_FROM = 15; // The same for layers, which have room for names. Chosen by hand.
const MOST_ARROW = 9; // Length of an arrow head in pixels, at most.

/** The colours of the current theme, read once per theme rather than once per frame. */
export function lookNow(model) {
  const kinds = new Map(model.kindNames.map((kind, order) => [kind, shapeOf(kind, order)]));
  const names = ["ink", "muted", "edge", "accent", "paper", "panel"];
  const colours = Object.fromEntries(names.map((name) => [name, cssColour(`--${name}`)]));
  return { kinds, ...colours, rim: mixed(colours.paper, colours.muted, 0.6) };
}

/**
 * Draws what does not depend on the pointer: edges, factors, variables, observations and names.
 * @param {CanvasRenderingContext2D} context in CSS pixels
 * @param {import("./camera.js").Camera} camera
 * @param {{model: Object, paint: Object, look: Object}} scene
 */
export function drawGraph(context, camera, scene) {
  const { model } = scene;
  context.clearRect(0, 0, camera.width, camera.height);
  const isImage = model.layout === "grid" && camera.scale < TILES_BELOW;
  if (isImage) drawGridImage(context, camera, scene);
  else drawFactorGraph(context, camera, scene);
  drawObserved(context, camera, scene);
}

function drawFactorGraph(context, camera, scene) {
  const { model } = scene;
  const factors = visibleFactors(camera, model);
  if (camera.scale >= EDGES_FROM) drawEdges(context, camera, scene, factors);
  if (camera.scale >= FACTORS_FROM) {
    if (model.children) drawArrows(context, camera, scene, factors);
    drawFactors(context, camera, scene, factors);
  }
  const variables = visibleVariables(camera, model);
  drawVariables(context, camera, scene, variables);
  const namesFrom = { grid: NAMES_IN_GRIDS_FROM, layers: NAMES_IN_LAYERS_FROM }[model.layout] ?? NAMES_FROM;
  if (camera.scale >= namesFrom) {
    drawNames(context, camera, scene, variables, variableRadius(camera));
  }
}

/** Draws what changes often: the selected node, the node under the pointer, and changing messages. */
export function drawOverlay(context, camera, scene, hovered) {
  drawMessages(context, camera, scene);
  for (const [node, width, alpha] of [
    [hovered, 2, 0.6],
    [state.selected, 3, 1],
  ]) {
    if (node) drawMark(context, camera, scene, node, width, alpha);
  }
}

/** Radius of a variable in pixels. */
export function variableRadius(camera) {
  return Math.max(1.1, Math.min(RADIUS * camera.scale, 26));
}

function factorHalf(camera) {
  return Math.min(HALF * camera.scale, 8);
}

function visibleVariables(camera, model) {
  const found = [];
  const [left, top, right, bottom] = camera.window(0.6);
  model.variableCells.within(left, top, right, bottom, (v) => {
    if (model.x[v] >= left && model.x[v] <= right && model.y[v] >= top && model.y[v] <= bottom) found.push(v);
  });
  return found;
}

function visibleFactors(camera, model) {
  const found = [];
  model.factorCells.within(...camera.window(Math.min(model.reach, 40)), (f) => {
    if (model.drawn[f]) found.push(f);
  });
  return found;
}

function drawEdges(context, camera, { model, look }, factors) {
  const path = newPath(context);
  const { ptr, scope, x, y, factorX, factorY } = model;
  const { scale } = camera;
  const [left, top] = [camera.width / 2 - camera.x * scale, camera.height / 2 - camera.y * scale];
  const far = scale < FACTORS_FROM;
  for (const f of factors) {
    if (model.routes) {
      for (let e = ptr[f]; e < ptr[f + 1]; e++) traceRoute(path, camera, model.routes[e]);
      continue;
    }
    if (far && ptr[f + 1] - ptr[f] === 2) {
      // At this scale the factor is not drawn, so one line connects its two variables.
      path.moveTo(x[scope[ptr[f]]] * scale + left, y[scope[ptr[f]]] * scale + top);
      path.lineTo(x[scope[ptr[f] + 1]] * scale + left, y[scope[ptr[f] + 1]] * scale + top);
      continue;
    }
    for (let e = ptr[f]; e < ptr[f + 1]; e++) {
      path.moveTo(factorX[f] * scale + left, factorY[f] * scale + top);
      path.lineTo(x[scope[e]] * scale + left, y[scope[e]] * scale + top);
    }
  }
  context.strokeStyle = look.edge;
  context.lineWidth = Math.min(1.6, Math.max(0.5, scale * 0.028));
  context.stroke(path);
}

/** Adds a line in layers to a path: vertical in every row, and a curve from each row to the next. */
function traceRoute(path, camera, route, above = 0, below = 0) {
  const [x, y] = [(k) => camera.screenX(route[2 * k]), (k) => camera.screenY(route[2 * k + 1])];
  const last = route.length / 2 - 1;
  if (last < 1) return;
  path.moveTo(x(0), y(0) + above);
  path.lineTo(x(1), Math.max(y(1), y(0) + above));
  for (let k = 1; k < last; k += 2) {
    const middle = (y(k) + y(k + 1)) / 2;
    path.bezierCurveTo(x(k), middle, x(k + 1), middle, x(k + 1), y(k + 1));
    path.lineTo(x(k + 2), y(k + 2) - (k + 2 === last ? below : 0));
  }
}

/** In a Bayesian network, an arrow points to the variable whose conditional distribution the factor is. */
function drawArrows(context, camera, { model, look }, factors) {
  const path = newPath(context);
  const radius = variableRadius(camera) + 1;
  const ARROW = Math.min(MOST_ARROW, 0.22 * camera.scale);
  for (const f of factors) {
    const child = model.children[f];
    const [px, py] = [camera.screenX(model.x[child]), camera.screenY(model.y[child])];
    const [dx, dy] = [px - camera.screenX(model.factorX[f]), py - camera.screenY(model.factorY[f])];
    const length = Math.hypot(dx, dy);
    if (length < radius + ARROW && !model.routes) continue;
    const [ux, uy] = model.routes ? [0, 1] : [dx / length, dy / length]; // In layers, lines arrive from above.
    const [tipX, tipY] = [px - ux * radius, py - uy * radius];
    path.moveTo(tipX, tipY);
    path.lineTo(tipX - ux * ARROW - uy * ARROW * 0.45, tipY - uy * ARROW + ux * ARROW * 0.45);
    path.lineTo(tipX - ux * ARROW + uy * ARROW * 0.45, tipY - uy * ARROW - ux * ARROW * 0.45);
    path.closePath();
  }
  context.fillStyle = look.muted;
  context.fill(path);
}

function drawFactors(context, camera, { model, paint, look }, factors) {
  const size = factorHalf(camera);
  const batches = new Batches(context, (colour, path) => {
    context.fillStyle = colour;
    context.fill(path);
  });
  for (const f of factors) {
    const { outline, colour } = look.kinds.get(model.kinds[f]);
    const [px, py] = [camera.screenX(model.factorX[f]), camera.screenY(model.factorY[f])];
    traceOutline(batches.path(paint.factorColour?.(f) ?? colour), outline, px, py, size);
  }
  batches.finish();
}

function drawVariables(context, camera, { model, paint, look }, variables) {
  const radius = variableRadius(camera);
  const isDot = radius < 2.2;
  context.lineWidth = radius > 9 ? 1.25 : 0.75;
  context.strokeStyle = look.rim;
  const batches = new Batches(context, (colour, path) => {
    context.fillStyle = paint.palette[colour];
    context.fill(path);
    if (!isDot) context.stroke(path);
  });
  for (const v of variables) {
    const path = batches.path(paint.bucket[v]);
    const [px, py] = [camera.screenX(model.x[v]), camera.screenY(model.y[v])];
    if (isDot) {
      path.rect(px - radius, py - radius, 2 * radius, 2 * radius);
    } else {
      path.moveTo(px + radius, py);
      path.arc(px, py, radius, 0, 2 * Math.PI);
    }
  }
  batches.finish();
}

function drawObserved(context, camera, { model, look }) {
  if (!state.evidence.size && !state.fixed.size) return;
  const radius = variableRadius(camera);
  const batches = new Batches(context, (_, path) => context.stroke(path));
  context.strokeStyle = look.ink;
  context.lineWidth = Math.min(3.5, Math.max(1.2, radius * 0.28));
  for (const v of new Set([...state.evidence.keys(), ...state.fixed.keys()])) {
    addRing(batches.path(0), camera, model, v, radius + Math.min(2, radius * 0.3));
  }
  batches.finish();
}

function drawMark(context, camera, { model, look }, node, width, alpha) {
  const ring = newPath(context);
  if (node.kind === "variable") {
    addRing(ring, camera, model, node.index, variableRadius(camera) + 5);
  } else {
    const [px, py] = [camera.screenX(model.factorX[node.index]), camera.screenY(model.factorY[node.index])];
    const size = factorHalf(camera) + 4;
    ring.rect(px - size, py - size, 2 * size, 2 * size);
  }
  context.globalAlpha = alpha;
  context.strokeStyle = look.accent;
  context.lineWidth = width;
  context.stroke(ring);
  context.globalAlpha = 1;
}

function addRing(path, camera, model, v, radius) {
  const [px, py] = [camera.screenX(model.x[v]), camera.screenY(model.y[v])];
  path.moveTo(px + radius, py);
  path.arc(px, py, radius, 0, 2 * Math.PI);
}

/** Draws the messages that change most, or otherwise the edges of the selected factor or variable. */
function drawMessages(context, camera, { model, look }) {
  const edges = state.highlight.slice();
  if (edges.length) {
    // Only the changing messages are drawn.
  } else if (state.selected?.kind === "factor") {
    for (const v of model.scopeOf(state.selected.index)) edges.push({ factor: state.selected.index, variable: v });
  } else if (state.selected) {
    for (const f of model.factorsOf(state.selected.index)) {
      if (model.drawn[f]) edges.push({ factor: f, variable: state.selected.index });
    }
  }
  if (!edges.length) return;
  const radius = variableRadius(camera);
  const path = newPath(context);
  for (const { factor, variable } of edges) {
    const [fromX, fromY] = [camera.screenX(model.factorX[factor]), camera.screenY(model.factorY[factor])];
    const [toX, toY] = [camera.screenX(model.x[variable]), camera.screenY(model.y[variable])];
    const length = Math.hypot(toX - fromX, toY - fromY);
    const edge = model.routes ? model.scopeOf(factor).indexOf(variable) + model.ptr[factor] : -1;
    if (model.routes?.[edge].length) {
      const isChild = model.children[factor] === variable;
      traceRoute(path, camera, model.routes[edge], isChild ? 0 : radius, isChild ? radius + 2 : 0);
      continue;
    }
    if (length === 0) {
      // A factor of one variable has no edge to draw: its variable gets a ring.
      addRing(path, camera, model, variable, radius + 3);
      continue;
    }
    const share = Math.max(0, 1 - (radius + 2) / length);
    path.moveTo(fromX, fromY);
    path.lineTo(fromX + (toX - fromX) * share, fromY + (toY - fromY) * share);
  }
  context.strokeStyle = look.accent;
  context.lineWidth = state.highlight.length ? 4 : 2;
  context.lineCap = "round";
  context.stroke(path);
}
