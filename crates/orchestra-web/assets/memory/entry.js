// One memory, whole.

import { go, link } from "../app.js";
import { call } from "../lib/api.js";
import { announce, dialog, h, replace } from "../lib/dom.js";
import { soon } from "../lib/follow.js";
import { keys } from "../lib/keys.js";
import { on } from "../lib/stream.js";
import { ago } from "../lib/time.js";
import { writeDialog } from "./write.js";

/** So long after something was changed it is asked for. */
const CHANGED_MS = 300;

/** Shows a memory and what can be done with it. */
export async function entryPage(root, project, id, signal) {
  const at = `/memory/${encodeURIComponent(project)}`;
  let entry;
  const load = async () => {
    const now = await call("get_memory", { project, memory_id: id }, { signal });
    if (signal.aborted || now.version === entry?.version) return;
    entry = now;
    draw();
  };
  const again = () =>
    load().catch((error) => {
      if (!signal.aborted) replace(root, h("div.empty", { role: "alert" }, h("h2", {}, "This memory is no longer available"), h("p", {}, error.message), h("p", {}, link(at, {}, "All memories"))));
    });
  const edit = () => writeDialog(project, entry, () => (announce("Saved"), again()));
  const forget = () => {
    dialog(`Forget ${id}?`, [h("p", {}, "“", entry.summary || entry.content.slice(0, 200), "” no longer appears in search results. You cannot undo this here; git may still have its file.")], {
      submit: "Forget",
      danger: true,
      onSubmit: async () => {
        await call("forget_memory", { project, memory_id: id });
        announce("Forgotten");
        go(at, { replace: true });
      },
    });
  };
  const draw = () => {
    const facts = [
      ["Id", entry.id],
      ["Source", [entry.source, entry.source_id].filter(Boolean).join(" ")],
      ["Written", entry.created_at && h("span", { title: entry.created_at }, ago(entry.created_at))],
      ["Expires", entry.expires_at],
      ["Superseded by", entry.superseded_by && link(`${at}/${encodeURIComponent(entry.superseded_by)}`, {}, entry.superseded_by)],
    ].filter(([, what]) => what);
    const focused = root.contains(document.activeElement) && document.activeElement.textContent;
    replace(
      root,
      h("div.bar", {}, link(at, {}, "All memories"), h("span.grow"), h("button", { type: "button", onclick: edit }, "Edit"), h("button.danger", { type: "button", onclick: forget }, "Forget")),
      h(
        "article.panel.memory-entry",
        {},
        h("h2", {}, entry.summary),
        (entry.tags ?? []).length > 0 && h("p", {}, entry.tags.map((tag) => link(`${at}?tag=${encodeURIComponent(tag)}`, { class: "chip" }, `#${tag}`))),
        h("pre.prose", { tabindex: "0", "aria-label": "Text" }, entry.content),
        h("dl.facts", {}, facts.map(([name, what]) => h("div", {}, h("dt", {}, name), h("dd", {}, what)))),
      ),
    );
    if (focused) [...root.querySelectorAll("button")].find((button) => button.textContent === focused)?.focus({ preventScroll: true });
  };
  await load();
  const later = soon(again, CHANGED_MS, signal);
  on("changed", ({ what, project: of }) => what === "memory" && (of === undefined || of === project) && later(), { signal });
  on("anew", later, { signal });
  keys("e", "Edit this memory", edit, signal);
  keys("Delete", "Forget this memory", forget, signal);
  keys("Escape", "All memories", () => go(at), signal);
}
