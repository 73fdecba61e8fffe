// One issue beside the board, with everything that is known of it.

import { call } from "../lib/api.js";
import { announce, dialog, field, h, icon, replace, toast } from "../lib/dom.js";
import { ago, clock } from "../lib/time.js";
import { NAMES } from "./model.js";
import { updateOf } from "./move.js";

const READS = { epic: ["get_epic", "epic_id"], story: ["get_story", "story_id"] };

/**
 * Shows an issue.
 *
 * @returns {{ refresh: () => void, end: () => void }}
 */
export function panel(side, { project, id, model, close, open, moved }) {
  const leave = new AbortController();
  const { signal } = leave;
  const heading = h("h2", { tabindex: "-1" }, id);
  const body = h("div.details", {});
  const region = h("section.panel", { "aria-label": `Issue ${id}` }, h("header.bar", {}, heading, h("span.grow"), h("button.plain", { type: "button", "aria-label": "Close", onclick: close }, icon("close"))), body);
  replace(side, region);
  heading.focus({ preventScroll: true });

  const change = async (what, args) => {
    try {
      await call(what, { project, ...args });
      refresh();
    } catch (error) {
      toast(error.message, "bad");
    }
  };

  const refresh = async () => {
    const card = model.cards.get(id);
    if (!card) return replace(body, h("p", {}, `${id} is not there any more.`));
    const [tool, name] = READS[card.type] ?? ["get_task", "task_id"];
    try {
      const [issue, history] = await Promise.all([call(tool, { project, [name]: id }, { signal }), call("get_history", { project, issue_id: id, limit: 200 }, { signal })]);
      if (!signal.aborted) show(issue, history);
    } catch (error) {
      if (!signal.aborted) replace(body, h("p.problem", { role: "alert" }, error.message));
    }
  };

  const issueLink = (other) => h("button.plain.link", { type: "button", onclick: () => open(other) }, other, " ", h("small", {}, model.cards.get(other)?.title ?? ""));

  const edit = (issue) => {
    const title = h("input", { value: issue.title, required: true, maxlength: 500 });
    const description = h("textarea", { value: issue.description ?? "", rows: 12 });
    const priority = h("select", {}, ["", "critical", "high", "medium", "low"].map((name) => h("option", { value: name, selected: name === (issue.priority ?? "") }, name || "none")));
    const labels = h("input", { value: (issue.labels ?? []).join(", ") });
    dialog(`Edit ${id}`, [field("Title", title), field("Priority", priority), field("Labels", labels, "separated by commas"), field("Description", description)], {
      submit: "Save",
      wide: true,
      onSubmit: async () => {
        const [tool, name] = updateOf(issue);
        const words = labels.value.split(",").map((label) => label.trim()).filter(Boolean);
        await call(tool, { project, [name]: id, version: issue.version, title: title.value, description: description.value, labels: words, ...(priority.value && { priority: priority.value }) });
        refresh();
      },
    });
  };

  const show = (issue, history) => {
    const card = model.cards.get(id) ?? issue;
    const waits = model.waits(card);
    const blocked = issue.status === "blocked" && [...history.items].reverse().find((event) => event.to === "blocked");
    const needed = [...model.cards.values()].filter((other) => other.depends_on?.includes(id)).map((other) => other.id);
    const exits = (model.exits.get(issue.status) ?? []).filter(({ to }) => !model.exit(card, to).refused);
    heading.textContent = `${id} ${issue.title}`;
    const comment = h("textarea", { "aria-label": "Comment", rows: 2 });
    replace(
      body,
      h("p.bar", {}, h("span.chip", {}, icon(issue.type), issue.type), h("span.chip.run", {}, NAMES[issue.status] ?? issue.status), issue.priority && h(`span.chip.${issue.priority}`, {}, issue.priority), (issue.labels ?? []).map((label) => h("span.chip", {}, label))),
      waits.length > 0 && h("div.why", {}, h("h3", {}, "Waits for"), h("ul", {}, waits.map((other) => h("li", {}, issueLink(other.id), " is ", NAMES[other.status])))),
      blocked && h("p.why", {}, `Blocked ${blocked.at ? ago(blocked.at) : ""}${blocked.reason ? `: ${blocked.reason}` : ""}`),
      h("p.bar", {}, exits.map(({ to }) => h("button", { type: "button", dataset: { to }, onclick: () => moved(card, to) }, NAMES[to])), h("button", { type: "button", onclick: () => edit(issue) }, "Edit")),
      issue.claim && h("p", {}, `Claimed by ${issue.claim.agent} until ${clock(issue.claim.until)}. `, h("button", { type: "button", onclick: () => change("release_task", { task_id: id, agent: issue.claim.agent }) }, "Release")),
      issue.description ? h("p.text", {}, issue.description) : h("p", {}, h("small", {}, "No description.")),
      (issue.epic_id || issue.story_id) && h("p", {}, h("small", {}, "in "), [issue.epic_id, issue.story_id].filter(Boolean).map(issueLink)),
      (issue.depends_on ?? []).length > 0 && [h("h3", {}, "Needs"), h("ul", {}, issue.depends_on.map((other) => h("li", {}, issueLink(other))))],
      needed.length > 0 && [h("h3", {}, "Needed by"), h("ul", {}, needed.map((other) => h("li", {}, issueLink(other))))],
      issue.children?.items?.length > 0 && [h("h3", {}, `Below it (${issue.children.total})`), h("ul", {}, issue.children.items.map((child) => h("li", {}, issueLink(child.id), h("span.chip", {}, NAMES[child.status] ?? child.status))))],
      h("h3", {}, "Comment"),
      comment,
      h("p", {}, h("button", { type: "button", onclick: () => comment.value.trim() && change("add_comment", { issue_id: id, text: comment.value }).then(() => announce("Your comment was added")) }, "Add comment")),
      h("h3", {}, `History (${history.total})`),
      h("ol.history", { reversed: true }, [...history.items].reverse().map(happened)),
      h("p", {}, h("button.danger", { type: "button", onclick: () => remove(issue) }, "Delete")),
    );
  };

  const remove = (issue) => {
    dialog(`Delete ${id}?`, [h("p", {}, "It is gone for good, with all below it and its history. To keep the history, cancel it instead.")], {
      submit: "Delete",
      danger: true,
      onSubmit: async () => {
        const kind = ["epic", "story"].includes(issue.type) ? issue.type : "task";
        await call(`delete_${kind}`, { project, [`${kind}_id`]: id });
        close();
      },
    });
  };

  refresh();
  return { refresh, end: () => leave.abort() };
}

function happened(event) {
  const { at, agent, ...rest } = event;
  const what = rest.from && rest.to ? `${NAMES[rest.from] ?? rest.from} → ${NAMES[rest.to] ?? rest.to}` : (rest.kind ?? rest.type ?? rest.event ?? "changed");
  const text = rest.text ?? rest.evidence ?? rest.reason ?? rest.comment;
  return h("li", {}, h("strong", {}, String(what)), agent && ` by ${agent}`, at && h("small", { title: at }, ` ${ago(at)}`), text && h("p.text", {}, String(text)));
}
