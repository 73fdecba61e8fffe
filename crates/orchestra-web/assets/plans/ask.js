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
      return show([h("p", {}, `The plan has ${counted(model.jobs.size, "job")}. They are checked together: names, dependencies, cycles. Then no jobs are added any more, but by a reshape.`), jobList("Its jobs", [...model.jobs.values()]), check("start", "Start it at once", "Else it waits until it is started.", true)], {
        onSubmit: async (form) => done(await action.run(plan, { startPaused: !form.has("start") })),
      });
    case "resume":
      return show([
        h("p", {}, status === "pending-start" ? "The plan starts." : "The plan goes on.", ` ${model.head.maxParallel > 0 ? `At most ${counted(model.head.maxParallel, "job is", "jobs are")} at work at once.` : "It sets no limit of its own to how many jobs are at work at once."}`, model.head.targetBranch && ` What comes of it is merged into ${model.head.targetBranch}.`),
        model.head.agents?.length > 0 ? [h("p", {}, "Agents that may start:"), h("ul", {}, model.head.agents.map((agent) => h("li", {}, agent)))] : h("p", {}, "No agent may start."),
        model.head.resumeAfterPlan && model.head.paused?.kind === "resumeAfterPlan" && h("p", {}, "It then does not wait for the other plan any longer."),
        jobList("Can start at once", withStatus(model, "ready")),
        jobList("After others", withStatus(model, "pending")),
      ]);
    case "pause":
      return show([h("p", {}, "Nothing new starts until the plan is resumed."), jobList("Finish what they do", atWork(model)) ?? h("p", {}, "Nothing is at work now."), jobList("Wait", withStatus(model, "ready", "pending"))]);
    case "cancel":
      return show([jobList("Are killed", atWork(model)) ?? h("p", {}, "Nothing is at work now."), jobList("Are canceled", withStatus(model, "ready", "pending")), h("p", {}, `What ${counted(plan.counts.succeeded, "job has", "jobs have")} done stays, but is not merged. “Recover” brings the plan back.`)], { cancel: "Do not cancel", submit: "Cancel the plan" });
    case "retry":
      return askRetry(model, plan, done);
    case "recover":
      return show([jobList("Can run again", withStatus(model, "failed", "blocked", "canceled")), h("p", {}, "The plan is paused then, so that it can be looked at; “Resume” goes on."), check("sessions", "Agents go on with the sessions that they had", "Else they begin anew.", true)], {
        onSubmit: async (form) => done(await action.run(plan, { useCopilotAgent: form.has("sessions") })),
      });
    case "clone":
      return show([h("p", {}, `A new plan with the same ${counted(model.jobs.size, "job")} is made. It can be changed until it is finalized.`), field("Name", h("input", { name: "name", value: `${title} (copy)`.slice(0, 200), maxlength: 200, required: true })), field("Target branch", h("input", { name: "target", maxlength: 200, placeholder: "one made of its name" }), "The branch that its result is merged into.")], {
        onSubmit: async (form) => {
          const target = form.get("target").trim();
          const made = await action.run(plan, { name: form.get("name"), ...(target && { targetBranch: target }) });
          toast(made.message ?? "The plan is cloned.", "good");
          if (made.planId) go(`/plans/${made.planId}`);
        },
      });
    case "archive":
      return show([
        jobList("Worktrees that are removed", [...model.jobs.values()].filter((job) => job.worktreePath), "With what is in them and not committed."),
        h("p", {}, "Its own branches and refs go as well; what is merged stays. The plan stays readable, but can not be retried any more."),
        check("remote", "Delete its branches at the remote as well"),
      ], { onSubmit: async (form) => done(await action.run(plan, form.has("remote") ? { deleteRemoteBranches: true } : {})) });
    case "delete":
      return show([jobList("Are killed", atWork(model)), h("p", {}, `The plan, what is known of its ${counted(model.jobs.size, "job")}, and their logs are removed for good. What is merged into ${model.head.targetBranch ?? "its target"} stays.`)], {
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
    replace(follows, jobList("Run after them", released) ?? h("p", {}, "Nothing else runs again because of them."), waiting > 0 && h("p", {}, `${counted(waiting, "job stays", "jobs stay")} blocked behind others.`), h("p", {}, h("small", {}, `${counted(plan.counts.succeeded, "job that has succeeded is", "jobs that have succeeded are")} not done again.`)));
  };
  tell();
  const list = failed.map((job, index) => h("li", {}, h("label", {}, choices[index] ?? stateIcon(job.status), " ", job.name), job.error && h("small.problem", {}, job.error.slice(0, 200))));
  const box = dialog(`Retry: ${plan.name}`, [h("section.preview", {}, h("h3", {}, `Failed jobs (${failed.length})`), h("ul.jobs", {}, list)), follows, check("fresh", "Begin with fresh worktrees", "What they have in their worktrees is lost; else it is still there.")], {
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
