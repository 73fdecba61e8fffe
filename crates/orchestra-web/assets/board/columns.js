// The columns of the board, each with a list of its own.

import { h, icon } from "../lib/dom.js";
import { VirtualList } from "../lib/virtual.js";
import { cardRow, reuseRow, rowHeight } from "./card.js";
import { placeIn } from "./model.js";
import { NAMES, STATES } from "./states.js";

/** So long a frame may draw columns, in milliseconds; the others follow in the next. */
const DRAW_MS = 1;

/** A list in which one card at a time can be reached with the Tab key. */
class ColumnList extends VirtualList {
  constructor(options) {
    super(options);
    this.order = options.order;
    this.current = undefined;
    this.stop = undefined;
  }

  place(id) {
    return this.order(id);
  }

  draw() {
    super.draw();
    const first = this.items[Math.ceil(this.top / this.height)] ?? this.items.at(-1);
    const id = this.shown.has(this.current) ? this.current : first?.id;
    const stop = this.shown.get(id)?.element.firstElementChild;
    if (this.stop !== stop) this.stop?.setAttribute("tabindex", "-1");
    this.stop = stop;
    stop?.setAttribute("tabindex", "0");
  }

  /** Lets a card be the one that the Tab key reaches. */
  hold(id) {
    if (this.current === id) return;
    this.current = id;
    this.draw();
  }
}

/** Shows a board as columns. */
export class Columns {
  /** @param {HTMLElement} region @param {import("./frame.js").Board} board */
  constructor(region, board) {
    this.board = board;
    this.region = region;
    this.region.classList.add("columns");
    this.waiting = new Set(STATES);
    this.columns = new Map(STATES.map((state) => [state, this.make(state)]));
    region.replaceChildren(...[...this.columns.values()].map((column) => column.element));
    // Those in sight are drawn first.
    this.inSight = new Set(STATES.slice(0, 6));
    this.sight = new IntersectionObserver(
      (seen) => {
        for (const { target, isIntersecting } of seen) this.inSight[isIntersecting ? "add" : "delete"](target.dataset.state);
      },
      { root: region },
    );
    for (const { element } of this.columns.values()) this.sight.observe(element);
    this.layout();
  }

  make(state) {
    const { board } = this;
    const name = h("span.name", { id: `column-${state}` }, NAMES[state]);
    const count = h("span.count", { dataset: { count: "" } });
    const verdict = h("span.verdict");
    const fold = h("button.plain.fold", { type: "button", onclick: () => board.fold(state) }, icon("chevron"));
    const scroller = h("div.cards");
    const empty = h("p.none", {}, "No issues");
    const element = h("section.column", { dataset: { state }, "aria-labelledby": `column-${state}` }, h("header", {}, h("h2", {}, name), count, verdict, fold), scroller);
    const list = new ColumnList({
      scroller,
      height: rowHeight(),
      key: (entry) => entry.id,
      make: (entry) => cardRow(entry, board),
      reuse: (row, entry) => reuseRow(row, entry, board),
      order: (id) => this.index(state, id),
    });
    list.space.setAttribute("aria-labelledby", `column-${state}`);
    scroller.append(empty);
    return { element, name, count, verdict, fold, list, empty };
  }

  index(state, id) {
    const entry = this.board.model.get(id);
    if (entry?.state !== state || !entry.fits) return -1;
    return placeIn(this.board.model.columns.get(state).shown, entry);
  }

  /** Folds and hides columns as the board says. */
  layout() {
    const states = this.board.states();
    for (const [state, column] of this.columns) {
      const folded = this.board.isFolded(state);
      column.element.hidden = !states.includes(state);
      column.element.classList.toggle("folded", folded);
      column.fold.setAttribute("aria-expanded", String(!folded));
      column.fold.setAttribute("aria-label", `${NAMES[state]}: ${folded ? "unfold" : "fold"}`);
      column.fold.hidden = this.board.narrow;
      this.waiting.add(state);
    }
  }

  /** The model is another one. */
  renewed() {
    for (const state of STATES) this.waiting.add(state);
  }

  visible(state) {
    return this.board.states().includes(state) && !this.board.isFolded(state);
  }

  /**
   * Draws the columns that changed.
   *
   * @returns {boolean} whether all are drawn; the rest is for the next frame
   */
  draw(dirty) {
    for (const state of dirty) this.waiting.add(state);
    const until = performance.now() + DRAW_MS;
    const order = [...this.waiting].sort((one, other) => Number(this.inSight.has(other)) - Number(this.inSight.has(one)));
    for (const state of order) {
      if (performance.now() > until) return false;
      this.drawColumn(state);
    }
    return true;
  }

  drawColumn(state) {
    this.waiting.delete(state);
    const { all, shown } = this.board.model.columns.get(state);
    const column = this.columns.get(state);
    const text = shown.length === all.length ? String(all.length) : `${shown.length} of ${all.length}`;
    if (column.count.textContent !== text) column.count.textContent = text;
    column.empty.hidden = shown.length > 0;
    column.list.items = shown;
    if (this.visible(state)) column.list.draw();
  }

  /** The link of a card, if it is in sight. */
  element(id) {
    const entry = this.board.model.get(id);
    if (!entry) return undefined;
    if (this.waiting.has(entry.state)) this.drawColumn(entry.state);
    return this.columns.get(entry.state)?.list.shown.get(id)?.element.firstElementChild;
  }

  /** Brings a card in sight and gives its link. */
  reveal(id) {
    const entry = this.board.model.get(id);
    if (!entry?.fits || !this.visible(entry.state)) return undefined;
    const { list, element } = this.columns.get(entry.state);
    list.items = this.board.model.columns.get(entry.state).shown;
    element.scrollIntoView({ block: "nearest", inline: "nearest" });
    return list.reveal(id)?.firstElementChild;
  }

  /** A card holds the focus: the Tab key comes back to it. */
  focused(id) {
    const entry = this.board.model.get(id);
    if (entry) this.columns.get(entry.state)?.list.hold(id);
  }

  /** The card that an arrow key leads to from another. */
  step(id, key) {
    const entry = this.board.model.get(id);
    if (!entry) return undefined;
    const { shown } = this.board.model.columns.get(entry.state);
    const at = placeIn(shown, entry);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1 };
    if (key in steps) return shown[steps[key]]?.id;
    const states = STATES.filter((state) => this.visible(state) && (state === entry.state || this.board.model.columns.get(state).shown.length > 0));
    const state = states[states.indexOf(entry.state) + (key === "ArrowRight" ? 1 : -1)];
    return state && this.beside(entry.state, at, state);
  }

  /** The card of another column that is beside one of this, as they are scrolled now. */
  beside(from, at, to) {
    const { list } = this.columns.get(from);
    const other = this.columns.get(to).list;
    const { shown } = this.board.model.columns.get(to);
    const place = Math.round((at * list.height - list.top + (other.top ?? 0)) / other.height);
    return shown[Math.max(0, Math.min(shown.length - 1, place))]?.id;
  }

  /** The card at a place of a column, or the one before it; for when the one that was there is gone. */
  near(state, at) {
    const { shown } = this.board.model.columns.get(state);
    return this.visible(state) ? shown[Math.min(at, shown.length - 1)]?.id : undefined;
  }

  /** Some card, for whoever has no other yet. */
  first() {
    const state = STATES.find((one) => this.visible(one) && this.board.model.columns.get(one).shown.length > 0);
    return state && this.columns.get(state).list.stop?.dataset.id;
  }

  /** Where a card is among those of its column. */
  at(id) {
    const entry = this.board.model.get(id);
    return entry ? { state: entry.state, at: this.index(entry.state, id) } : undefined;
  }

  /** Shows what a judge says of each state: `{ may, words }`; without a judge, nothing. */
  mark(judge) {
    for (const [state, { element, verdict }] of this.columns) {
      const said = judge?.(state);
      element.classList.toggle("may", said?.may === true);
      element.classList.toggle("may-not", said?.may === false);
      verdict.textContent = said?.words ?? "";
    }
  }

  /** What scrolls up and down below a point. */
  scrollerAt(element) {
    return element?.closest(".column")?.querySelector(".cards");
  }

  end() {
    this.sight.disconnect();
    for (const { list } of this.columns.values()) list.end();
    this.region.classList.remove("columns");
    this.region.replaceChildren();
  }
}
