// How long each of the last calls took, as a line.

import { s } from "../lib/dom.js";
import { millis } from "./words.js";

const WIDTH = 120;
const HEIGHT = 24;

/** @param {number[]} recent milliseconds, oldest first */
export function sparkline(recent) {
  if (recent.length === 0) return s("svg.sparkline", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "no calls yet" });
  const most = Math.max(...recent, 1);
  const step = WIDTH / Math.max(recent.length - 1, 1);
  const y = (ms) => HEIGHT - 2 - (HEIGHT - 4) * (ms / most);
  const points = recent.map((ms, at) => `${(at * step).toFixed(1)},${y(ms).toFixed(1)}`);
  const last = recent.at(-1);
  const label = `the last ${recent.length} calls: ${millis(Math.min(...recent))} to ${millis(most)}, the latest ${millis(last)}`;
  return s("svg.sparkline", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, preserveAspectRatio: "none" }, s("title", {}, label), s("polyline", { points: points.join(" ") }), s("circle", { cx: Math.min((recent.length - 1) * step, WIDTH - 2), cy: y(last), r: 2 }));
}
