/** Drawings and charts as PNG or SVG files. */

import { Camera } from "./camera.js";
import { element } from "./dom.js";
import { drawGraph } from "./draw.js";
import { state } from "./store.js";
import { SvgContext } from "./svgContext.js";

const SCALE = 48; // Pixels per unit of a saved drawing, at which names are readable. Chosen by hand.
const SCALE_OF_GRIDS = 72; // The same for grids, which have names only at a larger scale. Chosen by hand.
const PIXEL_RATIO = 2; // Pixels of a PNG per pixel on the screen.
const LONGEST_SIDE = 8000; // Pixels of a side of a saved drawing, at most; browsers refuse larger canvases.

/**
 * The buttons that save the drawing.
 * @param {import("./stage.js").Stage} stage
 */
export function saveButtons(stage) {
  return [
    saveButton("png", "the drawing", { "data-save": "png" }, () => savePng(stage.scene())),
    saveButton("svg", "the drawing", { "data-save": "svg" }, () => saveSvg(stage.scene())),
  ];
}

/**
 * The buttons that save a chart.
 * @param {string} what the name of the chart, in its file name too
 * @param {() => ?SVGElement} picture draws the chart with all its styles in attributes; null without a chart
 */
export function chartButtons(what, picture) {
  const save = (kind, write) =>
    saveButton(kind, "the chart", { "data-save-chart": kind }, () => {
      const drawn = picture();
      if (drawn) write(drawn, what);
    });
  return element("span", { class: "savebox" }, save("png", saveChartPng), save("svg", saveChartSvg));
}

function saveButton(kind, what, attributes, onclick) {
  const title = `Save ${what} as ${kind.toUpperCase()}`;
  return element(
    "button",
    { type: "button", class: "small", "aria-label": title, title, onclick, ...attributes },
    kind.toUpperCase(),
  );
}

function chartText(drawn) {
  return new XMLSerializer().serializeToString(drawn);
}

function saveChartSvg(drawn, what) {
  saveFile(new Blob([chartText(drawn)], { type: "image/svg+xml" }), "svg", what);
}

function saveChartPng(drawn, what) {
  const [width, height] = ["width", "height"].map((side) => Number(drawn.getAttribute(side)));
  const image = new Image();
  image.onload = () => {
    const canvas = element("canvas");
    [canvas.width, canvas.height] = [PIXEL_RATIO * width, PIXEL_RATIO * height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => saveFile(blob, "png", what), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(chartText(drawn))}`;
}

/** A view of the whole graph, in the size of the file. */
function wholeView(model, ratio) {
  const { left, right, top, bottom } = model.bounds;
  const [width, height] = [right - left + 1.6, bottom - top + 1.9];
  const wanted = model.layout === "grid" ? SCALE_OF_GRIDS : SCALE;
  const camera = new Camera(() => {});
  camera.scale = Math.min(wanted, LONGEST_SIDE / ratio / Math.max(width, height));
  [camera.x, camera.y] = [(left + right) / 2, (top + bottom) / 2 + 0.15];
  [camera.width, camera.height] = [Math.ceil(width * camera.scale), Math.ceil(height * camera.scale)];
  return camera;
}

function savePng(scene) {
  const ratio = PIXEL_RATIO;
  const camera = wholeView(scene.model, ratio);
  const canvas = element("canvas");
  [canvas.width, canvas.height] = [camera.width * ratio, camera.height * ratio];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawGraph(context, camera, scene);
  context.globalCompositeOperation = "destination-over";
  context.fillStyle = scene.look.paper;
  context.fillRect(0, 0, camera.width, camera.height);
  canvas.toBlob((blob) => saveFile(blob, "png"), "image/png");
}

function saveSvg(scene) {
  const camera = wholeView(scene.model, 1);
  const context = new SvgContext();
  drawGraph(context, camera, scene);
  const text = context.toText(camera.width, camera.height, scene.look.paper);
  saveFile(new Blob([text], { type: "image/svg+xml" }), "svg");
}

function saveFile(blob, kind, what = "") {
  const title = (state.session?.title ?? "graph").replace(/\.\w+$/, "") || "graph";
  const name = [title, what].filter(Boolean).join("-").replace(/[^\w.-]+/g, "_");
  const link = element("a", { href: URL.createObjectURL(blob), download: `${name}.${kind}` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
