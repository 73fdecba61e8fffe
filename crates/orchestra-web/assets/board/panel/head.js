// Where an issue stands, and where it can go from there.

import { h, icon } from "../../lib/dom.js";
import { priorityMark } from "../card.js";
import { issueLink, swap } from "../panel.js";
import { NAMES, moves, next } from "../states.js";

/** @param {import("../panel.js").Panel} panel */
export function head(panel) {
  const { board } = panel;
  const path = h("p.path");
  const state = h("p.bar");
  const exits = h("div.bar.exits", { role: "group", "aria-label": "Move to" });

  const button = (card, { to }) => {
    const asks = board.moves.asks(card, to);
    return h(to === next(card.status) ? "button.primary" : "button", { type: "button", dataset: { to, key: `to-${to}` }, title: asks ?? "", onclick: () => board.moves.move(card.id, to) }, `→ ${NAMES[to]}`);
  };

  const show = (issue) => {
    const card = board.model.get(issue.id)?.card ?? issue;
    swap(path, [issue.epic_id, issue.story_id].filter(Boolean).map((id, index) => [index > 0 && " › ", issueLink(board, id, { state: false })]));
    path.hidden = !issue.epic_id && !issue.story_id;
    swap(state, h("span.chip", {}, icon(issue.type), issue.type), h("span.chip.run", { "data-testid": "state" }, h("span.unseen", {}, "state "), NAMES[card.status] ?? card.status), issue.priority && priorityMark(issue.priority), issue.fixes && h("span", {}, "fixes ", issueLink(board, issue.fixes)));
    swap(exits, moves(card, board.model.exits.get(card.status) ?? []).map((exit) => button(card, exit)), h("button.plain", { type: "button", dataset: { key: "move" }, onclick: () => board.moves.choose(card.id) }, "Move to…"));
  };
  return { element: h("section.side-section", { "aria-label": "State" }, path, state, exits), show };
}
