// How states look and are called: the words, the icons and the tones of jobs, plans and phases.

import { h, s } from "../lib/dom.js";
import { span } from "../lib/time.js";

/** The states of jobs in the order in which counts are shown. */
export const JOB_STATES = ["failed", "blocked", "running", "completed_split", "scheduled", "ready", "pending", "succeeded", "canceled"];

const WORDS = {
  pending: "waiting",
  ready: "ready",
  scheduled: "starting",
  running: "running",
  completed_split: "split",
  succeeded: "succeeded",
  failed: "failed",
  blocked: "blocked",
  canceled: "canceled",
  scaffolding: "scaffolding",
  "pending-start": "not started",
  pausing: "pausing",
  paused: "paused",
  archived: "archived",
  success: "succeeded",
  skipped: "skipped",
};

const TONES = {
  running: "run",
  scheduled: "run",
  completed_split: "run",
  succeeded: "good",
  success: "good",
  failed: "bad",
  blocked: "warn",
  pausing: "warn",
  paused: "warn",
};

const RING = "M8 1.200a6.800 6.800 0 1 1 0 13.600A6.800 6.800 0 0 1 8 1.200zm0 1.500a5.300 5.300 0 1 0 0 10.600A5.300 5.300 0 0 0 8 2.700z";
const DISC = "M8 1.200a6.800 6.800 0 1 1 0 13.600A6.800 6.800 0 0 1 8 1.200z";

/** One shape for each state, so that none is told by its colour alone. */
const SHAPES = {
  pending: RING,
  ready: `${RING}M8 5.400a2.600 2.600 0 1 1 0 5.200 2.600 2.600 0 0 1 0-5.200z`,
  scheduled: `${RING}M7.250 4.300h1.500v3.400l2.300 2.300-1.060 1.060L7.250 8.300z`,
  running: "M8 1.200a6.800 6.800 0 0 1 6.800 6.800h-1.800A5 5 0 1 0 8 13v1.800A6.800 6.800 0 0 1 8 1.200zM8 5.400a2.600 2.600 0 1 1 0 5.200 2.600 2.600 0 0 1 0-5.200z",
  completed_split: "M2 2h5v1.500H4.600L8.750 7.600V14h-1.500V8.200L3.500 4.500V7H2zM9 2h5v5h-1.500V4.600L9.700 7.300 8.700 6.200 11.400 3.500H9z",
  succeeded: `${DISC}M7 11.300l5-5-1.100-1.100L7 9.100 5.100 7.200 4 8.300z`,
  failed: `${DISC}M5.600 4.500 4.500 5.600 6.900 8l-2.400 2.400 1.100 1.100L8 9.100l2.400 2.400 1.100-1.100L9.100 8l2.400-2.400-1.100-1.100L8 6.900z`,
  blocked: `${DISC}M4 7.100v1.800h8V7.100z`,
  canceled: `${RING}M3.600 4.700 4.700 3.600l7.700 7.700-1.100 1.100z`,
  paused: `${DISC}M5.500 5v6h1.700V5zm3.300 0v6h1.700V5z`,
  scaffolding: "M2 2h12v4H2zm1.500 1.500v1h9v-1zM2 8h5v6H2zm1.500 1.500v3h2v-3zM9 8h5v6H9zm1.500 1.500v3h2v-3z",
  archived: "M1.500 2.500h13v4h-1v7h-11v-7h-1zM3 4v1h10V4zm1 2.500V12h8V6.500zM6 8h4v1.500H6z",
  skipped: "M2 7.200h12v1.600H2z",
};
SHAPES.success = SHAPES.succeeded;
SHAPES.pausing = SHAPES.paused;
SHAPES["pending-start"] = SHAPES.paused;

/** What a state is called. */
export function word(status) {
  return WORDS[status] ?? status;
}

/** The outline of a state's icon, in a square of 16. */
export function shape(status) {
  return SHAPES[status] ?? RING;
}

/** The icon of a state, for the eye alone. */
export function stateIcon(status) {
  return s(`svg.icon.state.st-${status}`, { viewBox: "0 0 16 16", "aria-hidden": "true", class: status === "running" ? "spin" : "" }, s("path", { d: shape(status), "fill-rule": "evenodd" }));
}

/** A state as a chip: colour, icon and word. */
export function badge(status, text = word(status)) {
  return h("span.chip.badge", { class: TONES[status] ?? "" }, stateIcon(status), text);
}

/** "1 job", "3 jobs". */
export function counted(count, what, many = `${what}s`) {
  return `${count} ${count === 1 ? what : many}`;
}

/** So many in each state, in words: "2 failed, 1 running". */
export function countsInWords(counts) {
  return JOB_STATES.filter((state) => counts[state] > 0).map((state) => `${counts[state]} ${word(state)}`).join(", ") || "no jobs";
}

/** A bar of as many parts as there are states with jobs, the ended ones first. */
export function progressBar(counts, percent) {
  const order = ["succeeded", "failed", "blocked", "canceled", "running", "completed_split", "scheduled", "ready", "pending"];
  const total = order.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  const bar = h("div.progress", { role: "progressbar", "aria-label": "Ended jobs", "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": String(percent), "aria-valuetext": `${percent} %: ${countsInWords(counts)}` });
  for (const state of order) {
    if (!counts[state]) continue;
    bar.append(h(`span.st-${state}`, { title: `${counts[state]} ${word(state)}`, style: { width: `${(counts[state] / total) * 100}%` } }));
  }
  return bar;
}

/** How long something took, or has taken so far: what still runs is told in whole seconds. */
export function lasted(from, to, now = Date.now()) {
  if (from === undefined) return "";
  if (to !== undefined) return span(Math.max(0, to - from));
  const ms = Math.max(0, now - from);
  return ms < 60_000 ? `${Math.floor(ms / 1_000)} s` : span(ms);
}

/** Whether a job holds a slot. */
export function isActive(status) {
  return status === "running" || status === "scheduled" || status === "completed_split";
}

/** Whether nothing more happens to a job unless somebody asks for it. */
export function isEnded(status) {
  return status === "succeeded" || status === "failed" || status === "blocked" || status === "canceled";
}

/** Whether time passes for a plan. */
export function isGoing(status) {
  return status === "running" || status === "pausing";
}

/** Why nothing new starts, in words. */
export function pausedInWords(paused) {
  switch (paused?.kind) {
    case "user":
      return "A user or agent paused it: no new job starts until it is resumed.";
    case "startPaused":
      return "It was created paused: it starts when it is resumed.";
    case "resumeAfterPlan":
      return "It waits for another plan to succeed and then starts automatically.";
    case "recovered":
      return "It was recovered after it had ended: check it, then resume it.";
    case "branches":
      return `Git branches of the plan could not be prepared: ${paused.error}`;
    case "variables":
      return `Values of its variables are missing: ${paused.error}`;
    default:
      return paused ? `It is paused (${paused.kind}).` : "";
  }
}

/** What one state's worth of usage is in words; nothing where nothing was used. */
export function usageRows(usage) {
  if (!usage) return [];
  const number = (count) => count.toLocaleString("en");
  return [
    ["Tokens read", number(usage.inputTokens), usage.cachedTokens > 0 ? `${number(usage.cachedTokens)} of these were cached` : ""],
    ["Tokens written", number(usage.outputTokens), ""],
    usage.costMicros > 0 && ["Cost", (usage.costMicros / 1_000_000).toFixed(usage.costMicros < 100_000 ? 4 : 2), ""],
    usage.premiumMillis > 0 && ["Premium requests", String(usage.premiumMillis / 1_000), ""],
    usage.turns > 0 && ["Turns", number(usage.turns), ""],
    usage.apiMs > 0 && ["Waiting for models", span(usage.apiMs), ""],
  ].filter(Boolean);
}
