// Title and description of an issue, to read and to change.

import { field, h, icon } from "../../lib/dom.js";
import { Conflict } from "../panel.js";

/** @param {import("../panel.js").Panel} panel */
export function about(panel) {
  const text = h("div.text");
  const edit = h("button.plain", { type: "button", "data-testid": "edit", onclick: () => begin() }, icon("edit"), " Edit");
  const read = h("div", {}, h("div.bar", {}, h("h3", {}, "Description"), h("span.grow"), edit), text);
  const element = h("section.side-section", { "aria-label": "Description" }, read);
  let form;

  const end = () => {
    form?.remove();
    form = undefined;
    read.hidden = false;
    edit.focus();
  };

  const begin = () => {
    let { title: oldTitle, description: oldText = "", version } = panel.issue;
    const title = h("input", { value: oldTitle, required: true, maxlength: 300, "data-testid": "edit-title" });
    const description = h("textarea", { value: oldText, rows: 10, maxlength: 200_000, "data-testid": "edit-description" });
    const problem = h("p.problem", { role: "alert", hidden: true });
    const fresh = h("div.fresh", { hidden: true });
    const save = h("button.primary", { type: "submit", "data-testid": "save" }, "Save");
    const submit = async (event) => {
      event.preventDefault();
      const changes = {};
      if (title.value.trim() !== oldTitle) changes.title = title.value.trim();
      if (description.value !== oldText) changes.description = description.value;
      if (Object.keys(changes).length === 0) return end();
      save.disabled = true;
      try {
        await panel.save(changes, version);
        end();
      } catch (error) {
        problem.hidden = false;
        problem.textContent = error.message;
        if (error instanceof Conflict && panel.issue) {
          // What was written stays; saved again, it takes the place of what the other wrote.
          ({ title: oldTitle, description: oldText = "", version } = panel.issue);
          problem.textContent = "Another user or agent changed it while you wrote. The current version is shown below; save again to replace it with your text.";
          fresh.hidden = false;
          fresh.replaceChildren(h("h4", {}, oldTitle), h("div.text", {}, oldText || "No description."));
        }
      } finally {
        save.disabled = false;
      }
    };
    form = h(
      "form",
      { novalidate: true, onsubmit: submit, onkeydown: (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
        if (event.key !== "Escape") return;
        event.preventDefault();
        event.stopPropagation();
        end();
      } },
      field("Title", title),
      field("Description", description, "Ctrl+Enter saves."),
      problem,
      fresh,
      h("div.bar", {}, save, h("button", { type: "button", onclick: end }, "Cancel")),
    );
    read.hidden = true;
    element.append(form);
    title.focus();
  };

  const show = (issue) => {
    text.replaceChildren(issue.description ? document.createTextNode(issue.description) : h("small", {}, "No description."));
  };
  return { element, show };
}
