/** The dialog that lists the keys. */

import { element, fill } from "./dom.js";

const KEYS = [
  [["/"], "search variables and factors by name"],
  [["←", "→", "↑", "↓"], "go from variable to variable, while the graph has the focus"],
  [["Enter"], "observe the next state of the variable; after the last one, remove the observation"],
  [["1", "… 9"], "observe the state with this number"],
  [["Ctrl+Z"], "undo the last observation; with Shift, redo it"],
  [["+", "−", "0"], "zoom in, zoom out, show all"],
  [["Shift+arrows"], "move the view"],
  [["Esc"], "clear the selection"],
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
      "Circles are variables, small shapes are factors, rings mark observed variables. Drag to move, scroll to zoom.",
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
