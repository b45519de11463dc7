/**
 * Colours mixed in OKLab, where equal steps look equal (formulae by Björn Ottosson, 2020).
 */

import { paletteColours } from "./palette.js";

/** Ends and middles of the scales. The middle of a diverging scale is pale, so that decided states stand out. */
const STOPS = {
  light: {
    diverging: ["#2557bd", "#8fb0ea", "#edebe5", "#f1b489", "#c75f16"],
    entropy: ["#edebe5", "#c7b5e6", "#7d4fc0", "#3c1a78"],
    difference: ["#edebe5", "#f3b7a4", "#d8543f", "#8a1313"],
    step: ["#2d2a7a", "#2f6f9f", "#3fa98c", "#a9cf58", "#f5e04c"],
  },
  dark: {
    diverging: ["#7fadff", "#4a6cb0", "#383d47", "#a86a3f", "#ffa45c"],
    entropy: ["#383d47", "#5c4a86", "#9a78e0", "#dccbff"],
    difference: ["#383d47", "#7c4038", "#e0614c", "#ffc2b0"],
    step: ["#56519f", "#3d7fae", "#46b397", "#aed661", "#fbe95e"],
  },
};

/** The current theme, "light" or "dark". */
export function currentTheme() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

/** The colour with number `index`, for states, orbits and solvers; beyond the eighth, hues by the golden angle. */
export function hueOf(index) {
  const hues = paletteColours(currentTheme());
  if (index < hues.length) return hues[index];
  const turn = (index * 137.508 * Math.PI) / 180;
  return fromOklab(currentTheme() === "dark" ? 0.76 : 0.6, 0.11 * Math.cos(turn), 0.11 * Math.sin(turn));
}

/** @returns {string[]} `count` colours along a scale, ends included */
export function scaleColours(name, count) {
  const stops = STOPS[currentTheme()][name].map(toOklab);
  return Array.from({ length: count }, (_, i) => {
    const place = count > 1 ? (i / (count - 1)) * (stops.length - 1) : 0;
    const low = Math.min(Math.floor(place), stops.length - 2);
    return between(stops[low], stops[low + 1], place - low);
  });
}

/** The colour at `share` of the way from one colour to another. */
export function mixed(from, to, share) {
  return between(toOklab(from), toOklab(to), share);
}

/** Black or white, whichever has the higher contrast on a colour; they are equal at a lightness of about 0.58. */
export function inkOn(colour) {
  return toOklab(colour)[0] > 0.58 ? "#14171c" : "#ffffff";
}

function between(from, to, share) {
  return fromOklab(...from.map((value, i) => value + (to[i] - value) * share));
}

function toOklab(hex) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const part = parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromOklab(lightness, a, b) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const parts = linear.map((value) => {
    const clipped = Math.min(1, Math.max(0, value));
    const part = clipped <= 0.0031308 ? clipped * 12.92 : 1.055 * clipped ** (1 / 2.4) - 0.055;
    return Math.round(part * 255)
      .toString(16)
      .padStart(2, "0");
  });
  return `#${parts.join("")}`;
}
