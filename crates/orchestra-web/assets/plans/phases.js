// The phases of an attempt: how each stands, how long it took, and the tab of its log.

import { h, replace } from "../lib/dom.js";
import { tabList } from "./tabs.js";
import { lasted, stateIcon, word } from "./words.js";

export const PHASES = ["merge-fi", "setup", "prechecks", "work", "commit", "postchecks", "merge-ri", "cleanup"];

const TITLES = {
  "merge-fi": "Create the worktree of the job from the results of its dependencies",
  setup: "Prepare the worktree",
  prechecks: "Check the conditions before the work",
  work: "Do the work",
  commit: "Commit the changes",
  postchecks: "Check the results of the work",
  "merge-ri": "Merge the result of the plan into its target branch",
  cleanup: "Remove the worktree",
};

/** How each phase of an attempt stands, and when it was done. */
export function phasesOf(attempt, isCleaned) {
  return PHASES.map((phase) => {
    const spans = (attempt?.phaseTiming ?? []).filter((span) => span.phase === phase);
    const open = spans.find((span) => span.endedAt === undefined);
    const ms = spans.reduce((sum, span) => sum + (span.endedAt === undefined ? 0 : span.endedAt - span.startedAt), 0);
    let status = attempt?.stepStatuses?.[phase] ?? "pending";
    // No state is told of the cleanup: its times, or the worktree that is gone, tell it.
    if (phase === "cleanup" && attempt?.stepStatuses?.cleanup === undefined) status = open ? "running" : spans.length > 0 || isCleaned ? "success" : "pending";
    // What an attempt that has ended did not come to does not come any more.
    if (status === "pending" && attempt && attempt.status !== "running" && phase !== "cleanup") status = "skipped";
    return { phase, status, spans, open, ms, heals: spans.filter((span) => span.heal).length };
  });
}

/** The time of a phase in words. */
export function phaseTime({ spans, open, ms }) {
  if (spans.length === 0) return "";
  return open ? lasted(open.startedAt - ms) : lasted(0, ms);
}

/** What is to be said of a phase that an agent was sent to heal. */
export function healed({ heals, status }) {
  if (heals === 0) return "";
  return { success: "healed", running: "healing", failed: "not healed" }[status] ?? "";
}

/** The strip of phases, each the tab of its log. */
export class PhaseStrip {
  /** @param {{ panel: HTMLElement, current: string, choose: (phase: string) => void }} how */
  constructor({ panel, current, choose }) {
    const content = (name) => [h("span.state"), h("span.label", {}, name), h("span.time")];
    const tabs = [{ name: "all", content: [h("span.label", {}, "Full log")], title: "All phases" }, ...PHASES.map((phase) => ({ name: phase, content: content(phase), title: TITLES[phase] }))];
    this.tabs = tabList("Phases", tabs, { panel, current: current || "all", choose: (name) => choose(name === "all" ? "" : name) });
    this.element = this.tabs.list;
    this.element.classList.add("phases");
  }

  show(attempt, isCleaned) {
    this.phases = phasesOf(attempt, isCleaned);
    for (const one of this.phases) {
      const button = this.tabs.buttons.get(one.phase);
      button.className = `tab phase-tab st-${one.status}`;
      const key = `${one.status} ${one.heals}`;
      if (button.dataset.key !== key) {
        button.dataset.key = key;
        replace(button.querySelector(".state"), stateIcon(one.status), h("span.unseen", {}, `${word(one.status)} `));
      }
    }
    this.tick();
  }

  tick() {
    for (const one of this.phases ?? []) {
      const time = this.tabs.buttons.get(one.phase).querySelector(".time");
      const text = [phaseTime(one), healed(one)].filter(Boolean).join(", ");
      if (time.textContent !== text) time.textContent = text;
    }
  }

  choose(phase) {
    this.tabs.show(phase || "all");
  }
}
