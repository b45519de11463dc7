/** Search by name: the list narrows while typing; arrow keys and Enter choose. */

import { element, fill, nameOf } from "./dom.js";
import { state } from "./store.js";

const MOST_HITS = 30; // Names in the list. Chosen by hand.

/**
 * @param {HTMLElement} place
 * @param {import("./stage.js").Stage} stage
 * @returns {HTMLInputElement}
 */
export function searchBox(place, stage) {
  let hits = [];
  let chosen = 0;
  const list = element("ul", { class: "hits", role: "listbox", id: "hits", hidden: true, "aria-label": "Found" });
  const input = element("input", {
    type: "search",
    placeholder: "Search names  /",
    role: "combobox",
    "aria-label": "Search variables and factors by name",
    "aria-controls": "hits",
    "aria-expanded": "false",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      hits = findNames(input.value);
      chosen = 0;
      show();
    },
    onkeydown: (event) => key(event),
    onblur: () =>
      setTimeout(() => {
        list.hidden = true;
      }, 150),
  });
  fill(place, input, list);
  place.hidden = false;

  function show() {
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    fill(
      list,
      hits.length
        ? hits.map((hit, i) =>
            element(
              "li",
              {
                role: "option",
                id: `hit-${i}`,
                "aria-selected": String(i === chosen),
                onpointerdown: (event) => {
                  event.preventDefault();
                  choose(i);
                },
              },
              nameOf(hit.name),
              element("span", { class: "muted small" }, hit.kind),
            ),
          )
        : element("li", { class: "muted" }, "No name matches"),
    );
    input.setAttribute("aria-activedescendant", hits.length ? `hit-${chosen}` : "");
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  }
  function choose(i) {
    const hit = hits[i];
    if (!hit) return;
    list.hidden = true;
    input.value = "";
    input.setAttribute("aria-expanded", "false");
    stage.goTo(hit.kind, hit.index);
    stage.canvas.focus();
  }
  function key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : hits.length - 1)) % Math.max(1, hits.length);
      show();
    } else if (event.key === "Enter") choose(chosen);
    else if (event.key === "Escape") {
      input.value = "";
      list.hidden = true;
      stage.canvas.focus();
    } else return;
    event.preventDefault();
  }
  return input;
}

/** Names that equal, start with or contain the text, in this order; variables come before factors. */
function findNames(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const found = [];
  const look = (names, kind, penalty) =>
    names.forEach((name, index) => {
      const place = String(name).toLowerCase().indexOf(wanted);
      if (place < 0) return;
      found.push({ name, kind, index, rank: (name.length === wanted.length ? 0 : place === 0 ? 1 : 2) + penalty });
    });
  look(state.model.names, "variable", 0);
  look(state.model.factorNames, "factor", 3);
  return found.sort((a, b) => a.rank - b.rank || a.index - b.index).slice(0, MOST_HITS);
}
