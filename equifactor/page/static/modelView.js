/** The page of a model: the graph, the boxes over it, and the panels beside it. */

import { fetchJson, isExport } from "./api.js";
import { answerStrip } from "./answer.js";
import { element, fill } from "./dom.js";
import { canRedo, canUndo, redoEvidence, undoEvidence } from "./evidence.js";
import { counted } from "./format.js";
import { inspectPanel } from "./inspect.js";
import { iterationsPanel } from "./iterations.js";
import { legendBox } from "./legend.js";
import { Model } from "./model.js";
import { colouring, PAINTS } from "./paint.js";
import { planPanel } from "./planPanel.js";
import { questionsPanel } from "./questionsPanel.js";
import { saveButtons } from "./saving.js";
import { searchBox } from "./search.js";
import { newRun, showSolver, solveAll } from "./solving.js";
import { solversPanel } from "./solversPanel.js";
import { Stage } from "./stage.js";
import { emit, on, state } from "./store.js";
import { symmetryPanel } from "./symmetryPanel.js";
import { makeTabs } from "./tabs.js";

/** @param {HTMLElement} content */
export async function modelView(content) {
  const holder = element("div", { class: "stage" }, element("div", { class: "veil busy" }, "Reading the model …"));
  const side = element("aside", { class: "panel", "aria-label": "Answers" });
  const legend = element("div", { class: "legend", role: "group", "aria-label": "Legend" });
  fill(content, element("div", { class: "model" }, element("div", { class: "column" }, holder, legend), side));
  state.model = new Model(await fetchJson("api/graph"));
  const summary = `${counted(state.model.numVariables, "variable")}, ${counted(state.model.numFactors, "factor")}`;
  document.getElementById("summary").textContent = state.session.summary?.replace(/^[^:,]*: /, "") ?? summary;
  state.evidence = new Map(Object.entries(state.session.evidence ?? {}).map(([v, s]) => [Number(v), s]));
  state.fixed = new Map(Object.entries(state.session.fixed ?? {}).map(([v, s]) => [Number(v), s]));
  // An exported file shows all solvers that it contains.
  const others = isExport() ? state.session.solvers.filter((name) => name !== state.session.solver) : [];
  state.runs = [state.session.solver, ...others].map(newRun);

  fill(holder);
  const stage = new Stage(holder);
  holder.append(paintBox(), zoomBox(stage));
  legendBox(legend);
  const tabs = sidePanels(side, stage);
  const search = searchBox(document.getElementById("search"), stage);
  historyButtons();
  globalKeys(search);
  stage.show();
  on("evidence", () => solveAll());
  on("selection", (inspect) => {
    // The panels of iterations and of questions show the selected variable themselves.
    if (state.selected && inspect && !["iterations", "questions"].includes(tabs.current())) tabs.open("inspect");
  });
  globalThis.equifactorStage = stage; // for the tests of the page, which measure frames
  await solveAll();
}

function sidePanels(side, stage) {
  const answer = element("div", { class: "answer" });
  const panels = Object.fromEntries(
    ["inspect", "solvers", "questions", "iterations", "plan", "symmetry"].map((name) => [name, element("div", {})]),
  );
  inspectPanel(panels.inspect, stage);
  solversPanel(panels.solvers);
  panels.solvers.addEventListener("click", (event) => {
    const variable = event.target.closest("[data-variable]")?.dataset.variable;
    if (variable !== undefined) stage.goTo("variable", Number(variable));
  });
  let before = "marginal";
  const borrowing = (parts) => ({
    opened: () => {
      before = state.colourBy;
      parts.opened();
    },
    closed: () => {
      parts.closed();
      state.colourBy = before;
      emit("colours");
    },
  });
  const tabs = makeTabs([
    { name: "inspect", title: "Inspect", panel: panels.inspect },
    { name: "solvers", title: "Solvers", panel: panels.solvers },
    { name: "questions", title: "Ask", panel: panels.questions, ...questionsPanel(panels.questions, stage) },
    {
      name: "iterations",
      title: "Iterations",
      panel: panels.iterations,
      ...borrowing(iterationsPanel(panels.iterations, stage)),
    },
    { name: "plan", title: "Plan", panel: panels.plan, ...borrowing(planPanel(panels.plan, stage)) },
    {
      name: "symmetry",
      title: "Symmetries",
      panel: panels.symmetry,
      ...borrowing(symmetryPanel(panels.symmetry, stage)),
    },
  ]);
  answerStrip(answer);
  side.append(answer, tabs.list, ...Object.values(panels));
  tabs.open("inspect");
  return tabs;
}

/** The choice of what the colours show, and of the solver. */
function paintBox() {
  const paints = element("select", {
    id: "colour-by",
    onchange: () => {
      state.colourBy = paints.value;
      emit("colours");
    },
  });
  const solvers = element("select", { id: "shown-solver", onchange: () => showSolver(Number(solvers.value)) });
  const solverLabel = element("label", {}, "Solver", solvers);
  const show = () => {
    const chosen = colouring();
    fill(
      paints,
      Object.entries(PAINTS)
        .filter(([name, paint]) => paint.ready() || name === chosen)
        .map(([name, paint]) => element("option", { value: name }, paint.title)),
    );
    paints.value = chosen;
    fill(
      solvers,
      state.runs.map((run, i) => element("option", { value: i }, run.text)),
    );
    solvers.value = String(state.shown);
    solverLabel.hidden = state.runs.length < 2;
  };
  on("runs colours", show);
  show();
  return element("div", { class: "float paintbox" }, element("label", {}, "Colour", paints), solverLabel);
}

function zoomBox(stage) {
  const button = (text, label, action) =>
    element("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
  return element(
    "div",
    { class: "float zoombox" },
    button("+", "Zoom in", () => stage.camera.zoom(1.4)),
    button("−", "Zoom out", () => stage.camera.zoom(1 / 1.4)),
    button("⤢", "Show all", () => stage.fit()),
    saveButtons(stage),
  );
}

function historyButtons() {
  const [undo, redo] = ["undo", "redo"].map((id) => document.getElementById(id));
  undo.addEventListener("click", undoEvidence);
  redo.addEventListener("click", redoEvidence);
  const show = () => {
    undo.hidden = redo.hidden = false;
    undo.disabled = !canUndo();
    redo.disabled = !canRedo();
  };
  on("evidence", show);
  show();
}

function globalKeys(search) {
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.matches("input:not([type=range]), textarea, select");
    const undoing = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z";
    if (undoing && !typing) {
      (event.shiftKey ? redoEvidence : undoEvidence)();
    } else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      search.focus();
      search.select();
    } else {
      return;
    }
    event.preventDefault();
  });
}
