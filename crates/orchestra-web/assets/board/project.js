// What there is to see where there is no project yet, and how one is made.

import { go, link } from "../app.js";
import { call } from "../lib/api.js";
import { announce, dialog, field, h, icon, replace } from "../lib/dom.js";

/** Asks for a name, makes a project and goes there. */
export function newProject() {
  const name = h("input", { name: "name", required: true, maxlength: 200, "data-testid": "project-name" });
  const description = h("textarea", { name: "description", maxlength: 20_000 });
  dialog("New project", [field("Name", name), field("Description", description, "Optional.")], {
    submit: "Create",
    onSubmit: async () => {
      if (!name.value.trim()) throw new Error("A project needs a name.");
      const made = await call("create_project", { name: name.value.trim(), ...(description.value.trim() && { description: description.value.trim() }) });
      announce(`The project ${name.value.trim()} was created.`);
      go(`/board/${encodeURIComponent(made.slug)}`);
    },
  });
  name.focus();
}

function make() {
  return h("button.primary", { type: "button", "data-testid": "new-project", onclick: newProject }, icon("plus"), " New project");
}

/** Says that there is no project, and how to make one. */
export function noProject(root) {
  replace(
    root,
    h(
      "div.empty",
      {},
      h("h1", {}, "No project yet"),
      h("p", {}, "A project contains epics, an epic contains stories, and a story contains the tasks that people and agents work on. Create a project here, or let an agent call ", h("code", {}, "create_project"), "."),
      make(),
    ),
  );
}

/** Says that there is no such project, and which there are. */
export function unknownProject(root, slug, projects) {
  replace(
    root,
    h(
      "div.empty",
      {},
      h("h1", {}, "Project not found"),
      h("p", {}, "The board has no project with the name ", h("code", {}, slug), ". It has these projects:"),
      h("ul.plain-list", {}, projects.map((project) => h("li", {}, link(`/board/${encodeURIComponent(project.slug)}`, {}, project.name)))),
      make(),
    ),
  );
}
