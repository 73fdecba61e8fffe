// Moves an issue to another state, asks on the way for what the workflow wants, and takes back what is refused.

import { call } from "../lib/api.js";
import { announce, dialog, field, h, toast } from "../lib/dom.js";
import { asMe } from "./person.js";
import { NAMES, STATES, isParent, next, question, refusal, toolsOf } from "./states.js";

/** As short as evidence may be; the workflow refuses less. */
const MIN_EVIDENCE = 10;

/** Moves the cards of a board. */
export class Moves {
  /** @param {import("./frame.js").Board} board */
  constructor(board) {
    this.board = board;
    this.under = new Set();
  }

  exits(card) {
    return this.board.model.exits.get(card.status) ?? [];
  }

  /** What is said of a state while a card is dragged. */
  judge(card) {
    return (state) => {
      if (state === card.status) return { may: undefined, words: "it is here" };
      if (refusal(card, state, this.exits(card))) return { may: false, words: "" };
      return { may: true, words: this.asks(card, state) ?? "can go here" };
    };
  }

  /** What a move asks for, in few words. */
  asks(card, to) {
    if (to === "rejected") return "asks for a reason";
    return this.exits(card).find((exit) => exit.to === to)?.gate && !isParent(card) ? "asks for evidence" : undefined;
  }

  /**
   * Moves an issue, after asking for what it takes.
   *
   * @param {{ byKey?: boolean }} [how] by key: the focus goes along, into a folded column as well
   */
  move(id, to, how = {}) {
    const entry = this.board.model.get(id);
    if (!entry || entry.card.status === to) return;
    const { card } = entry;
    if (this.under.has(id)) return toast(`${id} is already being moved.`);
    const why = refusal(card, to, this.exits(card));
    if (why) return toast(`${id} stays in ${card.status}: ${why}.`);
    const exit = this.exits(card).find((one) => one.to === to);
    if (to === "rejected") this.ask(card, to, how, { label: "Reason for the rejection", name: "reason", hint: "A bug with this description is created." });
    else if (exit?.gate && !isParent(card)) this.ask(card, to, how, { label: question(exit), name: "evidence", least: MIN_EVIDENCE, hint: "At least 10 characters. The text is stored in the history." });
    else if (to === "blocked") this.ask(card, to, how, { label: "Reason for the block", name: "evidence", optional: true, hint: "Optional. The text is stored in the history." });
    else if (to === "cancelled" && isParent(card)) this.confirm(card, to, how);
    else this.send(card, to, how).catch((error) => toast(`${id} stays in ${card.status}: ${error.message}`, "bad"));
  }

  ask(card, to, how, { label, name, least, hint, optional }) {
    const text = h("textarea", { name, required: !optional, minlength: least, maxlength: 20_000, "data-testid": name });
    dialog(`${card.id}: ${NAMES[card.status]} → ${NAMES[to]}`, [h("p", {}, card.title), field(label, text, hint)], {
      submit: to === "rejected" ? "Reject" : "Move",
      onSubmit: async () => {
        const given = text.value.trim();
        if (!optional && given.length < (least ?? 1)) throw new Error(least ? `Enter at least ${least} characters.` : "Enter a reason.");
        // A text shorter than the minimum for evidence would not be stored.
        const evidence = optional && given.length < MIN_EVIDENCE ? `Blocked by: ${given}` : given;
        await this.send(card, to, how, given ? { [name]: evidence } : {});
      },
      onClose: () => this.board.focusLost(card.id, how),
    });
    text.focus();
  }

  confirm(card, to, how) {
    const { total, done } = this.board.model.progressOf(card.id);
    const open = total - done;
    const words = open > 0 ? `Its open children are cancelled too: ${open === 1 ? "1 issue" : `up to ${open} issues`}. Move it back to the backlog to undo this.` : "It has no open children.";
    dialog(`Cancel ${card.id}?`, [h("p", {}, card.title), h("p", {}, words)], {
      submit: "Cancel issue",
      cancel: "Close",
      danger: true,
      onSubmit: () => this.send(card, to, how),
      onClose: () => this.board.focusLost(card.id, how),
    });
  }

  /** Shows the card where it goes, and lets the tool decide whether it stays there. */
  async send(card, to, how, more = {}) {
    const { board } = this;
    const { id } = card;
    this.under.add(id);
    board.model.setPending(id, to);
    board.follow(id, how);
    try {
      const { update, key } = toolsOf(card);
      const common = { project: board.slug, [key]: id, ...asMe(), ...more };
      const answer = to === "rejected" ? await call("reject_task", common) : await call(update, { ...common, status: to, ...(card.version && { version: card.version }) });
      this.took(card, to, answer);
    } finally {
      this.under.delete(id);
      board.model.setPending(id, undefined);
      board.follow(id, how);
    }
  }

  took(card, to, answer) {
    const { board } = this;
    const now = answer.rejected ?? answer;
    board.own(card.id);
    board.model.adopt(now);
    if (answer.bug_created) {
      board.own(answer.bug_created.id);
      board.model.adopt(answer.bug_created);
      toast(`${answer.bug_created.id} was created to fix the rejected work.`, "good");
    }
    if (now.status === to) announce(`${card.id} is now in ${NAMES[to]}.`);
    else toast(`${card.id} is in ${now.status}: the state of ${card.type === "epic" ? "an epic" : "a story"} follows from its children.`);
  }

  /** Moves an issue one step towards done. */
  advance(id, how) {
    const entry = this.board.model.get(id);
    if (!entry) return;
    const to = next(entry.card.status);
    if (to) this.move(id, to, how);
    else toast(`${id} is ${entry.card.status}; there is no next step.`);
  }

  /** Asks where an issue is to go; what is refused says why. */
  choose(id, how) {
    const entry = this.board.model.get(id);
    if (!entry) return;
    const { card } = entry;
    let first;
    const rows = STATES.map((state) => {
      const why = refusal(card, state, this.exits(card));
      const choice = h("input", { type: "radio", name: "to", value: state, required: true, disabled: why !== undefined, id: `move-${state}`, "aria-describedby": `move-${state}-why`, dataset: { to: state } });
      if (!why) first ??= choice;
      const told = state === card.status ? "it is here" : (why ?? this.asks(card, state) ?? "");
      return h("div.choice", {}, choice, h("label", { for: choice.id }, NAMES[state]), h("small", { id: `move-${state}-why` }, told));
    });
    let chosen;
    dialog(`Move ${id} to…`, [h("p", {}, card.title), h("fieldset.choices", { "data-testid": "move-to" }, h("legend.unseen", {}, "State"), rows)], {
      submit: "Move",
      onSubmit: (form) => {
        chosen = form.get("to");
        if (!chosen) throw new Error("Choose its new state.");
      },
      // Only when this dialog is away may the next one ask.
      onClose: () => chosen && this.move(id, chosen, how),
    });
    const preferred = rows[STATES.indexOf(next(card.status))]?.querySelector("input:enabled") ?? first;
    if (preferred) preferred.checked = true;
    preferred?.focus();
  }
}
