// The form in which a memory is written or edited.

import { call } from "../lib/api.js";
import { dialog, field, h } from "../lib/dom.js";

/**
 * Opens the form.
 *
 * @param {string} project
 * @param {object} [before] the memory that is edited; without one a new one is written
 * @param {(saved: object) => void} done
 */
export function writeDialog(project, before, done) {
  const summary = h("input", { type: "text", name: "summary", required: true, maxlength: "1024", value: before?.summary ?? "" });
  const content = h("textarea", { name: "content", required: true, rows: "8", value: before?.content ?? "" });
  const source = h("input", { type: "text", name: "source", value: before?.source ?? "" });
  const tags = h("input", { type: "text", name: "tags", value: (before?.tags ?? []).join(", ") });
  const days = h("input", { type: "number", name: "days", min: "1", step: "1", max: "36500" });
  const forever = h("input", { type: "checkbox", name: "forever" });
  dialog(
    before ? `Edit ${before.id}` : "New memory",
    [
      field("Summary", summary, "One line that identifies the memory."),
      field("Text", content),
      field("Source", source, "Optional. Where the text comes from, for example decision, chat or review."),
      field("Tags", tags, "Separated by commas."),
      field("Days until it expires", days, before?.expires_at ? `It expires ${before.expires_at}; leave this empty to preserve the date.` : "Empty: it does not expire."),
      before?.expires_at && h("div.check", {}, h("label", {}, forever, " Remove the expiry")),
    ].filter(Boolean),
    {
      submit: before ? "Save" : "Remember",
      wide: true,
      onSubmit: async () => {
        const list = tags.value.split(",").map((tag) => tag.trim()).filter(Boolean);
        const said = { project, summary: summary.value.trim(), content: content.value, tags: list };
        const origin = source.value.trim();
        if (forever.checked && days.value) throw new Error("Enter days or remove the expiry, not both.");
        if (forever.checked) said.expires_at = "none";
        if (days.value) said.expires_in_days = Number(days.value);
        if (before) {
          if (origin !== (before.source ?? "")) said.source = origin || "none";
          done(await call("update_memory", { ...said, memory_id: before.id, version: before.version }));
        } else {
          if (origin) said.source = origin;
          done(await call("save_memory", said));
        }
      },
    },
  );
}
