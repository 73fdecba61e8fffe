// What a job is to do, as it was written: its task, its work, its checks.

import { h } from "../lib/dom.js";
import { span } from "../lib/time.js";
import { copyButton } from "../lib/clipboard.js";

const TYPES = { shell: "a shell command", process: "a program", agent: "a task for an agent" };

/** Members of a work specification in words, but for the text that is shown by itself. */
const MEMBERS = {
  agent: ["Agent"],
  model: ["Model"],
  modelTier: ["Model tier"],
  effort: ["Effort"],
  maxTurns: ["Maximum turns"],
  resumeSession: ["Resumes the session of its agent"],
  instructionsFile: ["Instructions file"],
  allowedFolders: ["Additional readable directories", (all) => all.join(", ")],
  allowedUrls: ["Allowed URLs", (all) => all.join(", ")],
  shell: ["Shell"],
  errorAction: ["On an error"],
  cwd: ["Directory"],
  timeoutMs: ["At most", span],
  idleTimeoutMs: ["Time limit without output", span],
  env: ["Variables", (env) => Object.entries(env).map(([name, value]) => `${name}=${value}`).join("\n")],
  onFailure: ["On failure", failureInWords],
};

function failureInWords({ noAutoHeal, message, resumeFromPhase }) {
  return [noAutoHeal && "it is not healed", resumeFromPhase && `it is retried from ${resumeFromPhase}`, message && `“${message}”`].filter(Boolean).join("; ");
}

/** The text of work: its command, its program with arguments, or its instructions. */
export function textOf(work) {
  if (typeof work === "string") return work;
  if (work?.type === "process") return [work.executable, ...(work.args ?? [])].map((part) => (/^[\w./=:@-]+$/u.test(part) ? part : JSON.stringify(part))).join(" ");
  return work?.command ?? work?.instructions ?? "";
}

/** Work, or a check, with a title. */
function workSection(title, work) {
  if (!work) return undefined;
  const text = textOf(work);
  const rows = Object.entries(MEMBERS)
    .filter(([name]) => work[name] !== undefined && !(Array.isArray(work[name]) && work[name].length === 0))
    .map(([name, [label, say = String]]) => [label, typeof work[name] === "boolean" ? (work[name] ? "yes" : "no") : say(work[name])])
    .filter(([, value]) => value !== "");
  return h(
    "section.panel.spec",
    {},
    h("div.bar", {}, h("h2", {}, title), h("span.chip", {}, TYPES[work.type] ?? work.type ?? "shell"), h("span.grow"), text && copyButton(text, `Copy: ${title}`)),
    text && h(work.type === "agent" ? "pre.prose" : "pre.code", { tabindex: "0" }, text),
    rows.length > 0 && h("dl.facts", {}, rows.map(([label, value]) => [h("dt", {}, label), h("dd", {}, value)])),
  );
}

/** All that a job is. */
export function definition({ node, groupId }) {
  const { details } = node;
  const facts = [
    ["Producer id", node.producerId],
    ["Id", node.id],
    groupId && ["Group", groupId],
    ["Auto-heal", details.autoHeal ? "yes" : "no"],
    ["Expects no changes", details.expectsNoChanges ? "yes" : "no"],
    details.env.length > 0 && ["Variables", details.env.join(", ")],
  ].filter(Boolean);
  return [
    h("section.panel.spec", {}, h("h2", {}, "Task"), h("pre.prose", {}, node.task)),
    workSection("Checks before", node.prechecks),
    workSection("Work", node.work),
    workSection("Checks after", node.postchecks),
    details.instructions && h("section.panel.spec", {}, h("h2", {}, "Instructions for agents"), h("pre.prose", {}, details.instructions)),
    h("section.panel.spec", {}, h("h2", {}, "Besides"), h("dl.facts", {}, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))),
  ].filter(Boolean);
}
