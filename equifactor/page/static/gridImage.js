/** A grid at a small scale: an image with one pixel per variable. */

/** @type {WeakMap<Object, HTMLCanvasElement>} images by their paint */
const images = new WeakMap();

/**
 * Draws all variables of a grid as adjacent squares.
 * @param {CanvasRenderingContext2D} context
 * @param {import("./camera.js").Camera} camera
 * @param {{model: Object, paint: Object}} scene
 */
export function drawGridImage(context, camera, { model, paint }) {
  if (!images.has(paint)) images.set(paint, imageOf(model, paint));
  const image = images.get(paint);
  const { left, top } = model.bounds;
  const { scale } = camera;
  context.imageSmoothingEnabled = scale < 1;
  const [x, y] = [camera.screenX(left - 0.5), camera.screenY(top - 0.5)];
  context.drawImage(image, x, y, image.width * scale, image.height * scale);
}

function imageOf(model, paint) {
  const { left, right, top, bottom } = model.bounds;
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(right - left) + 1;
  canvas.height = Math.round(bottom - top) + 1;
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(canvas.width, canvas.height);
  const colours = paint.palette.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  for (let v = 0; v < model.numVariables; v++) {
    const at = 4 * (Math.round(model.y[v] - top) * canvas.width + Math.round(model.x[v] - left));
    pixels.data.set(colours[paint.bucket[v]], at);
    pixels.data[at + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}
