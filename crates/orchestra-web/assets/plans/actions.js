// What can be asked of a plan: when each makes sense, what it does in words, and the tool behind it.

import { call } from "../lib/api.js";
import { counted, isActive } from "./words.js";

/** @typedef {{ id: string, name: string, status: string, counts: Object<string, number> }} Plan */

const OVER = ["succeeded", "failed", "canceled"];

function active(counts) {
  return counts.running + counts.scheduled + counts.completed_split;
}

function open(counts) {
  return counts.pending + counts.ready;
}

/**
 * All of them in the order of their buttons. `may` says whether one makes sense for a plan, `does`
 * what it would do in a sentence, `run` asks for it and gives what the tool says.
 */
export const ACTIONS = {
  finalize: {
    label: () => "Finalize",
    icon: "good",
    look: "primary",
    may: ({ status }) => status === "scaffolding",
    does: ({ counts }) => `its ${counted(open(counts), "job")} are checked and the plan can start`,
    run: (plan, options = {}) => call("finalize_copilot_plan", { planId: plan.id, ...options }),
    told: "finalized",
  },
  resume: {
    label: ({ status } = {}) => (status === "pending-start" ? "Start" : "Resume"),
    icon: "play",
    look: "primary",
    may: ({ status }) => ["pending-start", "paused", "pausing"].includes(status),
    does: ({ counts }) => (counts.ready > 0 ? `${counted(counts.ready, "job")} can start now, ${counts.pending} more after their dependencies` : `continues with ${counted(open(counts) + active(counts), "job")}`),
    run: (plan) => call("resume_copilot_plan", { planId: plan.id }),
    told: "resumed",
  },
  pause: {
    label: () => "Pause",
    icon: "pause",
    may: ({ status }) => ["running", "pending"].includes(status),
    does: ({ counts }) => `no new job starts; ${active(counts) === 0 ? "no job is running" : `${counted(active(counts), "running job finishes", "running jobs finish")}`}`,
    run: (plan) => call("pause_copilot_plan", { planId: plan.id }),
    told: "paused",
  },
  retry: {
    label: () => "Retry failed",
    icon: "retry",
    look: "primary",
    may: ({ status, counts }) => counts.failed > 0 && !["archived", "scaffolding", "canceled"].includes(status),
    does: ({ counts }) => `${counted(counts.failed, "failed job runs", "failed jobs run")} again${counts.blocked > 0 ? `, and then ${counted(counts.blocked, "job")} blocked behind them` : ""}`,
    run: (plan, options = {}) => call("retry_copilot_plan", { planId: plan.id, ...options }),
    told: "retried",
  },
  recover: {
    label: () => "Recover",
    icon: "retry",
    may: ({ status }) => status === "failed" || status === "canceled",
    does: ({ counts }) => `comes back paused; ${counted(counts.failed + counts.blocked + counts.canceled, "job")} can run again`,
    run: (plan, options = {}) => call("recover_copilot_plan", { planId: plan.id, ...options }),
    told: "recovered",
  },
  clone: {
    label: () => "Clone",
    icon: "copy",
    may: () => true,
    run: (plan, options = {}) => call("clone_copilot_plan", { sourcePlanId: plan.id, ...options }),
  },
  cancel: {
    label: () => "Cancel",
    icon: "stop",
    look: "danger",
    may: ({ status }) => !OVER.includes(status) && status !== "archived",
    does: ({ counts }) => `${active(counts) === 0 ? "no job is running" : `${counted(active(counts), "running job is", "running jobs are")} killed`}, ${counted(open(counts), "open job is", "open jobs are")} canceled; results of succeeded jobs are preserved`,
    run: (plan) => call("cancel_copilot_plan", { planId: plan.id }),
    told: "canceled",
  },
  archive: {
    label: () => "Archive",
    icon: "archive",
    may: ({ status }) => OVER.includes(status),
    does: () => "its worktrees and branches are removed; you can still read the plan",
    run: (plan, options = {}) => call("archive_copilot_plan", { planId: plan.id, ...options }),
    told: "archived",
  },
  delete: {
    label: () => "Delete",
    icon: "trash",
    look: "danger",
    may: () => true,
    does: ({ counts }) => `${active(counts) === 0 ? "" : `${counted(active(counts), "running job is", "running jobs are")} killed; `}its data and logs are permanently deleted; merged commits are preserved`,
    run: (plan) => call("delete_copilot_plan", { planId: plan.id }),
    told: "deleted",
  },
};

/** The names of what makes sense for a plan, in the order of their buttons. */
export function possible(plan) {
  return Object.keys(ACTIONS).filter((name) => ACTIONS[name].may(plan));
}

/** The jobs of a plan that hold a slot. */
export function atWork(model) {
  return [...model.jobs.values()].filter((job) => isActive(job.status));
}
