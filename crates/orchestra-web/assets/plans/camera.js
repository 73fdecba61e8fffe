// What part of a drawing is seen, and how near: by dragging, by the wheel, by touch and by keys.

import { inNextFrame } from "../lib/frame.js";

const NEAREST = 2;
const FARTHEST = 0.05;
/** So much one press of a key or a button zooms. */
const STEP = 1.25;
/** So long after the last move a drawing is made sharp again. */
const REST_MS = 160;
/** Less than this is a press, not a drag. */
const SLIP = 4;

/**
 * Moves `drawing` within `frame` by one transform.
 */
export class Camera {
  /**
   * @param {HTMLElement} frame
   * @param {SVGElement} drawing
   * @param {{ onMove: () => void, signal: AbortSignal }} how `onMove` runs in the
   *   frame in which the transform has changed
   */
  constructor(frame, drawing, { onMove, signal }) {
    Object.assign(this, { frame, drawing, onMove, x: 0, y: 0, scale: 1, width: 1, height: 1, fitted: true });
    this.later = inNextFrame(() => this.draw(), signal);
    this.pointers = new Map();
    const listen = (kind, act, options = {}) => frame.addEventListener(kind, act, { signal, ...options });
    listen("wheel", (event) => this.wheel(event), { passive: false });
    listen("pointerdown", (event) => this.press(event));
    listen("pointermove", (event) => this.drag(event));
    for (const kind of ["pointerup", "pointercancel"]) listen(kind, (event) => this.release(event));
    // The click that ends a drag opens nothing.
    listen("click", (event) => this.moved && (event.preventDefault(), event.stopPropagation()), { capture: true });
    const resized = new ResizeObserver(() => (this.fitted ? this.fit() : this.later()));
    resized.observe(frame);
    signal.addEventListener("abort", () => {
      resized.disconnect();
      clearTimeout(this.resting);
    });
  }

  /** How large the drawing is. */
  size(width, height) {
    Object.assign(this, { width, height });
    this.drawing.setAttribute("width", width);
    this.drawing.setAttribute("height", height);
  }

  /** What is seen, in the measures of the drawing, with some of what is around it. */
  seen(around = 0) {
    const { clientWidth, clientHeight } = this.frame;
    const [w, h] = [clientWidth / this.scale, clientHeight / this.scale];
    const [x, y] = [-this.x / this.scale, -this.y / this.scale];
    return { left: x - w * around, top: y - h * around, right: x + w * (1 + around), bottom: y + h * (1 + around) };
  }

  /** Shows all of it, though not larger than it is. */
  fit() {
    const { clientWidth, clientHeight } = this.frame;
    if (clientWidth === 0) return;
    const margin = 16;
    this.scale = Math.max(FARTHEST, Math.min(1, (clientWidth - 2 * margin) / this.width, (clientHeight - 2 * margin) / this.height));
    this.x = (clientWidth - this.width * this.scale) / 2;
    this.y = (clientHeight - this.height * this.scale) / 2;
    this.fitted = true;
    this.later();
  }

  /** Shows all of it, or where that could not be read on a small screen, its beginning. */
  begin(readable) {
    this.fit();
    const { clientWidth, clientHeight } = this.frame;
    if (clientWidth === 0 || clientWidth > 600 || this.scale >= readable || this.height * 0.6 > clientHeight * 2) return;
    this.scale = 0.6;
    this.x = 12;
    this.y = (clientHeight - this.height * this.scale) / 2;
    this.fitted = false;
  }

  /** Zooms so that what is at a point of the frame stays there; the middle unless told. */
  zoom(factor, x = this.frame.clientWidth / 2, y = this.frame.clientHeight / 2) {
    const scale = Math.max(FARTHEST, Math.min(NEAREST, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.fitted = false;
    this.later();
  }

  nearer() {
    this.zoom(STEP);
  }

  farther() {
    this.zoom(1 / STEP);
  }

  pan(x, y) {
    this.x += x;
    this.y += y;
    this.fitted = false;
    this.later();
  }

  /** Brings a box of the drawing in sight, as little as it takes. */
  reveal({ x, y, width, height }) {
    const { clientWidth, clientHeight } = this.frame;
    const margin = 24;
    const [left, top] = [this.x + x * this.scale, this.y + y * this.scale];
    const [right, bottom] = [left + width * this.scale, top + height * this.scale];
    const by = (from, to, end) => (from < margin ? margin - from : to > end - margin ? Math.max(end - margin - to, margin - from) : 0);
    const [moveX, moveY] = [by(left, right, clientWidth), by(top, bottom, clientHeight)];
    if (moveX !== 0 || moveY !== 0) this.pan(moveX, moveY);
  }

  wheel(event) {
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 24 : 1;
    const box = this.frame.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * lines * 0.004), event.clientX - box.left, event.clientY - box.top);
    else if (event.shiftKey) this.pan(-event.deltaY * lines, 0);
    else this.pan(-event.deltaX * lines, -event.deltaY * lines);
  }

  press(event) {
    if (event.button !== 0) return;
    if (this.pointers.size === 0) this.moved = false;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY, from: [event.clientX, event.clientY] });
  }

  drag(event) {
    const pointer = this.pointers.get(event.pointerId);
    if (!pointer) return;
    const before = { ...pointer };
    [pointer.x, pointer.y] = [event.clientX, event.clientY];
    if (!this.moved) {
      if (Math.hypot(event.clientX - pointer.from[0], event.clientY - pointer.from[1]) < SLIP) return;
      this.moved = true;
      this.frame.setPointerCapture(event.pointerId);
      this.frame.classList.add("dragged");
    }
    if (this.pointers.size === 1) return this.pan(pointer.x - before.x, pointer.y - before.y);
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
    const box = this.frame.getBoundingClientRect();
    const distance = (point) => Math.max(1, Math.hypot(point.x - other.x, point.y - other.y));
    this.pan((pointer.x - before.x) / 2, (pointer.y - before.y) / 2);
    this.zoom(distance(pointer) / distance(before), (pointer.x + other.x) / 2 - box.left, (pointer.y + other.y) / 2 - box.top);
  }

  release(event) {
    this.pointers.delete(event.pointerId);
    if (this.pointers.size === 0) this.frame.classList.remove("dragged");
  }

  /** Some of the drawing stays in sight. */
  bound() {
    const { clientWidth, clientHeight } = this.frame;
    const keep = (at, size, end) => Math.max(Math.min(80, end / 4) - size * this.scale, Math.min(end - Math.min(80, end / 4), at));
    this.x = keep(this.x, this.width, clientWidth);
    this.y = keep(this.y, this.height, clientHeight);
  }

  draw() {
    this.bound();
    // A layer of its own while it moves is moved without being drawn; at rest it is drawn sharp.
    this.drawing.classList.add("moving");
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.drawing.classList.remove("moving"), REST_MS);
    this.drawing.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
    this.onMove();
  }
}
