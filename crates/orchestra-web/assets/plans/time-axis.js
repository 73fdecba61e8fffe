// A span of time and how it is seen: what is shown of it, and where its marks stand.

const SECOND = 1_000;
const STEPS = [10, 50, 100, 250, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND, 30 * SECOND, 60 * SECOND, 120 * SECOND, 300 * SECOND, 600 * SECOND, 900 * SECOND, 1_800 * SECOND, 3_600 * SECOND, 7_200 * SECOND, 21_600 * SECOND, 43_200 * SECOND, 86_400 * SECOND];
/** Marks are at least so far apart, in pixels. */
const APART = 90;
/** No more than so many pixels stand for a millisecond. */
const NEAREST = 1;

/** What is seen of a span of time: from `from` on, `scale` pixels for each millisecond. */
export class TimeAxis {
  constructor() {
    Object.assign(this, { start: 0, end: 1, from: 0, scale: 1, width: 1, fitted: true });
  }

  /** Says how long the whole is; where all of it is shown, it goes on being so. */
  set(start, end, width) {
    Object.assign(this, { start, end: Math.max(end, start + 100), width: Math.max(1, width) });
    if (this.fitted) this.fit();
  }

  fit() {
    this.fitted = true;
    this.from = this.start;
    this.scale = (this.width - 24) / (this.end - this.start);
  }

  /** Where a moment stands, in pixels. */
  x(at) {
    return (at - this.from) * this.scale;
  }

  zoom(factor, x = this.width / 2) {
    const at = this.from + x / this.scale;
    const whole = (this.width - 24) / (this.end - this.start);
    this.scale = Math.min(NEAREST, Math.max(whole, this.scale * factor));
    this.fitted = this.scale === whole;
    this.from = at - x / this.scale;
    this.bound();
  }

  pan(x) {
    this.from -= x / this.scale;
    this.fitted = false;
    this.bound();
  }

  bound() {
    const most = this.end - (this.width - 24) / this.scale;
    this.from = Math.max(this.start, Math.min(most, this.from));
  }

  /** Moments with words, as far apart as can be read. */
  marks() {
    const step = STEPS.find((ms) => ms * this.scale >= APART) ?? STEPS.at(-1);
    const marks = [];
    const first = Math.ceil((this.from - this.start) / step) * step;
    for (let since = first; this.x(this.start + since) < this.width - 30; since += step) marks.push({ x: this.x(this.start + since), text: `+${short(since, step)}` });
    return marks;
  }
}

function short(ms, step) {
  if (step < SECOND) return `${(ms / SECOND).toFixed(2).replace(/\.?0+$/, "") || "0"} s`;
  const seconds = Math.round(ms / SECOND);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 === 0 ? `${minutes} min` : `${minutes}:${String(seconds % 60).padStart(2, "0")}`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60 === 0 ? "" : `${minutes % 60} min`}`.trim();
}
