// Memories that fit a question, with why each does; or all of them.

import { go, link } from "../app.js";
import { call } from "../lib/api.js";
import { announce, h, replace } from "../lib/dom.js";
import { soon } from "../lib/follow.js";
import { keys } from "../lib/keys.js";
import { on } from "../lib/stream.js";
import { ago } from "../lib/time.js";
import { writeDialog } from "./write.js";

/** So long after the last letter the question is asked. */
const PAUSE_MS = 200;
/** So long after a memory was changed the list is asked for, as agents change many at once. */
const CHANGED_MS = 300;
/** How many are shown at a time. */
const PAGE = 50;

const STATES = { current: "Current", superseded: "Superseded", expired: "Expired", any: "All" };

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
    this.shown = 0;
  }

  async begin() {
    const { signal } = this;
    const word = (name, label) => h("input", { type: "text", placeholder: label, "aria-label": label, value: this[name], size: 12, oninput: (event) => this.narrow({ [name]: event.target.value.trim() }) });
    this.find = h("input.find", { type: "search", placeholder: "Search memories", "aria-label": "Search memories", value: this.text, oninput: () => this.narrow({ text: this.find.value }) });
    this.states = h("select", { "aria-label": "Filter by state", onchange: () => this.narrow({ state: this.states.value }) }, Object.entries(STATES).map(([value, label]) => h("option", { value, selected: value === this.state }, label)));
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
    const later = soon(() => this.load(), CHANGED_MS, signal);
    on("changed", ({ what, project }) => what === "memory" && (project === undefined || project === this.project) && later(), { signal });
    on("anew", later, { signal });
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.load(), { signal });
    signal.addEventListener("abort", () => clearTimeout(this.timer));
    await this.load();
  }

  narrow(change) {
    Object.assign(this, change);
    this.shown = 0;
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
    const { state } = this;
    // What is found is the best of all, superseded or not; only a list tells the states apart.
    for (const option of this.states.options) option.disabled = isSearch && ["superseded", "expired"].includes(option.value);
    const page = (from) => call("list_memory", { project, state, source, tag: this.tag || undefined, limit: PAGE, cursor: from }, { signal });
    let answer;
    try {
      if (isSearch) answer = await call("search_memory", { project, query: this.text, source, tags: this.tag ? [this.tag] : undefined, include_superseded: state !== "current" || undefined, limit: PAGE }, { signal });
      else {
        answer = await page(cursor);
        // As many as were shown before, so that nobody loses the place.
        const wanted = cursor ? 0 : this.shown;
        while (answer.items.length < wanted && answer.next_cursor && asked === this.asked) {
          const next = await page(answer.next_cursor);
          answer = { ...next, items: [...answer.items, ...next.items] };
        }
      }
    } catch (error) {
      if (signal.aborted || asked !== this.asked) return;
      this.more.hidden = true;
      this.count.textContent = "";
      return replace(this.list, h("li.problem", { role: "alert" }, error.message));
    }
    if (asked !== this.asked) return;
    this.cursor = answer.next_cursor;
    const rows = answer.items.map((item) => this.row(item));
    const focused = this.list.contains(document.activeElement) && document.activeElement.getAttribute("href");
    if (cursor) this.list.append(...rows);
    else replace(this.list, rows);
    this.shown = isSearch ? 0 : this.list.children.length;
    if (focused && !cursor) (this.list.querySelector(`a[href="${CSS.escape(focused)}"]`) ?? this.list.querySelector("a.title") ?? this.find).focus({ preventScroll: true });
    this.more.hidden = !this.cursor;
    const told = isSearch ? answer.items.length === PAGE ? `The best ${PAGE}` : `${answer.items.length} found, best first` : `${answer.total} ${answer.total === 1 ? "memory" : "memories"}`;
    if (this.count.textContent !== told) this.count.textContent = told;
    if (answer.items.length === 0) replace(this.list, h("li.nothing", {}, this.nothing(isSearch)));
  }

  nothing(isSearch) {
    if (isSearch) return "No memory matches. Try other words or fewer filters.";
    if (this.tag || this.source || this.state !== "current") return "No memory matches. Remove a filter.";
    return ["This project has no memories yet. Agents save them with ", h("code", {}, "save_memory"), "; you can also write the first one here."];
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
