/** The states of one variable as bars, one per solver, with numbers. A click observes a state. */

import { element, nameOf } from "./dom.js";
import { canObserve, observe } from "./evidence.js";
import { formatProbability } from "./format.js";
import { solverColour, solverKey } from "./marks.js";
import { stateColour } from "./paint.js";
import { shownRun, state } from "./store.js";

export class StateBars {
  /** @param {number} variable */
  constructor(variable) {
    this.variable = variable;
    this.runs = state.runs.filter((run) => run.reply?.marginals);
    this.rows = state.model.stateNames(variable).map((name, index) => this.#row(name, index));
    this.note = element("p", { class: "note small" });
    this.element = element(
      "div",
      { class: "states", role: "group", "aria-label": "States" },
      this.rows.map((row) => row.button),
      this.note,
    );
    this.update();
  }

  /** Whether the bars belong to this variable and to the current solvers. */
  fits(variable) {
    const now = state.runs.filter((run) => run.reply?.marginals);
    return variable === this.variable && now.length === this.runs.length && now.every((run, i) => run === this.runs[i]);
  }

  /** Shows new numbers in the same bars, so that they move smoothly. */
  update() {
    const observed = state.evidence.get(this.variable) ?? state.fixed.get(this.variable);
    const shown = shownRun();
    this.rows.forEach((row, index) => {
      const pressed = observed === index;
      row.button.setAttribute("aria-pressed", String(pressed));
      row.button.disabled = !canObserve(this.variable, index);
      row.button.title = row.button.disabled ? "" : pressed ? "Click to remove the observation" : "Click to observe";
      row.fills.forEach((bar, i) => {
        const p = this.runs[i].reply?.marginals?.[this.variable][index];
        bar.style.transform = `scaleX(${p ?? 0})`;
        if (row.numbers[i]) row.numbers[i].textContent = formatProbability(p);
      });
      row.map.hidden = state.map?.states[this.variable] !== index;
      row.value.textContent = formatProbability(shown?.reply?.marginals?.[this.variable][index]);
      row.value.classList.toggle("busy", Boolean(shown?.pending));
    });
    this.note.textContent = this.#reason();
  }

  /** Why some states cannot be observed; empty if all can. */
  #reason() {
    if (state.fixed.has(this.variable)) return "The model itself observes this variable.";
    const closed = this.rows.some((row) => row.button.disabled);
    return closed ? "This file has no answers for the grey states. Use “equifactor view” to compute them." : "";
  }

  #row(name, index) {
    const many = this.runs.length > 1;
    const fills = this.runs.map((run) => {
      const colour = many ? solverColour(run.text) : stateColour(this.variable, index);
      return element("span", { class: "fill", style: { "background-color": colour, transform: "scaleX(0)" } });
    });
    const numbers = many ? fills.map(() => element("small", { class: "muted" })) : [];
    const value = element("span", { class: "value" });
    const map = element("span", { class: "chip", title: "This state is part of the most probable assignment" }, "MAP");
    const button = element(
      "button",
      {
        type: "button",
        class: "state",
        "data-focus": `state-${index}`,
        "data-state": index,
        onclick: () => observe(this.variable, index),
      },
      element("span", { class: "row" }, nameOf(name, { class: "name" }), map),
      value,
      fills.map((bar, i) => element("span", { class: "bar" }, element("span", { class: "track" }, bar), numbers[i])),
    );
    return { button, value, map, fills, numbers };
  }
}

/** The colours of the solvers, if there are several. */
export function solverKeys() {
  const runs = state.runs.filter((run) => run.reply?.marginals);
  if (runs.length < 2) return null;
  return element(
    "div",
    { class: "keys" },
    runs.map((run) => element("span", {}, solverKey(run.text), nameOf(run.text, { class: "clip mono" }))),
  );
}
