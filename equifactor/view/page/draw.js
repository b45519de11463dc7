/**
 * Drawing the part of the graph that is on the screen, with as much detail as its size bears.
 *
 * Everything of one colour is one path: a frame of a grid of 6,400 variables is some tens of fills and strokes.
 */

import { inkOn } from "./colours.js";
import { cssColour, shortened } from "./dom.js";
import { shapeOf, traceOutline } from "./shapes.js";
import { state } from "./store.js";

const RADIUS = 0.3; // of a variable, in units of the graph
const HALF = 0.085; // of a factor's square
const EDGES_FROM = 3.5; // pixels per unit below which edges are a grey soup
const FACTORS_FROM = 15;
const TILES_BELOW = 11; // a grid becomes an image
const NAMES_FROM = 34;
const NAMES_IN_GRIDS_FROM = 64; // the place under a circle is another factor's
const LABEL = 12;

/** Colours of one theme, read once per theme and not once per frame. */
export function lookNow(model) {
  const kinds = new Map(model.kindNames.map((kind, order) => [kind, shapeOf(kind, order)]));
  const names = ["ink", "muted", "edge", "accent", "paper", "panel"];
  return { kinds, ...Object.fromEntries(names.map((name) => [name, cssColour(`--${name}`)])) };
}

/**
 * Draws one frame.
 * @param {CanvasRenderingContext2D} context in pixels of CSS
 * @param {import("./camera.js").Camera} camera
 * @param {Object} scene model, paint, look, hovered
 */
export function drawFrame(context, camera, scene) {
  context.clearRect(0, 0, camera.width, camera.height);
  const factors = visibleFactors(camera, scene.model);
  if (camera.scale >= EDGES_FROM && !(tileSize(camera, scene.model) && scene.model.layout === "grid"))
    drawEdges(context, camera, scene, factors);
  drawMessages(context, camera, scene);
  if (camera.scale >= FACTORS_FROM) drawFactors(context, camera, scene, factors);
  const variables = visibleVariables(camera, scene.model);
  drawVariables(context, camera, scene, variables);
  drawMarks(context, camera, scene, variables);
  if (camera.scale >= (scene.model.layout === "grid" ? NAMES_IN_GRIDS_FROM : NAMES_FROM))
    drawNames(context, camera, scene, variables);
}

/** Radius of a variable in pixels. */
export function variableRadius(camera) {
  return Math.max(1.1, Math.min(RADIUS * camera.scale, 34));
}

function factorHalf(camera) {
  return Math.min(HALF * camera.scale, 8);
}

/** Far away a grid is an image, and circles of other graphs are dots: the side of a square, or 0 for circles. */
function tileSize(camera, model) {
  if (model.layout === "grid") return camera.scale < TILES_BELOW ? camera.scale * 0.9 : 0;
  return variableRadius(camera) < 2.2 ? 2 * variableRadius(camera) : 0;
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

function drawFactors(context, camera, { model, look }, factors) {
  const paths = new Map();
  const size = factorHalf(camera);
  for (const f of factors) {
    const kind = model.kinds[f];
    if (!paths.has(kind)) paths.set(kind, new Path2D());
    const [px, py] = [camera.screenX(model.factorX[f]), camera.screenY(model.factorY[f])];
    traceOutline(paths.get(kind), look.kinds.get(kind).outline, px, py, size);
  }
  for (const [kind, path] of paths) {
    context.fillStyle = look.kinds.get(kind).colour;
    context.fill(path);
  }
}

function drawVariables(context, camera, { model, paint, look }, variables) {
  const radius = variableRadius(camera);
  const tile = tileSize(camera, model);
  const paths = new Map();
  for (const v of variables) {
    const colour = paint.bucket[v];
    let path = paths.get(colour);
    if (!path) paths.set(colour, (path = new Path2D()));
    const [px, py] = [camera.screenX(model.x[v]), camera.screenY(model.y[v])];
    if (tile) {
      path.rect(px - tile / 2, py - tile / 2, tile, tile);
    } else {
      path.moveTo(px + radius, py);
      path.arc(px, py, radius, 0, 2 * Math.PI);
    }
  }
  context.lineWidth = radius > 9 ? 1.25 : 0.75;
  context.strokeStyle = look.muted;
  for (const [colour, path] of paths) {
    context.fillStyle = paint.palette[colour];
    context.fill(path);
    if (radius >= 4) {
      context.globalAlpha = 0.55;
      context.stroke(path);
      context.globalAlpha = 1;
    }
  }
}

/** Rings: observed, chosen and under the pointer. */
function drawMarks(context, camera, { model, look, hovered }, variables) {
  const radius = variableRadius(camera);
  if (state.evidence.size) {
    const rings = new Path2D();
    for (const v of variables)
      if (state.evidence.has(v)) addRing(rings, camera, model, v, radius + Math.min(2, radius * 0.3));
    context.strokeStyle = look.ink;
    context.lineWidth = Math.min(3.5, Math.max(1.2, radius * 0.28));
    context.stroke(rings);
  }
  for (const [node, width, alpha] of [
    [hovered, 2, 0.6],
    [state.selected, 3, 1],
  ]) {
    if (!node) continue;
    const ring = new Path2D();
    if (node.kind === "variable") {
      addRing(ring, camera, model, node.index, radius + 5);
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
}

function addRing(path, camera, model, v, radius) {
  const [px, py] = [camera.screenX(model.x[v]), camera.screenY(model.y[v])];
  path.moveTo(px + radius, py);
  path.arc(px, py, radius, 0, 2 * Math.PI);
}

/** The edges of a chosen factor or variable, and the messages that move most. */
function drawMessages(context, camera, { model, look }) {
  const edges = state.highlight.slice();
  if (state.selected?.kind === "factor") {
    for (const v of model.scopeOf(state.selected.index)) edges.push({ factor: state.selected.index, variable: v });
  } else if (state.selected) {
    for (const f of model.factorsOf(state.selected.index)) {
      if (model.drawn[f]) edges.push({ factor: f, variable: state.selected.index });
    }
  }
  if (!edges.length) return;
  const path = new Path2D();
  for (const { factor, variable } of edges) {
    path.moveTo(camera.screenX(model.factorX[factor]), camera.screenY(model.factorY[factor]));
    path.lineTo(camera.screenX(model.x[variable]), camera.screenY(model.y[variable]));
  }
  context.strokeStyle = look.accent;
  context.lineWidth = state.highlight.length ? 4 : 2;
  context.lineCap = "round";
  context.stroke(path);
}

/** Names under the circles where there is room; inside of large circles the most telling number. */
function drawNames(context, camera, { model, paint, look, hovered }, variables) {
  const radius = variableRadius(camera);
  const taken = [];
  const chosen = [state.selected, hovered].filter((node) => node?.kind === "variable").map((node) => node.index);
  const order = [...chosen, ...variables.filter((v) => !chosen.includes(v))];
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  for (const v of order) {
    const [px, py] = [camera.screenX(model.x[v]), camera.screenY(model.y[v])];
    const text = labelOf(model.names[v]);
    context.font = `${LABEL}px Inter, system-ui, "DejaVu Sans", sans-serif`;
    const width = context.measureText(text).width;
    const ink = inkOn(paint.palette[paint.bucket[v]]);
    if (width < 1.7 * radius) {
      context.fillStyle = ink;
      context.fillText(text, px, py);
      continue;
    }
    const box = [px - width / 2 - 2, py + radius + 3, px + width / 2 + 2, py + radius + 5 + LABEL];
    if (taken.some((t) => t[0] < box[2] && t[2] > box[0] && t[1] < box[3] && t[3] > box[1])) continue;
    taken.push(box);
    context.strokeStyle = look.paper;
    context.lineWidth = 3.5;
    context.strokeText(text, px, box[1] + LABEL / 2 + 1);
    context.fillStyle = look.ink;
    context.fillText(text, px, box[1] + LABEL / 2 + 1);
  }
}

/** The name between isolating marks: a name that runs right to left must not turn its neighbours around. */
function labelOf(name) {
  return `\u2068${shortened(name, 18)}\u2069`;
}
