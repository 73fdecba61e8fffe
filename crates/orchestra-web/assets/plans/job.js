// One job: its log as it is printed, its attempts, what it changed, what it is, and what is around it.

import { go, link } from "../app.js";
import { ApiError, call, get } from "../lib/api.js";
import { announce, h, icon, replace } from "../lib/dom.js";
import { keys } from "../lib/keys.js";
import { AttemptList } from "./attempts.js";
import { everySecond, wake } from "./clock.js";
import { DiffView } from "./diff.js";
import { follow, soon } from "../lib/follow.js";
import { jobButtons } from "./job-ask.js";
import { jobFacts } from "./job-facts.js";
import { LogView } from "./log.js";
import { PlanModel } from "./model.js";
import { PHASES, PhaseStrip } from "./phases.js";
import { definition } from "./spec.js";
import { tabList } from "./tabs.js";
import { badge, isActive, lasted, word } from "./words.js";

const VIEWS = { log: ["Log", "l"], changes: ["Changes", "d"], attempts: ["Attempts", "a"], definition: ["Definition", "i"] };
/** How often a job that runs is looked at, should nothing be told of it. */
const LOOK_MS = 5_000;
/** How often at most it is looked at as anything in its plan happens. */
const LATER_MS = 1_000;

/** Shows a job. */
export async function jobPage(root, planId, job, query, signal) {
  await new JobPage(root, planId, job, query, signal).begin();
}

class JobPage {
  constructor(root, planId, asked, query, signal) {
    Object.assign(this, { root, planId, asked, signal });
    this.wanted = Number(query.get("attempt")) || undefined;
    this.phase = PHASES.includes(query.get("phase")) ? query.get("phase") : "";
    this.view = query.get("view") in VIEWS ? query.get("view") : "log";
    this.attempts = [];
  }

  async begin() {
    const { signal } = this;
    this.root.classList.add("one-job");
    const load = () => this.load().catch((error) => !signal.aborted && Promise.reject(error));
    this.loadSoon = soon(load, 250, signal);
    this.loadLater = soon(load, LATER_MS, signal);
    const again = await follow({
      kinds: ["plan", "jobs", "plan-gone"],
      load: () => get(`/api/plans/${encodeURIComponent(this.planId)}`, { signal }),
      reset: (snapshot) => (this.model = new PlanModel(snapshot)),
      apply: (kind, data) => this.apply(kind, data),
      signal,
    });
    this.reloadSoon = soon(again, 400, signal);
    const row = this.model.find(this.asked);
    if (!row) throw new ApiError(404, `The plan has no job ${this.asked}.`);
    this.id = row.id;
    this.frame();
    await this.load();
    everySecond(
      () => !this.gone && isActive(this.job.state.status),
      () => this.tick(),
      signal,
    );
    this.listen();
  }

  apply(kind, data) {
    const { model } = this;
    if (kind === "plan-gone" && data.planId === model.head.planId) {
      this.gone = true;
      replace(this.root, h("div.empty", { role: "status" }, h("h1", {}, "This plan was deleted"), h("p", {}, `${model.head.name} was deleted.`), link("/plans", { class: "button" }, "All plans")));
      return;
    }
    if (kind === "plan" && data.plan.id === model.head.planId) {
      if (model.takeRow(data.plan) && this.job) this.showHead();
      // A phase that begins or ends changes no node, but the plan.
      if (this.job && isActive(this.job.state.status)) this.loadLater();
    }
    if (kind === "jobs" && data.planId === model.head.planId && this.job) {
      const { changed, isNew } = model.take(data.nodes);
      if (isNew) this.reloadSoon();
      if (changed.some((node) => node.id === this.id)) this.loadSoon();
      else if (changed.some((node) => [...this.job.node.dependencies, ...this.job.node.dependents].some(({ id }) => id === node.id))) this.showFacts();
    }
  }

  /** Asks for the job and its attempts. */
  async load() {
    const { signal, id } = this;
    const { planId } = this.model.head;
    const args = { planId, jobId: id };
    this.loadedAt = Date.now();
    const [job, { attempts }] = await Promise.all([call("get_copilot_job", args, { signal }), call("get_copilot_job_attempts", args, { signal })]);
    if (signal.aborted || this.gone) return;
    const before = this.job?.state.status;
    Object.assign(this, { job, attempts });
    if (before && before !== job.state.status) announce(`${job.node.name}: ${word(job.state.status)}`);
    this.showHead();
    this.showFacts();
    this.showAttempt();
    this.showView();
    wake();
  }

  frame() {
    this.crumbs = h("nav.crumbs", { "aria-label": "Breadcrumbs" });
    this.title = h("h1");
    this.standing = h("span");
    this.took = h("span.took", { title: "Duration" });
    this.actions = h("div.actions", { role: "group", "aria-label": "Actions of the job" });
    this.notes = h("div.warnings");
    this.attempt = h("select", { "aria-label": "Attempt", onchange: () => this.chooseAttempt(Number(this.attempt.value)) });
    this.panels = Object.fromEntries(Object.keys(VIEWS).map((name) => [name, h(`div.job-${name}`)]));
    this.strip = new PhaseStrip({ panel: this.panels.log, current: this.phase, choose: (phase) => this.choosePhase(phase) });
    this.panel = h("div.job-panel", {}, Object.values(this.panels));
    this.tabs = tabList("Views of the job", Object.entries(VIEWS).map(([name, [label, key]]) => ({ name, content: [label], title: `${label} (${key})` })), { panel: this.panel, current: this.view, choose: (name) => this.chooseView(name) });
    this.facts = h("aside.job-facts", { "aria-label": "About the job" });
    const { signal } = this;
    const { planId } = this.model.head;
    this.log = new LogView(this.panels.log, { signal, name: () => `${this.job.node.producerId}-${this.shown?.attemptNumber ?? 0}`, onLine: (line) => line.isRunner && this.loadSoon() });
    this.log.filter(this.phase);
    this.cards = new AttemptList(this.panels.attempts, { planId, signal, showLog: (number) => (this.chooseAttempt(number), this.chooseView("log")) });
    this.diff = new DiffView(this.panels.changes, { planId, signal });
    replace(this.root, h("div.job-head", {}, this.crumbs, h("div.bar.title-line", {}, this.title, this.standing, this.took, h("span.grow"), this.actions), this.notes), h("div.strip-line", {}, this.strip.element, this.attempt), h("div.job-body", {}, h("div.job-main", {}, this.tabs.list, this.panel), this.facts));
  }

  showHead() {
    const { job, model } = this;
    const { state, node } = job;
    document.title = `${node.name} – ${model.head.name} – Orchestra`;
    replace(this.crumbs, link("/plans", {}, "Plans"), " / ", link(`/plans/${model.head.planId}`, {}, model.head.name), job.groupId && node.type === "job" && ` / ${job.groupId}`, " / ", h("span", { "aria-current": "page" }, node.name));
    this.title.textContent = node.name;
    replace(this.standing, badge(state.status));
    const buttons = jobButtons(job, model);
    const names = buttons.map((button) => button.dataset.action).join();
    if (names !== this.names) {
      const focused = document.activeElement?.dataset?.action;
      replace(this.actions, buttons);
      if (focused) (this.actions.querySelector(`[data-action="${focused}"]`) ?? this.title).focus();
    } else for (const [index, button] of buttons.entries()) this.actions.children[index].replaceWith(button);
    this.names = names;
    const waiting = model.jobs.get(this.id)?.waiting;
    const notes = [
      state.error && h("div.panel.warning.bad", {}, h("strong", {}, state.status === "failed" ? `Failed${this.attempts.at(-1)?.failedPhase ? ` in ${this.attempts.at(-1).failedPhase}` : ""}: ` : ""), h("span.error", {}, state.error), state.healing && h("p", {}, `The heal of ${state.healing.phase} in attempt ${state.healing.attemptNumber} failed: ${state.healing.error}`), state.forceFailMessage && h("p", {}, `Declared failed: ${state.forceFailMessage}`)),
      waiting && h("div.panel.warning", {}, waiting),
    ].filter(Boolean);
    const key = notes.map((note) => note.textContent).join("\n");
    if (key !== this.noted) replace(this.notes, notes);
    this.noted = key;
    this.tick();
  }

  showFacts() {
    const isOpen = this.facts.querySelector(".history")?.open;
    const focused = this.facts.contains(document.activeElement) ? [...this.facts.querySelectorAll("a,button,summary")].indexOf(document.activeElement) : -1;
    const key = JSON.stringify([this.job, [...this.job.node.dependencies, ...this.job.node.dependents].map(({ id }) => this.model.jobs.get(id)?.status)]);
    if (key === this.factsKey) return;
    this.factsKey = key;
    replace(this.facts, jobFacts(this.job, this.model));
    if (isOpen) this.facts.querySelector(".history").open = true;
    if (focused >= 0) this.facts.querySelectorAll("a,button,summary")[focused]?.focus({ preventScroll: true });
  }

  /** Shows the attempt that is asked for, or the latest as long as none is. */
  showAttempt() {
    const { attempts, job } = this;
    this.attempt.hidden = attempts.length < 2;
    const shown = attempts.find(({ attemptNumber }) => attemptNumber === this.wanted) ?? attempts.at(-1);
    const options = attempts.map(({ attemptNumber, status }) => `Attempt ${attemptNumber} of ${attempts.length}: ${word(status)}`);
    if (options.join() !== this.options) replace(this.attempt, attempts.map(({ attemptNumber }, index) => h("option", { value: String(attemptNumber) }, options[index])));
    this.options = options.join();
    if (shown) this.attempt.value = String(shown.attemptNumber);
    const isOther = shown?.attemptNumber !== this.shown?.attemptNumber;
    this.shown = shown;
    this.strip.show(shown, job.state.worktreeCleanedUp && shown === attempts.at(-1));
    if (!shown) this.log.none(job.state.status === "blocked" ? "The job is blocked and has not started." : "The job has not started yet.");
    else if (isOther || this.log.state === "") this.log.start({ planId: this.model.head.planId, jobId: this.id, attempt: shown.attemptNumber, isLive: () => this.isLive(shown.attemptNumber) });
    this.cards.show(job, attempts);
  }

  /** Whether an attempt may still print something. */
  isLive(number) {
    return this.attempts.at(-1)?.attemptNumber === number && this.attempts.at(-1).status === "running";
  }

  chooseAttempt(number) {
    this.wanted = number === this.attempts.at(-1)?.attemptNumber ? undefined : number;
    this.showAttempt();
    this.keep();
  }

  choosePhase(phase) {
    this.phase = phase;
    this.strip.choose(phase);
    this.log.filter(phase);
    if (this.view !== "log") this.chooseView("log");
    else this.keep();
  }

  chooseView(name) {
    this.view = name;
    this.showView();
    this.keep();
  }

  showView() {
    this.tabs.show(this.view);
    for (const [name, panel] of Object.entries(this.panels)) panel.hidden = name !== this.view;
    if (this.view === "changes") this.diff.show(this.job);
    if (this.view === "definition") {
      const key = JSON.stringify(this.job.node);
      if (key !== this.defined) replace(this.panels.definition, definition(this.job));
      this.defined = key;
    }
    if (this.view === "log") this.log.later();
  }

  /** Keeps in the address what is shown. */
  keep() {
    const query = new URLSearchParams();
    if (this.wanted) query.set("attempt", this.wanted);
    if (this.phase) query.set("phase", this.phase);
    if (this.view !== "log") query.set("view", this.view);
    go(`/plans/${this.model.head.planId}/jobs/${encodeURIComponent(this.job.node.producerId)}${query.size > 0 ? `?${query}` : ""}`, { replace: true, quiet: true });
  }

  tick() {
    const { state } = this.job;
    const text = state.startedAt === undefined ? "" : lasted(state.startedAt, isActive(state.status) ? undefined : (state.endedAt ?? state.startedAt));
    if (this.took.textContent.trim() !== text) replace(this.took, text && icon("clock"), text && ` ${text}`);
    this.strip.tick();
    this.cards.tick();
    const live = this.facts.querySelector(".live-took");
    if (live && isActive(state.status)) live.textContent = text;
    if (isActive(state.status) && Date.now() - this.loadedAt > LOOK_MS) this.loadSoon();
  }

  listen() {
    const { signal } = this;
    for (const [name, [label, key]] of Object.entries(VIEWS)) keys(key, `Show this view of the job: ${label.toLowerCase()}`, () => this.chooseView(name), signal);
    keys("u", "Back to the plan", () => go(`/plans/${this.model.head.planId}`), signal);
    keys("/", "Search the log", () => (this.chooseView("log"), this.log.find.focus()), signal);
    keys("n", "Next match", () => this.log.step(1), signal);
    keys("N", "Previous match", () => this.log.step(-1), signal);
    keys("f", "Keep the newest line of the log in view", () => this.log.follow(!this.log.isFollowing), signal);
    keys("w", "Wrap long lines of the log", () => this.log.wrap(), signal);
  }
}
