// The board of one project: what it shows, how it hears of changes, and where the focus is.

import { go, place } from "../app.js";
import { get } from "../lib/api.js";
import { announce, h, toast } from "../lib/dom.js";
import { on } from "../lib/stream.js";
import { tick } from "./card.js";
import { Columns } from "./columns.js";
import { drags } from "./drag.js";
import { fromQuery, testOf, toQuery } from "./filter.js";
import { Inbox } from "./inbox.js";
import { boardKeys } from "./keyboard.js";
import { Lanes } from "./lanes.js";
import { Model } from "./model.js";
import { Moves } from "./moves.js";
import { newIssue } from "./newissue.js";
import { Panel } from "./panel.js";
import { myName } from "./person.js";
import { GROUPS, STATES } from "./states.js";
import { Tabs } from "./tabs.js";
import { Toolbar } from "./toolbar.js";

const { base } = document.documentElement.dataset;
const FOLDED_KEY = "orchestra-board-folded";
const FOLDED_AT_FIRST = ["done", "rejected", "cancelled"];

/** So long after a letter the address of the page follows; browsers refuse to be told more often. */
const ADDRESS_MS = 250;

/** So often the times of claims are brought up to date. */
const TICK_MS = 20_000;

/** So long until a board that could not be loaded again is asked for once more. */
const AGAIN_MS = 2_000;

function foldedStates() {
  try {
    return new Set(JSON.parse(localStorage.getItem(FOLDED_KEY) ?? "null") ?? FOLDED_AT_FIRST);
  } catch {
    return new Set(FOLDED_AT_FIRST);
  }
}

/** One project as a board. */
export class Board {
  constructor(root, slug, signal) {
    Object.assign(this, { root, slug, signal });
    this.folded = foldedStates();
    this.foldedLanes = new Set();
    this.inbox = new Inbox(() => this.later());
    this.moves = new Moves(this);
    this.small = matchMedia("(max-width: 48rem)");
    this.narrow = this.small.matches;
  }

  /** Shows the board, and an issue if one is asked for. */
  async begin(projects, query, issue) {
    const { signal } = this;
    this.filter = fromQuery(query);
    // Heard before the board is asked for, so that nothing falls between.
    for (const kind of ["cards", "gone"]) on(kind, (data, at) => data.project === this.slug && this.inbox.take(kind, data, at), { signal });
    on("project", (data) => data.project === this.slug && this.loadAgain(), { signal });
    on("anew", () => this.loadAgain(), { signal });
    on("projects", (data) => this.toolbar.projects(data.projects), { signal });
    this.frame(projects);
    await this.load();
    if (issue && !signal.aborted) this.open(issue, { quiet: true });
  }

  frame(projects) {
    const { signal } = this;
    this.toolbar = new Toolbar(this, projects);
    this.tabs = new Tabs(() => this.staged());
    this.region = h("div.board-region", { id: "board-region" }, h("p.loading", { role: "status" }, "Loading the issues…"));
    this.panel = new Panel(this);
    this.root.replaceChildren(this.toolbar.element, this.tabs.element, h("div.board-body", {}, this.region, this.panel.element));
    this.labelRegion();
    boardKeys(this, signal);
    this.region.addEventListener("focusin", (event) => this.noteFocus(event.target), { signal });
    this.root.addEventListener("focusin", (event) => (this.inPanel = this.panel.element.contains(event.target)), { signal });
    this.root.addEventListener("click", (event) => this.clicked(event), { signal });
    // A dialog gives the focus back to what had it; that may have been drawn anew meanwhile.
    document.addEventListener("close", () => setTimeout(() => this.dialogGone(), 0), { capture: true, signal });
    drags(
      this.region,
      {
        card: (id) => this.view.element(id),
        begin: (id) => {
          this.dragged = id;
          this.markStates();
        },
        end: () => {
          this.dragged = undefined;
          this.view.mark();
        },
        drop: (id, state) => this.moves.move(id, state),
        tab: (tab) => tab.click(),
        scrollers: (at) => ({ across: this.view.scroller ?? this.region, down: this.view.scrollerAt(at) }),
      },
      signal,
    );
    // The page of an issue and that of its board are one, so going back from it loads nothing; this
    // has to be heard before the frame of the page, which would show everything anew.
    window.addEventListener("popstate", (event) => this.wentBack(event), { capture: true, signal });
    this.small.addEventListener("change", () => this.resized(), { signal });
    const ticking = setInterval(() => tick(this.region), TICK_MS);
    signal.addEventListener("abort", () => {
      clearInterval(ticking);
      this.view?.end();
      this.panel.end();
    });
  }

  async load() {
    const run = (this.run = (this.run ?? 0) + 1);
    this.inbox.hold();
    const snapshot = await get(`/api/board/${encodeURIComponent(this.slug)}`, { signal: this.signal });
    const model = await Model.build(snapshot);
    if (this.signal.aborted || run !== this.run) return;
    this.model = model;
    this.toolbar.title.textContent = `Board of ${snapshot.project.name}`;
    document.title = `${snapshot.project.name} – Board – Orchestra`;
    model.filter(testOf(this.filter, model, myName()));
    if (this.view) this.view.renewed();
    else this.makeView();
    if (snapshot.more) toast("There are more issues than the board can show. Use a filter.");
    this.inbox.release(model, snapshot.at);
    this.toolbar.tell();
    this.later();
  }

  async loadAgain() {
    try {
      await this.load();
      this.panel.reload();
    } catch (error) {
      if (this.signal.aborted) return;
      // A program that restarts is there again soon.
      setTimeout(() => !this.signal.aborted && this.loadAgain(), AGAIN_MS);
    }
  }

  makeView() {
    this.view?.end();
    this.view = this.filter.lanes ? new Lanes(this.region, this) : new Columns(this.region, this);
  }

  /** Draws what changed in the next frame. */
  later() {
    if (this.drawing || !this.view) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      if (this.signal.aborted) return;
      // To look through all of them and to draw is too much for one frame.
      if (this.refilter()) this.later();
      else this.draw();
    });
  }

  draw() {
    this.refilter();
    const { model } = this;
    const before = this.focusedCard();
    const where = before && this.last;
    const touched = model.touched;
    model.touched = new Set();
    const dirty = model.dirty;
    model.dirty = new Set();
    const all = this.view.draw(dirty);
    if (dirty.size > 0) {
      this.toolbar.counted();
      this.tabs.tell(model);
    }
    if (before && document.activeElement === document.body) this.keepFocus(before, where);
    if (before && this.focusedCard() === before) this.last = this.view.at(before);
    if (touched.size > 0) this.panel.changed(touched);
    if (this.dragged && (touched.has(this.dragged) || !model.get(this.dragged))) this.markStates();
    if (!all) this.later();
  }

  /** The states that the view shows. */
  states() {
    return this.narrow ? GROUPS[this.tabs.chosen].states : STATES;
  }

  isFolded(state) {
    return !this.narrow && this.folded.has(state);
  }

  fold(state) {
    this.folded[this.folded.has(state) ? "delete" : "add"](state);
    localStorage.setItem(FOLDED_KEY, JSON.stringify([...this.folded]));
    this.layout();
    this.region.querySelector(`[data-state="${state}"] .fold`)?.focus();
  }

  /** Says of each state whether the card that is dragged may go there, as it is by now. */
  markStates() {
    const entry = this.model.get(this.dragged);
    if (entry) return this.view.mark(this.moves.judge(entry.card));
    toast(`${this.dragged} was deleted.`);
    this.dragged = undefined;
    this.view.mark();
  }

  /** Another stage was chosen: it begins with its first state. */
  staged() {
    this.layout();
    (this.view?.scroller ?? this.region).scrollLeft = 0;
  }

  layout() {
    this.labelRegion();
    this.view?.layout();
    this.later();
  }

  labelRegion() {
    this.tabs.element.hidden = !this.narrow;
    this.region.setAttribute("role", this.narrow ? "tabpanel" : "region");
    this.region.setAttribute("aria-label", this.narrow ? GROUPS[this.tabs.chosen].name : "Issues by state");
  }

  resized() {
    this.narrow = this.small.matches;
    const id = this.focusedCard();
    if (this.narrow && id) this.tabs.chooseState(this.model.get(id).state);
    this.layout();
  }

  /** The filter was changed: everything is looked through once, after the frame that shows the letter if none is under way. */
  filtered() {
    this.unfiltered = true;
    requestAnimationFrame(() => this.later());
    clearTimeout(this.addressing);
    this.addressing = setTimeout(() => !this.signal.aborted && go(this.path(), { replace: true, quiet: true }), ADDRESS_MS);
  }

  /** Applies a filter that was changed. @returns {boolean} whether there was one */
  refilter() {
    if (!this.unfiltered || !this.model) return false;
    this.unfiltered = false;
    this.model.filter(testOf(this.filter, this.model, myName()));
    this.toolbar.counted();
    this.toolbar.saySoon();
    return true;
  }

  /** The lanes were changed. */
  laned() {
    if (!this.model) return;
    this.foldedLanes.clear();
    this.makeView();
    for (const state of STATES) this.model.dirty.add(state);
    this.later();
    this.toolbar.tell();
    go(this.path(), { replace: true, quiet: true });
  }

  nextLanes() {
    const kinds = ["", "epic", "story"];
    this.filter.lanes = kinds[(kinds.indexOf(this.filter.lanes) + 1) % kinds.length];
    this.laned();
    announce(this.filter.lanes ? `Swimlane per ${this.filter.lanes}` : "No swimlanes");
  }

  path(id = this.opened) {
    return `/board/${encodeURIComponent(this.slug)}${id ? `/${encodeURIComponent(id)}` : ""}${toQuery(this.filter)}`;
  }

  /** The address of an issue. */
  href(id) {
    return base + this.path(id);
  }

  clicked(event) {
    const anchor = event.target.closest?.("a[data-id], a[data-opens]");
    if (!anchor || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    this.open(anchor.dataset.id ?? anchor.dataset.opens);
  }

  /** Opens an issue beside the board, or closes what is open. */
  open(id, { quiet = false } = {}) {
    const before = this.opened;
    if (before === id) return id && this.panel.focus();
    this.opened = id;
    if (!quiet) go(this.path(), { quiet: true });
    for (const one of [before, id]) this.model?.refresh(one);
    this.later();
    if (id) this.panel.open(id);
    else {
      this.panel.close();
      this.focusCard(before);
    }
  }

  wentBack(event) {
    const [page, slug, issue] = place();
    if (page !== "board" || slug !== this.slug || !this.model) return;
    event.stopImmediatePropagation();
    const lanes = this.filter.lanes;
    const now = fromQuery(new URLSearchParams(location.search));
    // The choosers of the toolbar hold on to these sets.
    for (const [name, value] of Object.entries(now)) {
      if (value instanceof Set) {
        this.filter[name].clear();
        for (const one of value) this.filter[name].add(one);
      } else this.filter[name] = value;
    }
    this.model.filter(testOf(this.filter, this.model, myName()));
    if (lanes !== this.filter.lanes) this.makeView();
    this.toolbar.tell();
    this.later();
    this.open(issue, { quiet: true });
  }

  create() {
    if (this.model) newIssue(this, this.model.get(this.subject()));
  }

  /** An issue was made here. */
  created(id) {
    if (!this.focusCard(id)) this.open(id);
  }

  own(id) {
    this.inbox.own(id);
  }

  /** The issue that a key is about: that of the card with the focus, or the one that is open. */
  subject() {
    return this.focusedCard() ?? this.opened;
  }

  focusedCard() {
    const at = document.activeElement;
    return this.region.contains(at) ? at.closest(".card")?.dataset.id : undefined;
  }

  noteFocus(target) {
    const id = target.closest(".card")?.dataset.id;
    if (!id) return;
    this.last = this.view.at(id);
    this.lastId = id;
    this.view.focused(id);
  }

  dialogGone() {
    if (this.signal.aborted || document.activeElement !== document.body || document.querySelector("dialog[open]")) return;
    if (this.opened && this.inPanel) this.panel.focus();
    else if (!this.focusCard(this.lastId)) this.focusFirst();
  }

  /** The card with the focus went elsewhere: the focus goes along if it is in sight, or stays near. */
  keepFocus(id, where) {
    const drawn = this.view.element(id);
    if (drawn) drawn.focus({ preventScroll: true });
    else if (where) this.focusCard(this.view.near(where.state, where.at, where.key));
  }

  /** Gives a card the focus where it is now. @returns {boolean} whether it could be shown */
  focusCard(id) {
    if (!id || !this.view) return false;
    const entry = this.model.get(id);
    if (entry && this.narrow) this.tabs.chooseState(entry.state);
    this.draw();
    const link = this.view.reveal(id);
    link?.focus({ preventScroll: true });
    return Boolean(link);
  }

  focusFirst() {
    this.refilter();
    const id = this.last && this.view.near(this.last.state, this.last.at, this.last.key);
    if (!this.focusCard(id)) this.focusCard(this.view.first());
  }

  /** A card was moved from here: the focus, if it was on it, goes along. */
  follow(id, { byKey = false } = {}) {
    const entry = this.model.get(id);
    const held = this.focusedCard() === id || (byKey && document.activeElement === document.body);
    if (!entry || !held) return this.later();
    if (byKey && this.isFolded(entry.state)) {
      this.folded.delete(entry.state);
      this.view.layout();
    }
    this.focusCard(id);
  }

  /** A dialog about a card is away; what had the focus before it may be gone as well. */
  focusLost(id, how) {
    if (document.activeElement === document.body || document.activeElement === null) this.follow(id, { ...how, byKey: true });
  }
}
