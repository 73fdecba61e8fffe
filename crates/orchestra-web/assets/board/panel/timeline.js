// What happened to an issue, and what is said of it.

import { call } from "../../lib/api.js";
import { announce, h, toast } from "../../lib/dom.js";
import { ago, clock } from "../../lib/time.js";
import { asMe, askMyName, myName } from "../person.js";

/** So many are read at once. */
const PAGE = 50;

/** A search for the reason of a move ends here, however long the history is. */
const MOST = 2_000;

/** @param {import("../panel.js").Panel} panel */
export function timeline(panel) {
  const { board } = panel;
  let items = [];
  let cursor;
  let total = 0;
  let reading = 0;
  const list = h("ol.timeline", { "data-testid": "timeline" });
  const more = h("button", { type: "button", "data-testid": "load-more", onclick: () => read(items.length + PAGE).catch((error) => toast(error.message, "bad")) });
  const comment = h("textarea", { "aria-label": "Comment", placeholder: "Comment", rows: 3, maxlength: 100_000, "data-testid": "comment", value: panel.drafts.get(panel.id) ?? "", oninput: () => panel.drafts.set(panel.id, comment.value), onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && say(event) });
  const form = h("form", { onsubmit: (event) => say(event) }, comment, h("div.bar", {}, h("button", { type: "submit", "data-testid": "add-comment" }, "Comment")));
  const element = h("section.side-section", { "aria-label": "History and comments" }, h("h3", {}, "History and comments"), list, more, form);

  /** Reads until so many are there, or all; from the beginning, as what was read may be another. */
  const read = async (wanted) => {
    const run = (reading += 1);
    const { signal } = panel.leave;
    const found = [];
    let next;
    let count = 0;
    do {
      const page = await call("get_history", { project: board.slug, issue_id: panel.id, limit: PAGE, ...(next && { cursor: next }) }, { signal });
      found.push(...page.items);
      next = page.next_cursor;
      count = page.total;
      const searching = panel.issue?.status === "blocked" && found.length < MOST;
      if (!next || (found.length >= wanted && !searching)) break;
    } while (run === reading);
    if (run !== reading || signal.aborted) return;
    items = found;
    cursor = next;
    total = count;
    draw();
    for (const section of panel.sections ?? []) section.heard?.();
  };

  const draw = () => {
    list.replaceChildren(...together(items).map(row));
    more.hidden = !cursor;
    more.textContent = `Load more (${total - items.length} left)`;
  };

  const say = async (event) => {
    event.preventDefault();
    const text = comment.value.trim();
    if (!text) return;
    if (!myName() && !panel.askedName) {
      // Once is enough: a comment may stay without a name.
      panel.askedName = true;
      await askMyName();
    }
    try {
      board.own(panel.id);
      await call("add_comment", { project: board.slug, issue_id: panel.id, text, ...asMe() });
      comment.value = "";
      panel.drafts.delete(panel.id);
      announce("Your comment was added.");
      await read(Number.POSITIVE_INFINITY);
    } catch (error) {
      toast(error.message, "bad");
    }
  };

  return {
    element,
    show: () => {},
    reload: () => read(Math.max(PAGE, items.length)),
    /** The last move to a state, as far as the history is read. */
    lastMoveTo: (state) => items.findLast((item) => item.event === "status" && item.to === state),
  };
}

/** A claim that is renewed again and again is told once, as it is now. */
function together(items) {
  return items.filter((item, index) => {
    const after = items[index + 1];
    return !(item.event === "claimed" && after?.event === "claimed" && after.to === item.to);
  });
}

function row(item) {
  const { who, did } = sentence(item);
  const time = h("time", { datetime: item.at, title: clock(item.at) }, ago(item.at));
  const said = item.event === "commented" ? item.text : undefined;
  const long = item.event === "edited" && ["description", "title"].includes(item.field) ? item.text : undefined;
  return h(
    "li",
    { dataset: { event: item.event } },
    h("p", {}, h("strong", {}, who), ` ${did} `, time),
    said && h("div.said", {}, said),
    long && h("details", {}, h("summary", {}, `The new ${item.field}`), h("div.text", {}, long)),
    item.evidence && h("blockquote", {}, h("strong", {}, "Evidence: "), item.evidence),
    item.reason && h("blockquote", {}, h("strong", {}, "Reason: "), item.reason),
  );
}

const SOURCES = { file: "A change of a file", import: "An import" };

/** Who did something, and what. */
function sentence(item) {
  const who = item.agent ?? SOURCES[item.source] ?? "Somebody";
  const because = item.cause ? ` (${item.cause})` : "";
  switch (item.event) {
    case "created":
      return { who, did: `created it${because}` };
    case "status":
      return item.cause === "follows what is below" ? { who: "It", did: `went from ${item.from} to ${item.to}, following its children` } : { who, did: `moved it from ${item.from} to ${item.to}${because}` };
    case "edited":
      return { who, did: ["description", "title"].includes(item.field) ? `changed the ${item.field}` : `set the ${item.field} to ${item.text || "none"}` };
    case "moved":
      return { who, did: `moved it below ${item.to}` };
    case "planned":
      return { who, did: `planned it as ${item.to}` };
    case "claimed":
      return { who: item.to, did: `claimed it until ${clock(item.until)}` };
    case "released":
      return { who, did: `released the claim of ${item.to}` };
    case "dependency_added":
      return { who, did: `made it depend on ${item.to}` };
    case "dependency_removed":
      return { who, did: `removed its dependency on ${item.to}` };
    case "commented":
      return { who, did: "said" };
    default:
      return { who, did: `${item.event}${because}` };
  }
}
