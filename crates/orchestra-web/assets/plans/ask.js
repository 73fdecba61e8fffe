// Dialogs that say what will happen before it does: of one plan, with its jobs by name.

import { go } from "../app.js";
import { dialog, field, h, replace, toast } from "../lib/dom.js";
import { ACTIONS, atWork } from "./actions.js";
import { counted, stateIcon } from "./words.js";

/** So many jobs are named; the others are counted. */
const NAMED = 12;
/** The most jobs that one retry may name. */
const MOST = 100;

/** Names of jobs as a list. */
export function jobList(title, jobs, note) {
  if (jobs.length === 0) return undefined;
  return h("section.preview", {}, h("h3", {}, `${title} (${jobs.length})`), h("ul.jobs", {}, jobs.slice(0, NAMED).map((job) => h("li", {}, stateIcon(job.status), job.name)), jobs.length > NAMED && h("li", {}, `and ${jobs.length - NAMED} more`)), note && h("p", {}, h("small", {}, note)));
}

function check(name, text, hint, checked = false) {
  const box = h("input", { type: "checkbox", name, checked });
  return h("div.check", {}, h("label", {}, box, " ", text), hint && h("small", {}, hint));
}

function withStatus(model, ...statuses) {
  return [...model.jobs.values()].filter((job) => statuses.includes(job.status));
}

/**
 * Asks whether something is to be done with a plan, and does it.
 *
 * @param {string} name of an action
 * @param {import("./model.js").PlanModel} model
 */
export function ask(name, model) {
  const action = ACTIONS[name];
  const { planId, name: title, status } = model.head;
  const plan = { id: planId, name: title, status, counts: model.counts() };
  const done = (answer) => toast(answer?.message ?? `${title}: ${action.told}.`, "good");
  const label = action.label(plan);
  const show = (body, options = {}) => dialog(`${label}: ${title}`, body.filter(Boolean), { submit: label, danger: action.look === "danger", onSubmit: async () => done(await action.run(plan)), ...options });
  switch (name) {
    case "finalize":
      return show([h("p", {}, `The plan has ${counted(model.jobs.size, "job")}. Their names, dependencies and cycles are checked. Afterwards only a reshape can add jobs.`), jobList("Jobs", [...model.jobs.values()]), check("start", "Start the plan now", "Otherwise the plan waits until it is started.", true)], {
        onSubmit: async (form) => done(await action.run(plan, { startPaused: !form.has("start") })),
      });
    case "resume":
      return show([
        h("p", {}, status === "pending-start" ? "The plan starts." : "The plan resumes.", ` ${model.head.maxParallel > 0 ? `At most ${counted(model.head.maxParallel, "job runs", "jobs run")} at once.` : "It sets no limit of its own on the number of jobs that run at once."}`, model.head.targetBranch && ` Its result is merged into ${model.head.targetBranch}.`),
        model.head.agents?.length > 0 ? [h("p", {}, "Agents that may start:"), h("ul", {}, model.head.agents.map((agent) => h("li", {}, agent)))] : h("p", {}, "No agent may start."),
        model.head.resumeAfterPlan && model.head.paused?.kind === "resumeAfterPlan" && h("p", {}, "The plan no longer waits for the other plan."),
        jobList("Jobs that can start now", withStatus(model, "ready")),
        jobList("Jobs that wait for dependencies", withStatus(model, "pending")),
      ]);
    case "pause":
      return show([h("p", {}, "No new job starts until the plan is resumed."), jobList("Running jobs that will finish", atWork(model)) ?? h("p", {}, "No job is running."), jobList("Jobs that wait", withStatus(model, "ready", "pending"))]);
    case "cancel":
      return show([jobList("Jobs that will be killed", atWork(model)) ?? h("p", {}, "No job is running."), jobList("Jobs that will be canceled", withStatus(model, "ready", "pending")), h("p", {}, `The results of ${counted(plan.counts.succeeded, "succeeded job", "succeeded jobs")} are preserved, but not merged. “Recover” restores the plan.`)], { cancel: "Do not cancel", submit: "Cancel the plan" });
    case "retry":
      return askRetry(model, plan, done);
    case "recover":
      return show([jobList("Jobs that can run again", withStatus(model, "failed", "blocked", "canceled")), h("p", {}, "The plan is paused afterwards, so that you can check it; “Resume” resumes it."), check("sessions", "Resume the sessions of agents", "If unchecked, each agent starts a new session.", true)], {
        onSubmit: async (form) => done(await action.run(plan, { useCopilotAgent: form.has("sessions") })),
      });
    case "clone":
      return show([h("p", {}, `A new plan with the same ${counted(model.jobs.size, "job")} is created. You can change it until it is finalized.`), field("Name", h("input", { name: "name", value: `${title} (copy)`.slice(0, 200), maxlength: 200, required: true })), field("Target branch", h("input", { name: "target", maxlength: 200, placeholder: "named after the plan" }), "The result of the plan is merged into this branch.")], {
        onSubmit: async (form) => {
          const target = form.get("target").trim();
          const made = await action.run(plan, { name: form.get("name"), ...(target && { targetBranch: target }) });
          toast(made.message ?? "The plan is cloned.", "good");
          if (made.planId) go(`/plans/${made.planId}`);
        },
      });
    case "archive":
      return show([
        jobList("Worktrees that are removed", [...model.jobs.values()].filter((job) => job.worktreePath), "Uncommitted changes in them are lost."),
        h("p", {}, "The branches and refs of the plan are removed too; merged commits are preserved. You can still read the plan, but no longer retry it."),
        check("remote", "Delete its branches on the remote too"),
      ], { onSubmit: async (form) => done(await action.run(plan, form.has("remote") ? { deleteRemoteBranches: true } : {})) });
    case "delete":
      return show([jobList("Jobs that will be killed", atWork(model)), h("p", {}, `The plan, its ${counted(model.jobs.size, "job")} and their logs are permanently deleted. Commits merged into ${model.head.targetBranch ?? "its target"} are preserved.`)], {
        onSubmit: async () => {
          done(await action.run(plan));
          go("/plans");
        },
      });
    default:
      return undefined;
  }
}

/** Retries: which failed jobs, and what runs again because of them. */
function askRetry(model, plan, done) {
  const failed = withStatus(model, "failed");
  const choices = failed.slice(0, MOST).map((job) => h("input", { type: "checkbox", name: "job", value: job.id, checked: true }));
  const follows = h("div", { "aria-live": "polite" });
  const chosen = () => choices.filter((choice) => choice.checked).map((choice) => choice.value);
  const tell = () => {
    const ids = failed.length > MOST ? failed.map((job) => job.id) : chosen();
    const released = model.retried(ids);
    const waiting = withStatus(model, "blocked").length - released.length;
    replace(follows, jobList("Jobs that run after the selected jobs", released) ?? h("p", {}, "No other job runs again after the selected jobs."), waiting > 0 && h("p", {}, `${counted(waiting, "job stays", "jobs stay")} blocked by other failed jobs.`), h("p", {}, h("small", {}, `${counted(plan.counts.succeeded, "succeeded job does", "succeeded jobs do")} not run again.`)));
  };
  tell();
  const list = failed.map((job, index) => h("li", {}, h("label", {}, choices[index] ?? stateIcon(job.status), " ", job.name), job.error && h("small.problem", {}, job.error.slice(0, 200))));
  const box = dialog(`Retry: ${plan.name}`, [h("section.preview", {}, h("h3", {}, `Failed jobs (${failed.length})`), h("ul.jobs", {}, list)), follows, check("fresh", "Start in new worktrees", "The jobs lose the changes in their old worktrees. Without this option, the jobs continue with these changes.")], {
    submit: "Retry",
    onSubmit: async (form) => {
      const ids = chosen();
      if (ids.length === 0) throw new Error("Choose at least one job.");
      const options = { ...(ids.length < failed.length && failed.length <= MOST && { jobIds: ids }), ...(form.has("fresh") && { clearWorktree: true }) };
      const answer = await ACTIONS.retry.run(plan, options);
      for (const { error } of answer.errors ?? []) toast(error, "bad");
      done(answer);
    },
  });
  box.addEventListener("change", tell);
  return box;
}
