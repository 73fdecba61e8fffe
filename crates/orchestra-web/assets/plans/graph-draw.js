// The shapes of a graph: its jobs, its groups, and the curves between them.

import { s } from "../lib/dom.js";
import { NODE_HEIGHT, NODE_WIDTH } from "./layout.js";
import { countsInWords, counted, isActive, lasted, shape, word } from "./words.js";

/** How wide the text of a node may be. */
const TEXT_WIDTH = NODE_WIDTH - 46;

const measure = document.createElement("canvas").getContext("2d");
const cuts = new Map();

/** A text cut to what fits, measured once for each text. */
export function fitted(text, width, font) {
  const key = `${font}\n${width}\n${text}`;
  if (!cuts.has(key)) {
    measure.font = font;
    let cut = text;
    if (measure.measureText(text).width > width) {
      let [low, high] = [0, text.length];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (measure.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
        else high = middle - 1;
      }
      cut = `${text.slice(0, low).trimEnd()}…`;
    }
    if (cuts.size > 5_000) cuts.clear();
    cuts.set(key, cut);
  }
  return cuts.get(key);
}

const NAME_FONT = "600 13px system-ui, sans-serif";
const SMALL_FONT = "11.5px system-ui, sans-serif";

/** What stands below the name of a job: its state, and how long it has taken. */
export function underName(job) {
  const parts = [word(job.status)];
  if (job.startedAt !== undefined && job.status !== "blocked") parts.push(lasted(job.startedAt, isActive(job.status) ? undefined : job.endedAt ?? job.startedAt));
  if (job.attempts > 1) parts.push(`×${job.attempts}`);
  return parts.join(" · ");
}

/** A job in words, for those who hear it. */
export function jobInWords(job, needs, needed) {
  const parts = [`${job.name}, ${underName(job)}`];
  if (job.attempts > 1) parts.push(counted(job.attempts, "attempt"));
  if (job.group && job.type === "job") parts.push(`in ${job.group}`);
  parts.push(needs === 0 ? "depends on nothing" : `depends on ${counted(needs, "job")}`, `${counted(needed, "job depends", "jobs depend")} on it`);
  if (job.waiting) parts.push(job.waiting);
  return parts.join(", ");
}

/** A text for those who hear it: what is seen may be cut, and a label must not say other words. */
function said(text) {
  return s("text.said", {}, text);
}

function body(status, name, small) {
  return [
    s("rect.plate", { width: NODE_WIDTH, height: NODE_HEIGHT, rx: 8 }),
    s("path.edge-of", { d: `M8 0H5a5 5 0 0 0-5 5v${NODE_HEIGHT - 10}a5 5 0 0 0 5 5h3z` }),
    s("path.glyph", { d: shape(status), transform: "translate(16 17)", "fill-rule": "evenodd" }),
    s("text.name", { x: 40, y: 21, "aria-hidden": "true" }, fitted(name, TEXT_WIDTH, NAME_FONT)),
    s("text.small", { x: 40, y: 38, "aria-hidden": "true" }, fitted(small, TEXT_WIDTH, SMALL_FONT)),
  ];
}

/** Where edges come in. */
function arrow() {
  const middle = NODE_HEIGHT / 2;
  return s("path.arrow", { d: `M-7 ${middle - 4}L0 ${middle}L-7 ${middle + 4}z` });
}

/** A job as a node of the graph. */
export function jobNode(job, { x, y }, label, hasNeeds) {
  return s(
    `g.node.st-${job.status}`,
    { role: "link", tabindex: "-1", "data-id": job.id, transform: `translate(${x} ${y})` },
    said(label),
    body(job.status, job.name, underName(job)),
    hasNeeds && arrow(),
  );
}

function groupInWords(group) {
  return `Group ${group.path}, ${word(group.status)}: ${countsInWords(group.counts)}`;
}

/** A folded group as a node of the graph. */
export function groupNode(group, { id, x, y }, hasNeeds) {
  const done = group.counts.succeeded;
  const small = `${done} of ${counted(group.jobs.length, "job")} done`;
  return s(
    `g.node.folded.st-${group.status}`,
    { role: "button", tabindex: "-1", "aria-expanded": "false", "data-id": id, "data-group": group.path, transform: `translate(${x} ${y})` },
    said(groupInWords(group)),
    s("rect.behind", { x: 5, y: 5, width: NODE_WIDTH, height: NODE_HEIGHT, rx: 8 }),
    body(group.status, group.name, small),
    hasNeeds && arrow(),
  );
}

/** A group as a box around its jobs, with its name, which folds it. */
export function groupBox(group, { x, y, width, height, depth }) {
  const label = `${group.name} · ${group.counts.succeeded}/${group.jobs.length}`;
  return s(
    `g.box.st-${group.status}`,
    { "data-box": group.path, "data-depth": depth, transform: `translate(${x} ${y})` },
    s("rect.around", { width, height, rx: 10 }),
    s(
      "g.head",
      { role: "button", tabindex: "0", "aria-expanded": "true", "data-group": group.path },
      said(groupInWords(group)),
      s("rect.hit", { x: 4, y: 3, width: Math.max(40, width - 8), height: 20, rx: 5 }),
      s("path", { d: "M10 9.500h8l-4 6z" }),
      s("text", { x: 22, y: 17, "aria-hidden": "true" }, fitted(label, width - 32, "600 12px system-ui, sans-serif")),
    ),
  );
}

/** The way of an edge: curves between layers, straight lines past the nodes of a layer. */
export function edgePath(from, to, passes) {
  const start = { x: from.x + NODE_WIDTH, y: from.y + NODE_HEIGHT / 2 };
  const end = { x: to.x - 6, y: to.y + NODE_HEIGHT / 2 };
  let path = `M${start.x} ${round(start.y)}`;
  let at = start;
  const curve = (x, y) => {
    const bend = Math.max(24, Math.abs(x - at.x) / 2);
    path += `C${round(at.x + bend)} ${round(at.y)} ${round(x - bend)} ${round(y)} ${round(x)} ${round(y)}`;
    at = { x, y };
  };
  for (const { x, y } of passes) {
    curve(x, y);
    path += `H${x + NODE_WIDTH}`;
    at = { x: x + NODE_WIDTH, y };
  }
  curve(end.x, end.y);
  return path;
}

function round(number) {
  return Math.round(number * 10) / 10;
}

/** The box that an edge stays in. */
export function edgeBounds(from, to, passes) {
  const ys = [from.y, to.y, ...passes.map(({ y }) => y)];
  return { left: Math.min(from.x, to.x), right: Math.max(from.x, to.x) + NODE_WIDTH, top: Math.min(...ys), bottom: Math.max(...ys) + NODE_HEIGHT };
}
