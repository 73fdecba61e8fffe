// One plan: its head, and its jobs as a graph, as a table, along time, and summed up.

import { go, link } from "../app.js";
import { get } from "../lib/api.js";
import { announce, h, icon, replace } from "../lib/dom.js";
import { keys } from "../lib/keys.js";
import { everySecond, wake } from "./clock.js";
import { follow, soon } from "../lib/follow.js";
import { GraphView } from "./graph.js";
import { PlanModel } from "./model.js";
import { PlanHead } from "./plan-head.js";
import { SummaryView } from "./summary.js";
import { TableView } from "./table.js";
import { tabList } from "./tabs.js";
import { TimelineView } from "./timeline.js";
import { counted, isEnded, isGoing, word } from "./words.js";

const VIEWS = { graph: ["Graph", "g"], table: ["Table", "t"], timeline: ["Timeline", "l"], summary: ["Summary", "u"] };
/** Where the view that was last chosen is kept. */
const MEMORY = "orchestra-plan-view";

/** Shows a plan. */
export async function planPage(root, id, query, signal) {
  await new PlanPage(root, id, query, signal).begin();
}

class PlanPage {
  constructor(root, asked, query, signal) {
    Object.assign(this, { root, asked, signal });
    const wanted = query.get("view") ?? localStorage.getItem(MEMORY);
    this.name = wanted in VIEWS ? wanted : "graph";
    this.text = query.get("q") ?? "";
    this.statuses = new Set();
    this.isCritical = false;
  }

  async begin() {
    const { signal } = this;
    this.root.classList.add("one-plan");
    this.reloadSoon = soon(() => this.reloadNow(), 400, signal);
    this.reload = await follow({
      kinds: ["plan", "jobs", "plan-gone"],
      load: () => get(`/api/plans/${encodeURIComponent(this.asked)}`, { signal }),
      reset: (snapshot) => this.reset(new PlanModel(snapshot)),
      apply: (kind, data) => this.apply(kind, data),
      signal,
    });
    everySecond(
      () => !this.gone && (isGoing(this.model.head.status) || this.model.isGoing()),
      () => {
        this.head.tick();
        this.view.tick();
      },
      signal,
    );
    this.listen();
  }

  /** Loads the plan again; where it is gone by now, an event says so. */
  async reloadNow() {
    if (this.gone) return;
    try {
      await this.reload?.();
    } catch (error) {
      if (error.status !== 404 && !this.gone) throw error;
    }
  }

  reset(model) {
    if (this.gone) return;
    this.model = model;
    if (!this.head) this.frame();
    this.head.show(model);
    if (this.view) this.view.replace(model);
    else this.choose(this.name, true);
    wake();
  }

  apply(kind, data) {
    const { model } = this;
    if (kind === "plan-gone" && data.planId === model.head.planId) return this.end();
    if (kind === "plan" && data.plan.id === model.head.planId) {
      const isOther = model.takeRow(data.plan);
      this.head.show(model);
      if (isOther) announce(`The plan is ${word(model.head.status)}`);
      // What jobs changed together is in the whole plan alone.
      if ((isOther && ["succeeded", "failed", "canceled", "archived"].includes(model.head.status)) || data.plan.nodes !== model.jobs.size) this.reloadSoon();
      wake();
    }
    if (kind === "jobs" && data.planId === model.head.planId) {
      const before = new Map(data.nodes.map((node) => [node.id, model.jobs.get(node.id)?.status]));
      const { changed, isNew } = model.take(data.nodes);
      // Jobs that are new, or depend on others than before, stand elsewhere.
      if (isNew || data.relinked) return this.reloadSoon();
      if (changed.length === 0) return;
      this.head.show(model);
      this.view.update(changed);
      const ended = changed.filter((job) => isEnded(job.status) && before.get(job.id) !== job.status);
      if (ended.length > 0 && ended.length <= 3) announce(ended.map((job) => `${job.name}: ${word(job.status)}`).join(", "));
      else if (ended.length > 3) announce(`${counted(ended.length, "job")} ended`);
      wake();
    }
  }

  end() {
    this.gone = true;
    replace(this.root, h("div.empty", { role: "status" }, h("h1", {}, "This plan was deleted"), h("p", {}, `${this.model.head.name} was deleted.`), h("p", {}, link("/plans", { class: "button" }, "All plans"))));
  }

  frame() {
    this.head = new PlanHead({ onFilter: (statuses) => ((this.statuses = statuses), this.filter()) });
    this.panel = h("div.view");
    this.tabs = tabList("View of the jobs", Object.entries(VIEWS).map(([name, [label, key]]) => ({ name, content: [label], title: `${label} (${key})` })), { panel: this.panel, current: this.name, choose: (name) => this.choose(name) });
    this.find = h("input", { type: "search", placeholder: "Find a job", "aria-label": "Find a job", value: this.text, oninput: () => ((this.text = this.find.value), this.filter()), onkeydown: (event) => event.key === "Enter" && this.goToFound(event) });
    this.criticalButton = h("button.toggle", { type: "button", "aria-pressed": "false", title: "Longest path by duration (c)", onclick: () => this.critical() }, icon("clock"), " Critical path");
    this.criticalNote = h("span.soft", { role: "status" });
    replace(this.root, this.head.element, h("div.bar.view-bar", {}, this.tabs.list, this.find, this.criticalButton, this.criticalNote), this.panel);
  }

  choose(name, isFirst = false) {
    if (this.view && name === this.name) return;
    this.name = name;
    this.leaveView?.abort();
    this.leaveView = new AbortController();
    const signal = AbortSignal.any([this.signal, this.leaveView.signal]);
    this.tabs.show(name);
    replace(this.panel);
    this.panel.className = `view view-${name}`;
    const { planId } = this.model.head;
    const how = { signal, planId, memory: `orchestra-folded-${planId}`, open: (job, event) => this.open(job, event) };
    const View = { graph: GraphView, table: TableView, timeline: TimelineView, summary: SummaryView }[name];
    this.view = new View(this.panel, this.model, how);
    this.criticalButton.hidden = this.criticalNote.hidden = name !== "graph";
    this.find.hidden = name === "summary";
    if (this.isCritical) this.view.showCritical?.(true);
    this.filter();
    if (isFirst) return;
    localStorage.setItem(MEMORY, name);
    go(`/plans/${planId}?view=${name}`, { replace: true, quiet: true });
  }

  open(job, event) {
    const path = `/plans/${this.model.head.planId}/jobs/${encodeURIComponent(job.producerId)}`;
    if (event?.ctrlKey || event?.metaKey) window.open(document.documentElement.dataset.base + path);
    else go(path);
  }

  passes(job) {
    const text = this.text.trim().toLowerCase();
    return (this.statuses.size === 0 || this.statuses.has(job.status)) && (text === "" || job.name.toLowerCase().includes(text) || job.producerId.includes(text) || (job.group ?? "").toLowerCase().includes(text));
  }

  filter() {
    this.view.filter((job) => this.passes(job));
  }

  goToFound(event) {
    event.preventDefault();
    const found = [...this.model.jobs.values()].find((job) => this.passes(job));
    if (found && this.text.trim() !== "") this.view.goTo?.(found.id);
  }

  critical() {
    if (this.name !== "graph") return;
    this.isCritical = !this.isCritical;
    this.criticalButton.setAttribute("aria-pressed", String(this.isCritical));
    this.view.showCritical(this.isCritical);
    const { path } = this.isCritical ? this.model.criticalPath() : { path: [] };
    this.criticalNote.textContent = this.isCritical ? `${counted(path.length, "job")} in sequence` : "";
  }

  listen() {
    const { signal } = this;
    for (const [name, [label, key]] of Object.entries(VIEWS)) keys(key, `View of the jobs: ${label.toLowerCase()}`, () => this.choose(name), signal);
    keys("/", "Find a job", () => this.find.focus(), signal);
    keys("c", "Show the critical path", () => this.critical(), signal);
    const camera = (act) => () => this.view.camera?.[act]();
    for (const key of ["+", "="]) keys(key, "Nearer", camera("nearer"), signal);
    keys("-", "Farther", camera("farther"), signal);
    keys("0", "Fit the graph to the view", camera("fit"), signal);
    // The graph hears these itself; they are here for the list of keys alone.
    keys("Arrow keys", "In the graph: move between jobs; Enter opens a job, f collapses a group", () => {}, signal);
  }
}
