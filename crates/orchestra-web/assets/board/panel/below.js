// What is below an epic or a story, and how far it is.

import { h } from "../../lib/dom.js";
import { issueLink, swap } from "../panel.js";
import { isParent } from "../states.js";

/** So many are shown at first, and with each press of the button. */
const SOME = 100;

/** @param {import("../panel.js").Panel} panel */
export function below(panel) {
  const { board } = panel;
  let shown = SOME;
  const bar = h("progress", { "aria-label": "Tasks that are done" });
  const words = h("small");
  const list = h("ul.issues", { "aria-label": "Below it", "data-testid": "below" });
  const more = h("button", { type: "button", onclick: () => {
    shown += SOME;
    others(panel.issue);
  } });
  const heading = h("h3");
  const element = h("section.side-section", { "aria-label": "Below it" }, heading, bar, words, list, more);

  const others = (issue) => {
    if (!isParent(issue)) return;
    const { total, done } = board.model.progressOf(issue.id);
    bar.max = Math.max(1, total);
    bar.value = done;
    words.textContent = total > 0 ? `${done} of ${total} tasks done` : "No tasks yet";
    const ids = [...(board.model.below.get(issue.id) ?? [])];
    heading.textContent = `${issue.type === "epic" ? "Stories" : "Tasks"} (${ids.length})`;
    swap(list, ids.slice(0, shown).map((id) => h("li", {}, issueLink(board, id))));
    more.hidden = ids.length <= shown;
    more.textContent = `Show more (${ids.length - shown} left)`;
  };
  return {
    element,
    show: (issue) => {
      element.hidden = !isParent(issue);
      others(issue);
    },
    others,
  };
}
