/** The dialog of keys. */

import { element, fill } from "./dom.js";

const KEYS = [
  [["/"], "search variables and factors by name"],
  [["←", "→", "↑", "↓"], "go from variable to variable, once the graph has the focus"],
  [["Enter"], "observe the next state of the variable; after the last one it is released"],
  [["1", "… 9"], "observe that state"],
  [["Ctrl+Z"], "take the last observation back; with Shift do it again"],
  [["+", "−", "0"], "zoom in, zoom out, show all"],
  [["Shift+arrows"], "move the view"],
  [["Esc"], "choose nothing"],
];

/** @param {HTMLButtonElement} button @param {HTMLDialogElement} dialog */
export function helpDialog(button, dialog) {
  const close = element("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close");
  fill(
    dialog,
    element("h2", { id: "help-title" }, "Keys"),
    element(
      "dl",
      {},
      KEYS.map(([keys, what]) => [
        element(
          "dt",
          {},
          keys.map((key) => [element("kbd", {}, key), " "]),
        ),
        element("dd", {}, what),
      ]),
    ),
    element(
      "p",
      { class: "note" },
      "Circles are variables, small shapes are factors, rings mark what is observed. Drag moves, the wheel zooms.",
    ),
    element("div", { style: { height: "16px" } }),
    close,
  );
  button.addEventListener("click", () => dialog.showModal());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.matches("input, textarea, select");
    if (event.key === "?" && !typing && !dialog.open) dialog.showModal();
  });
}
