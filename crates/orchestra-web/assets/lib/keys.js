// Keys that do something wherever the focus is, but where text is written.

import { dialog, h } from "./dom.js";

const known = new Map();

/**
 * Lets a key do something until `signal` is aborted. A page may take over a key of the frame.
 *
 * @param {string} key as `KeyboardEvent.key` names it
 * @param {string} what it does, for the list of keys
 * @param {(event: KeyboardEvent) => void} act
 * @param {AbortSignal} [signal]
 */
export function keys(key, what, act, signal) {
  const entry = { what, act };
  const before = known.get(key);
  known.set(key, entry);
  signal?.addEventListener("abort", () => {
    if (known.get(key) !== entry) return;
    if (before) known.set(key, before);
    else known.delete(key);
  });
}

/** Shows all keys that do something now. */
export function showKeys() {
  const rows = [...known].map(([key, { what }]) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, key === " " ? "Space" : key)), h("td", {}, what)));
  dialog("Keys", [h("table.keys", {}, h("tbody", {}, rows))]);
}

/** Escape empties a field that searches, and then leaves it. */
function leaveSearch(event) {
  const field = event.target;
  event.preventDefault();
  if (field.value === "") return field.blur();
  field.value = "";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  return undefined;
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.target;
  if (event.key === "Escape" && at instanceof HTMLElement && at.matches("input[type=search]") && !at.closest("dialog, [popover]")) return leaveSearch(event);
  if (at instanceof HTMLElement && (at.isContentEditable || at.matches("input,textarea,select"))) return;
  if (document.querySelector("dialog[open]")) return;
  const entry = known.get(event.key);
  if (!entry) return;
  event.preventDefault();
  entry.act(event);
});
