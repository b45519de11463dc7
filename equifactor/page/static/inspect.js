/** The panel of the selected variable or factor, and of the observations. */

import { solverKeys, StateBars } from "./bars.js";
import { element, fill, nameOf, refill } from "./dom.js";
import { clearEvidence, observe } from "./evidence.js";
import { factorTable } from "./factorTable.js";
import { counted, formatCount, formatDifference } from "./format.js";
import { comparedRuns, largestDifference } from "./paint.js";
import { on, state } from "./store.js";

const MOST_ITEMS = 60; // Factors or variables in one list. Chosen by hand.

/**
 * @param {HTMLElement} panel
 * @param {import("./stage.js").Stage} stage
 */
export function inspectPanel(panel, stage) {
  const chosen = element("div", {});
  const observed = element("div", {});
  panel.append(chosen, observed);
  let bars = null;
  const showChosen = () => {
    bars = null;
    const node = state.selected;
    if (!node) return fill(chosen, ...overview());
    if (node.kind === "factor") return fill(chosen, ...factorParts(node.index, stage));
    bars = new StateBars(node.index);
    return refill(chosen, ...variableParts(node.index, bars, stage));
  };
  const showNumbers = () => {
    const node = state.selected;
    if (node?.kind !== "variable") return;
    if (bars?.fits(node.index)) {
      bars.update();
      chosen.querySelector(".gap")?.replaceWith(gapLine(node.index));
    } else {
      showChosen();
    }
  };
  on("selection theme", showChosen);
  on("runs evidence", showNumbers);
  on("evidence selection", () => refill(observed, ...observations(stage)));
  showChosen();
  fill(observed, ...observations(stage));
}

function overview() {
  const { model } = state;
  const counts = model.kindNames.map((kind) => `${formatCount(model.kinds.filter((k) => k === kind).length)} ${kind}`);
  const kinds = counts.length > 1 ? ` (${counts.join(", ")})` : "";
  return [
    element("h2", {}, "The model"),
    element(
      "p",
      { class: "note" },
      `${counted(model.numVariables, "variable")} and ${counted(model.numFactors, "factor")}${kinds}.`,
    ),
    element(
      "p",
      { class: "note" },
      "Click a variable to see its states and to observe one of them. Click a factor to see its table.",
    ),
    element("p", { class: "note" }, "Factors of a single variable are not drawn; their variable lists them."),
  ];
}

function variableParts(variable, bars, stage) {
  const { model } = state;
  const factors = model.factorsOf(variable);
  return [
    element(
      "div",
      { class: "head" },
      element("h2", {}, nameOf(model.names[variable])),
      element("span", { class: "muted small" }, `variable ${variable}`),
    ),
    solverKeys(),
    bars.element,
    gapLine(variable),
    element("h2", { class: "minor" }, counted(factors.length, "factor")),
    element(
      "ul",
      { class: "items" },
      [...factors].slice(0, MOST_ITEMS).map((f) => nodeItem("factor", f, stage)),
    ),
    factors.length > MOST_ITEMS && element("p", { class: "note" }, `and ${factors.length - MOST_ITEMS} more`),
  ];
}

function gapLine(variable) {
  const runs = comparedRuns();
  if (!runs) return element("p", { class: "gap", hidden: true });
  const gap = largestDifference(runs[0].reply.marginals[variable], runs[1].reply.marginals[variable]);
  return element(
    "p",
    { class: "gap small muted" },
    nameOf(runs[1].text),
    " and ",
    nameOf(runs[0].text),
    ` differ by ${formatDifference(gap)} here.`,
  );
}

function factorParts(factor, stage) {
  const { model } = state;
  return [
    element(
      "div",
      { class: "head" },
      element("h2", {}, nameOf(model.factorNames[factor])),
      element("span", { class: "muted small" }, `${model.kinds[factor]}, factor ${factor}`),
    ),
    factorTable(factor),
    element("h2", { class: "minor" }, counted(model.arity(factor), "variable")),
    element(
      "ul",
      { class: "items" },
      [...model.scopeOf(factor)].slice(0, MOST_ITEMS).map((v) => nodeItem("variable", v, stage)),
    ),
  ];
}

function nodeItem(kind, index, stage) {
  const { model } = state;
  const isFactor = kind === "factor";
  const name = isFactor ? model.factorNames[index] : model.names[index];
  const others = isFactor ? model.arity(index) - 1 : model.factorsOf(index).length;
  const end = isFactor ? (others ? `with ${counted(others, "other")}` : "alone") : counted(others, "factor");
  return element(
    "li",
    {},
    element(
      "button",
      {
        type: "button",
        class: "link",
        "data-focus": `${kind}-${index}`,
        onclick: () => stage.goTo(kind, index, false),
      },
      nameOf(name),
    ),
    element("span", { class: "end small" }, isFactor ? `${model.kinds[index]}, ${end}` : end),
  );
}

function observations(stage) {
  const { model, evidence } = state;
  const clear = element(
    "button",
    { type: "button", class: "quiet small", "data-focus": "clear", onclick: clearEvidence },
    "Clear all",
  );
  const items = [...evidence].slice(0, 500).map(([v, s]) =>
    element(
      "li",
      {},
      element(
        "button",
        { type: "button", class: "link", "data-focus": `seen-${v}`, onclick: () => stage.goTo("variable", v, false) },
        nameOf(model.names[v]),
      ),
      element("span", { class: "end" }, nameOf(model.stateNames(v)[s])),
      element(
        "button",
        {
          type: "button",
          class: "quiet icon",
          "data-focus": `release-${v}`,
          "aria-label": `Remove the observation of ${model.names[v]}`,
          title: "Remove",
          onclick: () => observe(v, s),
        },
        "×",
      ),
    ),
  );
  return [
    element("h2", { class: "minor" }, evidence.size ? `Observed: ${evidence.size}` : "No observations"),
    element("ul", { class: "items observed" }, items),
    evidence.size > 0 && clear,
  ];
}
