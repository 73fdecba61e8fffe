// The states of an issue in words, and why a move is refused.

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

export const STATES = Object.keys(NAMES);

/** What a small screen shows together. */
export const GROUPS = [
  { name: "Plan", states: ["backlog", "todo"] },
  { name: "Build", states: ["in-progress", "blocked"] },
  { name: "Test", states: ["ready-for-testing", "in-testing"] },
  { name: "Document", states: ["ready-for-docs", "in-docs", "documented"] },
  { name: "Review", states: ["in-review"] },
  { name: "Over", states: ["done", "rejected", "cancelled"] },
];

/** Whoever is here needs nothing more, and lets nothing wait. */
export const FINAL = new Set(["done", "rejected", "cancelled"]);

/** The way from an idea to its end. */
const NEXT = {
  backlog: "todo",
  todo: "in-progress",
  "in-progress": "ready-for-testing",
  blocked: "in-progress",
  "ready-for-testing": "in-testing",
  "in-testing": "ready-for-docs",
  "ready-for-docs": "in-docs",
  "in-docs": "documented",
  documented: "in-review",
  "in-review": "done",
};

const QUESTIONS = {
  "tests-passed": "Which tests did you run, with which results?",
  "tests-verified": "Which cases did you verify? Are coverage and edge cases acceptable?",
  "docs-written": "Which documentation did you add or change?",
  "review-approved": "Which changes did you review? Is their quality confirmed?",
};

/** Whether the state of an issue follows from what is below it. */
export function isParent(card) {
  return card.type === "epic" || card.type === "story";
}

/** The state after this one on the way to done; undefined at its end. */
export function next(state) {
  return NEXT[state];
}

/** What is asked at a gate. @param {{ gate?: string, asks?: string }} exit */
export function question(exit) {
  return QUESTIONS[exit.gate.replaceAll("_", "-")] ?? exit.asks ?? "Which evidence do you have?";
}

/** Words as "a, b or c". */
export function either(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

function parentMoves(from) {
  if (from === "cancelled") return ["backlog"];
  if (FINAL.has(from)) return [];
  return ["backlog", "todo"].includes(from) ? [from === "todo" ? "backlog" : "todo", "cancelled"] : ["cancelled"];
}

/**
 * Where an issue may go by hand.
 *
 * @param {{ type: string, status: string }} card
 * @param {{ to: string, gate?: string }[]} exits those of its state
 */
export function moves(card, exits) {
  return isParent(card) ? parentMoves(card.status).map((to) => ({ to })) : exits;
}

/** Why a move is refused, in words that go on from the id; undefined where it is not. */
export function refusal(card, to, exits) {
  if (card.status === to) return `it is already in ${to}`;
  const open = moves(card, exits).map((exit) => exit.to);
  if (open.includes(to)) return undefined;
  if (isParent(card)) {
    const may = open.length > 0 ? `from ${card.status} you can only move it to ${either(open)}` : `from ${card.status} you cannot move it`;
    return `the state of ${card.type === "epic" ? "an epic" : "a story"} follows from its children; ${may}`;
  }
  return `from ${card.status} an issue moves to ${either(open)}`;
}

/** The tools that read, change and delete an issue, and the name of their argument for its id. */
export function toolsOf(card) {
  const kind = isParent(card) ? card.type : "task";
  return { read: `get_${kind}`, update: `update_${kind}`, remove: `delete_${kind}`, key: `${kind}_id` };
}
