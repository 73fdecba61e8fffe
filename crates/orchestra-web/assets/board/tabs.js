// The stages of the workflow as tabs, for screens that show few columns at a time.

import { h } from "../lib/dom.js";
import { GROUPS } from "./states.js";

/** Lets one stage at a time be chosen. */
export class Tabs {
  /** @param {(index: number) => void} onChoose */
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.tabs = GROUPS.map(({ name }, index) => {
      const count = h("span.count");
      const tab = h("button.tab", { type: "button", role: "tab", id: `stage-${index}`, "aria-controls": "board-region", onclick: () => this.choose(index) }, name, " ", count);
      return { tab, count };
    });
    this.element = h("div.stages", { role: "tablist", "aria-label": "Stages", onkeydown: (event) => this.pressed(event) }, this.tabs.map(({ tab }) => tab));
    this.show(0);
  }

  show(chosen) {
    this.chosen = chosen;
    for (const [index, { tab }] of this.tabs.entries()) {
      tab.setAttribute("aria-selected", String(index === chosen));
      tab.setAttribute("tabindex", index === chosen ? "0" : "-1");
    }
  }

  choose(index) {
    if (index === this.chosen) return;
    this.show(index);
    this.onChoose(index);
  }

  /** Chooses the stage of a state. */
  chooseState(state) {
    this.choose(GROUPS.findIndex(({ states }) => states.includes(state)));
  }

  pressed(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const index = (this.chosen + by + GROUPS.length) % GROUPS.length;
    this.choose(index);
    this.tabs[index].tab.focus();
  }

  /** Shows how many issues each stage has. */
  tell(model) {
    for (const [index, { states }] of GROUPS.entries()) {
      let sum = 0;
      for (const state of states) sum += model.columns.get(state).shown.length;
      const { count } = this.tabs[index];
      if (count.textContent !== String(sum)) count.textContent = String(sum);
    }
  }
}
