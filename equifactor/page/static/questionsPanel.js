/** Questions about the model beyond marginals, each answered by a table. */

import { postJson } from "./api.js";
import { element, fill, nameOf } from "./dom.js";
import { evidenceBody } from "./evidence.js";
import { formatCell } from "./format.js";
import { on, shownRun, state } from "./store.js";

const ASKED = {
  best: "The most probable assignments",
  "best-sum": "The most probable states of some variables (marginal MAP)",
  next: "What to observe next",
  support: "Which observation supports what",
  influence: "Which numbers of the model matter",
};
const NEEDS_TARGET = new Set(["next", "support", "influence"]);

/**
 * @param {HTMLElement} panel
 * @param {import("./stage.js").Stage} stage
 * @returns {{opened: () => void, closed: () => void}}
 */
export function questionsPanel(panel, stage) {
  const query = new Set();
  let target = null;
  let isOpen = false;
  let round = 0;
  let follows = false;
  let asked = null; // the solver of the last question
  /** Shows a variable without asking about it. */
  const show = (variable) => {
    follows = true;
    stage.goTo("variable", variable, false);
    follows = false;
  };
  const what = element(
    "select",
    { id: "question", onchange: () => ask() },
    Object.entries(ASKED).map(([name, title]) => element("option", { value: name }, title)),
  );
  const [count, apart] = [
    ["question-count", 10, 100],
    ["question-apart", 1, state.model.numVariables],
  ].map(([id, value, max]) => element("input", { id, type: "number", min: 1, max, value, onchange: () => ask() }));
  const options = element("div", { class: "question-options" });
  const answer = element("div", { "aria-live": "polite" });
  panel.append(element("label", { class: "question" }, "Question", what), options, answer);

  function showOptions() {
    if (what.value === "best") {
      const label = (text, input) => element("label", {}, text, input);
      return fill(options, label("How many ", count), label("Variables in which they differ, at least ", apart));
    }
    if (NEEDS_TARGET.has(what.value)) {
      const hint = "Click the variable that you want to know about.";
      const about = target === null ? hint : ["About ", variableLink(target, show)];
      return fill(options, element("p", { class: "note" }, about));
    }
    const items = [...query].map((v) => element("li", {}, variableLink(v, show), removeButton(v)));
    const hint = "Click variables to choose them; the others are summed out.";
    return fill(options, element("p", { class: "note" }, hint), element("ul", { class: "items" }, items));
  }

  function removeButton(variable) {
    const label = `Remove ${state.model.names[variable]}`;
    const remove = () => {
      query.delete(variable);
      ask();
    };
    return element("button", { type: "button", class: "quiet icon end", "aria-label": label, onclick: remove }, "×");
  }

  async function ask() {
    const mine = ++round;
    showOptions();
    if (!isOpen) return;
    if ((NEEDS_TARGET.has(what.value) && target === null) || (what.value === "best-sum" && !query.size)) {
      fill(answer);
      return;
    }
    fill(answer, element("p", { class: "note busy" }, "Computing …"));
    asked = shownRun()?.text;
    const body = { what: what.value, solver: asked, evidence: evidenceBody(), target, query: [...query] };
    try {
      const numbers = { k: Number(count.value), apart: Number(apart.value) };
      const reply = await postJson("api/question", { ...body, ...numbers });
      if (mine === round) fill(answer, ...answerTable(reply, show));
    } catch (problem) {
      if (mine === round) fill(answer, element("p", { class: "note" }, problem.message));
    }
  }

  on("selection", () => {
    if (!isOpen || follows || state.selected?.kind !== "variable") return;
    target = state.selected.index;
    if (what.value === "best-sum") query.add(target);
    if (what.value !== "best") ask();
  });
  on("evidence", () => isOpen && ask());
  on("runs", () => isOpen && asked !== null && asked !== shownRun()?.text && ask());
  return {
    opened() {
      isOpen = true;
      if (state.selected?.kind === "variable") target = state.selected.index;
      ask();
    },
    closed() {
      isOpen = false;
    },
  };
}

function answerTable(reply, show) {
  const isText = (cell) => typeof cell === "string" || cell?.variable !== undefined || cell?.state !== undefined;
  const first = reply.rows[0] ?? [];
  const kind = (n) => (isText(first[n]) ? "text" : null);
  const heading = (n, ...content) => element("th", { class: kind(n), scope: "col" }, content);
  const head = reply.titles.map((title, n) => heading(n, cellContent(title, show)));
  const ends = reply.bars ? barRange(reply) : null;
  const rows = reply.rows.map((row) => {
    const cells = reply.titles.map((_, n) => element("td", { class: kind(n) }, cellContent(row[n], show)));
    if (ends) cells.splice(1, 0, element("td", { class: "tornado" }, tornadoBar(row.slice(-2), reply.middle, ends)));
    return element("tr", {}, cells);
  });
  if (ends) head.splice(1, 0, heading(0, ends.map((end) => formatCell(Number(end.toPrecision(3)))).join(" to ")));
  const table = element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows));
  return [
    element("p", { class: "note" }, reply.text),
    reply.rows.length > 0 && element("div", { class: "scroll", tabindex: 0 }, table),
  ];
}

function cellContent(cell, show) {
  if (cell?.variable !== undefined) return variableLink(cell.variable, show);
  if (cell?.state !== undefined) return nameOf(state.model.stateNames(cell.state[0])[cell.state[1]]);
  return typeof cell === "string" && !/^-?inf$/.test(cell) ? nameOf(cell) : formatCell(cell);
}

function variableLink(variable, show) {
  const name = nameOf(state.model.names[variable]);
  return element("button", { type: "button", class: "link", onclick: () => show(variable) }, name);
}

function barRange(reply) {
  const values = reply.rows.flatMap((row) => row.slice(-2));
  return [Math.min(reply.middle, ...values), Math.max(reply.middle, ...values)];
}

/** A bar from the probability with a smaller entry to the one with a larger entry. */
function tornadoBar(values, middle, [low, high]) {
  const width = high - low || 1;
  const place = (value) => `${(100 * (value - low)) / width}%`;
  const parts = values.map((value, n) =>
    element("span", {
      class: n ? "larger" : "smaller",
      title: `${n ? "larger" : "smaller"}: ${formatCell(value)}`,
      style: { left: place(Math.min(value, middle)), width: `${(100 * Math.abs(value - middle)) / width}%` },
    }),
  );
  return element("div", { class: "bars" }, parts, element("span", { class: "middle", style: { left: place(middle) } }));
}
