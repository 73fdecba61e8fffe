// What stands above the board: its project, its filters, and what makes new issues.

import { go } from "../app.js";
import { announce, h, icon, replace } from "../lib/dom.js";
import { NONE, clear, isActive } from "./filter.js";
import { askMyName, myName } from "./person.js";
import { pick } from "./pick.js";
import { newProject } from "./project.js";

/** So long after the last letter it is said how many issues are left. */
const SAY_MS = 600;

const TYPES = ["epic", "story", "task", "bug", "hotfix"];
const PRIORITIES = ["critical", "high", "medium", "low"];

function counted(tally) {
  return [...tally].map(([value, count]) => ({ value, name: value, count })).sort((one, other) => other.count - one.count || (one.name < other.name ? -1 : 1));
}

/** The bars above a board. */
export class Toolbar {
  /** @param {import("./frame.js").Board} board */
  constructor(board, projects) {
    this.board = board;
    const { filter } = board;
    const changed = () => board.filtered();
    this.chooser = h("select.chooser", { "aria-label": "Project", "data-testid": "project", onchange: () => go(`/board/${encodeURIComponent(this.chooser.value)}`) });
    this.projects(projects);
    this.title = h("h1.unseen", {}, "Board");
    this.search = h("input.search", { type: "search", autocomplete: "off", spellcheck: "false", placeholder: "Search by id or title", "aria-label": "Find issues", "data-testid": "search", oninput: () => {
      filter.q = this.search.value;
      changed();
    } });
    this.search.addEventListener("keydown", (event) => this.leaveSearch(event));
    this.picks = this.makePicks(changed);
    this.blocked = h("input", { type: "checkbox", "data-testid": "blocked-only", onchange: () => {
      filter.blocked = this.blocked.checked;
      changed();
    } });
    this.mine = h("input", { type: "checkbox", "data-testid": "mine", onchange: () => this.mineChosen() });
    this.count = h("span.shown-count", { "data-testid": "count" });
    this.clear = h("button", { type: "button", "data-testid": "clear-filters", onclick: () => this.clearAll() }, icon("close"), " Clear filters");
    this.lanes = h("select", { "aria-label": "Swimlanes", "data-testid": "lanes", onchange: () => {
      filter.lanes = this.lanes.value;
      board.laned();
    } }, [["", "No swimlanes"], ["epic", "Swimlane per epic"], ["story", "Swimlane per story"]].map(([value, name]) => h("option", { value }, name)));
    this.more = h("button.filters", { type: "button", "aria-expanded": "false", "aria-controls": "board-filters", onclick: () => this.unfold(this.filters.classList.contains("closed")) }, "Filters", h("span.said"));
    this.filters = h(
      "div.bar.filter-row.closed",
      { id: "board-filters", role: "group", "aria-label": "Filters" },
      this.picks.map(({ element }) => element),
      h("label.check", {}, this.blocked, " Blocked only"),
      h("label.check", {}, this.mine, " Mine"),
    );
    const make = h("button.primary", { type: "button", "data-testid": "new-task", onclick: () => board.create() }, icon("plus"), " New");
    this.element = h(
      "div.board-bars",
      {},
      this.title,
      h("div.bar", {}, this.chooser, h("button.plain", { type: "button", "aria-label": "New project", title: "New project", onclick: newProject }, icon("plus")), h("div.search-box", {}, icon("search"), this.search), this.more, h("span.grow"), this.lanes, make),
      h("div.bar", {}, this.filters, h("span.grow"), this.count, this.clear),
    );
    this.tell();
  }

  makePicks(changed) {
    const { board } = this;
    const { filter } = board;
    const named = (values) => () => values.map((value) => ({ value, name: value }));
    const none = (name) => ({ value: NONE, name });
    const epics = () => [...board.model.ofTypes("epic").map(({ id, card }) => ({ value: id, name: `${id} ${card.title}` })), none("Without an epic")];
    return [
      pick("Type", { choices: named(TYPES), chosen: filter.type, onChange: changed }),
      pick("Priority", { choices: () => [...named(PRIORITIES)(), none("none")], chosen: filter.priority, onChange: changed }),
      pick("Label", { choices: () => [...counted(board.model.labels), none("none")], chosen: filter.label, onChange: changed }),
      pick("Who", { choices: () => [...counted(board.model.people), none("nobody")], chosen: filter.who, onChange: changed }),
      pick("Epic", { choices: epics, chosen: filter.epic, onChange: changed }),
    ];
  }

  /** Shows these projects to choose from. */
  projects(projects) {
    const { slug } = this.board;
    replace(this.chooser, projects.map((project) => h("option", { value: project.slug, selected: project.slug === slug }, `${project.name} (${project.done}/${project.tasks})`)));
    this.chooser.value = slug;
  }

  leaveSearch(event) {
    if (event.key === "Escape" && this.search.value !== "") {
      event.preventDefault();
      event.stopPropagation();
      this.search.value = "";
      this.board.filter.q = "";
      this.board.filtered();
    } else if (["Enter", "ArrowDown", "Escape"].includes(event.key)) {
      event.preventDefault();
      event.stopPropagation();
      this.board.focusFirst();
    }
  }

  async mineChosen() {
    const { board } = this;
    if (this.mine.checked && !(await askMyName())) this.mine.checked = false;
    board.filter.mine = this.mine.checked;
    board.filtered();
  }

  clearAll() {
    clear(this.board.filter);
    this.tell();
    this.board.filtered();
    this.search.focus();
  }

  /** Shows what the filter of the board is now. */
  tell() {
    const { filter } = this.board;
    if (this.search.value.trim() !== filter.q.trim()) this.search.value = filter.q;
    this.blocked.checked = filter.blocked;
    this.mine.checked = filter.mine;
    this.lanes.value = filter.lanes;
    this.mine.title = myName() ? `Assigned to or claimed by ${myName()}` : "";
    if (this.board.model) for (const one of this.picks) one.tell();
    this.counted();
  }

  /** Shows how many issues are shown. */
  counted() {
    const { filter, model } = this.board;
    const active = isActive(filter);
    this.clear.hidden = !active;
    const narrowed = ["type", "priority", "label", "who", "epic"].filter((name) => filter[name].size > 0).length + Number(filter.blocked) + Number(filter.mine);
    this.more.querySelector(".said").textContent = narrowed > 0 ? ` (${narrowed})` : "";
    if (!model) return;
    const all = model.entries.size;
    const text = active ? `${model.shownCount()} of ${all} issues` : `${all} issues`;
    if (this.count.textContent !== text) this.count.textContent = text;
  }

  /** Says how many are left, when nobody has written for a moment. */
  saySoon() {
    clearTimeout(this.saying);
    this.saying = setTimeout(() => announce(`${this.count.textContent} shown`), SAY_MS);
  }

  /** Shows the filters where a small screen hides them. */
  unfold(open) {
    this.filters.classList.toggle("closed", !open);
    this.more.setAttribute("aria-expanded", String(open));
  }

  focusFilters() {
    this.unfold(true);
    this.picks[0].button.focus();
  }
}
