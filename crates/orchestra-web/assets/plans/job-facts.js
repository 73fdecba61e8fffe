// What is beside the log of a job: its times, what it stands between, git, and what it used.

import { link } from "../app.js";
import { h } from "../lib/dom.js";
import { clock } from "../lib/time.js";
import { copyButton } from "../lib/clipboard.js";
import { counted, isActive, lasted, stateIcon, usageRows, word } from "./words.js";

/** A job as a chip that leads to it. */
function jobChip(planId, job) {
  return link(`/plans/${planId}/jobs/${encodeURIComponent(job.producerId)}`, { class: `chip job-chip st-${job.status}`, title: `${job.name}: ${word(job.status)}` }, stateIcon(job.status), job.name, h("span.unseen", {}, `, ${word(job.status)}`));
}

function facts(title, rows) {
  const shown = rows.filter(Boolean);
  if (shown.length === 0) return undefined;
  return h("section.panel", {}, h("h2", {}, title), h("dl.facts", {}, shown.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

function commit(hash) {
  return [h("code", { title: hash }, hash.slice(0, 10)), copyButton(hash, "Copy the commit")];
}

function merged(state) {
  if (state.mergedToTarget === undefined) return state.isLeaf ? "not yet" : "with its dependents";
  return state.mergedToTarget ? "yes, merged into the target branch" : "not yet";
}

function worktree(state) {
  if (!state.worktreePath) return state.worktreeCleanedUp ? "removed after the job" : "none yet";
  return [h("code.path", {}, state.worktreePath), copyButton(state.worktreePath, "Copy the path of the worktree"), h("a", { href: `vscode://file${state.worktreePath.startsWith("/") ? "" : "/"}${encodeURI(state.worktreePath)}` }, "Open in VS Code")];
}

/** All of it; jobs around it are those of the model, as they stand now. */
export function jobFacts(job, model) {
  const { state, node } = job;
  const { planId } = model.head;
  const chips = (all) => (all.length === 0 ? h("p.soft", {}, "none") : h("div.chips", {}, all.map((one) => jobChip(planId, model.jobs.get(one.id) ?? { ...one, status: "pending" }))));
  const summary = state.workSummary;
  const heals = Object.entries(state.autoHealAttempted ?? {});
  return [
    h("section.panel", {}, h("h2", {}, `Depends on (${node.dependencies.length})`), chips(node.dependencies), h("h2", {}, `Needed by (${node.dependents.length})`), chips(node.dependents)),
    facts("Git", [
      state.baseCommit && ["Base", commit(state.baseCommit)],
      state.completedCommit && ["Commit", commit(state.completedCommit)],
      summary && ["Changed", `${counted(summary.commits, "commit")}, ${summary.filesAdded} added, ${summary.filesModified} changed, ${summary.filesDeleted} deleted`],
      ["Merged", merged(state)],
      ["Worktree", worktree(state)],
    ]),
    facts("Times", [
      state.scheduledAt !== undefined && ["Scheduled", clock(state.scheduledAt)],
      state.startedAt !== undefined && ["Began", clock(state.startedAt)],
      state.endedAt !== undefined && ["Ended", clock(state.endedAt)],
      state.startedAt !== undefined && ["Took", h("span.live-took", {}, lasted(state.startedAt, isActive(state.status) ? undefined : state.endedAt))],
      ["Attempts", String(state.attempts)],
      heals.length > 0 && ["Healed", heals.map(([phase, times]) => `${phase} ${times === 1 ? "once" : `${times} times`}`).join(", ")],
      state.pid !== undefined && ["Process", String(state.pid)],
      state.copilotSessionId && ["Session", [h("code", {}, state.copilotSessionId), copyButton(state.copilotSessionId, "Copy the id of the session")]],
    ]),
    facts("Usage by agents", usageRows(state.usage).filter(([, value]) => value !== "0").map(([name, value, more]) => [name, [value, more && h("small", {}, ` ${more}`)]])),
    state.stateHistory.length > 0 && h("details.panel.history", {}, h("summary", {}, `State history (${state.stateHistory.length})`), h("ol", {}, state.stateHistory.map(({ from, to, at, reason }) => h("li", {}, h("span.soft", {}, clock(at)), ` ${word(from)} → ${word(to)}`, reason && h("small", {}, ` ${reason}`))))),
  ].filter(Boolean);
}
