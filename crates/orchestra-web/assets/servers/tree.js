// JSON to look into.

import { h } from "../lib/dom.js";

/** How many members of one value are shown. */
const MOST = 500;

/** Shows a value; what is long is folded. */
export function tree(value, name, open = true, deep = 0) {
  const label = name === undefined ? undefined : h("span.key", {}, `${name}: `);
  if (value === null || typeof value !== "object") return h("div.leaf", {}, label, h(`span.value.${value === null ? "null" : typeof value}`, {}, typeof value === "string" ? value : JSON.stringify(value)));
  const entries = Object.entries(value);
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  const fold = h("details", { open: open && deep < 3 }, h("summary", {}, label, h("small", {}, size)));
  const fill = () => {
    if (fold.childElementCount > 1) return;
    fold.append(...entries.slice(0, MOST).map(([key, what]) => tree(what, key, entries.length < 50, deep + 1)));
    if (entries.length > MOST) fold.append(h("small", {}, `and ${entries.length - MOST} more`));
  };
  if (fold.open) fill();
  else fold.addEventListener("toggle", fill, { once: true });
  return h("div.branch", {}, fold);
}
