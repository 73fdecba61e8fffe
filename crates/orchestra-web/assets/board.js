// The board of a project: its issues in the columns of the workflow, as they are now.

import { go } from "./app.js";
import { call, get } from "./lib/api.js";
import { announce, dialog, field, h, icon, replace, toast } from "./lib/dom.js";
import { keys } from "./lib/keys.js";
import { on } from "./lib/stream.js";
import { VirtualList } from "./lib/virtual.js";
import { drags } from "./board/drag.js";
import { Model, NAMES } from "./board/model.js";
import { chooseMove, move } from "./board/move.js";
import { panel } from "./board/panel.js";

/** How high a card is with the gap below it, in pixels; the style sheet says the same. */
const CARD = 92;
const FOLDED_AT_FIRST = ["rejected", "cancelled"];

export async function page(root, { parts, query }, signal) {
  const { projects } = await get("/api/board", { signal });
  const [asked, issue] = parts;
  const last = localStorage.getItem("orchestra-project");
  const slug = asked ?? projects.find((project) => project.slug === last)?.slug ?? projects[0]?.slug;
  if (!slug) return empty(root);
  if (!asked) return go(`/board/${slug}`, { replace: true });
  localStorage.setItem("orchestra-project", slug);
  await new Board(root, slug, projects, signal).begin(query, issue);
}

function empty(root) {
  const make = () => {
    const name = h("input", { name: "name", required: true, maxlength: 200 });
    dialog("New project", [field("Name", name)], {
      submit: "Create",
      onSubmit: async () => {
        const made = await call("create_project", { name: name.value });
        go(`/board/${made.slug}`);
      },
    });
  };
  replace(
    root,
    h(
      "div.empty",
      {},
      h("h1", {}, "No project yet"),
      h("p", {}, "A project holds epics, epics stories, stories tasks. An agent makes one with create_project."),
      h("button.primary", { type: "button", onclick: make }, "New project"),
    ),
  );
}

class Board {
  constructor(root, slug, projects, signal) {
    Object.assign(this, { root, slug, projects, signal });
    this.lists = new Map();
    this.early = [];
    this.pending = new Set();
    this.flash = new Set();
  }

  async begin(query, issue) {
    const { signal } = this;
    // Heard before the board is asked for, so that nothing falls between.
    for (const kind of ["cards", "gone"]) on(kind, (data, at) => data.project === this.slug && this.changed(kind, data, at), { signal });
    on("project", (data) => data.project === this.slug && this.load(), { signal });
    on("anew", () => this.load(), { signal });
    this.frame(query);
    await this.load();
    if (issue) this.open(issue);
  }

  async load() {
    const { at, project, states, cards, more } = await get(`/api/board/${encodeURIComponent(this.slug)}`, { signal: this.signal });
    this.at = at;
    this.model = new Model(states, cards);
    for (const [kind, data, when] of this.early.splice(0)) this.apply(kind, data, when);
    if (more) toast("There are more issues than can be shown at once.");
    this.title.textContent = project.name;
    this.filter();
  }

  frame(query) {
    const { signal } = this;
    const chooser = h("select", { "aria-label": "Project", onchange: () => go(`/board/${chooser.value}`) }, this.projects.map((project) => h("option", { value: project.slug, selected: project.slug === this.slug }, project.name)));
    this.title = h("h1.unseen", {}, this.slug);
    this.words = h("input", { type: "search", placeholder: "Filter by words or id", "aria-label": "Filter", value: query.get("q") ?? "", oninput: () => this.filter() });
    const option = (value, text) => h("option", { value, selected: query.get(value.split(":")[0]) === value.split(":")[1] }, text);
    this.kind = h("select", { "aria-label": "Type", onchange: () => this.filter() }, h("option", { value: "" }, "Every type"), ["epic", "story", "task", "bug", "hotfix"].map((kind) => option(`type:${kind}`, kind)));
    this.waiting = h("input", { type: "checkbox", checked: query.has("blocked"), onchange: () => this.filter() });
    this.count = h("span.chip", { role: "status" });
    const bar = h(
      "div.bar",
      {},
      chooser,
      this.words,
      this.kind,
      h("label", {}, this.waiting, " Blocked only"),
      this.count,
      h("span.grow"),
      h("button.primary", { type: "button", onclick: () => this.create() }, icon("plus"), " New task"),
    );
    this.board = h("div.board", { role: "region", "aria-label": "Board" });
    this.side = h("div.side", { hidden: true });
    replace(this.root, this.title, bar, h("div.split", {}, this.board, this.side));
    for (const state of Object.keys(NAMES)) this.column(state);
    drags(
      this.board,
      {
        begin: (id) => this.mark(this.model.cards.get(id)),
        drop: (id, state) => this.moved(this.model.cards.get(id), state),
        end: () => this.mark(),
      },
      signal,
    );
    this.board.addEventListener("click", (event) => event.target.closest(".card") && this.open(event.target.closest(".card").dataset.id), { signal });
    this.board.addEventListener("keydown", (event) => this.pressed(event), { signal });
    keys("/", "Filter", () => this.words.focus(), signal);
    keys("n", "New task", () => this.create(), signal);
    keys("m", "Move the card that has the focus (arrows go from card to card)", () => this.choose(), signal);
    keys("a", "Move it to the next state", () => this.advance(), signal);
    keys("Enter", "Open it", () => undefined, signal);
    keys("Escape", "Close what is open", () => this.open(undefined), signal);
    signal.addEventListener("abort", () => this.lists.forEach((list) => list.end()));
  }

  column(state) {
    const count = h("span.count", {}, "0");
    const scroller = h("div.cards", { tabindex: "-1" });
    const folded = (localStorage.getItem(`orchestra-fold-${state}`) ?? String(FOLDED_AT_FIRST.includes(state))) === "true";
    const fold = () => {
      const now = column.classList.toggle("folded");
      button.setAttribute("aria-expanded", String(!now));
      localStorage.setItem(`orchestra-fold-${state}`, String(now));
    };
    const button = h("button.plain.head", { type: "button", "aria-expanded": String(!folded), onclick: fold }, h("span.name", {}, NAMES[state]), count);
    const column = h("section.column", { dataset: { state }, class: folded ? "folded" : "", "aria-label": NAMES[state] }, h("h2", {}, button), scroller);
    const list = new VirtualList({ scroller, height: CARD, key: (card) => card.id, make: (card) => this.card(card) });
    list.count = count;
    this.lists.set(state, list);
    this.board.append(column);
  }

  card(card) {
    const waits = this.model.waits(card);
    const claim = card.claim && new Date(card.claim.until) > new Date() ? card.claim.agent : undefined;
    const labels = card.labels ?? [];
    const words = [card.id, card.type, card.title, NAMES[card.status], card.priority && `priority ${card.priority}`, claim && `claimed by ${claim}`, waits.length > 0 && `waits for ${waits.map((other) => other.id).join(", ")}`];
    const shown = h(
      "div.card",
      { dataset: { id: card.id, priority: card.priority ?? "" }, tabindex: "0", role: "listitem", "aria-label": words.filter(Boolean).join(", ") },
      h("div.top", {}, icon(card.type), h("span.id", {}, card.id), card.priority && h(`span.chip.${card.priority}`, {}, card.priority), waits.length > 0 && h("span.chip.warn", { title: `Waits for ${waits.map((other) => other.id).join(", ")}` }, icon("lock"), "waits")),
      h("div.title", {}, card.title),
      h("div.foot", {}, claim && h("span.chip.run", {}, icon("person"), claim), labels.slice(0, 2).map((label) => h("span.chip", {}, label)), labels.length > 2 && h("span.chip", {}, `+${labels.length - 2}`)),
    );
    shown.classList.toggle("pending", this.pending.has(card.id));
    if (this.flash.delete(card.id)) shown.classList.add("flash");
    return shown;
  }

  changed(kind, data, at) {
    if (!this.model) this.early.push([kind, data, at]);
    else this.draw(this.apply(kind, data, at));
  }

  /** Takes an event in; the columns that it touches. */
  apply(kind, data, at) {
    const touched = new Set();
    if (at <= this.at) return touched;
    const add = (states) => states.forEach((state) => touched.add(state));
    if (kind === "gone") for (const id of data.ids) add(this.model.remove(id));
    else {
      for (const card of data.cards) {
        const before = this.model.cards.get(card.id);
        if (before && before.status !== card.status) this.flash.add(card.id);
        add(this.model.put(card));
      }
    }
    const about = kind === "gone" ? data.ids : data.cards.map((card) => card.id);
    if (about.includes(this.opened)) this.shown?.refresh();
    return touched;
  }

  draw(states = this.model.columns.keys()) {
    for (const state of states) {
      const list = this.lists.get(state);
      const column = this.model.columns.get(state);
      // Another array, since what is drawn compares none.
      list.set(column.slice());
      list.count.textContent = column.length;
    }
  }

  filter() {
    if (!this.model) return;
    const words = this.words.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const kind = this.kind.value.split(":")[1];
    const blocked = this.waiting.checked;
    const fits = (card) =>
      (!kind || card.type === kind) && words.every((word) => card.id.toLowerCase() === word || card.title.toLowerCase().includes(word)) && (!blocked || card.status === "blocked" || this.model.waits(card).length > 0);
    this.model.filter(words.length > 0 || kind || blocked ? fits : () => true);
    const query = new URLSearchParams({ ...(words.length > 0 && { q: this.words.value.trim() }), ...(kind && { type: kind }), ...(blocked && { blocked: "1" }) }).toString();
    const path = `/board/${this.slug}${this.opened ? `/${this.opened}` : ""}`;
    if (this.model && !this.signal.aborted) go(path + (query && `?${query}`), { replace: true, quiet: true });
    const shown = [...this.model.columns.values()].reduce((sum, column) => sum + column.length, 0);
    this.count.textContent = shown === this.model.cards.size ? `${shown} issues` : `${shown} of ${this.model.cards.size} issues`;
    this.draw();
  }

  /** Shows where a card may go; without one nothing is marked. */
  mark(card) {
    for (const column of this.board.querySelectorAll(".column")) {
      const { state } = column.dataset;
      const may = card && (state === card.status || !this.model.exit(card, state).refused);
      column.classList.toggle("may", Boolean(card && may));
      column.classList.toggle("may-not", Boolean(card && !may));
    }
  }

  async moved(card, to) {
    if (!card || card.status === to) return;
    this.pending.add(card.id);
    this.redraw(card);
    const done = await move(this.slug, this.model, card, to);
    this.pending.delete(card.id);
    const now = this.model.cards.get(card.id);
    if (now) this.redraw(now);
    if (done) this.refocus(card.id);
  }

  /** Makes a card anew although it is the same. */
  redraw(card) {
    this.draw(this.model.put({ ...card }));
  }

  /** Gives a card the focus where it is now; what moved it may be told a moment later. */
  refocus(id, tries = 20) {
    const card = this.model.cards.get(id);
    if (document.activeElement !== document.body && !this.board.contains(document.activeElement)) return;
    const shown = card && this.lists.get(card.status).reveal(id);
    if (shown) shown.focus();
    if (tries > 0 && !this.signal.aborted) setTimeout(() => document.activeElement?.dataset?.id !== id && this.refocus(id, tries - 1), 50);
  }

  focused() {
    const id = document.activeElement?.closest?.(".card")?.dataset.id ?? this.opened;
    return id && this.model.cards.get(id);
  }

  choose() {
    const card = this.focused();
    if (!card) return announce("No card has the focus.");
    chooseMove(this.slug, this.model, card, () => this.refocus(card.id));
  }

  advance() {
    const card = this.focused();
    const exits = card && this.model.exits.get(card.status);
    if (exits?.[0]) this.moved(card, exits[0].to);
  }

  pressed(event) {
    const card = this.focused();
    const steps = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] };
    if (!event.target.closest(".card") || !card) return;
    if (event.key === "Enter") {
      event.preventDefault();
      this.open(card.id);
      return;
    }
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const states = [...this.lists.keys()].filter((state) => state === card.status || (this.model.columns.get(state).length > 0 && !this.board.querySelector(`[data-state="${state}"]`).classList.contains("folded")));
    const row = this.lists.get(card.status).place(card.id);
    const state = states[states.indexOf(card.status) + step[0]];
    const column = state && this.model.columns.get(state);
    const next = column?.[Math.min(row + step[1], column.length - 1)];
    if (next) this.lists.get(state).reveal(next.id)?.focus();
  }

  /** Opens an issue beside the board, or closes what is open. */
  open(id) {
    const before = this.opened;
    this.opened = id;
    this.shown?.end();
    this.shown = undefined;
    this.side.hidden = !id;
    const query = location.search;
    go(`/board/${this.slug}${id ? `/${encodeURIComponent(id)}` : ""}${query}`, { replace: true, quiet: true });
    if (id) this.shown = panel(this.side, { project: this.slug, id, model: this.model, close: () => this.open(undefined), open: (other) => this.open(other), moved: (card, to) => this.moved(card, to) });
    else if (before) {
      const card = this.model.cards.get(before);
      if (card) this.lists.get(card.status).reveal(before)?.focus();
    }
  }

  create() {
    const stories = [...this.model.cards.values()].filter((card) => card.type === "story" && !["done", "cancelled"].includes(card.status));
    if (stories.length === 0) return toast("A task belongs to a story, and there is none that is open; an agent makes one with create_epic and create_story.");
    const story = h("select", {}, stories.map((card) => h("option", { value: card.id }, `${card.id} ${card.title}`)));
    const title = h("input", { required: true, maxlength: 500 });
    const kind = h("select", {}, ["task", "bug", "hotfix"].map((name) => h("option", {}, name)));
    const priority = h("select", {}, ["medium", "critical", "high", "low"].map((name) => h("option", {}, name)));
    const description = h("textarea", { maxlength: 100_000 });
    dialog("New task", [field("Title", title), field("Story", story), field("Type", kind), field("Priority", priority), field("Description", description)], {
      submit: "Create",
      onSubmit: async () => {
        const made = await call("create_task", { project: this.slug, story_id: story.value, title: title.value, type: kind.value, priority: priority.value, ...(description.value && { description: description.value }) });
        announce(`${made.id} was made`);
        this.open(made.id);
      },
    });
    title.focus();
  }
}
