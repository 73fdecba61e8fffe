// The log of an attempt: live, long, searched, and in the colours that it was printed in.

import { announce, h, icon, replace } from "../lib/dom.js";
import { clock } from "../lib/time.js";
import { inNextFrame } from "../lib/frame.js";
import { partsOf } from "./ansi.js";
import { copy, save } from "../lib/clipboard.js";
import { followLog } from "./log-source.js";
import { LINE, LogLines, SHOWN } from "./log-lines.js";

const WRAP = "orchestra-log-wrap";
/** Lines beyond the edges that are elements as well. */
const BEYOND = 12;
/** What is left free behind a text, in pixels; the style sheet says the same. */
const PADDING = 12;
/** So long after a key is pressed the log is searched. */
const SEARCH_MS = 120;
/** So near to the end it counts as the end, in pixels. */
const NEAR = 12;

export class LogView {
  /** @param {HTMLElement} host @param {{ signal: AbortSignal, name: () => string, onLine: (line: object) => void }} how */
  constructor(host, { signal, name, onLine }) {
    Object.assign(this, { host, signal, name, onLine });
    this.later = inNextFrame(() => this.draw(), signal);
    this.lines = new LogLines();
    this.rows = new Map();
    this.isFollowing = true;
    this.isWrapped = localStorage.getItem(WRAP) === "1";
    this.current = -1;
    this.space = h("div.log-space");
    this.scroller = h("div.log", { tabindex: "0", role: "region", "aria-label": "Log" }, this.space);
    this.status = h("span.soft", { role: "status" });
    this.find = h("input", { type: "search", placeholder: "Search the log", "aria-label": "Search the log", oninput: () => this.searchSoon(), onkeydown: (event) => this.findKey(event) });
    this.found = h("span.soft.found", { "aria-live": "polite" });
    const toggle = (label, title, isOn, act) => h("button.toggle", { type: "button", title, "aria-pressed": String(isOn), onclick: act }, label);
    this.followButton = toggle("Follow", "Keep the newest line in view (f)", true, () => this.follow(!this.isFollowing));
    this.wrapButton = toggle("Wrap", "Wrap long lines (w)", this.isWrapped, () => this.wrap());
    const button = (picture, label, act) => h("button.plain", { type: "button", "aria-label": label, title: label, onclick: act }, icon(picture));
    this.bar = h(
      "div.bar.log-bar",
      {},
      this.find,
      button("up", "Previous (N)", () => this.step(-1)),
      button("down", "Next (n)", () => this.step(1)),
      this.found,
      h("span.grow"),
      this.status,
      this.followButton,
      this.wrapButton,
      button("copy", "Copy shown lines", () => copy(this.lines.text(), "Log copied.")),
      button("download", "Download shown lines", () => save(this.lines.text(), `${this.name()}.log`)),
    );
    this.empty = h("p.nothing");
    replace(host, this.bar, h("div.log-frame", {}, this.scroller, this.empty));
    this.listen();
    this.tell("");
  }

  /** Shows the log of an attempt from its beginning. */
  start({ planId, jobId, attempt, isLive }) {
    this.leave?.abort();
    this.leave = new AbortController();
    const signal = AbortSignal.any([this.signal, this.leave.signal]);
    const { phase } = this.lines;
    const wanted = this.lines.wanted;
    this.lines = new LogLines();
    this.lines.filter(phase);
    this.lines.wanted = wanted;
    this.measure();
    this.current = -1;
    this.redraw();
    this.follow(true);
    this.tell(isLive() ? "live" : "loading");
    followLog({
      planId,
      jobId,
      attempt,
      isLive,
      signal,
      onLines: (lines) => {
        this.lines.add(lines);
        for (const line of lines) this.onLine(line);
        this.count();
        this.later();
      },
      onEnd: () => {
        this.tell("ended");
        this.later();
      },
    });
  }

  /** Says how the log is: live, or ended. */
  tell(state) {
    this.state = state;
    this.status.textContent = { live: "● live", loading: "loading…" }[state] ?? "";
    this.status.classList.toggle("is-live", state === "live");
    this.later();
  }

  /** There is no log yet, for a reason. */
  none(reason) {
    this.leave?.abort();
    this.lines = new LogLines();
    this.redraw();
    this.reason = reason;
    this.tell("");
  }

  /** Shows the lines of one phase; of all with "". */
  filter(phase) {
    if (this.lines.phase === phase) return;
    this.lines.filter(phase);
    this.measure();
    this.current = -1;
    this.count();
    this.redraw();
    if (this.isFollowing) this.toEnd();
    else this.scroller.scrollTop = 0;
  }

  measure() {
    if (!this.isWrapped) return this.lines.wrap(0);
    // How wide a character is, and where texts begin, is seen of a line.
    const letters = h("span", {}, "0".repeat(100));
    const probe = h("div.log-line.probe", {}, h("span.number", {}, "1"), this.lines.phase === "" && h("span.phase", {}, "work"), h("span.log-text", {}, letters));
    this.scroller.append(probe);
    const { left, width } = letters.getBoundingClientRect();
    const room = this.scroller.clientWidth - (left - this.scroller.getBoundingClientRect().left);
    probe.remove();
    return this.lines.wrap(Math.max(10, Math.floor((room - PADDING) / (width / 100))));
  }

  redraw() {
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.later();
  }

  draw() {
    const { lines, scroller, space, rows } = this;
    const height = `${lines.height}px`;
    if (space.style.height !== height) space.style.height = height;
    this.empty.hidden = lines.shown.length > 0;
    this.empty.textContent = lines.all.length > 0 ? "This phase has no output." : this.state === "live" ? "No output yet." : this.state === "loading" ? "" : (this.reason ?? "No output.");
    if (this.isFollowing) this.toEnd();
    if (lines.shown.length === 0) return;
    const first = Math.max(0, lines.at(scroller.scrollTop) - BEYOND);
    const last = Math.min(lines.shown.length - 1, lines.at(scroller.scrollTop + scroller.clientHeight) + BEYOND);
    for (const [index, row] of rows) {
      if (index >= first && index <= last) continue;
      row.remove();
      rows.delete(index);
    }
    for (let index = first; index <= last; index += 1) {
      if (rows.has(index)) continue;
      const row = this.row(lines.shown[index], index);
      rows.set(index, row);
      space.append(row);
    }
  }

  row(line, index) {
    const row = h(
      "div.log-line",
      { class: `${line.isRunner ? "runner" : ""}${index === this.current ? " found" : ""}` },
      h("span.number", { "aria-hidden": "true", title: line.time ? clock(line.time) : undefined }, String(line.number)),
      this.lines.phase === "" && h("span.phase", {}, line.phase),
      h("span.log-text", {}, this.marked(line)),
    );
    row.style.transform = `translateY(${this.lines.topOf(index)}px)`;
    return row;
  }

  /** The parts of a line in their colours, with what is searched for marked. */
  marked(line) {
    let left = SHOWN;
    const parts = [];
    for (const { text, name } of partsOf(line.text, line.look)) {
      if (left <= 0) break;
      parts.push({ text: text.slice(0, left), name });
      left -= text.length;
    }
    const { wanted } = this.lines;
    const plain = parts.map(({ text }) => text).join("");
    const hits = [];
    if (wanted !== "") {
      const low = plain.toLowerCase();
      for (let at = low.indexOf(wanted); at >= 0 && hits.length < 200; at = low.indexOf(wanted, at + wanted.length)) hits.push(at);
    }
    const shown = [];
    let at = 0;
    for (const { text, name } of parts) {
      let from = 0;
      for (const hit of hits) {
        const [start, end] = [Math.max(0, hit - at), Math.min(text.length, hit + wanted.length - at)];
        if (end <= from || start >= text.length || start >= end) continue;
        if (start > from) shown.push(piece(text.slice(from, start), name));
        shown.push(h("mark", {}, piece(text.slice(start, end), name)));
        from = end;
      }
      if (from < text.length) shown.push(piece(text.slice(from), name));
      at += text.length;
    }
    if (left < 0) shown.push(h("em.soft", {}, ` … ${(-left).toLocaleString("en")} more characters; copy or download the log to see them`));
    return shown;
  }

  searchSoon() {
    clearTimeout(this.searching);
    this.searching = setTimeout(() => this.search(), SEARCH_MS);
  }

  search() {
    clearTimeout(this.searching);
    this.searching = undefined;
    this.lines.search(this.find.value);
    this.current = -1;
    this.count();
    this.redraw();
    if (this.lines.matches.length > 0) this.step(1, true);
  }

  count() {
    const { matches, wanted } = this.lines;
    const place = matches.indexOf(this.current);
    this.found.textContent = wanted === "" ? "" : matches.length === 0 ? "not found" : `${place < 0 ? "" : `${(place + 1).toLocaleString("en")} of `}${matches.length.toLocaleString("en")} lines`;
  }

  /** Goes to the next line that holds what is searched for, or the one before. */
  step(by, fromHere = false) {
    const { matches } = this.lines;
    if (matches.length === 0) return;
    const here = fromHere || this.current < 0 ? this.lines.at(this.scroller.scrollTop) - (by > 0 ? 1 : 0) : this.current;
    const next = by > 0 ? (matches.find((index) => index > here) ?? matches[0]) : (matches.findLast((index) => index < here) ?? matches.at(-1));
    this.current = next;
    this.follow(false);
    this.reveal(next);
    this.count();
    this.redraw();
    announce(this.lines.shown[next].text.slice(0, 200));
  }

  reveal(index) {
    const { scroller, lines } = this;
    const top = lines.topOf(index);
    if (top < scroller.scrollTop || top + LINE > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top - scroller.clientHeight / 2;
  }

  findKey(event) {
    if (event.key === "Enter") {
      event.preventDefault();
      if (this.searching !== undefined) this.search();
      else this.step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape" && this.find.value !== "") {
      event.preventDefault();
      this.find.value = "";
      this.search();
    }
  }

  follow(on) {
    this.isFollowing = on;
    this.followButton.setAttribute("aria-pressed", String(on));
    if (on) this.later();
  }

  toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.lastTop = this.scroller.scrollTop;
  }

  wrap() {
    this.isWrapped = !this.isWrapped;
    localStorage.setItem(WRAP, this.isWrapped ? "1" : "0");
    this.wrapButton.setAttribute("aria-pressed", String(this.isWrapped));
    this.rewrap();
  }

  /** Keeps the line at the top where it is, whatever becomes of the heights. */
  rewrap() {
    const top = this.lines.at(this.scroller.scrollTop);
    this.scroller.classList.toggle("wrapped", this.isWrapped);
    this.measure();
    this.redraw();
    this.space.style.height = `${this.lines.height}px`;
    if (!this.isFollowing) this.scroller.scrollTop = this.lines.topOf(top);
  }

  listen() {
    const { scroller, signal } = this;
    scroller.classList.toggle("wrapped", this.isWrapped);
    scroller.addEventListener(
      "scroll",
      () => {
        const isEnd = scroller.scrollHeight - scroller.clientHeight - scroller.scrollTop < NEAR;
        // Only somebody scrolls up; what is appended never does.
        if (!isEnd && scroller.scrollTop < (this.lastTop ?? 0) - 1 && this.isFollowing) this.follow(false);
        else if (isEnd && !this.isFollowing && this.state === "live") this.follow(true);
        this.lastTop = scroller.scrollTop;
        this.later();
      },
      { passive: true, signal },
    );
    const resized = new ResizeObserver(() => {
      if (this.isWrapped) this.rewrap();
      else this.later();
    });
    resized.observe(scroller);
    signal.addEventListener("abort", () => resized.disconnect());
  }
}

function piece(text, name) {
  return name === "" ? text : h("span", { class: name }, text);
}
