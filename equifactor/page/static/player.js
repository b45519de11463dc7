/** A slider with a play button. */

import { element, wantsStillness } from "./dom.js";

const LONGEST = 6; // Seconds of a whole run, at most. Chosen by hand.
const SLOWEST = 250; // Milliseconds per step, at most. Chosen by hand.

export class Player {
  /**
   * @param {string} label what the slider moves through
   * @param {(value: number) => void} moved called with the new position
   */
  constructor(label, moved) {
    this.moved = moved;
    this.timer = 0;
    this.slider = element("input", {
      type: "range",
      min: 0,
      max: 0,
      step: 1,
      value: 0,
      "aria-label": label,
      oninput: () => {
        this.stop();
        moved(Number(this.slider.value));
      },
    });
    this.button = element(
      "button",
      {
        type: "button",
        class: "icon",
        "aria-label": `Play ${label}`,
        onclick: () => (this.timer ? this.stop() : this.play()),
      },
      "▶",
    );
    this.text = element("output", { class: "muted small", style: { "min-width": "74px", "text-align": "right" } });
    this.element = element("div", { class: "row player" }, this.button, this.slider, this.text);
  }

  /** Sets the range, the position and the text. */
  set(max, value, text) {
    this.slider.max = max;
    this.slider.value = value;
    this.text.textContent = text;
  }

  play() {
    const max = Number(this.slider.max);
    if (Number(this.slider.value) >= max) this.moved(0);
    const pause = wantsStillness() ? 600 : Math.min(SLOWEST, (LONGEST * 1000) / Math.max(1, max));
    const stride = Math.max(1, Math.ceil(16 / pause));
    this.button.textContent = "❚❚";
    this.button.setAttribute("aria-pressed", "true");
    this.timer = setInterval(
      () => {
        const next = Math.min(Number(this.slider.max), Number(this.slider.value) + stride);
        this.moved(next);
        if (next >= Number(this.slider.max)) this.stop();
      },
      Math.max(16, pause),
    );
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.button.textContent = "▶";
    this.button.setAttribute("aria-pressed", "false");
  }
}
