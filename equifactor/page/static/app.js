/** The start of the page: it shows a model, results or training, depending on the session. */

import { fetchJson, postJson } from "./api.js";
import { element, fill } from "./dom.js";
import { helpDialog } from "./help.js";
import { modelView } from "./modelView.js";
import { setPalette } from "./palette.js";
import { resultsView } from "./results.js";
import { state } from "./store.js";
import { themeSwitch } from "./theme.js";
import { trainingView } from "./training.js";

const VIEWS = { model: modelView, results: resultsView, training: trainingView };

async function start() {
  const content = document.getElementById("content");
  themeSwitch(document.getElementById("theme"));
  helpDialog(document.getElementById("help"), document.getElementById("help-dialog"));
  try {
    state.session = await fetchJson("api/session");
    const { title, mode, back, palette } = state.session;
    setPalette(palette, mode !== "training");
    document.title = `${title} · equifactor`;
    document.querySelector("#title bdi").textContent = title;
    backButton(Boolean(back));
    await VIEWS[mode](content);
    document.documentElement.dataset.ready = mode;
  } catch (problem) {
    fill(
      content,
      element("div", { class: "report" }, element("p", { class: "problem", role: "alert" }, problem.message)),
    );
    throw problem;
  }
}

function backButton(shown) {
  const button = document.getElementById("back");
  button.hidden = !shown;
  button.addEventListener("click", async () => {
    await postJson("api/back", {});
    location.reload();
  });
}

start();
