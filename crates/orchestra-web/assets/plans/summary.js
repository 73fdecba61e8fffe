// A plan summed up: what its jobs changed, its groups, what its agents used, and what is known of it.

import { link } from "../app.js";
import { h, replace } from "../lib/dom.js";
import { amount, clock } from "../lib/time.js";
import { Details } from "./details.js";
import { badge, counted, countsInWords, isEnded, lasted, progressBar, usageRows } from "./words.js";

/** Of more jobs the lines are counted when somebody asks for it. */
const MANY = 60;

export class SummaryView {
  constructor(host, model, { planId, signal }) {
    Object.assign(this, { host, model, planId, signal });
    this.details = new Details(planId, signal, () => this.later());
    this.countsLines = model.jobs.size <= MANY;
    this.draw();
  }

  later() {
    if (this.pending) return;
    this.pending = true;
    setTimeout(() => {
      this.pending = false;
      if (!this.signal.aborted) this.draw();
    }, 120);
  }

  draw() {
    const focused = document.activeElement?.closest?.(".view-summary") && document.activeElement.getAttribute("href");
    replace(this.host, h("div.summary-grid", {}, this.work(), this.groups(), this.usage(), this.facts()));
    if (focused) this.host.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  work() {
    const { model, planId } = this;
    const sum = model.head.workSummary;
    const jobs = [...model.jobs.values()].filter((job) => job.completedCommit || (isEnded(job.status) && job.attempts > 0));
    const signed = (sign, count) => (count === undefined ? "–" : count === 0 ? "0" : `${sign}${count}`);
    const rows = jobs.map((job) => {
      const state = this.details.state(job);
      const lines = this.countsLines ? this.details.lines(job) : undefined;
      const changed = state?.workSummary;
      return h(
        "tr",
        {},
        h("th", { scope: "row" }, link(`/plans/${planId}/jobs/${encodeURIComponent(job.producerId)}?view=changes`, {}, job.name)),
        h("td.number", {}, changed ? String(changed.commits) : state ? "0" : "…"),
        h("td.number", {}, changed ? `${changed.filesAdded} added, ${changed.filesModified} changed, ${changed.filesDeleted} deleted` : state ? "none" : "…"),
        h("td.number", {}, lines ? [h("span.added", {}, signed("+", lines.added)), " ", h("span.removed", {}, signed("−", lines.removed)), lines.truncated && " or more"] : job.completedCommit && this.countsLines ? "…" : "–"),
        h("td.number", {}, state?.usage ? amount(state.usage.inputTokens + state.usage.outputTokens) : "–"),
      );
    });
    return h(
      "section.panel.wide",
      {},
      h("div.bar", {}, h("h2", {}, "Changes by jobs"), h("span.grow"), !this.countsLines && h("button", { type: "button", onclick: () => ((this.countsLines = true), this.draw()) }, "Count lines")),
      sum ? h("p", {}, `${counted(sum.commits, "commit")}: ${counted(sum.filesAdded, "file is", "files are")} new, ${sum.filesModified} changed, ${sum.filesDeleted} deleted.`) : h("p.soft", {}, "No job has committed anything yet."),
      rows.length > 0 && h("div.table-scroll", { tabindex: "0", role: "region", "aria-label": "Changes of each job" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Job"), h("th.number", { scope: "col" }, "Commits"), h("th.number", { scope: "col" }, "Files"), h("th.number", { scope: "col" }, "Lines"), h("th.number", { scope: "col" }, "Tokens"))), h("tbody", {}, rows))),
    );
  }

  groups() {
    const groups = [...this.model.groups().values()];
    if (groups.length === 0) return undefined;
    const item = (group) => h("li", { class: `depth-${Math.min(6, group.depth)}` }, h("div.line", {}, h("strong", {}, group.name), badge(group.status), h("small", {}, `${countsInWords(group.counts)}${group.startedAt === undefined ? "" : `, ${lasted(group.startedAt, group.endedAt)}`}`)), progressBar(group.counts, Math.round((group.jobs.filter((job) => isEnded(job.status)).length / group.jobs.length) * 100)));
    return h("section.panel", {}, h("h2", {}, "Groups"), h("ul.group-list", {}, groups.map(item)));
  }

  usage() {
    const rows = usageRows(this.model.head.usage).filter(([, value]) => value !== "0");
    return h("section.panel", {}, h("h2", {}, "Usage by agents"), rows.length === 0 ? h("p.soft", {}, "No usage yet, or the agents do not report it.") : h("dl.facts", {}, rows.map(([name, value, more]) => [h("dt", {}, name), h("dd", {}, value, more && h("small", {}, ` ${more}`))])));
  }

  facts() {
    const { head, jobs } = this.model;
    const time = (at) => (at === undefined ? "–" : clock(at));
    const { path, ms } = this.model.criticalPath();
    const rows = [
      ["Jobs", String(jobs.size)],
      ["Longest path", `${counted(path.length, "job")}${ms === undefined ? "" : `, ${lasted(0, ms)} so far and by the mean`}`],
      ["Base branch", head.baseBranch ?? "the checked-out branch"],
      ["Target branch", head.targetBranch ?? "a new branch"],
      ["At once", head.maxParallel > 0 ? `at most ${head.maxParallel}` : "no limit of its own"],
      ["Agents", head.agents?.length > 0 ? h("ul", {}, head.agents.map((agent) => h("li", {}, agent))) : "none may start"],
      ["Made", time(head.createdAt)],
      ["Begun", time(head.startedAt)],
      ["Ended", time(head.endedAt)],
      head.archivedAt !== undefined && ["Archived", time(head.archivedAt)],
      ["Changes so far", String(head.stateVersion)],
      ["Id", head.planId],
    ].filter(Boolean);
    return h("section.panel", {}, h("h2", {}, "The plan"), h("dl.facts", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  }

  update() {
    this.later();
  }

  replace(model) {
    this.model = model;
    this.later();
  }

  filter() {}

  tick() {}
}
