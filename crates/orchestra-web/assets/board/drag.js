// Drags a card with the mouse, a pen or a finger to another column.

/** So far a pointer moves before a press becomes a drag, in pixels. */
const FAR = 5;

/** So long a finger rests before it drags instead of scrolling. */
const LONG_PRESS_MS = 350;

/** So near to an edge what lies below scrolls, in pixels, and at most so fast in each frame. */
const EDGE = 64;
const SPEED = 18;

/** So long a card is held over a tab until that is shown. */
const TAB_MS = 500;

/** How much to scroll when a pointer is at `at` between two edges. */
function pull(at, from, to) {
  if (at < from + EDGE) return -SPEED * Math.min(1, (from + EDGE - at) / EDGE);
  if (at > to - EDGE) return SPEED * Math.min(1, (at - to + EDGE) / EDGE);
  return 0;
}

/**
 * What a drag tells.
 *
 * @typedef {{ card: (id: string) => HTMLElement|undefined, begin: (id: string) => void, end: () => void, drop: (id: string, state: string) => void,
 *   tab: (tab: HTMLElement) => void, scrollers: (at: Element|null) => { across: HTMLElement, down?: HTMLElement } }} Acts
 */

/** Lets the cards of a region be dragged until `signal` is aborted. @param {Acts} acts */
export function drags(region, acts, signal) {
  new Drag(region, acts, signal);
}

class Drag {
  constructor(region, acts, signal) {
    Object.assign(this, { region, acts });
    const listen = (kind, act, options = {}) => region.addEventListener(kind, act, { signal, ...options });
    listen("pointerdown", (event) => this.press(event));
    listen("pointermove", (event) => this.move(event));
    // A quick hand lets go elsewhere before the region has the pointer.
    document.addEventListener("pointerup", (event) => this.release(event), { signal });
    document.addEventListener("pointercancel", (event) => event.pointerId === this.pressed?.pointer && this.finish(false), { signal });
    // A card loses the finger that pressed it when the region takes that over.
    listen("lostpointercapture", (event) => event.target === region && event.pointerId === this.pressed?.pointer && this.finish(false));
    // Cards are links, which browsers would drag by themselves.
    listen("dragstart", (event) => event.preventDefault());
    // A finger that drags a card scrolls nothing; this has to be heard before it begins to.
    listen("touchmove", (event) => this.ghost && event.preventDefault(), { passive: false });
    listen("contextmenu", (event) => this.pressed?.touch && event.preventDefault());
    listen("click", (event) => this.swallow(event), { capture: true });
    document.addEventListener(
      "keydown",
      (event) => {
        if (event.key !== "Escape" || !this.ghost) return;
        event.preventDefault();
        event.stopPropagation();
        this.finish(false);
      },
      { signal, capture: true },
    );
    signal.addEventListener("abort", () => this.finish(false));
  }

  press(event) {
    const card = event.target.closest?.(".card");
    if (!card || event.button !== 0 || this.pressed || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const touch = event.pointerType === "touch";
    this.pressed = { id: card.dataset.id, pointer: event.pointerId, touch, x: event.clientX, y: event.clientY, fromX: event.clientX, fromY: event.clientY };
    if (touch) this.pressed.timer = setTimeout(() => this.begin(), LONG_PRESS_MS);
  }

  move(event) {
    const { pressed } = this;
    if (!pressed || event.pointerId !== pressed.pointer) return;
    pressed.x = event.clientX;
    pressed.y = event.clientY;
    if (this.ghost || Math.hypot(pressed.x - pressed.fromX, pressed.y - pressed.fromY) <= FAR) return;
    if (pressed.touch) this.finish(false);
    else this.begin();
  }

  release(event) {
    this.move(event);
    if (event.pointerId === this.pressed?.pointer) this.finish(true);
  }

  begin() {
    const { id, pointer, fromX, fromY } = this.pressed;
    // The list may have moved on under the pointer.
    const card = this.acts.card(id);
    if (!card?.checkVisibility()) return this.finish(false);
    const box = card.getBoundingClientRect();
    this.ghost = card.cloneNode(true);
    this.ghost.classList.add("ghost");
    for (const name of ["tabindex", "href", "data-id", "aria-current"]) this.ghost.removeAttribute(name);
    this.ghost.setAttribute("aria-hidden", "true");
    this.ghost.style.width = `${box.width}px`;
    this.ghost.style.height = `${box.height}px`;
    const within = (at, size) => Math.min(Math.max(at, 0), size);
    this.offset = { x: within(fromX - box.left, box.width), y: within(fromY - box.top, box.height) };
    document.body.append(this.ghost);
    // The card itself may leave the list while it is dragged, so the region hears the pointer.
    try {
      this.region.setPointerCapture(pointer);
    } catch {
      return this.finish(false);
    }
    document.documentElement.classList.add("dragging");
    this.acts.begin(id);
    this.follow();
  }

  /** Once a frame: the ghost goes along, what is below is found, and the edges pull. */
  follow() {
    if (!this.ghost) return;
    const { x, y } = this.pressed;
    this.ghost.style.transform = `translate(${x - this.offset.x}px, ${y - this.offset.y}px) rotate(1.5deg)`;
    const at = this.look();
    this.overTab(at?.closest("[role=tab]") ?? undefined);
    const { across, down } = this.acts.scrollers(at);
    const box = across.getBoundingClientRect();
    if (y > box.top - EDGE && y < box.bottom + EDGE) across.scrollLeft += pull(x, box.left, box.right);
    if (down) {
      const inner = down.getBoundingClientRect();
      if (x > inner.left && x < inner.right) down.scrollTop += pull(y, inner.top, inner.bottom);
    }
    this.frame = requestAnimationFrame(() => this.follow());
  }

  /** Finds and marks what the pointer is over. */
  look() {
    const at = document.elementFromPoint(this.pressed.x, this.pressed.y);
    const over = at?.closest(".may, .may-not, [data-state]") ?? undefined;
    if (over !== this.over) {
      this.over?.classList.remove("over");
      over?.classList.add("over");
      this.over = over;
    }
    return at;
  }

  overTab(tab) {
    if (tab === this.tab) return;
    clearTimeout(this.tabTimer);
    this.tab = tab;
    if (tab) this.tabTimer = setTimeout(() => this.ghost && this.acts.tab(tab), TAB_MS);
  }

  finish(dropped) {
    const { pressed, ghost } = this;
    if (!pressed) return;
    clearTimeout(pressed.timer);
    // A quick hand lets go before the next frame.
    if (ghost && dropped) this.look();
    const { over } = this;
    this.pressed = undefined;
    if (!ghost) return;
    cancelAnimationFrame(this.frame);
    this.overTab(undefined);
    this.ghost = undefined;
    this.over = undefined;
    ghost.remove();
    over?.classList.remove("over");
    document.documentElement.classList.remove("dragging");
    // The click that browsers make of a press and a release opens nothing; it comes at once, if at all.
    this.swallowing = true;
    setTimeout(() => (this.swallowing = false), 0);
    if (this.region.hasPointerCapture(pressed.pointer)) this.region.releasePointerCapture(pressed.pointer);
    this.acts.end();
    const state = over?.closest("[data-state]")?.dataset.state;
    if (dropped && state) this.acts.drop(pressed.id, state);
  }

  swallow(event) {
    if (!this.swallowing) return;
    event.preventDefault();
    event.stopPropagation();
  }
}
