/** The canvas: pointer, wheel and keys. Several changes are drawn in one frame. */

import { Backing } from "./backing.js";
import { Camera } from "./camera.js";
import { announce, element, fill, nameOf } from "./dom.js";
import { drawOverlay, lookNow, variableRadius } from "./draw.js";
import { cycleObservation, observe } from "./evidence.js";
import { currentPaint } from "./paint.js";
import { emit, on, select, state } from "./store.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const REST = 110; // Milliseconds without a move after which the graph is drawn exactly. Chosen by hand.

export class Stage {
  /** @param {HTMLElement} parent */
  constructor(parent) {
    this.canvas = element("canvas", {
      tabindex: 0,
      role: "application",
      "aria-roledescription": "factor graph",
      id: "graph",
      "aria-label":
        "Factor graph. Arrow keys change the variable, Enter observes a state, plus and minus zoom, 0 shows all.",
    });
    this.tip = element("div", { class: "float tip", hidden: true });
    parent.append(this.canvas, this.tip);
    this.context = this.canvas.getContext("2d");
    this.backing = new Backing();
    this.resting = 0;
    this.camera = new Camera(() => this.#moved());
    this.pointers = new Map();
    this.hovered = null;
    this.frame = 0;
    /** Drawing times of recent frames in milliseconds; tests read them. */
    this.frameTimes = [];
    this.#listen();
    on("runs colours evidence", () => this.repaint());
    on("theme", () => {
      this.look = null;
      this.repaint();
    });
    on("selection highlight", () => this.invalidate());
    new ResizeObserver(() => this.#resize()).observe(parent);
    this.parent = parent;
  }

  /** Shows a model for the first time. */
  show() {
    this.look = null;
    this.#resize();
    this.camera.fit(state.model.bounds, false);
    this.repaint();
  }

  fit() {
    this.camera.fit(state.model.bounds);
  }

  /** Draws the graph again with new colours. */
  repaint() {
    this.paint = null;
    this.backing.drop();
    this.invalidate();
  }

  /** What is drawn: the model, its colours, and the colours of the theme. */
  scene() {
    return { model: state.model, paint: this.paint ?? currentPaint(), look: this.look ?? lookNow(state.model) };
  }

  invalidate() {
    this.frame ||= requestAnimationFrame(() => this.#draw());
  }

  /** Selects a node and brings it into view; with `closer`, zooms in until it is easy to see. */
  goTo(kind, index, closer = true, inspect = closer) {
    const { model } = state;
    const [x, y] =
      kind === "variable" ? [model.x[index], model.y[index]] : [model.factorX[index], model.factorY[index]];
    select(kind, index, inspect);
    this.camera.reveal(x, y, closer ? Math.max(this.camera.scale, 24) : this.camera.scale);
  }

  /** The position of a variable in the browser window, in pixels. */
  placeOf(variable) {
    const box = this.canvas.getBoundingClientRect();
    const { x, y } = state.model;
    return [box.left + this.camera.screenX(x[variable]), box.top + this.camera.screenY(y[variable])];
  }

  #draw() {
    this.frame = 0;
    if (!state.model) return;
    const began = performance.now();
    const { model } = state;
    this.look ??= lookNow(model);
    if (!this.paint) {
      this.paint = currentPaint();
      emit("painted", this.paint);
      // The text under the pointer belongs to the colours, which have changed.
      if (this.hovered) fill(this.tip, ...tipOf(this.hovered, this.paint));
    }
    const scene = { model, paint: this.paint, look: this.look };
    const { backing, camera } = this;
    const standIn = this.resting && backing.canStandIn(camera);
    if (!standIn && !backing.isExact(camera)) backing.render(camera, this.ratio, scene);
    backing.show(this.context, camera);
    drawOverlay(this.context, camera, scene, this.hovered);
    this.frameTimes.push(performance.now() - began);
    if (this.frameTimes.length > 120) this.frameTimes.shift();
  }

  /** Handles a move of the view; when it stops, the graph is drawn exactly. */
  #moved() {
    this.#hover(null); // The graph moves away from under the pointer.
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.resting = 0;
      this.invalidate();
    }, REST);
    this.invalidate();
  }

  #resize() {
    const { clientWidth, clientHeight } = this.parent;
    if (!clientWidth || !clientHeight) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    this.ratio = ratio;
    const wasFirst = this.camera.width === 1;
    [this.camera.width, this.camera.height] = [clientWidth, clientHeight];
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (state.model && wasFirst) this.camera.fit(state.model.bounds, false);
    if (state.model) this.#draw();
  }

  #listen() {
    const { canvas, camera } = this;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.#up(event));
    canvas.addEventListener("pointerleave", () => this.#hover(null));
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const turns = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
        camera.zoom(Math.exp(-turns * (event.ctrlKey ? 0.01 : 0.0018)), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
    canvas.addEventListener("dblclick", (event) => camera.zoom(1.8, event.offsetX, event.offsetY));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  #down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY, moved: 0 });
  }

  #move(event) {
    const held = this.pointers.get(event.pointerId);
    if (!held) return this.#hover(this.#nodeUnder(event), event);
    const others = [...this.pointers.entries()].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    if (others.length) {
      const before = Math.hypot(held.x - others[0].x, held.y - others[0].y);
      const after = Math.hypot(event.offsetX - others[0].x, event.offsetY - others[0].y);
      const middle = [(event.offsetX + others[0].x) / 2, (event.offsetY + others[0].y) / 2];
      if (before > 0 && after > 0) this.camera.zoom(after / before, ...middle);
    }
    const share = others.length ? 0.5 : 1;
    held.moved += Math.abs(event.offsetX - held.x) + Math.abs(event.offsetY - held.y);
    if (held.moved > 3) {
      this.canvas.classList.add("dragging");
      this.#hover(null);
      this.camera.pan((event.offsetX - held.x) * share, (event.offsetY - held.y) * share);
    }
    [held.x, held.y] = [event.offsetX, event.offsetY];
  }

  #up(event) {
    const held = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    this.canvas.classList.remove("dragging");
    if (event.type !== "pointerup" || !held || held.moved > 3) return;
    const node = this.#nodeUnder(event);
    select(node?.kind ?? null, node?.index, true);
  }

  #nodeUnder(event) {
    if (!state.model) return null;
    const radius = (variableRadius(this.camera) + 5) / this.camera.scale;
    return state.model.nodeAt(...this.camera.toGraph(event.offsetX, event.offsetY), radius);
  }

  #hover(node, event) {
    this.canvas.classList.toggle("pointing", Boolean(node));
    if (node?.kind !== this.hovered?.kind || node?.index !== this.hovered?.index) {
      this.hovered = node;
      this.invalidate();
      if (node) fill(this.tip, ...tipOf(node, this.paint));
    }
    this.tip.hidden = !node;
    if (!node) return;
    const left = Math.min(event.offsetX + 16, this.camera.width - this.tip.offsetWidth - 8);
    const top = Math.min(event.offsetY + 16, this.camera.height - this.tip.offsetHeight - 8);
    this.tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !state.model) return;
    const arrow = ARROWS[event.key];
    if (arrow && event.shiftKey) this.camera.pan(-arrow[0] * 60, -arrow[1] * 60);
    else if (arrow) this.#step(arrow);
    else if (event.key === "+" || event.key === "=") this.camera.zoom(1.3);
    else if (event.key === "-") this.camera.zoom(1 / 1.3);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") select(null);
    else if (state.selected?.kind === "variable" && event.key === "Enter") cycleObservation(state.selected.index);
    else if (state.selected?.kind === "variable" && /^[1-9]$/.test(event.key))
      this.#observeNumber(Number(event.key) - 1);
    else return;
    event.preventDefault();
  }

  #step(arrow) {
    const { model, selected } = state;
    const from = selected?.kind === "variable" ? selected.index : selected ? model.scopeOf(selected.index)[0] : -1;
    const to = from < 0 ? this.#middle() : model.variableTowards(from, ...arrow);
    if (to < 0) return;
    this.goTo("variable", to, false, true);
    announce(`${model.names[to]}. ${this.paint?.value(to) ?? ""}`);
  }

  #middle() {
    const { x, y, numVariables } = state.model;
    let best = numVariables ? 0 : -1;
    const gap = (v) => (x[v] - this.camera.x) ** 2 + (y[v] - this.camera.y) ** 2;
    for (let v = 1; v < numVariables; v++) if (gap(v) < gap(best)) best = v;
    return best;
  }

  #observeNumber(index) {
    const variable = state.selected.index;
    if (index < state.model.stateNames(variable).length) observe(variable, index);
  }
}

function tipOf(node, paint) {
  const { model } = state;
  if (node.kind === "factor") return [nameOf(model.factorNames[node.index]), ` · ${model.kinds[node.index]}`];
  const value = paint?.value(node.index);
  return [element("strong", {}, nameOf(model.names[node.index])), value && element("div", {}, nameOf(value))];
}
