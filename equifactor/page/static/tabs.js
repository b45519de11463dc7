/** Tabs that follow the ARIA practices: arrow keys move between them, and Tab reaches only the open one. */

import { element } from "./dom.js";

/**
 * @param {{name: string, title: string, panel: HTMLElement, opened?: () => void, closed?: () => void}[]} tabs
 * @returns {{list: HTMLElement, open: (name: string) => void, current: () => string}}
 */
export function makeTabs(tabs) {
  let current = null;
  const buttons = tabs.map((tab) => {
    tab.panel.id = `panel-${tab.name}`;
    tab.panel.setAttribute("role", "tabpanel");
    tab.panel.setAttribute("aria-labelledby", `tab-${tab.name}`);
    tab.panel.classList.add("tabpanel");
    return element(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${tab.name}`,
        "aria-controls": `panel-${tab.name}`,
        onclick: () => open(tab.name),
      },
      tab.title,
    );
  });
  function open(name) {
    if (current?.name === name) return;
    current?.closed?.();
    current = tabs.find((tab) => tab.name === name);
    tabs.forEach((tab, i) => {
      const chosen = tab === current;
      tab.panel.hidden = !chosen;
      buttons[i].setAttribute("aria-selected", String(chosen));
      buttons[i].tabIndex = chosen ? 0 : -1;
    });
    current.opened?.();
  }
  const list = element(
    "div",
    {
      class: "tabs",
      role: "tablist",
      "aria-label": "Panels",
      onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
        buttons[next].focus();
        open(tabs[next].name);
      },
    },
    buttons,
  );
  return { list, open, current: () => current?.name };
}
