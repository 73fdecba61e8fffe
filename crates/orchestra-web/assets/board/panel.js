// One issue beside the board, with everything that is known of it.

import { call } from "../lib/api.js";
import { announce, h, icon, replace, toast } from "../lib/dom.js";
import { asMe } from "./person.js";
import { toolsOf } from "./states.js";
import { about } from "./panel/about.js";
import { below } from "./panel/below.js";
import { claim } from "./panel/claim.js";
import { ends } from "./panel/ends.js";
import { fields } from "./panel/fields.js";
import { head } from "./panel/head.js";
import { needs } from "./panel/needs.js";
import { spent } from "./panel/spent.js";
import { timeline } from "./panel/timeline.js";

/** So long after a change an open issue is read again, so that many changes are one reading. */
const SETTLE_MS = 120;

/** Refused because somebody else was quicker. */
export class Conflict extends Error {}

/** The panel beside a board. */
export class Panel {
  /** @param {import("./frame.js").Board} board */
  constructor(board) {
    this.board = board;
    this.drafts = new Map();
    this.element = h("aside.side", { hidden: true, "data-testid": "panel", onkeydown: (event) => this.pressed(event) });
  }

  /** Shows an issue, and gives it the focus. */
  open(id) {
    this.leave?.abort();
    this.leave = new AbortController();
    this.id = id;
    this.issue = undefined;
    const title = this.board.model?.get(id)?.card.title ?? "";
    this.heading = h("h2", { tabindex: "-1" }, id, title && " ", title);
    this.body = h("div.side-body", {}, h("p", { role: "status" }, "Loading…"));
    const close = h("button.plain", { type: "button", "aria-label": "Close the issue", title: "Close (Escape)", "data-testid": "close-panel", onclick: () => this.board.open(undefined) }, icon("close"));
    replace(this.element, h("header.side-head", {}, this.heading, close), this.body);
    this.element.setAttribute("aria-label", `Issue ${id}`);
    this.element.hidden = false;
    document.body.classList.add("beside");
    this.sections = undefined;
    this.focus();
    return this.reload();
  }

  focus() {
    this.heading?.focus({ preventScroll: true });
  }

  close() {
    this.leave?.abort();
    this.id = undefined;
    this.issue = undefined;
    this.element.hidden = true;
    this.element.replaceChildren();
    document.body.classList.remove("beside");
  }

  end() {
    this.leave?.abort();
    clearTimeout(this.settling);
    document.body.classList.remove("beside");
  }

  pressed(event) {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    // Where text is written the key ends that first.
    if (event.target.matches("textarea, input") && event.target.value !== "") {
      event.preventDefault();
      this.focus();
      return;
    }
    event.preventDefault();
    this.board.open(undefined);
  }

  /** What is known of the type of the issue; of one that is not on the board, its tools tell. */
  card() {
    return this.board.model.get(this.id)?.card ?? this.issue;
  }

  /** Reads the issue and its history again. */
  async reload() {
    const { id, leave } = this;
    if (!id) return;
    const card = this.card();
    if (!card) return this.missing(`${id} is not in this project, or was deleted.`);
    const { read, key } = toolsOf(card);
    try {
      const issue = await call(read, { project: this.board.slug, [key]: id }, { signal: leave.signal });
      if (leave.signal.aborted) return;
      this.show(issue);
      await this.history.reload();
    } catch (error) {
      if (leave.signal.aborted) return;
      if (this.issue) toast(error.message, "bad");
      else this.missing(error.message);
    }
  }

  missing(words) {
    this.sections = undefined;
    this.issue = undefined;
    replace(this.body, h("p.problem", { role: "alert" }, words));
  }

  show(issue) {
    const fresh = !this.sections;
    this.issue = issue;
    if (fresh) {
      this.history = timeline(this);
      this.sections = [head(this), about(this), fields(this), claim(this), needs(this), below(this), spent(this), this.history, ends(this)];
      replace(this.body, this.sections.map(({ element }) => element));
    }
    this.heading.replaceChildren(h("span.id", {}, issue.id), " ", issue.title);
    this.element.setAttribute("aria-label", `Issue ${issue.id}: ${issue.title}`);
    for (const section of this.sections) section.show(issue);
  }

  /** Some issues changed: if it is this one it is read again, and what it says of others is brought up to date. */
  changed(ids) {
    if (!this.id) return;
    if (ids.has(this.id)) {
      clearTimeout(this.settling);
      if (!this.board.model.get(this.id)) return this.missing(`${this.id} was deleted.`);
      const known = this.board.model.get(this.id).card;
      if (this.seen !== known) this.settling = setTimeout(() => this.reload(), SETTLE_MS);
      this.seen = known;
    }
    if (this.issue) for (const section of this.sections) section.others?.(this.issue);
  }

  /** Calls a tool on the issue, and shows what came of it. */
  async act(tool, args) {
    this.board.own(this.id);
    const answer = await call(tool, { project: this.board.slug, ...asMe(), ...args });
    if (answer.id && answer.type) this.board.model.adopt(answer);
    this.board.later();
    await this.reload();
    return answer;
  }

  /** As {@link act}, for what is pressed: a refusal is told. @returns {Promise<boolean>} whether it was done */
  async press(tool, args, said) {
    try {
      await this.act(tool, args);
      if (said) announce(said);
      return true;
    } catch (error) {
      toast(error.message, "bad");
      return false;
    }
  }

  /**
   * Changes fields of the issue, unless somebody else was quicker. One change waits for the other, so
   * that nobody is in conflict with themselves.
   *
   * @param {Object} changes
   * @param {string} [version] the one that the changes were made from
   * @throws {Conflict} when it has changed since; it is shown as it is now
   */
  save(changes, version) {
    const { id } = this;
    const saved = (this.saving ?? Promise.resolve()).then(() => this.id === id && this.saveNow(changes, version ?? this.issue.version));
    this.saving = saved.catch(() => {});
    return saved;
  }

  async saveNow(changes, version) {
    const { update, key } = toolsOf(this.issue);
    try {
      await this.act(update, { [key]: this.id, version, ...changes });
    } catch (error) {
      if (!/has changed: its version/.test(error.message)) throw error;
      await this.reload();
      throw new Conflict(`${this.id} was changed by another user or agent. The current version is shown; try again if you still want to change it.`);
    }
    announce("Saved");
  }

  /** As {@link save}, for what is chosen: a refusal is told, and the old value shown again. */
  async choose(changes) {
    try {
      await this.save(changes);
    } catch (error) {
      toast(error.message, "bad");
      if (this.issue) this.show(this.issue);
    }
  }
}

/** Puts children in place of others; the focus, if it was among them, stays with what bears the same key. */
export function swap(element, ...children) {
  const held = element.contains(document.activeElement) ? document.activeElement : undefined;
  const key = held?.dataset.key;
  replace(element, ...children);
  if (!held) return;
  const same = key && [...element.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key && !one.disabled);
  (same || element.querySelector("button:enabled, a, select, input") || element.closest("aside")?.querySelector("h2"))?.focus({ preventScroll: true });
}

/** A link to another issue, with its title and state. */
export function issueLink(board, id, { state = true } = {}) {
  const card = board.model.get(id)?.card;
  return [
    card && icon(card.type),
    h("a", { href: board.href(id), dataset: { opens: id, key: `open-${id}` } }, h("span.id", {}, id), " ", card?.title ?? ""),
    state && card && h("span.chip", {}, card.status),
  ];
}
