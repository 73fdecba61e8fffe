// The head of a plan: what it is called, how it stands, and what can be done with it.

import { link } from "../app.js";
import { post } from "../lib/api.js";
import { h, icon, replace, toast } from "../lib/dom.js";
import { ago } from "../lib/time.js";
import { ACTIONS, possible } from "./actions.js";
import { ask } from "./ask.js";
import { JOB_STATES, badge, counted, isGoing, lasted, pausedInWords, progressBar, stateIcon, word } from "./words.js";

/** So many failed jobs are named with what went wrong. */
const NAMED = 4;

export class PlanHead {
  /** @param {{ onFilter: (statuses: Set<string>) => void }} how called with the states that are chosen; none means all */
  constructor({ onFilter }) {
    this.chosen = new Set();
    this.onFilter = onFilter;
    this.crumb = h("span", { "aria-current": "page" });
    this.title = h("h1");
    this.standing = h("span.standing");
    this.took = h("span.took", { title: "Duration" });
    this.actions = h("div.actions", { role: "group", "aria-label": "Actions of the plan" });
    this.flow = h("div.flow");
    this.bar = h("div.plan-progress");
    this.counts = h("div.kinds", { role: "group", "aria-label": "Show jobs that are" });
    this.buttons = new Map();
    this.warnings = h("div.warnings");
    this.element = h("div.plan-head", {}, h("nav.crumbs", { "aria-label": "Breadcrumbs" }, link("/plans", {}, "Plans"), " / ", this.crumb), h("div.bar.title-line", {}, this.title, this.standing, this.took, h("span.grow"), this.actions), this.flow, h("div.bar", {}, this.bar, this.counts), this.warnings);
  }

  /** Shows how the plan stands now. */
  show(model) {
    this.model = model;
    const { head } = model;
    const counts = model.counts();
    const plan = { id: head.planId, name: head.name, status: head.status, counts };
    document.title = `${head.name} – Orchestra`;
    this.title.textContent = this.crumb.textContent = head.name;
    if (this.status !== head.status) replace(this.standing, badge(head.status));
    this.status = head.status;
    this.tick();
    const names = possible(plan).join();
    if (this.names !== `${names} ${head.status}`) {
      this.names = `${names} ${head.status}`;
      const focused = document.activeElement?.dataset?.action;
      replace(
        this.actions,
        possible(plan).map((name) => {
          const { label, icon: picture, look } = ACTIONS[name];
          return h(look ? `button.${look}` : "button", { type: "button", "data-action": name, onclick: () => ask(name, this.model) }, icon(picture), " ", label(plan));
        }),
      );
      if (focused) (this.actions.querySelector(`[data-action="${focused}"]`) ?? this.actions.firstElementChild)?.focus();
    }
    this.showFlow(head);
    replace(this.bar, progressBar(counts, head.progress));
    this.showCounts(counts);
    this.showWarnings(head, counts);
  }

  showFlow(head) {
    const branch = (name, none, label) => h("span.branch", { title: label }, icon("branch"), h("span.unseen", {}, `${label}: `), name ?? none);
    replace(
      this.flow,
      branch(head.baseBranch, "the checked-out branch", "Starts from"),
      h("span.arrow", { "aria-hidden": "true" }, "→"),
      branch(head.targetBranch, "a new branch", "Merges into"),
      h("span.soft", {}, head.maxParallel > 0 ? `at most ${counted(head.maxParallel, "job")} at once` : "no limit of its own"),
      h("span.soft", { title: head.agents?.join("\n") ?? "" }, head.agents?.length > 0 ? `agents: ${head.agents.map((agent) => agent.split(" ", 1)[0]).filter((name, at, all) => all.indexOf(name) === at).join(", ")}` : "no agents"),
      h("span.soft", { title: new Date(head.createdAt).toLocaleString() }, `made ${ago(head.createdAt)}`),
      h("span.soft.id", { title: "Its id" }, head.planId),
    );
  }

  /** The counts are buttons, made once, so that what has the focus keeps it. */
  showCounts(counts) {
    for (const state of JOB_STATES) {
      if (!this.buttons.has(state)) {
        const toggle = () => {
          if (this.chosen.has(state)) this.chosen.delete(state);
          else this.chosen.add(state);
          this.buttons.get(state).setAttribute("aria-pressed", String(this.chosen.has(state)));
          this.onFilter(this.chosen);
        };
        const button = h("button.toggle", { type: "button", "aria-pressed": "false", onclick: toggle }, stateIcon(state), " ", word(state), " ", h("span.count"));
        this.buttons.set(state, button);
        this.counts.append(button);
      }
      const button = this.buttons.get(state);
      button.hidden = counts[state] === 0 && !this.chosen.has(state);
      button.querySelector(".count").textContent = String(counts[state]);
    }
  }

  showWarnings(head, counts) {
    const { model } = this;
    const panels = [];
    if (head.paused) {
      const other = head.paused.kind === "resumeAfterPlan" && head.resumeAfterPlan;
      const isBad = ["branches", "variables"].includes(head.paused.kind);
      panels.push(h("div.panel.warning", { class: isBad ? "bad" : "" }, h("strong", {}, head.status === "pausing" ? "Pausing: running jobs finish. " : ""), pausedInWords(head.paused), other && [" ", link(`/plans/${other}`, {}, "That plan")]));
    }
    for (const warning of head.warnings ?? []) panels.push(h("div.panel.warning", {}, warning));
    for (const offer of head.offers ?? []) {
      const approve = async () => {
        const { told } = await post(`/api/agents/${encodeURIComponent(offer.agent)}/approve`, { fingerprint: offer.fingerprint });
        toast(told, "good");
        head.offers = head.offers.filter((other) => other !== offer);
        this.showWarnings(head, counts);
      };
      panels.push(h("div.panel.warning", {}, h("strong", {}, `Agent ${offer.agent} needs your approval to start`), h("pre", { tabindex: "0", "aria-label": "Agent to approve" }, offer.shows.join("\n")), h("button", { type: "button", onclick: approve }, `Approve ${offer.agent}`)));
    }
    const failed = [...model.jobs.values()].filter((job) => job.status === "failed");
    if (failed.length > 0) {
      panels.push(
        h(
          "div.panel.warning.bad",
          {},
          h("strong", {}, counted(failed.length, "job has failed", "jobs have failed"), counts.blocked > 0 && `, and ${counts.blocked} behind ${failed.length === 1 ? "it" : "them"} cannot start`),
          h("ul", {}, failed.slice(0, NAMED).map((job) => h("li", {}, link(`/plans/${head.planId}/jobs/${encodeURIComponent(job.producerId)}`, {}, job.name), job.error && `: ${job.error.split("\n", 1)[0].slice(0, 240)}`)), failed.length > NAMED && h("li", {}, `and ${failed.length - NAMED} more`)),
        ),
      );
    }
    const key = panels.map((panel) => panel.textContent).join("\n");
    if (key === this.warned) return;
    this.warned = key;
    replace(this.warnings, panels);
  }

  /** Lets the duration grow. */
  tick() {
    const { head } = this.model;
    const text = head.startedAt === undefined ? "" : lasted(head.startedAt, isGoing(head.status) ? undefined : (head.endedAt ?? undefined));
    if (this.took.textContent !== text) replace(this.took, text && icon("clock"), text && ` ${text}`);
  }
}
