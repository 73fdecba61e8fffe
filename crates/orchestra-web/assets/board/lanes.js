// The board as lanes: a band for each epic or story, across all columns.

import { h, icon } from "../lib/dom.js";
import { Bands } from "./bands.js";
import { cardRow, rowHeight } from "./card.js";
import { NAMES } from "./states.js";

/** Rows and lanes beyond the edges that are elements as well. */
const BEYOND = 2;

/** So long a frame may make cards, in milliseconds; the others follow in the next. */
const DRAW_MS = 2;

/** Measures in rem; the style sheet says the same. */
const COLUMN_REM = 16.5;
const FOLDED_REM = 3;
const HEADING_REM = 2.5;
const HEAD_REM = 2.75;

/** Shows a board as lanes. */
export class Lanes {
  /** @param {HTMLElement} region @param {import("./frame.js").Board} board */
  constructor(region, board) {
    Object.assign(this, { region, board });
    const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.row = rowHeight();
    this.sizes = { column: COLUMN_REM * rem, folded: FOLDED_REM * rem, heading: HEADING_REM * rem, head: HEAD_REM * rem };
    this.bands = new Bands(board.model, board.filter.lanes, board.foldedLanes);
    this.shown = new Map();
    this.current = undefined;
    this.head = h("div.lanes-head");
    this.space = h("div.lanes-space");
    this.scroller = h("div.lanes", {}, this.head, this.space);
    region.classList.add("in-lanes");
    region.replaceChildren(this.scroller);
    const moved = () => {
      this.look();
      this.later();
    };
    this.scroller.addEventListener("scroll", moved, { passive: true });
    this.resize = new ResizeObserver(moved);
    this.resize.observe(this.scroller);
    this.layout();
  }

  /** Reads what is in sight; to ask for it between changes makes the browser lay the page out each time. */
  look() {
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = this.scroller;
    this.sight = { scrollTop, scrollLeft, clientHeight, clientWidth };
  }

  /** Places the columns side by side. */
  layout() {
    const { board, sizes } = this;
    let left = 0;
    this.columns = board.states().map((state) => {
      const folded = board.isFolded(state);
      const column = { state, folded, left, width: folded ? sizes.folded : sizes.column };
      left += column.width;
      return column;
    });
    this.width = left;
    this.heads = new Map();
    this.head.style.width = `${left}px`;
    this.head.replaceChildren(...this.columns.map((column) => this.columnHead(column)));
    for (const { element } of this.shown.values()) element.remove();
    this.shown.clear();
    this.mark(this.judge);
    this.later();
  }

  /** The model is another one. */
  renewed() {
    this.bands = new Bands(this.board.model, this.board.filter.lanes, this.board.foldedLanes);
  }

  columnHead({ state, folded, width }) {
    const count = h("span.count");
    const verdict = h("span.verdict");
    const fold = h("button.plain.fold", { type: "button", "aria-expanded": String(!folded), "aria-label": `${NAMES[state]}: ${folded ? "unfold" : "fold"}`, onclick: () => this.board.fold(state) }, icon("chevron"));
    fold.hidden = this.board.narrow;
    const element = h("div.lane-column", { dataset: { state }, class: folded ? "folded" : "" }, h("h2", {}, NAMES[state]), count, verdict, fold);
    element.style.width = `${width}px`;
    this.heads.set(state, { element, count, verdict });
    return element;
  }

  later() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      if (this.region.isConnected && this.bands) this.paint();
    });
  }

  draw() {
    for (const [state, { count }] of this.heads) {
      const { all, shown } = this.board.model.columns.get(state);
      const text = shown.length === all.length ? String(all.length) : `${shown.length} of ${all.length}`;
      if (count.textContent !== text) count.textContent = text;
    }
    this.paint();
    return true;
  }

  /** Says where each lane begins; as many additions as there are lanes. */
  measure() {
    let top = 0;
    const open = this.columns.filter((column) => !column.folded);
    for (const band of this.bands.inOrder()) {
      let most = 0;
      if (!band.folded) for (const { state } of open) most = Math.max(most, band.cells.get(state).length);
      band.top = top;
      band.height = this.sizes.heading + (band.folded ? 0 : Math.max(1, most) * this.row + 8);
      top += band.height;
    }
    const height = `${top}px`;
    if (this.space.style.height !== height) {
      this.space.style.height = height;
      this.space.style.width = `${this.width}px`;
    }
  }

  /** Draws what is in sight, as far as the time reaches. */
  paint(until = performance.now() + DRAW_MS) {
    this.until = until;
    this.unfinished = false;
    this.measure();
    if (!this.sight?.clientHeight) this.look();
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = this.sight;
    const order = this.bands.inOrder();
    const [from, to] = [scrollTop - BEYOND * this.row, scrollTop + clientHeight + BEYOND * this.row];
    const columns = this.columns.filter((column) => column.left + column.width > scrollLeft - column.width && column.left < scrollLeft + clientWidth + column.width);
    const wanted = new Set();
    for (let index = firstBelow(order, from); index < order.length && order[index].top < to; index += 1) {
      wanted.add(order[index].key);
      this.paintBand(order[index], columns, from, to);
    }
    for (const [key, lane] of this.shown) {
      if (wanted.has(key)) continue;
      // Who holds the focus stays until it goes elsewhere.
      if (this.bands.all.has(key) && lane.element.contains(document.activeElement)) continue;
      lane.element.remove();
      this.shown.delete(key);
    }
    this.keepStop();
    if (this.unfinished) this.later();
  }

  paintBand(band, columns, from, to) {
    let lane = this.shown.get(band.key);
    const owner = this.board.model.get(band.key);
    if (!lane) {
      lane = { element: h("section.lane", { dataset: { lane: band.key }, "aria-labelledby": `lane-${band.key || "none"}` }), cells: new Map() };
      this.shown.set(band.key, lane);
      this.space.append(lane.element);
    }
    if (!lane.heading || lane.owner !== owner || lane.count !== band.count || lane.folded !== band.folded) {
      const heading = this.heading(band, owner);
      const held = lane.heading?.contains(document.activeElement);
      if (lane.heading) lane.heading.replaceWith(heading);
      else lane.element.prepend(heading);
      if (held) heading.querySelector("button").focus({ preventScroll: true });
      Object.assign(lane, { heading, owner, count: band.count, folded: band.folded });
    }
    const move = `translateY(${band.top}px)`;
    if (lane.element.style.transform !== move) lane.element.style.transform = move;
    const height = `${band.height}px`;
    if (lane.element.style.height !== height) lane.element.style.height = height;
    const rows = [Math.floor((from - band.top - this.sizes.heading) / this.row), Math.ceil((to - band.top - this.sizes.heading) / this.row)];
    const kept = new Set();
    if (!band.folded) {
      for (const column of columns) {
        kept.add(column.state);
        this.paintCell(lane, band, column, rows);
      }
    }
    for (const [state, cell] of lane.cells) {
      if (kept.has(state) || (!band.folded && cell.element.contains(document.activeElement))) continue;
      cell.element.remove();
      lane.cells.delete(state);
    }
  }

  heading(band, owner) {
    const { board } = this;
    const { total, done } = board.model.progressOf(band.key);
    const without = this.bands.by === "epic" ? "Without an epic" : "Without a story";
    const fold = () => {
      band.folded = !band.folded;
      board.foldedLanes[band.folded ? "add" : "delete"](band.key);
      this.paint();
    };
    return h(
      "div.lane-heading",
      {},
      h("button.plain.fold", { type: "button", "aria-expanded": String(!band.folded), "aria-label": band.folded ? "Unfold the lane" : "Fold the lane", onclick: fold }, icon("chevron")),
      icon(owner?.card.type ?? this.bands.by),
      h("h3", { id: `lane-${band.key || "none"}` }, owner ? h("a", { href: board.href(band.key), dataset: { opens: band.key } }, h("span.id", {}, band.key), " ", owner.card.title) : band.key || without),
      h("span.chip", {}, band.count === 1 ? "1 issue" : `${band.count} issues`),
      total > 0 && h("span.chip", {}, `${done} of ${total} done`),
    );
  }

  paintCell(lane, band, { state, left, width, folded }, [from, to]) {
    let cell = lane.cells.get(state);
    if (!cell) {
      cell = { element: h("div.lane-cell", { role: "list", dataset: { state }, "aria-label": `${NAMES[state]}, ${band.key || "no lane"}`, class: folded ? "folded" : "" }), rows: new Map() };
      cell.element.style.left = `${left}px`;
      cell.element.style.width = `${width}px`;
      this.judgeCell(cell.element, state);
      lane.cells.set(state, cell);
      lane.element.append(cell.element);
    }
    const entries = folded ? [] : band.cells.get(state);
    if (folded) cell.element.dataset.count = band.cells.get(state).length || "";
    const wanted = new Map();
    for (let at = Math.max(0, from); at < Math.min(entries.length, to); at += 1) wanted.set(entries[at].id, at);
    for (const [id, row] of cell.rows) {
      const entry = this.board.model.get(id);
      if (wanted.has(id) || (row.element.contains(document.activeElement) && entries.includes(entry))) continue;
      row.element.remove();
      cell.rows.delete(id);
    }
    for (const [id, at] of wanted) this.paintRow(cell, entries, id, at);
  }

  paintRow(cell, entries, id, at) {
    const entry = entries[at];
    let row = cell.rows.get(id);
    if (row?.entry !== entry) {
      if (performance.now() > this.until) {
        this.unfinished = true;
        return;
      }
      const element = cardRow(entry, this.board);
      const held = row?.element.contains(document.activeElement);
      if (row) row.element.replaceWith(element);
      else cell.element.append(element);
      row = { element, entry };
      cell.rows.set(id, row);
      if (held) element.firstElementChild.focus({ preventScroll: true });
    }
    if (row.at !== at) {
      row.at = at;
      row.element.style.transform = `translateY(${at * this.row}px)`;
      row.element.setAttribute("aria-posinset", at + 1);
    }
    if (row.size !== entries.length) {
      row.size = entries.length;
      row.element.setAttribute("aria-setsize", entries.length);
    }
  }

  /** Lets one card be reached with the Tab key. */
  keepStop() {
    const stop = this.element(this.current) ?? this.space.querySelector(".card");
    if (this.stop !== stop) this.stop?.setAttribute("tabindex", "-1");
    this.stop = stop;
    stop?.setAttribute("tabindex", "0");
  }

  element(id) {
    const entry = id && this.board.model.get(id);
    const key = entry && this.bands.keyOf(entry);
    return this.shown.get(key)?.cells.get(entry.state)?.rows.get(id)?.element.firstElementChild;
  }

  reveal(id) {
    const found = this.bands.find(id);
    if (!found) return undefined;
    const { band, entry, at } = found;
    const column = this.columns.find((one) => one.state === entry.state);
    if (!column || column.folded) return undefined;
    if (band.folded) {
      band.folded = false;
      this.board.foldedLanes.delete(band.key);
    }
    this.measure();
    const { scroller, sizes } = this;
    const top = band.top + sizes.heading + at * this.row;
    // The heads of columns and of the lane lie over what is above.
    if (top - sizes.heading < scroller.scrollTop) scroller.scrollTop = top - sizes.heading;
    else if (top + this.row + sizes.head > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + this.row + sizes.head - scroller.clientHeight;
    if (column.left < scroller.scrollLeft) scroller.scrollLeft = column.left;
    else if (column.left + column.width > scroller.scrollLeft + scroller.clientWidth) scroller.scrollLeft = column.left + column.width - scroller.clientWidth;
    this.look();
    this.paint(Number.POSITIVE_INFINITY);
    return this.element(id);
  }

  focused(id) {
    this.current = id;
    this.keepStop();
  }

  step(id, key) {
    const found = this.bands.find(id);
    if (!found) return undefined;
    const { band, entry, at } = found;
    const cell = band.cells.get(entry.state);
    if (key === "Home" || key === "End") return cell.at(key === "Home" ? 0 : -1)?.id;
    if (key === "ArrowUp" || key === "ArrowDown") {
      const by = key === "ArrowDown" ? 1 : -1;
      return cell[at + by]?.id ?? this.beyond(band, entry.state, by);
    }
    const by = key === "ArrowRight" ? 1 : -1;
    const open = this.columns.filter((column) => !column.folded && (column.state === entry.state || band.cells.get(column.state).length > 0));
    const other = open[open.findIndex((column) => column.state === entry.state) + by];
    const beside = other && band.cells.get(other.state);
    return beside?.[Math.min(at, beside.length - 1)]?.id;
  }

  /** The nearest card of a column in the lanes above or below. */
  beyond(band, state, by) {
    const order = this.bands.inOrder();
    for (let index = order.indexOf(band) + by; order[index]; index += by) {
      const cell = order[index].folded ? [] : order[index].cells.get(state);
      if (cell.length > 0) return cell.at(by > 0 ? 0 : -1).id;
    }
    return undefined;
  }

  at(id) {
    const found = this.bands.find(id);
    return found ? { state: found.entry.state, at: found.at, key: found.band.key } : undefined;
  }

  near(state, at, key) {
    const cell = this.bands.all.get(key)?.cells.get(state) ?? [];
    return cell[Math.min(at, cell.length - 1)]?.id;
  }

  first() {
    return this.stop?.dataset.id;
  }

  mark(judge) {
    this.judge = judge;
    for (const [state, { element, verdict }] of this.heads) {
      this.judgeCell(element, state);
      verdict.textContent = judge?.(state)?.words ?? "";
    }
    for (const { cells } of this.shown.values()) for (const [state, { element }] of cells) this.judgeCell(element, state);
  }

  judgeCell(element, state) {
    const said = this.judge?.(state);
    element.classList.toggle("may", said?.may === true);
    element.classList.toggle("may-not", said?.may === false);
  }

  scrollerAt() {
    return this.scroller;
  }

  end() {
    this.resize.disconnect();
    this.board.model.watcher = undefined;
    this.bands = undefined;
    this.region.classList.remove("in-lanes");
    this.region.replaceChildren();
  }
}

/** The first lane that ends below a line. */
function firstBelow(order, line) {
  let [low, high] = [0, order.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (order[middle].top + order[middle].height < line) low = middle + 1;
    else high = middle;
  }
  return low;
}
