// The jobs of a plan along time: a bar for each attempt, and in it its phases.

import { link } from "../app.js";
import { h, icon, replace, s } from "../lib/dom.js";
import { clock } from "../lib/time.js";
import { inNextFrame } from "../lib/frame.js";
import { Details } from "./details.js";
import { TimeAxis } from "./time-axis.js";
import { counted, isActive, isGoing, lasted, stateIcon, word } from "./words.js";

const ROW = 30;
const BAR = 16;
/** Rows beyond the edges that are drawn as well. */
const BEYOND = 3;
/** Texts stand in parts that are at least so wide. */
const ROOM = 48;
const SLIP = 4;

export class TimelineView {
  constructor(host, model, { planId, signal }) {
    Object.assign(this, { host, model, planId, signal });
    this.later = inNextFrame(() => this.draw(), signal);
    this.shows = () => true;
    this.axis = new TimeAxis();
    this.details = new Details(planId, signal, () => this.later());
    this.camera = { nearer: () => this.zoom(1.4), farther: () => this.zoom(1 / 1.4), fit: () => (this.axis.fit(), this.later()) };
    this.scale = s("svg.scale", { "aria-hidden": "true" });
    this.bars = s("svg.bars", { "aria-hidden": "true" });
    this.labels = h("ul.labels", { "aria-label": "Jobs in the order of their start" });
    this.space = h("div.space", {}, this.labels, this.bars);
    this.scroller = h("div.rows", {}, this.space);
    const button = (name, label, act) => h("button.plain", { type: "button", "aria-label": label, title: label, onclick: act }, icon(name));
    const tools = h("div.tools", { role: "group", "aria-label": "Zoom" }, button("plus", "Nearer (+)", this.camera.nearer), button("minus", "Farther (-)", this.camera.farther), button("fit", "Fit (0)", this.camera.fit));
    this.nothing = h("p.nothing", { hidden: true });
    this.legend = h("ul.phases-legend", { "aria-hidden": "true" }, ["merge", "checks", "work", "heal"].map((kind) => h("li", {}, h("span.swatch", { class: `ph-${kind}` }), { merge: "merge, setup, commit", checks: "checks", work: "work", heal: "healing" }[kind])));
    replace(host, h("div.gantt-head", {}, h("span.corner", {}, this.legend), this.scale), this.nothing, this.scroller, tools);
    this.listen();
    this.draw();
  }

  /** Jobs as they began; those that have not begun come last, as the graph has them. */
  jobs() {
    const order = new Map(this.model.sorted().map((id, index) => [id, index]));
    return [...this.model.jobs.values()].filter((job) => this.shows(job)).sort((one, other) => (one.startedAt ?? Infinity) - (other.startedAt ?? Infinity) || order.get(one.id) - order.get(other.id));
  }

  draw() {
    const { axis, model, scroller } = this;
    const jobs = this.jobs();
    const started = [...model.jobs.values()].filter((job) => job.startedAt !== undefined);
    const isLive = isGoing(model.head.status) || model.isGoing();
    this.nothing.hidden = started.length > 0 && jobs.length > 0;
    this.nothing.textContent = started.length === 0 ? "No job has started yet. Bars appear here when jobs run." : "No job matches. Change the filter.";
    const labelWidth = this.labels.offsetWidth || 220;
    const width = Math.max(80, scroller.clientWidth - labelWidth);
    const start = started.reduce((least, job) => Math.min(least, job.startedAt), Infinity);
    const end = isLive ? Date.now() : started.reduce((most, job) => Math.max(most, job.endedAt ?? job.startedAt), -Infinity);
    if (started.length > 0) axis.set(start, end, width);
    this.space.style.height = `${jobs.length * ROW}px`;
    this.bars.style.left = `${labelWidth}px`;
    for (const [svg, height] of [[this.scale, 28], [this.bars, Math.max(ROW, jobs.length * ROW)]]) {
      svg.setAttribute("width", width);
      svg.setAttribute("height", height);
    }
    const marks = started.length > 0 ? axis.marks() : [];
    replace(this.scale, marks.map(({ x, text }) => s("text", { x: x + 3, y: 18 }, text)));
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW) - BEYOND);
    const last = Math.min(jobs.length, Math.ceil((scroller.scrollTop + scroller.clientHeight) / ROW) + BEYOND);
    const top = Math.max(0, scroller.scrollTop - ROW);
    const bottom = scroller.scrollTop + scroller.clientHeight + ROW;
    const lines = marks.map(({ x }) => s("line.mark", { x1: x, x2: x, y1: top, y2: bottom }));
    const now = isLive && started.length > 0 && s("line.now", { x1: axis.x(end), x2: axis.x(end), y1: top, y2: bottom });
    const rows = [];
    const wanted = new Set();
    for (let index = first; index < last; index += 1) {
      wanted.add(jobs[index].id);
      this.label(jobs[index], index, jobs.length);
      rows.push(this.row(jobs[index], index * ROW));
    }
    for (const element of [...this.labels.children]) if (!wanted.has(element.dataset.id) && !element.contains(document.activeElement)) element.remove();
    replace(this.bars, lines, rows, now);
  }

  label(job, index, count) {
    const text = `${job.name}, ${word(job.status)}${job.startedAt === undefined ? "" : `, began ${clock(job.startedAt)}, took ${lasted(job.startedAt, isActive(job.status) ? undefined : (job.endedAt ?? job.startedAt))}`}, ${counted(job.attempts, "attempt")}`;
    let element = [...this.labels.children].find((one) => one.dataset.id === job.id);
    if (!element || element.dataset.status !== job.status) {
      const made = h("li", { "data-id": job.id, "data-status": job.status }, link(`/plans/${this.planId}/jobs/${encodeURIComponent(job.producerId)}`, { title: job.name }, stateIcon(job.status), h("span", {}, job.name)));
      const focused = element?.contains(document.activeElement);
      if (element) element.replaceWith(made);
      else this.labels.append(made);
      element = made;
      if (focused) made.firstElementChild.focus({ preventScroll: true });
    }
    element.firstElementChild.setAttribute("aria-label", text);
    element.setAttribute("aria-posinset", index + 1);
    element.setAttribute("aria-setsize", count);
    element.style.transform = `translateY(${index * ROW}px)`;
  }

  row(job, y) {
    if (job.startedAt === undefined) return undefined;
    const attempts = this.details.attempts(job) ?? [];
    const open = (isActive(job.status) && Date.now()) || job.startedAt;
    const whole = { attemptNumber: 1, status: job.status, startedAt: job.startedAt, endedAt: job.endedAt, phaseTiming: [] };
    // What is known of the job alone stands for its attempts until they are there.
    const shown = attempts.length > 0 ? attempts : [whole];
    const parts = [s("line.thread", { x1: this.axis.x(job.startedAt), x2: this.axis.x(job.endedAt ?? open), y1: y + ROW / 2, y2: y + ROW / 2 })];
    for (const attempt of shown) {
      const end = attempt.endedAt ?? Math.max(open, attempt.startedAt);
      const took = lasted(attempt.startedAt, attempt.endedAt);
      const bar = this.bar(attempt.startedAt, end, y, `bar st-${attempt.status}`, `${job.name}, attempt ${attempt.attemptNumber}: ${word(attempt.status)}, ${took}`, "", 4);
      parts.push(bar);
      for (const { phase, heal, startedAt, endedAt } of attempt.phaseTiming) {
        const failed = attempt.status === "failed" && attempt.failedPhase === phase && endedAt === attempt.phaseTiming.at(-1).endedAt;
        parts.push(this.bar(startedAt, endedAt ?? end, y, `part ph-${kindOf(phase, heal)}${failed ? " st-failed failed" : ""}`, `${heal ? "healing " : ""}${phase}: ${lasted(startedAt, endedAt)} (attempt ${attempt.attemptNumber})`, heal ? `heal ${phase}` : phase, 0));
      }
    }
    return s("g", {}, parts);
  }

  bar(from, to, y, name, title, text, more) {
    const x = Math.max(-10, this.axis.x(from));
    const end = Math.min(this.axis.width + 10, this.axis.x(to));
    if (end < -5 || x > this.axis.width + 5) return undefined;
    const width = Math.max(more > 0 ? 3 : 1, end - x);
    const height = BAR + more;
    const top = y + (ROW - height) / 2;
    const rect = s("rect", { x, y: top, width, height, rx: more > 0 ? 4 : 2 }, s("title", {}, title));
    rect.setAttribute("class", name);
    return text && width > ROOM && width > text.length * 7 + 6 ? [rect, s("text.in-bar", { x: Math.max(2, x) + 5, y: top + 12 }, text)] : rect;
  }

  zoom(factor, x) {
    this.axis.zoom(factor, x);
    this.later();
  }

  listen() {
    const { scroller, signal } = this;
    scroller.addEventListener("scroll", () => this.later(), { passive: true, signal });
    const resized = new ResizeObserver(() => this.later());
    resized.observe(scroller);
    signal.addEventListener("abort", () => resized.disconnect());
    scroller.addEventListener(
      "wheel",
      (event) => {
        const isZoom = event.ctrlKey || event.metaKey;
        const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
        if (!isZoom && sideways === 0) return;
        event.preventDefault();
        if (isZoom) this.zoom(Math.exp(-event.deltaY * 0.004), event.clientX - this.bars.getBoundingClientRect().left);
        else this.axis.pan(-sideways);
        this.later();
      },
      { passive: false, signal },
    );
    this.bars.addEventListener("pointerdown", (event) => event.button === 0 && (this.drag = { x: event.clientX, id: event.pointerId, far: false }), { signal });
    this.bars.addEventListener(
      "pointermove",
      (event) => {
        if (this.drag?.id !== event.pointerId) return;
        if (!this.drag.far && Math.abs(event.clientX - this.drag.x) < SLIP) return;
        this.drag.far = true;
        this.bars.setPointerCapture(event.pointerId);
        this.axis.pan(event.clientX - this.drag.x);
        this.drag.x = event.clientX;
        this.later();
      },
      { signal },
    );
    for (const kind of ["pointerup", "pointercancel"]) this.bars.addEventListener(kind, () => (this.drag = undefined), { signal });
  }

  update() {
    this.later();
  }

  replace(model) {
    this.model = model;
    this.later();
  }

  filter(shows) {
    this.shows = shows;
    this.later();
  }

  goTo(id) {
    const index = this.jobs().findIndex((job) => job.id === id);
    this.scroller.scrollTop = index * ROW - this.scroller.clientHeight / 2;
    this.draw();
    this.labels.querySelector(`[data-id="${id}"] a`)?.focus({ preventScroll: true });
  }

  tick() {
    this.later();
  }
}

function kindOf(phase, heal) {
  if (heal) return "heal";
  if (phase === "work") return "work";
  return phase.endsWith("checks") ? "checks" : "merge";
}
