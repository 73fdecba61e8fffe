// The keys of the board.

import { keys } from "../lib/keys.js";
import { toast } from "../lib/dom.js";

const STEPS = ["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Home", "End"];

/** Lets keys work on a board until `signal` is aborted. @param {import("./frame.js").Board} board */
export function boardKeys(board, signal) {
  const about = (act) => () => {
    const id = board.subject();
    if (id && board.model?.get(id)) act(id);
    else toast("No issue has the focus: go to a card with Tab and the arrow keys.");
  };
  board.region.addEventListener("keydown", (event) => step(board, event), { signal });
  document.addEventListener("keydown", (event) => enter(board, event), { signal });
  // These two are the region's own and the browser's; they are here to be listed.
  keys("← ↑ ↓ →", "Go from card to card; Home and End to the ends of a column", () => {}, signal);
  keys("↵", "Open the issue (Enter)", () => {}, signal);
  keys("m", "Move the issue to…", about((id) => board.moves.choose(id, { byKey: true })), signal);
  keys("a", "Advance the issue by one step", about((id) => board.moves.advance(id, { byKey: true })), signal);
  keys("n", "New issue", () => board.create(), signal);
  keys("/", "Find issues", () => board.toolbar.search.focus(), signal);
  keys("f", "Filter the issues", () => board.toolbar.focusFilters(), signal);
  keys("g", "Change the swimlanes", () => board.nextLanes(), signal);
  keys("Escape", "Close the issue", () => board.opened && board.open(undefined), signal);
}

/** An arrow, where nothing has the focus, goes to the card that had it last, or to the first. */
function enter(board, event) {
  const isArrow = event.key.startsWith("Arrow") && !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey;
  if (!isArrow || event.defaultPrevented || !board.model || ![document.body, document.getElementById("main")].includes(event.target)) return;
  event.preventDefault();
  board.focusFirst();
}

function step(board, event) {
  const card = event.target.closest(".card");
  if (!card || !STEPS.includes(event.key) || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  event.preventDefault();
  const other = board.view.step(card.dataset.id, event.key);
  const link = other && board.view.reveal(other);
  link?.focus({ preventScroll: true });
}
