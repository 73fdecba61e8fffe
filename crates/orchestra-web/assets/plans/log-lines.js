// The lines of a log that are shown, how high each is, and which of them hold what is searched for.

import { BEGIN, lookAfter, plainOf } from "./ansi.js";

/** How high a line is that is not wrapped, in pixels; the style sheet says the same. */
export const LINE = 20;
/** So many characters of a line are shown; copies have all of it. */
export const SHOWN = 8_000;
/** Beyond so many lines the first are let go of. */
const MOST = 400_000;

/** Characters that are two columns wide (Unicode East Asian Width, roughly). */
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/gu;

export class LogLines {
  constructor() {
    this.all = [];
    this.looks = new Map();
    this.phase = "";
    this.columns = 0;
    this.dropped = 0;
    this.refilter();
  }

  /** @param {import("./log-source.js").Line[]} lines */
  add(lines) {
    for (const line of lines) {
      // Colours of one phase do not run on into another, nor over what the runner says.
      const key = line.isRunner ? "" : line.phase;
      line.number = this.dropped + this.all.length + 1;
      line.look = line.isRunner ? BEGIN : (this.looks.get(key) ?? BEGIN);
      if (!line.isRunner) this.looks.set(key, lookAfter(line.text, line.look));
      this.all.push(line);
      if (this.passes(line)) this.show(line);
    }
    if (this.all.length <= MOST) return;
    const over = this.all.length - Math.floor(MOST * 0.9);
    this.all.splice(0, over);
    this.dropped += over;
    this.refilter();
  }

  passes(line) {
    return this.phase === "" || line.phase === this.phase;
  }

  show(line) {
    const index = this.shown.length;
    this.shown.push(line);
    if (this.columns > 0) this.tops.push(this.tops[index] + this.heightOf(line));
    if (this.wanted !== "" && this.holds(line)) this.matches.push(index);
  }

  /** Shows the lines of one phase; of all with "". */
  filter(phase) {
    this.phase = phase;
    this.refilter();
  }

  /** Wraps lines after so many columns; 0 does not wrap. */
  wrap(columns) {
    if (columns === this.columns) return;
    this.columns = columns;
    this.refilter();
  }

  refilter() {
    this.shown = [];
    this.tops = [0];
    this.matches = [];
    this.wanted ??= "";
    for (const line of this.all) if (this.passes(line)) this.show(line);
  }

  heightOf(line) {
    const plain = plainOf(line.text).slice(0, SHOWN);
    const wide = plain.match(WIDE)?.length ?? 0;
    return Math.max(1, Math.ceil((plain.length + wide) / this.columns)) * LINE;
  }

  /** How high all of it is. */
  get height() {
    return this.columns > 0 ? this.tops.at(-1) : this.shown.length * LINE;
  }

  topOf(index) {
    return this.columns > 0 ? this.tops[index] : index * LINE;
  }

  /** The line that is at a height. */
  at(top) {
    if (this.columns === 0) return Math.max(0, Math.min(this.shown.length - 1, Math.floor(top / LINE)));
    let [low, high] = [0, Math.max(0, this.shown.length - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= top) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  holds(line) {
    return plainOf(line.text).toLowerCase().includes(this.wanted);
  }

  /** Finds the lines that hold a text, whatever the case. */
  search(text) {
    this.wanted = text.toLowerCase();
    this.matches = [];
    if (this.wanted === "") return;
    for (const [index, line] of this.shown.entries()) if (this.holds(line)) this.matches.push(index);
  }

  /** All that is shown as a text, without colours. */
  text() {
    return this.shown.map((line) => `${this.phase === "" ? `[${line.phase}] ` : ""}${line.isRunner ? "orchestra: " : ""}${plainOf(line.text)}\n`).join("");
  }
}
