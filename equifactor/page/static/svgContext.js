/** A canvas context that writes SVG. It has what draw.js uses, so that a saved drawing is the drawing on the screen. */

/** A path as the text of the attribute `d`; it has the methods of Path2D that draw.js uses. */
export class SvgPath {
  d = "";

  moveTo(x, y) {
    this.d += `M${place(x)} ${place(y)}`;
  }

  lineTo(x, y) {
    this.d += `L${place(x)} ${place(y)}`;
  }

  bezierCurveTo(...numbers) {
    this.d += `C${numbers.map(place).join(" ")}`;
  }

  rect(x, y, width, height) {
    this.d += `M${place(x)} ${place(y)}h${place(width)}v${place(height)}h${place(-width)}Z`;
  }

  /** A whole circle; the drawing has no other arcs. */
  arc(x, y, radius) {
    const [right, r, across] = [place(x + radius), place(radius), place(2 * radius)];
    this.d += `M${right} ${place(y)}a${r} ${r} 0 1 1 ${-across} 0a${r} ${r} 0 1 1 ${across} 0`;
  }

  closePath() {
    this.d += "Z";
  }
}

export class SvgContext {
  fillStyle = "#000000";
  strokeStyle = "#000000";
  lineWidth = 1;
  lineCap = "butt";
  lineJoin = "miter";
  font = "12px sans-serif";
  textAlign = "center";
  textBaseline = "middle";
  globalAlpha = 1;
  parts = [];
  ruler = document.createElement("canvas").getContext("2d");

  /** @returns {SvgPath} in place of a new Path2D */
  newPath() {
    return new SvgPath();
  }

  clearRect() {
    this.parts = [];
  }

  fill(path) {
    if (path.d) this.parts.push(`<path d="${path.d}" fill="${this.fillStyle}"/>`);
  }

  stroke(path) {
    if (!path.d) return;
    const line = `stroke="${this.strokeStyle}" stroke-width="${place(this.lineWidth)}"`;
    this.parts.push(`<path d="${path.d}" fill="none" ${line} stroke-linejoin="round"/>`);
  }

  fillText(text, x, y) {
    this.parts.push(this.#text(text, x, y, `fill="${this.fillStyle}"`));
  }

  strokeText(text, x, y) {
    const line = `stroke="${this.strokeStyle}" stroke-width="${place(this.lineWidth)}" stroke-linejoin="round"`;
    this.parts.push(this.#text(text, x, y, `fill="none" ${line}`));
  }

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  /** The image of a large grid; see gridImage.js. */
  drawImage(image, x, y, width, height) {
    const at = `x="${place(x)}" y="${place(y)}" width="${place(width)}" height="${place(height)}"`;
    const content = `href="${image.toDataURL()}"`;
    this.parts.push(`<image ${at} style="image-rendering:pixelated" ${content}/>`);
  }

  /** @returns {string} the drawing as a file */
  toText(width, height, background) {
    const size = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
    const paper = `<rect width="${width}" height="${height}" fill="${background}"/>`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>\n${paper}\n${this.parts.join("\n")}\n</svg>\n`;
  }

  #text(text, x, y, style) {
    const [size, family] = [parseFloat(this.font), this.font.replace(/^\S+ /, "").replaceAll('"', "'")];
    const where = `x="${place(x)}" y="${place(y + 0.35 * size)}" text-anchor="middle"`;
    return `<text ${where} font-size="${place(size)}" font-family="${family}" ${style}>${escaped(text)}</text>`;
  }
}

function place(number) {
  return Math.round(number * 100) / 100;
}

/** Text without the characters that XML does not allow. */
export function xmlText(text) {
  return text.replace(/[\p{Surrogate}\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/gu, "\ufffd");
}

function escaped(text) {
  const codes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return xmlText(text).replace(/[&<>"]/g, (letter) => codes[letter]);
}
