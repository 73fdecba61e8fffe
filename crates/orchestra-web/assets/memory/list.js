// Memories that fit a question, with why each does; or all of them.

import { go, link } from "../app.js";
import { call } from "../lib/api.js";
import { announce, h, replace } from "../lib/dom.js";
import { keys } from "../lib/keys.js";
import { ago } from "../lib/time.js";
import { writeDialog } from "./write.js";

/** So long after the last letter the question is asked. */
const PAUSE_MS = 200;
/** How many are shown at a time. */
const PAGE = 50;

const STATES = { current: "Those that hold", superseded: "Superseded", expired: "Expired", any: "All" };

/** Shows the list, and what is asked of it in the address. */
export async function listOf(root, project, query, signal) {
  await new MemoryList(root, project, query, signal).begin();
}

class MemoryList {
  constructor(root, project, query, signal) {
    Object.assign(this, { root, project, signal });
    this.text = query.get("q") ?? "";
    this.tag = query.get("tag") ?? "";
    this.source = query.get("source") ?? "";
    this.state = query.get("state") in STATES ? query.get("state") : "current";
    this.asked = 0;
  }

  async begin() {
    const { signal } = this;
    const word = (name, label) => h("input", { type: "text", placeholder: label, "aria-label": label, value: this[name], size: 12, oninput: (event) => this.narrow({ [name]: event.target.value.trim() }) });
    this.find = h("input.find", { type: "search", placeholder: "What do you want to know?", "aria-label": "Search memories", value: this.text, oninput: () => this.narrow({ text: this.find.value }) });
    this.states = h("select", { "aria-label": "Which memories", onchange: () => this.narrow({ state: this.states.value }) }, Object.entries(STATES).map(([value, label]) => h("option", { value, selected: value === this.state }, label)));
    this.count = h("p.count", { role: "status" });
    this.list = h("ul.memory-list", { "aria-label": "Memories" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.load(this.cursor) }, "Show more");
    replace(
      this.root,
      h("div.bar", { role: "search" }, this.find, word("tag", "Tag"), word("source", "Source"), this.states, h("span.grow"), h("button.primary", { type: "button", onclick: () => this.write() }, "New memory")),
      this.count,
      this.list,
      this.more,
    );
    keys("/", "Search memories", () => this.find.focus(), signal);
    keys("n", "New memory", () => this.write(), signal);
    keys("j", "Next memory", () => this.step(1), signal);
    keys("k", "Previous memory", () => this.step(-1), signal);
    keys("ArrowDown", "Next memory", () => this.step(1), signal);
    keys("ArrowUp", "Previous memory", () => this.step(-1), signal);
    // Agents save while nobody looks.
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.load(), { signal });
    signal.addEventListener("abort", () => clearTimeout(this.timer));
    await this.load();
  }

  narrow(change) {
    Object.assign(this, change);
    const query = new URLSearchParams();
    if (this.text.trim()) query.set("q", this.text);
    if (this.tag) query.set("tag", this.tag);
    if (this.source) query.set("source", this.source);
    if (this.state !== "current") query.set("state", this.state);
    go(`/memory/${encodeURIComponent(this.project)}${query.size > 0 ? `?${query}` : ""}`, { replace: true, quiet: true });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), PAUSE_MS);
  }

  /** Asks for those that fit, or for the next ones behind `cursor`. */
  async load(cursor) {
    const asked = ++this.asked;
    const isSearch = this.text.trim() !== "";
    const { project, signal } = this;
    const source = this.source || undefined;
    let answer;
    try {
      answer = isSearch
        ? await call("search_memory", { project, query: this.text, source, tags: this.tag ? [this.tag] : undefined, include_superseded: this.state !== "current" || undefined, limit: PAGE }, { signal })
        : await call("list_memory", { project, state: this.state, source, tag: this.tag || undefined, limit: PAGE, cursor }, { signal });
    } catch (error) {
      if (signal.aborted || asked !== this.asked) return;
      this.more.hidden = true;
      this.count.textContent = "";
      return replace(this.list, h("li.problem", { role: "alert" }, error.message));
    }
    if (asked !== this.asked) return;
    this.cursor = answer.next_cursor;
    const rows = answer.items.map((item) => this.row(item));
    if (cursor) this.list.append(...rows);
    else replace(this.list, rows);
    this.more.hidden = !this.cursor;
    const told = isSearch ? `${answer.items.length} found, best first` : `${answer.total} ${answer.total === 1 ? "memory" : "memories"}`;
    if (this.count.textContent !== told) this.count.textContent = told;
    if (answer.items.length === 0) replace(this.list, h("li.nothing", {}, this.nothing(isSearch)));
  }

  nothing(isSearch) {
    if (isSearch) return "Nothing that is remembered fits. Other words may find it, or fewer filters.";
    if (this.tag || this.source || this.state !== "current") return "No memory is like that.";
    return ["Nothing is remembered of this project yet. Agents remember with ", h("code", {}, "save_memory"), "; you can write the first one here."];
  }

  row({ type, id, summary, content, snippet, why, tags = [], source, created_at: at, score }) {
    const path = type === "session" ? `sessions/${encodeURIComponent(id)}` : encodeURIComponent(id);
    const told = snippet ?? content;
    return h(
      "li.panel.memory-row",
      {},
      h("div.line", {}, link(`/memory/${encodeURIComponent(this.project)}/${path}`, { class: "title" }, summary || id), type === "session" && h("span.chip", {}, "session"), source && h("span.chip", {}, source), tags.map((tag) => h("span.chip", {}, `#${tag}`)), h("span.grow"), score !== undefined && h("meter", { min: "0", max: "1", value: String(score), "aria-label": `fits ${Math.round(score * 100)} of 100`, title: `fits ${Math.round(score * 100)} of 100` }), at && h("small", { title: at }, ago(at))),
      told && h("p.told", {}, told),
      why && h("small.memory-why", {}, "Why: ", why),
    );
  }

  step(by) {
    const links = [...this.list.querySelectorAll("a.title")];
    const now = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, now + by))]?.focus();
  }

  write() {
    writeDialog(this.project, undefined, (saved) => {
      announce(`Saved as ${saved.id}`);
      this.load();
    });
  }
}
