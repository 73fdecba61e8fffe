// The jobs of a plan as a table: sorted, or by group; the same facts as the graph, for everybody.

import { link } from "../app.js";
import { h, icon, replace } from "../lib/dom.js";
import { clock } from "../lib/time.js";
import { badge, countsInWords, isActive, lasted } from "./words.js";

const MEMORY = "orchestra-plan-by-group";
const URGENCY = { failed: 0, blocked: 1, running: 2, completed_split: 3, scheduled: 4, ready: 5, pending: 6, succeeded: 7, canceled: 8 };

function took(job) {
  return job.startedAt === undefined ? -1 : (isActive(job.status) ? Date.now() : (job.endedAt ?? job.startedAt)) - job.startedAt;
}

/** Columns: what they are called, and what they are sorted by. */
const COLUMNS = [
  ["name", "Job", (job) => job.name.toLowerCase()],
  ["status", "Status", (job) => URGENCY[job.status]],
  ["started", "Started", (job) => job.startedAt ?? Infinity],
  ["took", "Took", took],
  ["attempts", "Attempts", (job) => job.attempts],
  ["needs", "Depends on", (job, model) => model.needs.get(job.id)?.length ?? 0],
  ["note", "Open dependencies or error", undefined],
];

export class TableView {
  constructor(host, model, { planId, signal }) {
    Object.assign(this, { host, model, planId, signal });
    this.rows = new Map();
    this.shows = () => true;
    this.sort = { by: "order", up: true };
    this.byGroup = localStorage.getItem(MEMORY) === "1";
    this.folded = new Set();
    this.body = h("div.table-scroll", { tabindex: "0", role: "region", "aria-label": "Jobs" });
    this.groupButton = h("button.toggle", { type: "button", "aria-pressed": String(this.byGroup), onclick: () => this.group() }, "By group");
    this.count = h("span.soft", { role: "status" });
    replace(host, h("div.bar.table-bar", {}, this.groupButton, this.count), this.body);
    this.frame();
  }

  frame() {
    const { model } = this;
    this.groupButton.hidden = ![...model.jobs.values()].some((job) => job.group && job.type === "job");
    this.heads = new Map(
      COLUMNS.map(([name, label, key]) => {
        const head = h("th", { scope: "col", class: ["took", "attempts"].includes(name) ? "number" : "" }, key ? h("button.plain", { type: "button", onclick: () => this.sortBy(name) }, label, h("span.direction", { "aria-hidden": "true" })) : label);
        return [name, head];
      }),
    );
    this.table = h("table.jobs-table", {}, h("caption.unseen", {}, "The jobs of the plan"), h("thead", {}, h("tr", {}, [...this.heads.values()])));
    this.order = new Map(model.sorted().map((id, index) => [id, index]));
    this.rows.clear();
    replace(this.body, this.table);
    this.show();
  }

  row(job) {
    const { model, planId } = this;
    const needs = (model.needs.get(job.id) ?? []).map((id) => model.jobs.get(id));
    return h(
      "tr",
      { "data-id": job.id },
      h("th", { scope: "row" }, link(`/plans/${planId}/jobs/${encodeURIComponent(job.producerId)}`, {}, job.name), job.group && job.type === "job" && !this.byGroup && h("small", {}, ` ${job.group}`)),
      h("td", {}, badge(job.status)),
      h("td.time", {}, job.startedAt === undefined ? "–" : clock(job.startedAt)),
      h("td.number.took", {}, job.startedAt === undefined ? "–" : lasted(job.startedAt, isActive(job.status) ? undefined : (job.endedAt ?? job.startedAt))),
      h("td.number", {}, String(job.attempts)),
      h("td.needs", { title: needs.map((need) => need.name).join(", ") }, needs.length === 0 ? "–" : needs.length > 3 ? `${needs.slice(0, 2).map((need) => need.name).join(", ")} and ${needs.length - 2} more` : needs.map((need) => need.name).join(", ")),
      h("td.note", {}, job.error ? h("span.problem", {}, job.error.split("\n", 1)[0].slice(0, 200)) : (job.waiting ?? "")),
    );
  }

  sorted() {
    const { model, sort, order } = this;
    const jobs = [...model.jobs.values()].filter((job) => this.shows(job));
    const key = COLUMNS.find(([name]) => name === sort.by)?.[2] ?? ((job) => order.get(job.id));
    const compare = (one, other) => {
      const [a, b] = [key(one, model), key(other, model)];
      return (a < b ? -1 : a > b ? 1 : 0) * (sort.up ? 1 : -1) || order.get(one.id) - order.get(other.id);
    };
    return jobs.sort(compare);
  }

  show() {
    const jobs = this.sorted();
    for (const [name, head] of this.heads) {
      const isBy = name === this.sort.by;
      if (isBy) head.setAttribute("aria-sort", this.sort.up ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
      const direction = head.querySelector(".direction");
      if (direction) direction.textContent = isBy ? (this.sort.up ? " ▲" : " ▼") : "";
    }
    for (const job of jobs) if (!this.rows.has(job.id)) this.rows.set(job.id, this.row(job));
    this.count.textContent = jobs.length === this.model.jobs.size ? "" : `${jobs.length} of ${this.model.jobs.size} jobs`;
    const focused = document.activeElement?.closest?.("tr")?.dataset.id;
    for (const body of this.table.querySelectorAll("tbody")) body.remove();
    const part = (job) => this.rows.get(job.id);
    if (!this.byGroup) this.table.append(h("tbody", {}, jobs.map(part)));
    else this.showGroups(jobs, part);
    if (focused && this.rows.get(focused)?.isConnected) this.rows.get(focused).querySelector("a").focus({ preventScroll: true });
  }

  showGroups(jobs, part) {
    const groups = this.model.groups();
    const within = new Map([["", []]]);
    for (const path of groups.keys()) within.set(path, []);
    for (const job of jobs) (within.get(job.group) ?? within.get("")).push(job);
    for (const [path, members] of within) {
      const group = groups.get(path);
      const parents = path.split("/").slice(0, -1).map((_, index, parts) => parts.slice(0, index + 1).join("/"));
      if (parents.some((parent) => this.folded.has(parent))) continue;
      const body = h("tbody", { class: `depth-${Math.min(6, group?.depth ?? 0)}` });
      if (group) {
        const isOpen = !this.folded.has(path);
        const fold = () => {
          if (isOpen) this.folded.add(path);
          else this.folded.delete(path);
          this.show();
          this.table.querySelector(`[data-path="${CSS.escape(path)}"]`)?.focus();
        };
        body.append(h("tr.group", {}, h("th", { scope: "rowgroup", colspan: "7" }, h("button.plain", { type: "button", "aria-expanded": String(isOpen), "data-path": path, onclick: fold }, icon(isOpen ? "down" : "plus"), " ", path), " ", badge(group.status), " ", h("small", {}, countsInWords(group.counts)))));
        if (!isOpen) members.length = 0;
      }
      if (group || members.length > 0) {
        for (const job of members) body.append(part(job));
        this.table.append(body);
      }
    }
  }

  sortBy(name) {
    this.sort = this.sort.by === name ? (this.sort.up ? { by: name, up: false } : { by: "order", up: true }) : { by: name, up: true };
    this.show();
  }

  group() {
    this.byGroup = !this.byGroup;
    localStorage.setItem(MEMORY, this.byGroup ? "1" : "0");
    this.groupButton.setAttribute("aria-pressed", String(this.byGroup));
    this.rows.clear();
    this.show();
  }

  update(jobs) {
    for (const job of jobs) {
      const before = this.rows.get(job.id);
      if (!before) continue;
      const focused = before.contains(document.activeElement);
      const row = this.row(job);
      before.replaceWith(row);
      this.rows.set(job.id, row);
      if (focused) row.querySelector("a").focus({ preventScroll: true });
    }
    // Others pass the filter now, or stand elsewhere; what is pointed at does not jump away at once.
    clearTimeout(this.later);
    this.later = setTimeout(() => !this.signal.aborted && this.show(), 500);
  }

  replace(model) {
    this.model = model;
    this.frame();
  }

  filter(shows) {
    this.shows = shows;
    this.show();
  }

  goTo(id) {
    const row = this.rows.get(id);
    row?.querySelector("a").focus();
    row?.scrollIntoView({ block: "nearest" });
  }

  tick() {
    for (const [id, row] of this.rows) {
      const job = this.model.jobs.get(id);
      if (job && isActive(job.status) && job.startedAt !== undefined) row.querySelector(".took").textContent = lasted(job.startedAt);
    }
  }
}
