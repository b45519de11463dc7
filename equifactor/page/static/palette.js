/**
 * The colours, markers and line styles of the page. The session sends them, so that the pictures of the library and the
 * page show a solver in the same style.
 */

/** @type {{light: string[], dark: string[], markers: string[], solvers: Object<string, number>}} */
let palette = { light: ["#2053b9"], dark: ["#74a3fa"], markers: ["circle"], solvers: {} };

/** @type {Map<string, number>} the number of the style of each solver that the page has shown */
const numbers = new Map();

/** The numbers that no other solver may take. A page of training has no solvers, so it reserves none. */
let reserved = [];

/** Takes the palette of the session. */
export function setPalette(sent, reserves = true) {
  palette = sent ?? palette;
  reserved = reserves ? Object.values(palette.solvers) : [];
}

/** @returns {string[]} the colours of a theme */
export function paletteColours(theme) {
  return palette[theme];
}

/**
 * The style of a solver or of a training run, the same in every panel.
 * @param {string} text
 * @returns {{number: number, colour: number, marker: string, dash: ?number[]}} `colour` is for `hueOf`
 */
export function styleOf(text) {
  const number = styleNumber(text);
  const count = palette.light.length;
  const again = Math.floor(number / count);
  const marker = palette.markers[((number % count) + 3 * again) % palette.markers.length];
  return { number, colour: number % count, marker, dash: [null, [7, 4], [2, 3], [7, 3, 2, 3]][again % 4] };
}

/** The rule of `style_numbers` in palette.py: a solver has its own number, or the next one that is free. */
function styleNumber(text) {
  if (numbers.has(text)) return numbers.get(text);
  const count = palette.light.length;
  const solver = text.replace(/, [\d.e+-]+ s$/, ""); // A time limit at the end does not count.
  const taken = new Set(numbers.values());
  const isKnown = Object.hasOwn(palette.solvers, solver);
  const wanted = isKnown ? palette.solvers[solver] : numberOf(solver) % count;
  const isLabel = /^\w+ /.test(text); // Several words are not a solver.
  if ((!isKnown || taken.has(wanted)) && !isLabel) for (const other of reserved) taken.add(other);
  let number = wanted;
  for (let k = 1; taken.has(number); k++) {
    number = count * (Math.floor(wanted / count) + Math.floor(k / count)) + ((wanted + k) % count);
  }
  numbers.set(text, number);
  return number;
}

function numberOf(text) {
  let number = 0;
  for (const letter of text) number = (Math.imul(31, number) + letter.codePointAt(0)) >>> 0;
  return number;
}
