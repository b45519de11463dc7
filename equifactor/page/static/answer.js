/** The answer of the shown solver, in a few numbers above the tabs. */

import { element, nameOf, refill } from "./dom.js";
import { counted, formatEstimate, formatLog, formatSeconds } from "./format.js";
import { on, shownRun, state } from "./store.js";

const GOOD = new Set(["exact", "converged", "done", "solved", "optimal", "ok"]);

/** @param {HTMLElement} place */
export function answerStrip(place) {
  const show = () => refill(place, ...answerParts());
  on("runs evidence", show);
  show();
}

/** @returns {string} the class of a status chip: good, warn or bad */
export function statusTone(run) {
  if (run.error && !run.missing) return "bad";
  const status = String(run.reply?.status ?? "").toLowerCase();
  return GOOD.has(status) || run.reply?.converged ? "good" : "warn";
}

function answerParts() {
  const run = shownRun();
  if (!run) return [];
  const reply = run.reply;
  const busy = run.pending ? "busy" : "";
  const figure = (term, value, title) =>
    element("div", { title }, element("dt", {}, term), element("dd", { class: busy, "data-figure": term }, value));
  const figures = [figure("ln Z", formatEstimate(reply?.log_z, reply?.log_z_error))];
  if (reply?.log_evidence !== null && reply?.log_evidence !== undefined)
    figures.push(figure("ln P(e)", formatLog(reply.log_evidence)));
  figures.push(figure("MAP score", state.map ? formatLog(state.map.score) : "–", state.mapProblem));
  return [element("dl", { class: "figures" }, figures), element("div", { class: "status" }, statusLine(run, reply))];
}

function statusLine(run, reply) {
  const error = run.error && element("div", { class: run.missing ? "muted" : "problem" }, run.error);
  if (!reply) return error ?? element("span", { class: "muted busy" }, "Solving …");
  const rounds = reply.iterations ? `, ${counted(reply.iterations, "iteration")}` : "";
  return [
    nameOf(run.text, { class: "mono" }),
    " ",
    element("span", { class: `chip ${statusTone(run)}` }, reply.status),
    element("span", { class: "muted", "data-figure": "milliseconds" }, ` ${formatSeconds(reply.seconds)}${rounds}`),
    error ?? (reply.message && element("div", { class: "muted" }, reply.message)),
  ];
}
