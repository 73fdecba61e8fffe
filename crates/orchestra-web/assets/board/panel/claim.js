// Who works on an issue, and for how long it is theirs.

import { dialog, h, icon } from "../../lib/dom.js";
import { clock } from "../../lib/time.js";
import { liveClaim, timeLeft } from "../card.js";
import { swap } from "../panel.js";
import { askMyName, myName } from "../person.js";
import { FINAL, isParent } from "../states.js";

/** @param {import("../panel.js").Panel} panel */
export function claim(panel) {
  const element = h("section.side-section.side-claim", { "aria-label": "Claim" });
  const button = (key, words, onclick) => h("button", { type: "button", dataset: { key }, "data-testid": key, onclick }, words);

  const take = async () => {
    const agent = await askMyName();
    if (agent) await panel.press("claim_task", { task_id: panel.id, agent }, `You claimed ${panel.id}.`);
  };

  const release = (holder) => {
    const go = () => panel.press("release_task", { task_id: panel.id, agent: holder }, `${panel.id} is no longer claimed.`);
    if (holder === myName()) return go();
    dialog(`Release the claim of ${holder}?`, [h("p", {}, `${holder} may be working on ${panel.id} right now. This acts in the name of ${holder}.`)], {
      submit: "Release",
      danger: true,
      onSubmit: () => panel.act("release_task", { task_id: panel.id, agent: holder }),
    });
  };

  const show = (issue) => {
    element.hidden = isParent(issue) || FINAL.has(issue.status);
    if (element.hidden) return;
    const held = liveClaim(issue);
    const me = myName();
    const who = h("button.plain", { type: "button", dataset: { key: "name" }, onclick: async () => {
      await askMyName({ again: true });
      if (panel.issue) show(panel.issue);
    } }, me ? `You are ${me}` : "Set your name");
    swap(
      element,
      held ? [h("span.chip.run.who", {}, icon("clock"), "claimed by ", held.agent), h("small", { title: clock(held.until) }, h("span", { dataset: { until: held.until } }, timeLeft(held.until)), " left")] : h("small", {}, "Not claimed."),
      held?.agent === me && held ? button("renew", "Renew", take) : undefined,
      held ? button("release", "Release", () => release(held.agent)) : button("claim", "Claim", take),
      h("span.grow"),
      who,
    );
  };
  return { element, show };
}
