// What an issue waits for, what waits for it, and why it does not go on.

import { h, icon } from "../../lib/dom.js";
import { ago } from "../../lib/time.js";
import { issueLink, swap } from "../panel.js";
import { FINAL, isParent } from "../states.js";

/** So many issues are offered while an id is written. */
const OFFERED = 20;

/** @param {import("../panel.js").Panel} panel */
export function needs(panel) {
  const { board } = panel;
  const why = h("div.why", { "data-testid": "why" });
  const needed = h("ul.issues", { "aria-label": "Needs" });
  const needing = h("ul.issues", { "aria-label": "Needed by" });
  const needingPart = h("div", {}, h("h3", {}, "Needed by"), needing);
  const offers = h("datalist", { id: "offers-issues" });
  const more = h("input", { list: offers.id, placeholder: "Id, or words of a title", "aria-label": "Add a dependency", "data-testid": "add-dependency", oninput: () => offer() });
  const form = h("form.bar", { onsubmit: (event) => add(event) }, more, h("button", { type: "submit" }, "Add"), offers);
  const element = h("section.side-section", { "aria-label": "Dependencies" }, why, h("h3", {}, "Needs"), needed, form, needingPart);

  const offer = () => {
    const words = more.value.trim().toLowerCase();
    const found = [];
    for (const entry of board.model.entries.values()) {
      if (found.length >= OFFERED || words === "") break;
      if (entry.id !== panel.id && !isParent(entry.card) && (entry.id.toLowerCase().startsWith(words) || entry.text.includes(words))) found.push(entry);
    }
    offers.replaceChildren(...found.map((entry) => h("option", { value: entry.id }, entry.card.title)));
  };

  const add = async (event) => {
    event.preventDefault();
    const id = more.value.trim().split(/\s/)[0].toUpperCase();
    if (id && (await panel.press("add_dependency", { issue_id: panel.id, depends_on: id }, `${panel.id} now waits for ${id}.`))) more.value = "";
  };

  const row = (id, away) => h("li", {}, issueLink(board, id), away && h("button.plain.away", { type: "button", "aria-label": `No longer wait for ${id}`, dataset: { key: `away-${id}` }, onclick: away }, icon("close")));

  const others = (issue) => {
    const on = issue.depends_on ?? [];
    const by = [...(board.model.neededBy.get(issue.id) ?? [])];
    swap(needed, on.map((id) => row(id, () => panel.press("remove_dependency", { issue_id: issue.id, depends_on: id }, `${issue.id} no longer waits for ${id}.`))));
    needed.hidden = on.length === 0;
    swap(needing, by.map((id) => row(id)));
    needingPart.hidden = by.length === 0;
    explain(issue);
  };

  const explain = (issue) => {
    const waits = FINAL.has(issue.status) ? [] : board.model.waitsFor(issue);
    const move = issue.status === "blocked" ? panel.history.lastMoveTo("blocked") : undefined;
    const reason = move?.reason ?? move?.evidence;
    why.hidden = waits.length === 0 && issue.status !== "blocked";
    if (why.hidden) return why.replaceChildren();
    swap(
      why,
      h("h3", {}, icon("lock"), issue.status === "blocked" ? " Blocked" : " Waiting"),
      move && h("p", {}, `${move.agent ?? "A user"} moved it to blocked ${ago(move.at)}${reason ? ": " : " without a reason."}`, reason && h("q", {}, reason)),
      waits.length > 0 && h("p", {}, "It waits for these unfinished issues:"),
      waits.length > 0 && h("ul.issues", {}, waits.map((id) => row(id))),
      issue.status === "blocked" && waits.length === 0 && h("p", {}, h("small", {}, "All issues that it depends on are finished.")),
    );
  };

  return {
    element,
    show: (issue) => {
      element.hidden = isParent(issue) && !(issue.depends_on ?? []).length && !board.model.neededBy.has(issue.id);
      others(issue);
    },
    others,
    /** The history was read, which may say why. */
    heard: () => panel.issue && explain(panel.issue),
  };
}
