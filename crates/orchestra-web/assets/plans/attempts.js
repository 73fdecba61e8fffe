// The attempts of a job as cards: why there was one, how it went, and what went wrong.

import { call } from "../lib/api.js";
import { h, icon, replace } from "../lib/dom.js";
import { clock } from "../lib/time.js";
import { BEGIN, lookAfter, partsOf } from "./ansi.js";
import { copyButton } from "../lib/clipboard.js";
import { healed, phaseTime, phasesOf } from "./phases.js";
import { badge, lasted, stateIcon, usageRows, word } from "./words.js";

const TRIGGERS = {
  initial: "first attempt",
  "auto-heal": "retried automatically after a failure",
  retry: "retried by a user or agent",
  "postchecks-revalidation": "checked again: the target branch had advanced",
  "context-pressure-reshape": "restarted after part of the work became a new job",
  recovery: "restarted after its process was lost",
  transient: "retried after a temporary failure",
};
const KINDS = {
  "exit-code": "a process ended with a nonzero exit code",
  signal: "a signal ended a process",
  timeout: "it exceeded its time limit",
  "idle-timeout": "it exceeded its time limit without output",
  "output-limit": "it exceeded its output limit",
  "resource-limit": "it exceeded its limit of memory or processes",
  spawn: "it could not be started",
  transient: "a temporary failure",
  conflict: "a merge left conflicts",
  "nothing-changed": "there was nothing to commit, although changes were expected",
  "target-moved": "the target branch had advanced",
  "target-dirty": "the target branch is checked out, with uncommitted changes",
  "target-rewritten": "the target branch was rewritten",
  "target-taken": "another program created the branch",
  "tree-destroyed": "the merge would remove most files",
  git: "a git command failed",
  worktree: "there was no worktree",
  storage: "a file could not be written",
  lost: "its process was lost without a result",
  forced: "a user or agent declared it failed",
  canceled: "the plan was canceled",
  "budget-exceeded": "a budget is exhausted",
  unavailable: "a required program, agent or model is unavailable",
  internal: "an internal error of Orchestra",
};

/** Keeps cards open that were opened, whatever comes anew. */
export class AttemptList {
  /** @param {HTMLElement} host @param {{ planId: string, signal: AbortSignal, showLog: (attempt: number) => void }} how */
  constructor(host, { planId, signal, showLog }) {
    Object.assign(this, { host, planId, signal, showLog });
    this.open = new Set();
    this.seen = new Set();
    this.contexts = new Map();
  }

  show(job, attempts) {
    const key = JSON.stringify([job.state.status, attempts]);
    if (key === this.key) return;
    this.key = key;
    this.job = job;
    const latest = attempts.at(-1);
    if (latest && !this.seen.has(latest.attemptNumber)) this.open.add(latest.attemptNumber);
    for (const { attemptNumber } of attempts) this.seen.add(attemptNumber);
    const focused = document.activeElement?.closest?.("details.attempt")?.dataset.number;
    replace(this.host, attempts.length === 0 ? h("p.nothing", {}, "This attempt has not started yet.") : attempts.toReversed().map((attempt) => this.card(attempt, attempt === latest)));
    if (focused) this.host.querySelector(`details[data-number="${focused}"] summary`)?.focus({ preventScroll: true });
  }

  card(attempt, isLatest) {
    const number = attempt.attemptNumber;
    const body = h("div.attempt-body");
    const fill = () => replace(body, this.body(attempt, isLatest));
    const card = h(
      "details.panel.attempt",
      {
        open: this.open.has(number),
        "data-number": number,
        ontoggle: () => {
          if (card.open) this.open.add(number);
          else this.open.delete(number);
          if (card.open && !body.firstChild) fill();
        },
      },
      h("summary", {}, h("strong", {}, `Attempt ${number}`), " ", badge(attempt.status), " ", h("span.soft", {}, TRIGGERS[attempt.triggerType] ?? attempt.triggerType), " ", h("span.took", { "data-from": attempt.startedAt, "data-to": attempt.endedAt }, lasted(attempt.startedAt, attempt.endedAt)), attempt.failedPhase && h("span.problem", {}, ` failed in ${attempt.failedPhase}`)),
      body,
    );
    if (card.open) fill();
    return card;
  }

  body(attempt, isLatest) {
    const { failure } = attempt;
    const pressure = attempt.contextPressureSnapshot;
    const facts = [
      ["Began", clock(attempt.startedAt)],
      attempt.endedAt !== undefined && ["Ended", clock(attempt.endedAt)],
      attempt.exitCode !== undefined && ["Exit code", String(attempt.exitCode)],
      failure && ["Kind of failure", KINDS[failure.kind] ?? failure.kind],
      failure?.signal !== undefined && ["Signal", String(failure.signal)],
      attempt.baseCommit && ["Base", h("code", {}, attempt.baseCommit.slice(0, 10))],
      attempt.completedCommit && ["Reached", h("code", {}, attempt.completedCommit.slice(0, 10))],
      attempt.copilotSessionId && ["Session", [h("code", {}, attempt.copilotSessionId), copyButton(attempt.copilotSessionId, "Copy the id of the session")]],
      pressure && ["Context of the agent", `${pressure.level}: ${Math.round((pressure.used / pressure.limit) * 100)} % of ${pressure.limit.toLocaleString("en")} tokens`],
      ...usageRows(attempt.usage).filter(([, value]) => value !== "0").map(([name, value, more]) => [name, `${value} ${more}`]),
    ].filter(Boolean);
    const phases = phasesOf(attempt, false).filter(({ status, phase }) => status !== "skipped" && !(status === "pending" && phase === "cleanup"));
    return [
      h("ol.phase-list", {}, phases.map((one) => h("li", { class: `st-${one.status}` }, stateIcon(one.status), " ", one.phase, " ", h("span.unseen", {}, word(one.status)), h("small", {}, [phaseTime(one), healed(one)].filter(Boolean).join(", "))))),
      attempt.error && h("pre.problem.error", {}, attempt.error),
      failure?.files?.length > 0 && h("div", {}, h("h2", {}, "In conflict"), h("ul", {}, failure.files.map((file) => h("li", {}, h("code", {}, file))))),
      h("dl.facts", {}, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      isLatest && this.job.state.status === "failed" && this.context(attempt),
      h("div.bar", {}, h("button", { type: "button", onclick: () => this.showLog(attempt.attemptNumber) }, "Show log")),
    ];
  }

  /** The end of the log, as those get it who are to mend the failure. */
  context(attempt) {
    const number = attempt.attemptNumber;
    const place = h("div.context", {}, this.contexts.get(number) ?? h("p.soft", {}, "Loading the end of the log…"));
    if (!this.contexts.has(number)) {
      call("get_copilot_job_failure_context", { planId: this.planId, jobId: this.job.node.id }, { signal: this.signal })
        .then((context) => {
          this.contexts.set(number, contextOf(context));
          replace(place, this.contexts.get(number));
        })
        .catch((error) => !this.signal.aborted && replace(place, h("p.soft", {}, error.message)));
    }
    return place;
  }

  tick() {
    for (const took of this.host.querySelectorAll("summary .took:not([data-to])")) took.textContent = lasted(Number(took.dataset.from));
  }
}

function contextOf({ logs, logsTruncated, worktreePath }) {
  let look = BEGIN;
  const lines = logs.map(({ message, type, phase }) => {
    const parts = partsOf(message, type === "runner" ? BEGIN : look);
    if (type !== "runner") look = lookAfter(message, look);
    return h("div", { class: type === "err" ? "is-err" : type === "runner" ? "runner" : "" }, h("span.phase", {}, phase), parts.map(({ text, name }) => (name ? h("span", { class: name }, text) : text)), "\n");
  });
  return h("section", {}, h("h2", {}, icon("bad"), " Failure", logsTruncated && h("small", {}, ` the last ${logs.length} lines`)), h("pre.log-end", { tabindex: "0" }, lines), worktreePath && h("p", {}, h("small", {}, `The worktree still exists: ${worktreePath}`)));
}
