/**
 * All access to data: from a local server, or from the answers stored in an exported file.
 *
 * An exported file contains its data in the element `equifactor-data`. It fetches nothing, and a request without a
 * stored answer raises `NotStored`.
 */

const storedElement = document.getElementById("equifactor-data");
const stored = storedElement ? JSON.parse(storedElement.textContent) : null;
const STORED_UNDER = { "api/solve": "solve", "api/map": "map", "api/trace": "trace" };

/** A request that the server refused; the message is for the reader. */
export class Refused extends Error {}

/** A request whose answer is not in the exported file. */
export class NotStored extends Refused {
  constructor() {
    super("This file does not contain this answer. Open the model with “equifactor view” to compute it.");
  }
}

/** Whether the page is an exported file. */
export function isExport() {
  return stored !== null;
}

/**
 * The key of an answer in an exported file.
 * @param {string} solver
 * @param {Object<string, number>} evidence state by number of the variable
 */
export function storedKey(solver, evidence) {
  const pairs = Object.entries(evidence).map(([variable, value]) => [Number(variable), value]);
  pairs.sort((a, b) => a[0] - b[0]);
  return JSON.stringify([solver, pairs]);
}

/** Whether a request can be answered: always by a server; from an exported file only if the answer is stored. */
export function canAnswer(path, body) {
  if (!stored) return true;
  if (path === "api/plan") return Boolean(stored.plan) && sameAsStart(body.evidence);
  const answers = stored[STORED_UNDER[path]];
  return Boolean(answers && Object.hasOwn(answers, storedKey(body.solver, body.evidence)));
}

/** The solvers whose traces are stored for this evidence; null if a server answers. */
export function storedRuns(evidence) {
  if (!stored) return null;
  const solvers = Object.keys(stored.trace ?? {}).map((key) => JSON.parse(key)[0]);
  return [...new Set(solvers)].filter((solver) => canAnswer("api/trace", { solver, evidence }));
}

/**
 * @param {string} path such as "api/graph"
 * @param {Object<string, string|number>} [query]
 * @returns {Promise<any>}
 */
export async function fetchJson(path, query = {}) {
  if (stored) return fromStored(path, query);
  const text = new URLSearchParams(query).toString();
  return readReply(await send(text ? `./${path}?${text}` : `./${path}`, {}));
}

/** @returns {Promise<any>} the reply to a JSON body */
export async function postJson(path, body, signal) {
  if (stored) return fromStored(path, body);
  const headers = { "Content-Type": "application/json" };
  return readReply(await send(`./${path}`, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

async function send(address, options) {
  try {
    return await fetch(address, options);
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refused("The server does not answer. Is “equifactor view” still running in its terminal?");
  }
}

async function readReply(response) {
  let reply = null;
  try {
    reply = await response.json();
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
  }
  if (!response.ok) throw new Refused(reply?.error ?? `The server answered with status ${response.status}.`);
  if (reply === null) throw new Refused("The server's answer could not be read.");
  return reply;
}

function fromStored(path, body) {
  const name = path.replace("api/", "");
  let found;
  if (path === "api/factor") found = stored.factor?.[body.index];
  else if (path === "api/trace/at") found = storedIteration(body);
  else if (path in STORED_UNDER) found = canAnswer(path, body) ? answerOf(path, body) : undefined;
  else if (path === "api/plan") found = canAnswer(path, body) ? stored.plan : undefined;
  else found = stored[name];
  if (found === undefined || found === null) throw new NotStored();
  return found;
}

function answerOf(path, body) {
  return stored[STORED_UNDER[path]][storedKey(body.solver, body.evidence)];
}

function storedIteration(body) {
  const marginals = stored.trace_at?.[storedKey(body.solver, body.evidence)]?.[body.t];
  return marginals && { marginals };
}

function sameAsStart(evidence) {
  return storedKey("", evidence) === storedKey("", stored.session.evidence ?? {});
}
