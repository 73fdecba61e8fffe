// What the commit of a job changed: file by file, in one column or in two.

import { get } from "../lib/api.js";
import { h, icon, replace } from "../lib/dom.js";
import { save } from "../lib/clipboard.js";
import { changedPart, parseDiff } from "./diff-parse.js";
import { counted } from "./words.js";

const MEMORY = "orchestra-diff-split";
/** A file with more lines than this is folded at first, and so is each after so many files. */
const LONG = 400;
const MANY = 20;
/** So many lines of a file are shown until more are asked for. */
const CHUNK = 1_500;

export class DiffView {
  /** @param {HTMLElement} host @param {{ planId: string, signal: AbortSignal }} how */
  constructor(host, { planId, signal }) {
    Object.assign(this, { host, planId, signal });
    this.isSplit = localStorage.getItem(MEMORY) === "1";
  }

  /** Shows the changes of a job; what is shown already stays. */
  async show(job) {
    const { completedCommit } = job.state;
    const key = `${job.node.id} ${completedCommit}`;
    if (key === this.key) return;
    this.key = key;
    if (!completedCommit) return replace(this.host, h("p.nothing", {}, "The job has no commit yet."));
    replace(this.host, h("p.nothing", { role: "status" }, "Loading the changes…"));
    try {
      const { text, truncated } = await get(`/api/plans/${encodeURIComponent(this.planId)}/jobs/${encodeURIComponent(job.node.id)}/diff`, { signal: this.signal });
      if (this.key !== key) return;
      Object.assign(this, { text, truncated, files: parseDiff(text), name: job.node.producerId });
      this.draw();
    } catch (error) {
      if (this.signal.aborted) return;
      this.key = undefined;
      replace(this.host, h("p.nothing", { role: "alert" }, `The changes cannot be loaded: ${error.message}`));
    }
    return undefined;
  }

  draw() {
    const { files } = this;
    if (files.length === 0) return replace(this.host, h("p.nothing", {}, "The commit changes no files."));
    const [added, removed] = ["added", "removed"].map((side) => files.reduce((sum, file) => sum + file[side], 0));
    this.cards = files.map((file, index) => this.card(file, index));
    const fold = (open) => () => this.cards.forEach((card) => (card.open = open));
    const toggle = (label, isOn, split) => h("button.toggle", { type: "button", "aria-pressed": String(isOn), onclick: () => this.split(split) }, label);
    replace(
      this.host,
      h("div.bar.diff-bar", {}, h("span", {}, counted(files.length, "file"), " ", h("span.added", {}, `+${added}`), " ", h("span.removed", {}, `−${removed}`)), h("span.grow"), toggle("Unified", !this.isSplit, false), toggle("Side by side", this.isSplit, true), h("button", { type: "button", onclick: fold(true) }, "Unfold all"), h("button", { type: "button", onclick: fold(false) }, "Fold all"), h("button.plain", { type: "button", "aria-label": "Download the diff", title: "Download the diff", onclick: () => save(this.text, `${this.name}.diff`) }, icon("download"))),
      this.truncated && h("p.panel.warning", {}, "The diff is too long to show whole. Use git to see the rest."),
      this.cards,
    );
    return undefined;
  }

  split(isSplit) {
    this.isSplit = isSplit;
    localStorage.setItem(MEMORY, isSplit ? "1" : "0");
    const open = this.cards.map((card) => card.open);
    this.draw();
    for (const [index, card] of this.cards.entries()) card.open = open[index];
  }

  card(file, index) {
    const lines = file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
    const body = h("div.diff-body", { tabindex: "0", role: "region", "aria-label": `Changes of ${file.to ?? file.from}` });
    const what = file.from === undefined ? "new" : file.to === undefined ? "deleted" : file.from !== file.to ? "moved" : undefined;
    const name = file.from !== undefined && file.to !== undefined && file.from !== file.to ? `${file.from} → ${file.to}` : (file.to ?? file.from);
    const fill = () => card.open && !body.firstChild && this.fill(body, file, CHUNK);
    const card = h("details.panel.diff-file", { open: lines <= LONG && index < MANY, ontoggle: fill }, h("summary", {}, h("code", {}, name), what && [" ", h("span.chip", {}, what)], " ", h("span.added", {}, `+${file.added}`), " ", h("span.removed", {}, `−${file.removed}`)), body);
    fill();
    return card;
  }

  fill(body, file, most) {
    if (file.isBinary) return replace(body, h("p.soft", {}, "A binary file."));
    if (file.hunks.length === 0) return replace(body, h("p.soft", {}, file.notes.join("; ") || "No changes."));
    let left = most;
    const parts = [];
    let rest = 0;
    for (const hunk of file.hunks) {
      const lines = hunk.lines.slice(0, left);
      rest += hunk.lines.length - lines.length;
      left -= lines.length;
      if (lines.length === 0) continue;
      parts.push(h("tbody", {}, h("tr.hunk", {}, h("td", { colspan: this.isSplit ? "4" : "3" }, hunk.title)), this.isSplit ? twoColumns(lines) : oneColumn(lines)));
    }
    const columns = this.isSplit && h("colgroup", {}, h("col.number"), h("col"), h("col.number"), h("col"));
    replace(body, h(`table.diff${this.isSplit ? ".split-diff" : ""}`, {}, columns, parts), rest > 0 && h("button", { type: "button", onclick: () => this.fill(body, file, most * 4) }, `Show more (${rest.toLocaleString("en")} lines are left)`));
    return undefined;
  }
}

/** The runs of removed and then added lines, each pair of which is one line that changed. */
function paired(lines) {
  const pairs = new Map();
  for (let index = 0; index < lines.length; index += 1) {
    if (lines[index].kind !== "-") continue;
    let end = index;
    while (lines[end]?.kind === "-") end += 1;
    for (let count = 0; index + count < end && lines[end + count]?.kind === "+"; count += 1) {
      pairs.set(lines[index + count], lines[end + count]);
      pairs.set(lines[end + count], lines[index + count]);
    }
    index = end - 1;
  }
  return pairs;
}

function textOf(line, pairs) {
  const other = pairs.get(line);
  const part = other && changedPart(line.text, other.text);
  if (!part || part.start + part.end >= line.text.length) return line.text || " ";
  const end = line.text.length - part.end;
  return [line.text.slice(0, part.start), h("mark", {}, line.text.slice(part.start, end)), line.text.slice(end)];
}

const NAMES = { "+": "is-added", "-": "is-removed", " ": "", "\\": "is-note" };
const SAID = { "+": "added ", "-": "removed ", " ": "", "\\": "" };

function oneColumn(lines) {
  const pairs = paired(lines);
  return lines.map((line) => h("tr", { class: NAMES[line.kind] }, h("td.number", {}, line.before === undefined ? "" : String(line.before)), h("td.number", {}, line.after === undefined ? "" : String(line.after)), h("td.code", { "data-sign": line.kind }, SAID[line.kind] && h("span.unseen", {}, SAID[line.kind]), textOf(line, pairs))));
}

function twoColumns(lines) {
  const pairs = paired(lines);
  const rows = [];
  const cell = (line, number) => [h("td.number", {}, line ? String(number ?? "") : ""), h("td.code", { class: line ? NAMES[line.kind] : "is-nothing", "data-sign": line?.kind ?? " " }, line && [SAID[line.kind] && h("span.unseen", {}, SAID[line.kind]), textOf(line, pairs)])];
  for (const line of lines) {
    if (line.kind === "+" && pairs.has(line)) continue;
    const [left, right] = line.kind === "-" ? [line, pairs.get(line)] : line.kind === "+" ? [undefined, line] : [line, line];
    rows.push(h("tr", {}, cell(left, left?.before), cell(right, right?.after)));
  }
  return rows;
}
