/** Drawing by colour. */

const LONGEST_PATH = 48;

/** One path per colour, handed on before it grows long: paths of thousands of pieces fill slowly. */
export class Batches {
  /** @param {(key: any, path: Path2D) => void} draw */
  constructor(draw) {
    this.draw = draw;
    this.open = new Map();
  }

  /** The path to add one piece of this colour to. */
  path(key) {
    let batch = this.open.get(key);
    if (batch && batch.pieces >= LONGEST_PATH) {
      this.draw(key, batch.path);
      batch = null;
    }
    if (!batch) this.open.set(key, (batch = { path: new Path2D(), pieces: 0 }));
    batch.pieces += 1;
    return batch.path;
  }

  finish() {
    for (const [key, batch] of this.open) this.draw(key, batch.path);
  }
}
