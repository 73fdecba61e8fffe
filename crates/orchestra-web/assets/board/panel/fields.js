// Priority, labels and assignees of an issue.

import { h } from "../../lib/dom.js";
import { tags } from "./tags.js";

const PRIORITIES = ["critical", "high", "medium", "low", "none"];

/** @param {import("../panel.js").Panel} panel */
export function fields(panel) {
  const { board } = panel;
  const priority = h("select", { id: "side-priority", "data-testid": "priority", onchange: () => panel.choose({ priority: priority.value }) }, PRIORITIES.map((value) => h("option", { value }, value)));
  const labels = tags("Labels", "label", { known: () => board.model.labels.keys(), onChange: (words) => panel.choose({ labels: words }) });
  const people = tags("Assignees", "name", { known: () => board.model.people.keys(), onChange: (words) => panel.choose({ assignees: words }) });
  const show = (issue) => {
    priority.value = issue.priority ?? "none";
    labels.show(issue.labels ?? []);
    people.show(issue.assignees ?? []);
  };
  const element = h("section.side-section.side-fields", { "aria-label": "Fields" }, h("div.tag-editor", {}, h("label.label", { for: "side-priority" }, "Priority"), priority), labels.element, people.element);
  return { element, show };
}
