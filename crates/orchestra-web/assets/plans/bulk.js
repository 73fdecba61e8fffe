// What is done with many plans at once, after a list of what happens to each.

import { dialog, h, icon, toast } from "../lib/dom.js";
import { ACTIONS } from "./actions.js";
import { badge, counted } from "./words.js";

const NAMES = ["resume", "pause", "cancel", "retry", "archive", "delete"];

/**
 * The bar for the plans that are chosen.
 *
 * @param {() => object[]} chosen
 * @param {() => void} clear
 */
export function bulkBar(chosen, clear) {
  const count = h("strong", { "aria-live": "polite" });
  const buttons = new Map(
    NAMES.map((name) => {
      const { label, icon: picture, look } = ACTIONS[name];
      return [name, h(look === "danger" ? "button.danger" : "button", { type: "button", onclick: () => ask(name) }, icon(picture), " ", name === "retry" ? "Retry" : label())];
    }),
  );
  const element = h("div.bulk.panel", { role: "toolbar", "aria-label": "Selected plans", hidden: true }, count, [...buttons.values()], h("span.grow"), h("button", { type: "button", onclick: clear }, "Clear"));

  function update() {
    const plans = chosen();
    element.hidden = plans.length === 0;
    count.textContent = `${plans.length} selected`;
    for (const [name, button] of buttons) button.disabled = !plans.some((plan) => ACTIONS[name].may(plan));
  }

  function ask(name) {
    const action = ACTIONS[name];
    const plans = chosen();
    const may = plans.filter((plan) => action.may(plan));
    const not = plans.filter((plan) => !action.may(plan));
    if (may.length === 0) return;
    const label = name === "retry" ? "Retry" : action.label();
    const item = (plan, text) => h("li", {}, h("strong", {}, plan.name), " ", badge(plan.status), text && h("div", {}, text));
    dialog(`${label} ${counted(may.length, "plan")}`, [h("ul.effects", {}, may.map((plan) => item(plan, action.does(plan)))), not.length > 0 && h("section.preview", {}, h("h3", {}, `Not changed (${not.length})`), h("ul.effects", {}, not.map((plan) => item(plan))))].filter(Boolean), {
      submit: `${label} ${may.length === 1 ? "it" : `all ${may.length}`}`,
      cancel: name === "cancel" ? "Do not cancel" : "Cancel",
      danger: action.look === "danger",
      onSubmit: async () => {
        const refused = [];
        // One after the other, so that a refusal is told with the plan that it is about.
        for (const plan of may) {
          try {
            await action.run(plan);
          } catch (error) {
            refused.push(`${plan.name}: ${error.message}`);
          }
        }
        const done = may.length - refused.length;
        if (done > 0) toast(`${counted(done, "plan")} ${action.told}.`, "good");
        for (const text of refused) toast(text, "bad");
        clear();
      },
    });
  }

  return { element, update, ask };
}
