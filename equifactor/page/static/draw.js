/**
 * Drawing the part of the graph that is on the screen, with as much detail as its size bears.
 *
 * Everything of one colour is one path: a frame of a grid of 6,400 variables is some tens of fills and strokes.
 */

import { Batches } from "./batches.js";
import { mixed } from "./colours.js";
import { cssColour } from "./dom.js";
import { drawGridImage } from "./gridImage.js";
import { drawNames } from "./names.js";
import { shapeOf, traceOutline } from "./shapes.js";
import { state } from "./store.js";

const RADIUS = 0.3; // of a variable, in units of the graph
const HALF = 0.085; // of a factor's square
const EDGES_FROM = 3.5; // pixels per unit below which edges are a grey soup
const FACTORS_FROM = 15;
const TILES_BELOW = 11; // a grid becomes an image
const NAMES_FROM = 25;
const NAMES_IN_GRIDS_FROM = 64; // the place under a circle is another factor's
const ARROW = 9;

/** Colours of one theme, read once per theme and not once per frame. */
export function lookNow(model) {
  const kinds = new Map(model.kindNames.map((kind, order) => [kind, shapeOf(kind, order)]));
  const names = ["ink", "muted", "edge", "accent", "paper", "panel"];
  const colours = Object.fromEntries(names.map((name) => [name, cssColour(`--${name}`)]));
  return { kinds, ...colours, rim: mixed(colours.paper, colours.muted, 0.6) };
}

/**
 * Draws what stands still: edges, factors, variables, what is observed, names.
 * @param {CanvasRenderingContext2D} context in pixels of CSS
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
  if (camera.scale >= (model.layout === "grid" ? NAMES_IN_GRIDS_FROM : NAMES_FROM)) {
    drawNames(context, camera, scene, variables, variableRadius(camera));
  }
}

/** Draws what changes at a touch: the chosen node, the one under the pointer, the messages that move. */
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
  const path = new Path2D();
  const { ptr, scope, x, y, factorX, factorY } = model;
  const { scale } = camera;
  const [left, top] = [camera.width / 2 - camera.x * scale, camera.height / 2 - camera.y * scale];
  const far = scale < FACTORS_FROM;
  for (const f of factors) {
    if (far && ptr[f + 1] - ptr[f] === 2) {
      // Far away the small square is not drawn, and one line does for two.
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

/** In a Bayesian network an arrow ends at the variable whose distribution a factor is. */
function drawArrows(context, camera, { model, look }, factors) {
  const path = new Path2D();
  const radius = variableRadius(camera) + 1;
  for (const f of factors) {
    const child = model.children[f];
    const [px, py] = [camera.screenX(model.x[child]), camera.screenY(model.y[child])];
    const [dx, dy] = [px - camera.screenX(model.factorX[f]), py - camera.screenY(model.factorY[f])];
    const length = Math.hypot(dx, dy);
    if (length < radius + ARROW) continue;
    const [ux, uy] = [dx / length, dy / length];
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
  const batches = new Batches((colour, path) => {
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
  const batches = new Batches((colour, path) => {
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
  const batches = new Batches((_, path) => context.stroke(path));
  context.strokeStyle = look.ink;
  context.lineWidth = Math.min(3.5, Math.max(1.2, radius * 0.28));
  for (const v of new Set([...state.evidence.keys(), ...state.fixed.keys()])) {
    addRing(batches.path(0), camera, model, v, radius + Math.min(2, radius * 0.3));
  }
  batches.finish();
}

function drawMark(context, camera, { model, look }, node, width, alpha) {
  const ring = new Path2D();
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

/** The edges of a chosen factor or variable, and the messages that move most. */
function drawMessages(context, camera, { model, look }) {
  const edges = state.highlight.slice();
  if (edges.length) {
    // The messages that move stand alone.
  } else if (state.selected?.kind === "factor") {
    for (const v of model.scopeOf(state.selected.index)) edges.push({ factor: state.selected.index, variable: v });
  } else if (state.selected) {
    for (const f of model.factorsOf(state.selected.index)) {
      if (model.drawn[f]) edges.push({ factor: f, variable: state.selected.index });
    }
  }
  if (!edges.length) return;
  const radius = variableRadius(camera);
  const path = new Path2D();
  for (const { factor, variable } of edges) {
    const [fromX, fromY] = [camera.screenX(model.factorX[factor]), camera.screenY(model.factorY[factor])];
    const [toX, toY] = [camera.screenX(model.x[variable]), camera.screenY(model.y[variable])];
    const length = Math.hypot(toX - fromX, toY - fromY);
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
