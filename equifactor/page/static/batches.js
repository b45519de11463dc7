/** Drawing in batches of one colour. */

const LONGEST_PATH = 48; // Pieces of one path. Chosen by hand.

/** A path for a context; a context that writes SVG has paths of its own. */
export function newPath(context) {
  return context.newPath?.() ?? new Path2D();
}

/** Collects one path per colour and draws it before it grows long, because long paths are slow to fill. */
export class Batches {
  /**
   * @param {CanvasRenderingContext2D} context
   * @param {(key: any, path: Path2D) => void} draw
   */
  constructor(context, draw) {
    this.context = context;
    this.draw = draw;
    this.open = new Map();
  }

  /** The path for one more piece of this colour. */
  path(key) {
    let batch = this.open.get(key);
    if (batch && batch.pieces >= LONGEST_PATH) {
      this.draw(key, batch.path);
      batch = null;
    }
    if (!batch) this.open.set(key, (batch = { path: newPath(this.context), pieces: 0 }));
    batch.pieces += 1;
    return batch.path;
  }

  finish() {
    for (const [key, batch] of this.open) this.draw(key, batch.path);
  }
}
