// A plan in the list of plans.

import { link } from "../app.js";
import { h, icon } from "../lib/dom.js";
import { ago } from "../lib/time.js";
import { JOB_STATES, badge, counted, isGoing, lasted, progressBar, stateIcon, word } from "./words.js";

/** How long a plan has taken, or takes. */
function elapsed(plan) {
  if (plan.startedAt === undefined || (plan.waitsForTrust && plan.endedAt === undefined)) return "–";
  return lasted(plan.startedAt, plan.endedAt);
}

/**
 * @param {object} plan as lists have it
 * @param {{ isChosen: boolean, onChoose: (on: boolean, range: boolean) => void }} how
 */
export function planRow(plan, { isChosen, onChoose }) {
  const box = h("input", { type: "checkbox", checked: isChosen, "aria-label": `Choose ${plan.name}`, onclick: (event) => onChoose(box.checked, event.shiftKey) });
  const counts = JOB_STATES.filter((state) => plan.counts[state] > 0).map((state) => h("span.count", { title: `${plan.counts[state]} ${word(state)}` }, stateIcon(state), h("span.unseen", {}, `${word(state)}: `), String(plan.counts[state])));
  return h(
    "li.plan-row",
    { class: isChosen ? "chosen" : "", "data-id": plan.id },
    box,
    h("div.main", {}, h("div.line", {}, link(`/plans/${plan.id}`, { class: "title" }, plan.name), plan.waitsForTrust ? badge("blocked", "waits for `orchestra plan trust`") : badge(plan.status)), h("div.sub", {}, plan.targetBranch && h("span.branch", { title: "Target branch" }, icon("branch"), h("span.unseen", {}, "into "), plan.targetBranch), h("span", {}, counted(plan.nodes, "job")), h("span.id", { title: plan.id }, plan.id.slice(0, 8)))),
    h("div.standing", {}, progressBar(plan.counts, plan.progress), h("div.counts", {}, counts)),
    h("div.times", {}, h("span.elapsed", { title: "Duration" }, icon("clock"), h("span.unseen", {}, "took "), h("span.value", {}, elapsed(plan))), h("span.age", { title: new Date(plan.createdAt).toLocaleString() }, `made ${ago(plan.createdAt)}`)),
  );
}

/** Lets what a row says of time grow. */
export function tickRow(element, plan) {
  if (!plan) return;
  const value = element.querySelector(".elapsed .value");
  if (isGoing(plan.status)) value.textContent = elapsed(plan);
  const age = `made ${ago(plan.createdAt)}`;
  const shown = element.querySelector(".age");
  if (shown.textContent !== age) shown.textContent = age;
}
