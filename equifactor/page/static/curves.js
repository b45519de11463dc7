/** Curves drawn by uPlot (vendor/), in the colours of the page and with its own legend. */

import { curvePicture } from "./chartPicture.js";
import { cssColour, element, nameOf } from "./dom.js";
import { formatTick } from "./format.js";
import { drawMarker, solverColour, solverKey } from "./marks.js";
import { styleOf } from "./palette.js";
import { chartButtons } from "./saving.js";

const HEIGHT = 210; // Default height of a chart in pixels.
const BETWEEN_MARKERS = 70; // Pixels between two markers of a curve, at least. Chosen by hand.

/**
 * @typedef {{label: string, x: number[], y: (number|null)[], points?: boolean}} Series the label has a style
 * @typedef {{series: Series[], logX?: boolean, logY?: boolean, xLabel: string, yLabel: string, height?: number,
 *   rangeY?: number[], cursor?: () => number, onPick?: (x: number) => void}} CurveOptions
 *   `cursor` returns the position of a vertical line.
 */

export class Curves {
  /** @param {HTMLElement} parent @param {CurveOptions} options */
  constructor(parent, options) {
    this.options = options;
    this.place = element("div", {
      class: "curve",
      role: "img",
      "aria-label": `${options.yLabel} against ${options.xLabel}: ${options.series.map((s) => s.label).join(", ")}`,
    });
    this.keys = element("div", { class: "keys" });
    this.save = chartButtons(options.yLabel, () => this.picture());
    parent.append(this.place, this.keys);
    this.watch = new ResizeObserver(() => this.#fitWidth());
    this.watch.observe(this.place);
    this.draw();
  }

  /** Draws the curves again, in the current theme and with new series if given. */
  draw(series = this.options.series) {
    this.options.series = series;
    this.plot?.destroy();
    this.plot = null;
    const width = this.place.clientWidth;
    this.keys.replaceChildren(
      ...series.map((one) => element("span", {}, solverKey(one.label), nameOf(one.label, { class: "clip" }))),
      this.save,
    );
    if (!width || !series.some((one) => one.x.length)) return;
    this.plot = new uPlot(this.#settings(width), alignedData(series, this.options), this.place);
  }

  /** The chart and its legend as an SVG element for a file; null if there is nothing to draw. */
  picture() {
    const marked = (values, points) => this.#marked(this.plot, values, points);
    return this.plot ? curvePicture(this.plot, this.options, marked) : null;
  }

  /** Moves the vertical line. */
  moveCursor() {
    this.plot?.redraw(false, false);
  }

  #fitWidth() {
    if (!this.plot) this.draw();
    else if (this.plot.width !== this.place.clientWidth && this.place.clientWidth) {
      this.plot.setSize({ width: this.place.clientWidth, height: this.options.height ?? HEIGHT });
    }
  }

  #settings(width) {
    const { series, logX, logY, rangeY, xLabel, yLabel, height } = this.options;
    const axis = (label, log) => ({
      label,
      labelSize: 18,
      labelGap: 0,
      labelFont: "12px Inter, system-ui, sans-serif",
      font: "12px Inter, system-ui, sans-serif",
      stroke: cssColour("--muted"),
      grid: { stroke: cssColour("--line"), width: 1, ...(log ? { filter: powersOfTen } : {}) },
      ticks: { show: false },
      values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : formatTick(tick))),
    });
    return {
      width,
      height: height ?? HEIGHT,
      padding: [8, 16, 0, 0],
      legend: { show: false },
      cursor: { drag: { setScale: false, x: false, y: false }, points: { size: 7 } },
      scales: {
        x: { time: false, distr: logX ? 3 : 1 },
        y: { distr: logY ? 3 : 1, ...(rangeY ? { range: rangeY } : {}) },
      },
      axes: [
        { ...axis(xLabel, logX), size: 30 },
        { ...axis(yLabel, logY), size: 56 },
      ],
      series: [
        {},
        ...series.map((one) => ({
          label: one.label,
          stroke: solverColour(one.label),
          dash: styleOf(one.label).dash ?? undefined,
          width: 1.75,
          spanGaps: true,
          points: { show: false },
        })),
      ],
      hooks: {
        draw: [(plot) => this.#drawMarkers(plot), (plot) => this.#drawCursor(plot)],
        ready: [(plot) => this.#listen(plot)],
      },
    };
  }

  /** Markers tell curves apart without colours. A curve of many points has only some of them. */
  #drawMarkers(plot) {
    const [places, ...columns] = plot.data;
    columns.forEach((values, i) => {
      const { label, points } = this.options.series[i];
      for (const k of this.#marked(plot, values, points)) {
        const [x, y] = [plot.valToPos(places[k], "x", true), plot.valToPos(values[k], "y", true)];
        drawMarker(plot.ctx, label, x, y, 3.6 * devicePixelRatio);
      }
    });
  }

  /** The numbers of the points that have a marker. */
  #marked(plot, values, points) {
    let last = -Infinity;
    return [...values.keys()].filter((k) => {
      if (values[k] === null || values[k] === undefined) return false;
      const x = plot.valToPos(plot.data[0][k], "x", true);
      if (!points && x - last < BETWEEN_MARKERS * devicePixelRatio) return false;
      last = x;
      return true;
    });
  }

  #drawCursor(plot) {
    if (!this.options.cursor) return;
    const x = Math.round(plot.valToPos(this.options.cursor(), "x", true));
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = cssColour("--ink");
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  #listen(plot) {
    if (!this.options.onPick) return;
    const pick = () => plot.cursor.left >= 0 && this.options.onPick(plot.posToVal(plot.cursor.left, "x"));
    plot.over.addEventListener("pointerdown", pick);
    plot.over.addEventListener("pointermove", (event) => event.buttons === 1 && pick());
  }
}

/** Joins the series on a common axis; values without a logarithm are left out of logarithmic axes. */
function alignedData(series, { logX, logY }) {
  const tables = series.map((one) => {
    const kept = one.x
      .map((x, i) => [x, one.y[i]])
      .filter(([x, y]) => Number.isFinite(x) && (!logX || x > 0) && y !== undefined);
    kept.sort((a, b) => a[0] - b[0]);
    return [kept.map(([x]) => x), kept.map(([, y]) => (Number.isFinite(y) && (!logY || y > 0) ? y : null))];
  });
  return uPlot.join(tables);
}

/** Keeps only the powers of ten of a logarithmic scale. */
function powersOfTen(plot, splits) {
  return splits.map((value) =>
    value > 0 && Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6) ? value : null,
  );
}
