/** The plan of exact elimination: its cost and the order of the variables. */

import { postJson } from "./api.js";
import { Curves } from "./curves.js";
import { element, fill, nameOf } from "./dom.js";
import { evidenceBody } from "./evidence.js";
import { counted, formatBytes, formatCount, toNumber } from "./format.js";
import { Player } from "./player.js";
import { emit, on, state } from "./store.js";

/**
 * @param {HTMLElement} panel
 * @param {import("./stage.js").Stage} stage
 * @returns {{opened: () => void, closed: () => void}}
 */
export function planPanel(panel, stage) {
  const player = new Player("elimination", (step) => moveTo(step));
  const now = element("p", { class: "note" });
  let curves = null;
  let stale = true;
  let isOpen = false;

  async function load() {
    stale = false;
    fill(panel, element("p", { class: "note busy" }, "Planning …"));
    try {
      state.plan = await postJson("api/plan", { evidence: evidenceBody() });
    } catch (problem) {
      state.plan = null;
      fill(panel, element("p", { class: "note" }, problem.message));
      return emit("colours");
    }
    const { plan } = state;
    fill(
      panel,
      element("dl", { class: "figures" }, planFigures(plan)),
      element("p", { class: "status note" }, plan.text),
    );
    if (!plan.order.length) {
      state.plan = null; // Without an order there are no steps to colour by.
      return emit("colours");
    }
    panel.append(element("div", { class: "gap-small" }), player.element, now);
    curves = new Curves(panel, {
      xLabel: "step",
      yLabel: "variables",
      height: 180,
      series: [{ label: "variables in the new table", x: plan.induced.map((_, i) => i + 1), y: plan.induced }],
      cursor: () => state.step,
      onPick: (x) => {
        player.stop();
        moveTo(Math.round(x));
      },
    });
    moveTo(plan.order.length);
  }

  function moveTo(step) {
    const { order, induced } = state.plan;
    if (isOpen) state.colourBy = "step";
    state.step = Math.min(Math.max(0, step), order.length);
    player.set(order.length, state.step, `${state.step} of ${order.length}`);
    curves?.moveCursor();
    const last = order[state.step - 1];
    fill(
      now,
      state.step === 0
        ? "No variable is eliminated yet."
        : [
            "Last eliminated: ",
            element(
              "button",
              { type: "button", class: "link", onclick: () => stage.goTo("variable", last, false) },
              nameOf(state.model.names[last]),
            ),
            `, with a table over ${counted(induced[state.step - 1], "variable")}.`,
          ],
    );
    emit("colours");
  }

  on("evidence", () => {
    stale = true;
    state.plan = null;
    player.stop();
  });
  on("theme", () => curves?.draw());
  return {
    opened() {
      isOpen = true;
      if (stale) load();
      else if (state.plan) moveTo(state.step);
    },
    closed() {
      isOpen = false;
      player.stop();
    },
  };
}

function planFigures(plan) {
  // The numbers of a plan without an order are those at which the search was abandoned.
  const bound = plan.finished ? "" : "≥ ";
  const figure = (term, value) =>
    element("div", {}, element("dt", {}, term), element("dd", { "data-figure": term }, bound + value));
  return [
    figure("width", String(plan.width)),
    figure("largest table", formatCount(toNumber(plan.largest_table))),
    figure("memory", formatBytes(toNumber(plan.memory))),
  ];
}
