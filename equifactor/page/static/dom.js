/**
 * Building the page without markup: text is inserted as text, so a name of a model cannot become an element.
 */

/**
 * Builds an element.
 * @param {string} tag
 * @param {Object<string, any>} [attributes] `onclick`-like keys take functions, `style` takes an object of properties,
 *   false and null omit an attribute, true sets it to the empty string.
 * @param {...(Node|string|number|null|undefined|false|Array)} children
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  applyAttributes(made, attributes);
  append(made, children);
  return made;
}

/** Builds an SVG element; see `element`. */
export function svgElement(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  applyAttributes(made, attributes);
  append(made, children);
  return made;
}

/** Replaces everything inside `parent`. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
  return parent;
}

/** A name of the model, isolated from the text direction around it, and cut after 200 characters. */
export function nameOf(text, attributes = {}) {
  const shown = String(text);
  return element("bdi", { dir: "auto", title: shown.length > 24 ? shown : null, ...attributes }, shortened(shown, 200));
}

/** @returns {string} the text, or its beginning and an ellipsis; never cuts a surrogate pair. */
export function shortened(text, length) {
  const letters = text.length > length ? [...text] : null;
  return letters && letters.length > length ? `${letters.slice(0, length - 1).join("")}…` : text;
}

/** Announces a sentence to screen readers. */
export function announce(sentence) {
  document.getElementById("announce").textContent = sentence;
}

/** Whether the system is set to reduced motion. */
export function wantsStillness() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** The value of a colour of app.css, such as `--ink`. */
export function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function applyAttributes(made, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, what] of Object.entries(value)) made.style.setProperty(name, what);
    else if (key === "value" || key === "checked" || key === "disabled" || key === "selected") made[key] = value;
    else made.setAttribute(key, value === true ? "" : String(value));
  }
}

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}

/** Like `fill`, but the keyboard focus stays on the element with the same `data-focus`. */
export function refill(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  fill(parent, ...children);
  if (focused !== undefined) parent.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
}
