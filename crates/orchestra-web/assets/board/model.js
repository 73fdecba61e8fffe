// The issues of a project, sorted into the columns of the board.

/** The states in the order of the workflow, as people read them. */
export const NAMES = {
  backlog: "Backlog",
  todo: "To do",
  "in-progress": "In progress",
  blocked: "Blocked",
  "ready-for-testing": "Ready for testing",
  "in-testing": "In testing",
  "ready-for-docs": "Ready for docs",
  "in-docs": "In docs",
  documented: "Documented",
  "in-review": "In review",
  done: "Done",
  rejected: "Rejected",
  cancelled: "Cancelled",
};

const FINAL = new Set(["done", "rejected", "cancelled"]);
const URGENCY = { critical: 0, high: 1, medium: 2, low: 3 };

/** The number in an id, as 12 in "MA-12". */
function number(id) {
  return Number(id.slice(id.lastIndexOf("-") + 1));
}

function before(one, other) {
  const urgency = (URGENCY[one.priority] ?? 2) - (URGENCY[other.priority] ?? 2);
  return urgency || number(one.id) - number(other.id) || (one.id < other.id ? -1 : 1);
}

/** Where a card is in a sorted column, or would be. */
function place(column, card) {
  let [low, high] = [0, column.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (before(column[middle], card) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** All cards, and which of them each column shows. */
export class Model {
  /** @param {{state: string, exits: {to: string, gate?: string, asks?: string}[]}[]} states */
  constructor(states, cards) {
    this.exits = new Map(states.map(({ state, exits }) => [state, exits]));
    this.cards = new Map(cards.map((card) => [card.id, card]));
    this.shows = () => true;
    this.sort();
  }

  /** Sorts anew, as after another filter. */
  sort() {
    this.columns = new Map([...this.exits.keys()].map((state) => [state, []]));
    for (const card of this.cards.values()) if (this.shows(card)) this.columns.get(card.status)?.push(card);
    for (const column of this.columns.values()) column.sort(before);
  }

  /** Shows only the cards that `shows` says yes to. */
  filter(shows) {
    this.shows = shows;
    this.sort();
  }

  /** Puts a card in place of what was known of it. @returns {Set<string>} the columns that changed */
  put(card) {
    const touched = this.take(card.id);
    this.cards.set(card.id, card);
    const column = this.columns.get(card.status);
    if (column && this.shows(card)) {
      column.splice(place(column, card), 0, card);
      touched.add(card.status);
    }
    return touched;
  }

  /** Removes a card, and what is below it. @returns {Set<string>} the columns that changed */
  remove(id) {
    const touched = this.take(id);
    const known = this.cards.get(id);
    this.cards.delete(id);
    // A task has nothing below it, and most that go are tasks.
    if (known && known.child_count === undefined) return touched;
    for (const card of this.cards.values()) {
      if (card.epic_id !== id && card.story_id !== id) continue;
      for (const state of this.take(card.id)) touched.add(state);
      this.cards.delete(card.id);
    }
    return touched;
  }

  take(id) {
    const known = this.cards.get(id);
    const column = known && this.columns.get(known.status);
    const at = column ? place(column, known) : 0;
    if (!column || column[at]?.id !== id) return new Set();
    column.splice(at, 1);
    return new Set([known.status]);
  }

  /** The unfinished issues that a card waits for. */
  waits(card) {
    return (card.depends_on ?? []).map((id) => this.cards.get(id)).filter((other) => other && !FINAL.has(other.status));
  }

  /** The exit of a card to a state, or why there is none, in words. */
  exit(card, to) {
    const exits = this.exits.get(card.status) ?? [];
    const found = exits.find((exit) => exit.to === to);
    if (card.child_count !== undefined && to !== "cancelled" && card.status !== "cancelled") {
      return { refused: `the state of ${card.type === "epic" ? "an epic" : "a story"} follows from what is below it` };
    }
    if (found) return { exit: found };
    const names = exits.map((exit) => NAMES[exit.to] ?? exit.to);
    const last = names.pop();
    const where = names.length > 0 ? `${names.join(", ")} or ${last}` : last;
    return { refused: `from ${NAMES[card.status]} it can go to ${where} only` };
  }
}
