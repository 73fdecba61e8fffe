// A list of rows of one height, of which only those in sight are elements.

import { inNextFrame } from "./frame.js";

/** Rows beyond the edges that are elements as well, so that a scroll finds them there. */
const BEYOND = 3;

/**
 * Shows a long list in a scrolling element.
 *
 * Rows are made by `make(item, index)` and kept by `key(item)`: an element is made anew only when
 * its item is another object, and not even then where `reuse(element, item)` turns one that is not
 * wanted any more into it, which costs far less. Every row is `height` pixels high, its gap included.
 */
export class VirtualList {
  /** @param {{ scroller: HTMLElement, height: number, key: (item: any) => string,
   *   make: (item: any, index: number) => HTMLElement,
   *   reuse?: (element: HTMLElement, item: any) => boolean }} options */
  constructor({ scroller, height, key, make, reuse }) {
    this.later = inNextFrame(() => this.draw());
    this.scroller = scroller;
    this.height = height;
    this.key = key;
    this.make = make;
    this.reuse = reuse;
    this.items = [];
    this.shown = new Map();
    this.space = document.createElement("div");
    this.space.className = "virtual";
    this.space.setAttribute("role", "list");
    scroller.append(this.space);
    const moved = () => {
      this.measure();
      this.later();
    };
    scroller.addEventListener("scroll", moved, { passive: true });
    this.resize = new ResizeObserver(moved);
    this.resize.observe(scroller);
  }

  /**
   * Reads what is in sight. It is kept, as to ask for it between changes makes the browser lay the
   * page out each time; whoever scrolls by script and draws at once calls this first.
   */
  measure() {
    this.top = this.scroller.scrollTop;
    this.sight = this.scroller.clientHeight;
  }

  /** Shows these instead; what is in sight is drawn in the next frame. */
  set(items) {
    this.items = items;
    this.later();
  }

  draw() {
    const { height, items, space, shown } = this;
    if (!this.sight) this.measure();
    const total = `${items.length * height}px`;
    if (space.style.height !== total) space.style.height = total;
    const first = Math.max(0, Math.floor(this.top / height) - BEYOND);
    // As many at any place: one that comes finds one that goes.
    const last = Math.min(items.length, first + Math.ceil(this.sight / height) + 1 + 2 * BEYOND);
    const wanted = new Map();
    for (let index = first; index < last; index += 1) wanted.set(this.key(items[index]), index);
    const left = [];
    for (const [key, row] of shown) {
      if (wanted.has(key)) continue;
      if (!row.element.contains(document.activeElement)) {
        left.push(row.element);
      } else {
        // Who holds the focus stays until it goes elsewhere, or is gone: it becomes no other.
        const at = this.place(key);
        if (at >= 0) {
          wanted.set(key, at);
          continue;
        }
        row.element.remove();
      }
      shown.delete(key);
    }
    for (const [key, index] of wanted) {
      const item = items[index];
      let row = shown.get(key);
      if (!row || row.item !== item) {
        row = { element: row ? this.again(row.element, item, index) : this.fresh(left, item, index), item };
        shown.set(key, row);
      }
      if (row.index !== index) {
        row.index = index;
        row.element.style.top = `${index * height}px`;
        row.element.setAttribute("aria-posinset", index + 1);
      }
      if (row.size !== items.length) {
        row.size = items.length;
        row.element.setAttribute("aria-setsize", items.length);
      }
    }
    for (const element of left) element.remove();
  }

  /** An element for an item: one of those that are left over, or a new one. */
  fresh(left, item, index) {
    const last = left.at(-1);
    if (last && this.reuse?.(last, item)) return left.pop();
    const element = this.make(item, index);
    element.style.position = "absolute";
    this.space.append(element);
    return element;
  }

  /** The element of an item that is another object now, with the focus if it had that. */
  again(before, item, index) {
    if (this.reuse?.(before, item)) return before;
    const focused = before.contains(document.activeElement);
    const element = this.make(item, index);
    element.style.position = "absolute";
    before.replaceWith(element);
    if (focused) (element.matches("[tabindex],button,a") ? element : element.querySelector("[tabindex],button,a"))?.focus({ preventScroll: true });
    return element;
  }

  place(key) {
    return this.items.findIndex((item) => this.key(item) === key);
  }

  /** Brings an item in sight and gives its element, drawn. */
  reveal(key) {
    const index = this.place(key);
    if (index < 0) return undefined;
    const top = index * this.height;
    const { scroller } = this;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + this.height > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + this.height - scroller.clientHeight;
    this.measure();
    this.draw();
    return this.shown.get(key)?.element;
  }

  /** Ends it. */
  end() {
    this.resize.disconnect();
  }
}
