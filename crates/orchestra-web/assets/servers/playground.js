// A place to try any tool: a form made of its schema, and what it answers.

import { go, link } from "../app.js";
import { get, post } from "../lib/api.js";
import { copy } from "../lib/clipboard.js";
import { announce, dialog, h, replace } from "../lib/dom.js";
import { keys } from "../lib/keys.js";
import { span } from "../lib/time.js";
import { control } from "./form.js";
import { resultOf } from "./result.js";

/** What was given to a tool last, for those who go on from the traffic. */
export const handed = new Map();

/** Shows the tools, and one to try. */
export async function playgroundPage(root, name, query, signal) {
  const { tools } = await get("/api/mcp/tools", { signal });
  if (signal.aborted) return;
  const find = h("input", { type: "search", placeholder: "Filter tools", "aria-label": "Filter tools", value: query.get("q") ?? "", oninput: () => list() });
  const names = h("ul.tool-names", { "aria-label": "Tools" });
  const list = () => {
    const text = find.value.trim().toLowerCase();
    const passing = tools.filter((tool) => `${tool.name} ${tool.title ?? ""} ${tool.description ?? ""}`.toLowerCase().includes(text));
    replace(names, passing.map((tool) => h("li", {}, link(`/servers/playground/${encodeURIComponent(tool.name)}${text ? `?q=${encodeURIComponent(find.value)}` : ""}`, { "aria-current": tool.name === name ? "true" : undefined, title: tool.description }, tool.name))), passing.length === 0 && h("li.nothing", {}, "No tool matches. Change the filter."));
  };
  list();
  const place = h("section.trial", { "aria-label": "Tool" });
  replace(root, h("div.playground", {}, h("div.tool-choice", {}, find, names), place));
  keys("/", "Filter the tools", () => find.focus(), signal);
  if (!name) return replace(place, h("div.empty", {}, h("h1", {}, "Try a tool"), h("p", {}, `${tools.length} tools are available. Choose one to fill in its arguments in a form.`)));
  const tool = tools.find((one) => one.name === name);
  if (!tool) return replace(place, h("div.empty", { role: "alert" }, h("h1", {}, "Tool not found"), h("p", {}, h("code", {}, name), " is not in the catalog, or its server is not running. Choose another tool.")));
  names.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  new Trial(place, tool, signal).begin();
}

class Trial {
  constructor(root, tool, signal) {
    Object.assign(this, { root, tool, signal });
    this.schema = tool.inputSchema ?? { type: "object" };
  }

  begin() {
    const { tool, schema } = this;
    this.made = control({ type: "object", ...schema }, schema, { name: "arguments", required: true });
    const before = handed.get(tool.name);
    if (before) this.made.set(before);
    handed.delete(tool.name);
    this.press = h("button.primary", { type: "submit" }, "Call");
    this.answer = h("div.answer", { role: "region", "aria-label": "Answer", "aria-live": "off" });
    const hints = tool.annotations ?? {};
    const chips = [hints.readOnlyHint && ["only reads", "good"], hints.readOnlyHint !== true && hints.destructiveHint === true && ["may destroy", "bad"], hints.idempotentHint && ["safe to repeat", ""], hints.openWorldHint && ["reaches beyond", ""]].filter(Boolean);
    this.form = h("form", { onsubmit: (event) => (event.preventDefault(), this.ask()) }, Object.keys(schema.properties ?? {}).length === 0 ? h("p", {}, "It takes no arguments.") : this.made.element, h("div.bar", {}, this.press, h("button", { type: "button", onclick: () => this.raw() }, "As JSON…"), h("button", { type: "button", onclick: () => copy(this.asCurl(), "Command copied.") }, "Copy as curl"), h("button", { type: "button", onclick: () => copy(this.asShell(), "Command copied.") }, "Copy as command")));
    replace(this.root, h("h2", {}, tool.title ?? tool.name, " ", tool.title && h("small", {}, tool.name)), chips.length > 0 && h("p", {}, chips.map(([text, kind]) => h("span.chip", { class: kind }, text))), tool.description && h("p.description", {}, tool.description), this.form, this.answer);
    this.form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.form.requestSubmit();
    });
  }

  arguments() {
    return this.made.value() ?? {};
  }

  /** Asks first where something may be destroyed. */
  ask() {
    const { annotations = {}, name } = this.tool;
    if (annotations.destructiveHint !== true || annotations.readOnlyHint === true) return this.call();
    dialog(`Call ${name}?`, [h("p", {}, "This tool declares that it may delete or overwrite data.")], { submit: "Call", danger: true, onSubmit: () => void this.call() });
  }

  async call() {
    const { signal, tool } = this;
    this.press.disabled = true;
    replace(this.answer, h("p", { role: "status" }, "It runs…"));
    const began = performance.now();
    let shown;
    try {
      const result = await post("/api/mcp/tools/call", { name: tool.name, arguments: this.arguments() }, { signal });
      const took = span(performance.now() - began);
      shown = [h("p", { role: "status" }, h("span.chip", { class: result.isError ? "bad" : "good" }, result.isError ? "the tool refused" : "answered"), ` after ${took}`), resultOf(result)];
    } catch (error) {
      if (signal.aborted) return;
      shown = h("p.problem", { role: "alert" }, error.message);
    } finally {
      this.press.disabled = false;
    }
    replace(this.answer, shown);
    announce(this.answer.firstElementChild.textContent);
  }

  raw() {
    const text = h("textarea", { rows: "16", spellcheck: "false", "aria-label": "Arguments as JSON" });
    text.value = JSON.stringify(this.arguments(), null, 2);
    dialog("Arguments as JSON", [text], {
      submit: "Take over",
      wide: true,
      onSubmit: () => {
        const value = JSON.parse(text.value);
        if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("Enter a JSON object.");
        this.made.set(value);
      },
    });
  }

  asCurl() {
    const { base } = document.documentElement.dataset;
    const body = JSON.stringify({ name: this.tool.name, arguments: this.arguments() });
    return `curl ${quoted(`${location.origin}${base}/api/mcp/tools/call`)} -H 'Content-Type: application/json' -d ${quoted(body)}`;
  }

  asShell() {
    return `orchestra tool call ${quoted(this.tool.name)} --args ${quoted(JSON.stringify(this.arguments()))}`;
  }
}

/** A word for a POSIX shell. */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Opens the playground with these arguments filled in. */
export function tryAgain(name, args) {
  handed.set(name, args);
  go(`/servers/playground/${encodeURIComponent(name)}`);
}
