/** Light or dark theme: the setting of the system, unless the reader chooses otherwise. */

import { emit } from "./store.js";

const KEPT_AS = "equifactor-theme";

/** @param {HTMLButtonElement} button */
export function themeSwitch(button) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const theme = keptTheme() ?? (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    button.textContent = theme === "dark" ? "☀" : "☾";
    button.title = theme === "dark" ? "Light theme" : "Dark theme";
    emit("theme");
  };
  button.addEventListener("click", () => {
    keepTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}

/** Some browsers refuse storage to local files; then the choice lasts until the page is closed. */
let keptHere = null;

function keptTheme() {
  try {
    return keptHere ?? localStorage.getItem(KEPT_AS);
  } catch {
    return keptHere;
  }
}

function keepTheme(theme) {
  keptHere = theme;
  try {
    localStorage.setItem(KEPT_AS, theme);
  } catch {
    // `keptHere` still has the choice.
  }
}
