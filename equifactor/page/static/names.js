/** Names of variables on the canvas. */

import { inkOn } from "./colours.js";
import { shortened } from "./dom.js";

const USUAL = 12; // Font size of names in pixels.
const SMALLEST = 8; // Font size of names in layers, which shrink with the graph. Chosen by hand.
const LETTER = 0.3; // Font size of names in layers, in units of the graph: they fit into the room of the layout.

/** Draws names inside their circles if they fit, otherwise below or above if there is room. */
export function drawNames(context, camera, { model, paint, look }, variables, radius) {
  const taken = [];
  const LABEL =
    model.layout === "layers" ? Math.max(SMALLEST, Math.min(USUAL, LETTER * camera.scale * model.stretch)) : USUAL;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  for (const v of variables) {
    const [px, py] = [camera.screenX(model.x[v]), camera.screenY(model.y[v])];
    const text = labelOf(model.names[v]);
    context.font = `${LABEL}px Inter, system-ui, "DejaVu Sans", sans-serif`;
    const width = context.measureText(text).width;
    const ink = inkOn(paint.palette[paint.bucket[v]]);
    if (width < 1.7 * radius) {
      context.fillStyle = ink;
      context.fillText(text, px, py);
      continue;
    }
    const below = [px - width / 2 - 2, py + radius + 3, px + width / 2 + 2, py + radius + 5 + LABEL];
    const above = [below[0], py - radius - 5 - LABEL, below[2], py - radius - 3];
    const box = [below, above].find((place) => !taken.some((other) => overlap(place, other)));
    if (!box) continue;
    taken.push(box);
    context.strokeStyle = look.paper;
    context.lineWidth = 3.5;
    context.strokeText(text, px, box[1] + LABEL / 2 + 1);
    context.fillStyle = look.ink;
    context.fillText(text, px, box[1] + LABEL / 2 + 1);
  }
}

function overlap(a, b) {
  return a[0] < b[2] && a[2] > b[0] && a[1] < b[3] && a[3] > b[1];
}

/** The name between isolating marks, so that a right-to-left name does not reorder the text around it. */
function labelOf(name) {
  return `\u2068${shortened(name, 18)}\u2069`;
}
