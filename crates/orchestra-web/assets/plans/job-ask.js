// What can be asked of a job, in dialogs that say what will happen.

import { call } from "../lib/api.js";
import { dialog, field, h, icon, toast } from "../lib/dom.js";
import { jobList } from "./ask.js";
import { copy } from "../lib/clipboard.js";
import { textOf } from "./spec.js";
import { isEnded } from "./words.js";

/** The buttons that make sense for a job. */
export function jobButtons(job, model) {
  const { state } = job;
  const isPlanOpen = !["archived", "scaffolding", "canceled"].includes(model.head.status);
  const buttons = [];
  const add = (name, label, picture, act, look) => buttons.push(h(look ? `button.${look}` : "button", { type: "button", "data-action": name, onclick: act }, icon(picture), " ", label));
  if (state.status === "failed" && isPlanOpen) {
    add("retry", "Retry", "retry", () => retry(job, model, false), "primary");
    add("fresh", "Retry fresh", "retry", () => retry(job, model, true));
  }
  if (!isEnded(state.status) && isPlanOpen) add("fail", "Force fail", "stop", () => forceFail(job, model), "danger");
  if (state.worktreePath) add("path", "Copy worktree path", "copy", () => copy(state.worktreePath, "Path copied."));
  return buttons;
}

function retry(job, model, isFresh) {
  const { node, state } = job;
  const work = h("textarea", { name: "work", rows: "3", placeholder: textOf(node.work).slice(0, 500) || "as before" });
  dialog(
    `${isFresh ? "Retry fresh" : "Retry"}: ${node.name}`,
    [
      h("p", {}, isFresh ? "Runs again in a new worktree. The changes in its present worktree are lost." : state.worktreePath ? "Runs again in the existing worktree, including uncommitted changes." : "The job runs again."),
      jobList("Runs again", [{ ...model.jobs.get(node.id) }]),
      jobList("Jobs that run after it", model.retried([node.id])),
      h("details", {}, h("summary", {}, "New work"), field("Work", work, "A shell command, “@agent TASK”, or a JSON object. Leave it empty to repeat the present work.")),
      !node.details.expectsNoChanges && h("div.check", {}, h("label", {}, h("input", { type: "checkbox", name: "nothing" }), " Expect no changes")),
    ].filter(Boolean),
    {
      submit: "Retry",
      onSubmit: async (form) => {
        const text = form.get("work").trim();
        const answer = await call("retry_copilot_job", { planId: model.head.planId, jobId: node.id, ...(isFresh && { clearWorktree: true }), ...(text && { newWork: text }), ...(form.has("nothing") && { expectsNoChanges: true }) });
        toast(answer.message ?? "The job is retried.", "good");
      },
    },
  );
}

function forceFail(job, model) {
  const { node } = job;
  const behind = [...model.reach([node.id])].map((id) => model.jobs.get(id)).filter((one) => !isEnded(one.status));
  dialog(`Force fail: ${node.name}`, [h("p", {}, "The job is declared failed and its processes are killed. You can retry it afterwards."), jobList("Jobs that it blocks", behind) ?? h("p", {}, "No job waits for it."), field("Reason", h("textarea", { name: "reason", required: true, maxlength: 1000 }), "People who look at the job see this text.")], {
    submit: "Declare failed",
    danger: true,
    cancel: "Leave it",
    onSubmit: async (form) => {
      const answer = await call("force_fail_copilot_job", { planId: model.head.planId, jobId: node.id, reason: form.get("reason").trim() });
      toast(answer.message ?? "The job was declared failed.", "good");
    },
  });
}
