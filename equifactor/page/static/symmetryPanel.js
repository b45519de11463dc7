/** Which variables and factors are interchangeable. */

import { fetchJson } from "./api.js";
import { hueOf } from "./colours.js";
import { element, fill, nameOf } from "./dom.js";
import { counted } from "./format.js";
import { orbitsBySize } from "./paint.js";
import { emit, on, state } from "./store.js";

const MOST_ORBITS = 40; // Orbits in the list. Chosen by hand.
const MOST_NAMES = 5; // Names of one orbit in the list. Chosen by hand.

/**
 * @param {HTMLElement} panel
 * @param {import("./stage.js").Stage} stage
 * @returns {{opened: () => void, closed: () => void}}
 */
export function symmetryPanel(panel, stage) {
  let asked = false;
  let isOpen = false;
  async function load() {
    asked = true;
    fill(panel, element("p", { class: "note busy" }, "Looking for symmetries …"));
    try {
      state.symmetries = await fetchJson("api/symmetries");
    } catch (problem) {
      fill(panel, element("p", { class: "note" }, problem.message));
      return;
    }
    show();
    if (isOpen) state.colourBy = "orbit";
    emit("colours");
  }
  function show() {
    const reply = state.symmetries;
    const { members } = orbitsBySize(reply.variables);
    const alike = members.filter((list) => list.length > 1);
    fill(
      panel,
      element("p", { class: "note" }, reply.text),
      reply.complete === false &&
        element("p", { class: "note" }, "The search was stopped early: these classes may contain several orbits."),
      alike.length > 0 &&
        element("h2", { class: "minor" }, `${counted(alike.length, "orbit")} of two or more variables`),
      element(
        "ul",
        { class: "items" },
        alike.slice(0, MOST_ORBITS).map((list, rank) => orbitItem(list, rank, stage)),
      ),
      alike.length > MOST_ORBITS && element("p", { class: "note" }, `and ${alike.length - MOST_ORBITS} smaller orbits`),
      element(
        "p",
        { class: "note" },
        "Without observations, variables of one orbit have the same marginals, up to the order of their states. ",
        "Solvers that respect symmetries return equal marginals for them. Factors are coloured by orbit too.",
      ),
    );
  }
  on("theme", () => state.symmetries && show());
  return {
    opened() {
      isOpen = true;
      if (!asked) load();
      else if (state.symmetries) {
        state.colourBy = "orbit";
        emit("colours");
      }
    },
    closed() {
      isOpen = false;
    },
  };
}

function orbitItem(list, rank, stage) {
  const names = list
    .slice(0, MOST_NAMES)
    .map((v, i) => [
      i > 0 && ", ",
      element(
        "button",
        { type: "button", class: "link", onclick: () => stage.goTo("variable", v, false) },
        nameOf(state.model.names[v]),
      ),
    ]);
  return element(
    "li",
    {},
    element("span", { class: "swatch round", style: { "background-color": hueOf(rank % 40) } }),
    element("span", { class: "clip" }, names, list.length > MOST_NAMES && " …"),
    element("span", { class: "end" }, String(list.length)),
  );
}
