// Bars by day, of parts that stand on each other.

import { s } from "../lib/dom.js";

const WIDTH = 900;
const HEIGHT = 260;
const LEFT = 56;
const BOTTOM = 24;
const TOP = 8;

/** A step of the axis that is easy to read: 1, 2 or 5 times a power of ten. */
function step(most, lines) {
  const rough = most / lines;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
}

/**
 * @param {string[]} days in their order
 * @param {{ name: string, days: Map<string, number> }[]} series from the bottom up
 * @param {{ title: string, format: (value: number) => string }} measure
 */
export function chart(days, series, { title, format }) {
  const sums = days.map((day) => series.reduce((sum, part) => sum + (part.days.get(day) ?? 0), 0));
  const most = Math.max(...sums, 0);
  const each = most > 0 ? step(most, 4) : 1;
  const top = Math.max(Math.ceil(most / each), 1) * each;
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const wide = (WIDTH - LEFT) / days.length;
  const lines = [];
  for (let value = 0; value <= top + each / 2; value += each) lines.push(s("line.grid", { x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value) }), s("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)));
  const bars = days.map((day, at) => bar(day, LEFT + at * wide, wide, series, y, format));
  const every = Math.ceil(days.length / 8);
  const labels = days.map((day, at) => at % every === 0 && s("text", { x: LEFT + (at + 0.5) * wide, y: HEIGHT - 6, "text-anchor": "middle" }, day.slice(5)));
  const peak = sums.indexOf(most);
  const summary = most > 0 ? `${title} from ${days[0]} to ${days.at(-1)}; most on ${days[peak]}, ${format(most)}.` : `${title} from ${days[0]} to ${days.at(-1)}: none.`;
  return s("svg.usage-chart", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${summary} The table has all figures.` }, lines, bars, labels);
}

function bar(day, x, wide, series, y, format) {
  let below = 0;
  const told = [day];
  const pieces = series.map((part, index) => {
    const value = part.days.get(day) ?? 0;
    if (value === 0) return undefined;
    told.push(`${part.name}: ${format(value)}`);
    const piece = s("rect", { class: `series-${index}`, x: x + wide * 0.1, width: Math.max(wide * 0.8, 1), y: y(below + value), height: Math.max(y(below) - y(below + value), 0.5) });
    below += value;
    return piece;
  });
  return s("g", {}, s("title", {}, told.join("\n")), pieces);
}
