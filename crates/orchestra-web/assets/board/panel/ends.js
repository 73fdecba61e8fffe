// What is rarely done with an issue: it gets another parent, or it is deleted.

import { call } from "../../lib/api.js";
import { announce, dialog, field, h, toast } from "../../lib/dom.js";
import { clock } from "../../lib/time.js";
import { epicOptions, storyOptions } from "../newissue.js";
import { asMe } from "../person.js";
import { isParent, toolsOf } from "../states.js";

/** @param {import("../panel.js").Panel} panel */
export function ends(panel) {
  const { board } = panel;
  const parent = h("button", { type: "button", "data-testid": "move-parent", onclick: () => moveParent() });
  const times = h("small");
  const remove = h("button.danger", { type: "button", "data-testid": "delete", onclick: () => askDelete() }, "Delete");

  const moveParent = () => {
    const { issue } = panel;
    const story = issue.type === "story";
    const options = story ? epicOptions(board.model, issue.epic_id) : storyOptions(board.model, issue.story_id);
    const to = h("select", { name: "to", "data-testid": "parent" }, options);
    dialog(story ? `Move ${issue.id} to another epic` : `Move ${issue.id} to another story`, [field(story ? "Epic" : "Story", to)], {
      submit: "Move",
      onSubmit: async () => {
        if (to.value === (story ? issue.epic_id : issue.story_id)) return;
        await panel.act("move_issue", { issue_id: issue.id, parent_id: to.value });
        announce(`${issue.id} now belongs to ${to.value}.`);
      },
    });
  };

  const askDelete = () => {
    const { issue } = panel;
    const under = [...(board.model.below.get(issue.id) ?? [])].length;
    const words = isParent(issue) && under > 0 ? `${issue.title} is permanently deleted, with its ${under} ${issue.type === "epic" ? "stories and their tasks" : "tasks"} and its history.` : `${issue.title} is permanently deleted, with its history.`;
    dialog(`Delete ${issue.id}?`, [h("p", {}, words), h("p", {}, "To keep the history, cancel it instead.")], {
      submit: "Delete",
      cancel: "Keep it",
      danger: true,
      onSubmit: async () => {
        const { remove: tool, key } = toolsOf(issue);
        await call(tool, { project: board.slug, [key]: issue.id, ...asMe() });
        const where = board.view.at(issue.id);
        board.model.remove(issue.id);
        board.open(undefined);
        if (where) board.focusCard(board.view.near(where.state, where.at, where.key));
        toast(`${issue.id} was deleted.`, "good");
      },
    });
  };

  const show = (issue) => {
    parent.hidden = issue.type === "epic";
    parent.textContent = issue.type === "story" ? "Move to another epic…" : "Move to another story…";
    times.textContent = `Created ${clock(issue.created_at)}${issue.updated_at ? `, changed ${clock(issue.updated_at)}` : ""}`;
  };
  return { element: h("section.side-section", { "aria-label": "More" }, times, h("div.bar", {}, parent, remove)), show };
}
