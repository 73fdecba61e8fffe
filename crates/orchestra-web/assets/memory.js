// What agents remember: searched, read, written, edited and forgotten; and the sessions of before.

import { go, link } from "./app.js";
import { get } from "./lib/api.js";
import { h, replace } from "./lib/dom.js";
import { listOf } from "./memory/list.js";
import { entryPage } from "./memory/entry.js";
import { sessionPage, sessionsPage } from "./memory/sessions.js";

const LAST = "orchestra-memory-project";

/** @param {HTMLElement} root @param {{ parts: string[], query: URLSearchParams }} place @param {AbortSignal} signal */
export async function page(root, { parts, query }, signal) {
  const { projects } = await get("/api/board", { signal });
  if (signal.aborted) return;
  if (projects.length === 0) {
    replace(root, h("div.empty", {}, h("h1", {}, "No memories yet"), h("p", {}, "Memories belong to a project, and there is no project yet. ", link("/board", {}, "Create a project on the board"), ", or let an agent call ", h("code", {}, "create_project"), ".")));
    return;
  }
  const [asked, kind, id] = parts;
  const known = projects.find((project) => project.slug === asked);
  if (asked && !known) {
    replace(root, h("div.empty", {}, h("h1", {}, "Project not found"), h("p", {}, "No project is named ", h("code", {}, asked), ". The board has these projects:"), h("ul.plain-list", {}, projects.map(({ slug, name }) => h("li", {}, link(`/memory/${encodeURIComponent(slug)}`, {}, name))))));
    return;
  }
  if (!known) {
    const last = projects.find((project) => project.slug === localStorage.getItem(LAST)) ?? projects[0];
    return go(`/memory/${encodeURIComponent(last.slug)}${location.search}`, { replace: true });
  }
  localStorage.setItem(LAST, known.slug);
  const content = h("div.memory-content", {});
  replace(root, head(projects, known.slug, kind === "sessions"), content);
  if (kind === "sessions" && id) return sessionPage(content, known.slug, id, signal);
  if (kind === "sessions") return sessionsPage(content, known.slug, signal);
  if (kind) return entryPage(content, known.slug, kind, signal);
  return listOf(content, known.slug, query, signal);
}

function head(projects, project, isOfSessions) {
  const at = `/memory/${encodeURIComponent(project)}`;
  const choose = h("select", { "aria-label": "Project", onchange: () => go(`/memory/${encodeURIComponent(choose.value)}${isOfSessions ? "/sessions" : ""}`) }, projects.map(({ slug, name }) => h("option", { value: slug, selected: slug === project }, name)));
  const tab = (path, label, isCurrent) => link(path, { class: "tab", "aria-current": isCurrent ? "true" : undefined }, label);
  return h("div.bar", {}, h("h1", {}, "Memory"), choose, h("nav.memory-tabs", { "aria-label": "Kinds" }, tab(at, "Memories", !isOfSessions), tab(`${at}/sessions`, "Sessions", isOfSessions)));
}
