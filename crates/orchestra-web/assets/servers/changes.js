// A tool as it was approved and as it is now, line by line.

import { h } from "../lib/dom.js";

/** The most lines that are compared; of longer ones both are shown whole. */
const MOST_LINES = 600;

/** Shows how one tool is other than it was. @param {{ name: string, was?: any, now: any }} tool */
export function changeOf({ name, was, now }) {
  const before = was === undefined ? [] : written(was);
  const after = written(now);
  const rows = before.length > MOST_LINES || after.length > MOST_LINES ? [...before.map((text) => ["-", text]), ...after.map((text) => ["+", text])] : compared(before, after);
  const said = { "-": "removed: ", "+": "added: ", " ": "" };
  return h("section.change", { "aria-label": `Change of ${name}` }, h("h3", {}, was === undefined ? `New tool ${name}` : `Tool ${name} has changed`), h("pre", { tabindex: "0" }, rows.map(([sign, text]) => h("span.line", { class: { "-": "is-gone", "+": "is-new", " ": "" }[sign] }, sign !== " " && h("span.unseen", {}, said[sign]), `${sign} ${text}\n`))));
}

function written(value) {
  return JSON.stringify(value, null, 2).split("\n");
}

/** The longest common lines stay; the others are removed or added. */
export function compared(before, after) {
  const longest = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) longest[i][j] = before[i] === after[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  }
  const rows = [];
  let [i, j] = [0, 0];
  while (i < before.length && j < after.length) {
    if (before[i] === after[j]) {
      rows.push([" ", before[i]]);
      i += 1;
      j += 1;
    } else if (longest[i + 1][j] >= longest[i][j + 1]) rows.push(["-", before[i++]]);
    else rows.push(["+", after[j++]]);
  }
  while (i < before.length) rows.push(["-", before[i++]]);
  while (j < after.length) rows.push(["+", after[j++]]);
  return rows;
}
