/** The whole drawing as a PNG or SVG file. */

import { Camera } from "./camera.js";
import { element } from "./dom.js";
import { drawGraph } from "./draw.js";
import { state } from "./store.js";
import { SvgContext } from "./svgContext.js";

const SCALE = 48; // Pixels per unit of a saved drawing, at which names are readable. Chosen by hand.
const SCALE_OF_GRIDS = 72; // The same for grids, which have names only at a larger scale. Chosen by hand.
const LONGEST_SIDE = 8000; // Pixels of a side of a saved drawing, at most; browsers refuse larger canvases.

/**
 * The button that saves the drawing.
 * @param {import("./stage.js").Stage} stage
 */
export function saveButtons(stage) {
  const button = (kind, save) =>
    element(
      "button",
      {
        type: "button",
        class: "small",
        "data-save": kind,
        "aria-label": `Save the drawing as ${kind.toUpperCase()}`,
        title: `Save the drawing as ${kind.toUpperCase()}`,
        onclick: () => save(stage.scene(), kind),
      },
      kind.toUpperCase(),
    );
  return [button("png", savePng), button("svg", saveSvg)];
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

function savePng(scene, kind) {
  const ratio = 2;
  const camera = wholeView(scene.model, ratio);
  const canvas = element("canvas");
  [canvas.width, canvas.height] = [camera.width * ratio, camera.height * ratio];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawGraph(context, camera, scene);
  context.globalCompositeOperation = "destination-over";
  context.fillStyle = scene.look.paper;
  context.fillRect(0, 0, camera.width, camera.height);
  canvas.toBlob((blob) => saveFile(blob, kind), "image/png");
}

function saveSvg(scene, kind) {
  const camera = wholeView(scene.model, 1);
  const context = new SvgContext();
  drawGraph(context, camera, scene);
  const text = context.toText(camera.width, camera.height, scene.look.paper);
  saveFile(new Blob([text], { type: "image/svg+xml" }), kind);
}

function saveFile(blob, kind) {
  const name = (state.session.title ?? "graph").replace(/\.\w+$/, "").replace(/[^\w.-]+/g, "_") || "graph";
  const link = element("a", { href: URL.createObjectURL(blob), download: `${name}.${kind}` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
