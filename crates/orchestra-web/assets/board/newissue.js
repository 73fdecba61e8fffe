// Asks for a new issue: a task, a bug, a hotfix, and the stories and epics that they stand in.

import { call } from "../lib/api.js";
import { announce, dialog, field, h } from "../lib/dom.js";
import { asMe } from "./person.js";
import { FINAL } from "./states.js";

const TYPES = ["task", "bug", "hotfix", "story", "epic"];

/** Texts that are separated by commas. */
export function listOf(text) {
  return [...new Set(text.split(",").map((part) => part.trim()).filter(Boolean))];
}

/** The options of a chooser of stories, below the epics they stand in. */
export function storyOptions(model, chosen) {
  const groups = new Map();
  for (const { card } of model.ofTypes("story")) {
    if (!groups.has(card.epic_id)) groups.set(card.epic_id, []);
    groups.get(card.epic_id).push(h("option", { value: card.id, selected: card.id === chosen }, `${card.id} ${card.title}${FINAL.has(card.status) ? ` (${card.status})` : ""}`));
  }
  return [...groups].map(([id, options]) => (id ? h("optgroup", { label: `${id} ${model.get(id)?.card.title ?? ""}` }, options) : options));
}

/** The options of a chooser of epics. */
export function epicOptions(model, chosen) {
  return model.ofTypes("epic").map(({ card }) => h("option", { value: card.id, selected: card.id === chosen }, `${card.id} ${card.title}`));
}

/** What a task may stand in without being asked: the story of what has the focus. */
function nearby(entry) {
  if (!entry) return {};
  const { card } = entry;
  return { story: card.type === "story" ? card.id : card.story_id, epic: card.type === "epic" ? card.id : card.epic_id };
}

/**
 * Opens the dialog.
 *
 * @param {import("./frame.js").Board} board
 * @param {import("./model.js").Entry} [beside] what has the focus
 */
export function newIssue(board, beside) {
  const { model, slug } = board;
  const at = nearby(beside);
  const has = { story: model.ofTypes("story").length > 0, epic: model.ofTypes("epic").length > 0 };
  const type = h("select", { name: "type", "data-testid": "new-type" }, TYPES.map((name) => h("option", { value: name, disabled: (name === "story" && !has.epic) || (!["story", "epic"].includes(name) && !has.story) }, name)));
  type.value = has.story ? "task" : has.epic ? "story" : "epic";
  const story = h("select", { name: "story", "data-testid": "new-story" }, storyOptions(model, at.story));
  const epic = h("select", { name: "epic", "data-testid": "new-epic" }, epicOptions(model, at.epic));
  const title = h("input", { name: "title", required: true, maxlength: 300, "data-testid": "new-title" });
  const priority = h("select", { name: "priority" }, ["medium", "critical", "high", "low", ""].map((name) => h("option", { value: name }, name || "none")));
  const labels = h("input", { name: "labels", placeholder: "backend, urgent" });
  const text = h("textarea", { name: "text", maxlength: 200_000 });
  const fields = { story: field("Story", story), epic: field("Epic", epic), text: field("Description", text) };
  const hint = h("p", {}, h("small", {}, has.story ? "" : has.epic ? "A task belongs to a story, and there is none yet: create a story first." : "A task belongs to a story, and a story to an epic: create an epic first."));
  const told = () => {
    fields.story.hidden = ["story", "epic"].includes(type.value);
    fields.epic.hidden = type.value !== "story";
    text.required = type.value === "story";
    fields.text.querySelector("label").textContent = type.value === "story" ? "User story" : "Description";
    text.placeholder = type.value === "story" ? "As a … I want …, so that …" : "";
  };
  type.addEventListener("change", told);
  told();
  let made;
  dialog("New issue", [!has.story && hint, field("Type", type), fields.story, fields.epic, field("Title", title), field("Priority", priority), field("Labels", labels, "Separated by commas."), fields.text], {
    submit: "Create",
    onSubmit: async () => {
      if (!title.value.trim()) throw new Error("It needs a title.");
      const common = { project: slug, title: title.value.trim(), ...(priority.value && { priority: priority.value }), ...(listOf(labels.value).length > 0 && { labels: listOf(labels.value) }), ...asMe() };
      const said = text.value.trim();
      if (type.value === "epic") made = await call("create_epic", { ...common, ...(said && { description: said }) });
      else if (type.value === "story") made = await call("create_story", { ...common, epic_id: epic.value, user_story: said });
      else made = await call("create_task", { ...common, story_id: story.value, type: type.value, ...(said && { description: said }) });
      board.own(made.id);
      board.model.adopt(made);
    },
    onClose: () => {
      if (!made) return;
      announce(`${made.id} was created: ${made.title}`);
      board.created(made.id);
    },
  });
  title.focus();
}
