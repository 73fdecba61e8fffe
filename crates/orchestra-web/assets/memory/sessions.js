// What was done in sessions of before.

import { go, link } from "../app.js";
import { call } from "../lib/api.js";
import { announce, dialog, h, replace, toast } from "../lib/dom.js";
import { soon } from "../lib/follow.js";
import { keys } from "../lib/keys.js";
import { on } from "../lib/stream.js";
import { ago, clock, span } from "../lib/time.js";

/** So long after something was changed it is asked for. */
const CHANGED_MS = 300;
/** How many are shown at a time. */
const PAGE = 50;

/** Shows all sessions, latest first. */
export async function sessionsPage(root, project, signal) {
  const list = h("ul.memory-list", { "aria-label": "Sessions" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load(cursor) }, "Show more");
  let cursor;
  let turn = 0;
  const ask = (from) => call("list_sessions", { project, limit: PAGE, cursor: from }, { signal });
  const load = async (from) => {
    const mine = ++turn;
    let answer = await ask(from);
    // As many as were shown before, so that nobody loses the place.
    while (!from && answer.items.length < list.querySelectorAll("a").length && answer.next_cursor) {
      const next = await ask(answer.next_cursor);
      answer = { ...next, items: [...answer.items, ...next.items] };
    }
    if (signal.aborted || mine !== turn) return;
    cursor = answer.next_cursor;
    more.hidden = !cursor;
    const rows = answer.items.map((session) => row(project, session));
    const focused = !from && list.contains(document.activeElement) && document.activeElement.getAttribute("href");
    if (from) list.append(...rows);
    else replace(list, rows);
    if (focused) (list.querySelector(`a[href="${CSS.escape(focused)}"]`) ?? list.querySelector("a"))?.focus({ preventScroll: true });
    if (answer.total === 0) replace(list, h("li.nothing", {}, "No sessions are saved yet. Agents save sessions with the tool ", h("code", {}, "save_session"), "; the hooks of ", h("code", {}, "orchestra init"), " save sessions automatically."));
  };
  replace(root, list, more);
  await load();
  const later = soon(() => load().catch((error) => !signal.aborted && toast(error.message, "bad")), CHANGED_MS, signal);
  on("changed", ({ what, project: of }) => what === "sessions" && (of === undefined || of === project) && later(), { signal });
  on("anew", later, { signal });
  const step = (by) => {
    const links = [...list.querySelectorAll("a")];
    links[Math.max(0, Math.min(links.length - 1, links.indexOf(document.activeElement) + by))]?.focus();
  };
  keys("j", "Next session", () => step(1), signal);
  keys("k", "Previous session", () => step(-1), signal);
  keys("ArrowDown", "Next session", () => step(1), signal);
  keys("ArrowUp", "Previous session", () => step(-1), signal);
}

function row(project, { session_id: id, summary, event_count: count, started_at: began, ended_at: ended, from_hooks: isOfHooks }) {
  const lasted = new Date(ended) - new Date(began);
  return h(
    "li.panel.memory-row",
    {},
    h("div.line", {}, link(`/memory/${encodeURIComponent(project)}/sessions/${encodeURIComponent(id)}`, { class: "title" }, id), isOfHooks && h("span.chip", {}, "from hooks"), h("span.chip", {}, `${count} ${count === 1 ? "event" : "events"}`), h("span.grow"), h("small", { title: ended }, `${ago(ended)}${lasted > 0 ? `, ${span(lasted)}` : ""}`)),
    h("p.told", {}, summary),
  );
}

/** Shows one session with its events. */
export async function sessionPage(root, project, id, signal) {
  const at = `/memory/${encodeURIComponent(project)}/sessions`;
  const session = await call("get_session", { project, session_id: id }, { signal });
  if (signal.aborted) return;
  const forget = () => {
    dialog(`Forget session ${id}?`, [h("p", {}, "Its summary and events no longer appear in search results.")], {
      submit: "Forget",
      danger: true,
      onSubmit: async () => {
        await call("forget_session", { project, session_id: id });
        announce("Forgotten");
        go(at, { replace: true });
      },
    });
  };
  const events = session.events.map((event) => h("li", {}, h("small", { title: event.timestamp }, clock(event.timestamp)), h("span.chip", {}, event.type), h("span", {}, event.summary)));
  replace(
    root,
    h("div.bar", {}, link(at, {}, "All sessions"), h("span.grow"), h("button.danger", { type: "button", onclick: forget }, "Forget")),
    h("article.panel.memory-entry", {}, h("h2", {}, id), h("p", {}, `${clock(session.started_at)} – ${clock(session.ended_at)}`), h("pre.prose", { tabindex: "0", "aria-label": "Summary" }, session.summary), events.length > 0 && [h("h3", {}, "Events"), h("ol.session-events", {}, events)]),
  );
  keys("Delete", "Forget this session", forget, signal);
  keys("Escape", "All sessions", () => go(at), signal);
}
