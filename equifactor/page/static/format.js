/** Numbers as text for readers. The server sends the logarithm of zero as the text "-inf". */

/** @param {number|string|null|undefined} value @returns {number} NaN if the value is not a number */
export function toNumber(value) {
  if (value === "-inf") return -Infinity;
  if (value === "inf") return Infinity;
  return typeof value === "number" ? value : NaN;
}

/** A logarithm with four digits after the point. */
export function formatLog(value) {
  const number = toNumber(value);
  if (Number.isNaN(number)) return "–";
  if (!Number.isFinite(number)) return number < 0 ? "−∞" : "∞";
  const text = number.toFixed(4);
  return text === "-0.0000" ? "0.0000" : withMinus(text);
}

/** An estimate of a logarithm, with the digits that its standard error allows. */
export function formatEstimate(value, error) {
  if (!Number.isFinite(toNumber(value)) || !(error > 0)) return formatLog(value);
  const digits = Math.min(4, Math.max(0, 1 - Math.floor(Math.log10(error))));
  const width = error < 5e-5 ? formatDifference(error) : error.toFixed(digits);
  return `${withMinus(toNumber(value).toFixed(digits))} ± ${width}`;
}

/** A probability with four digits after the point. */
export function formatProbability(value) {
  return Number.isFinite(value) ? value.toFixed(4) : "–";
}

/** A small difference: 0, 3.1e-7 or 0.0123. */
export function formatDifference(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  return Math.abs(value) < 1e-3 ? withMinus(value.toExponential(1)) : withMinus(value.toFixed(4));
}

/** Seconds as milliseconds, seconds or minutes. */
export function formatSeconds(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0.0095) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${Math.round(seconds * 1e3)} ms`;
  if (seconds < 120) return `${seconds.toFixed(seconds < 9.95 ? 2 : 1)} s`;
  return `${Math.round(seconds / 60)} min`;
}

/** Bytes in the largest fitting unit. */
export function formatBytes(bytes) {
  if (!Number.isFinite(bytes)) return "–";
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit ? Number(bytes.toPrecision(3)) : bytes} ${units[unit]}`;
}

/** A count, with thin spaces between thousands; from 10^12 as a power of ten. */
export function formatCount(count) {
  if (!Number.isFinite(count)) return "–";
  if (count >= 1e12) return count.toExponential(1).replace("e+", " × 10^");
  return Math.round(count)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** A cell of a table of results. */
export function formatCell(value) {
  const number = toNumber(value);
  if (Number.isNaN(number)) return value === null || value === undefined ? "–" : String(value);
  if (!Number.isFinite(number)) return formatLog(number);
  if (Number.isInteger(number) && Math.abs(number) < 1e9) return withMinus(String(number));
  const size = Math.abs(number);
  return withMinus(size >= 1e6 || size < 1e-4 ? number.toExponential(3) : number.toPrecision(size < 1 ? 4 : 6));
}

/** A short number beside an axis. */
export function formatTick(tick) {
  const size = Math.abs(tick);
  if (tick !== 0 && (size < 1e-3 || size >= 1e6)) return withMinus(tick.toExponential(1)).replace(".0e", "e");
  return withMinus(String(Number(tick.toPrecision(6))));
}

/** "1 factor", "2 factors". */
export function counted(count, word) {
  return `${formatCount(count)} ${word}${count === 1 ? "" : "s"}`;
}

function withMinus(text) {
  return text.replace("-", "−").replace("e−", "e-").replace("e+", "e");
}
