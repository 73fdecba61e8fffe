// Copies, also where the browser lets no script at the clipboard, as over plain HTTP.

import { h, icon, toast } from "./dom.js";

/** Copies a text and says so. */
export async function copy(text, what = "Copied.") {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    if (!isDone) return toast("The browser does not let this page copy.", "bad");
  }
  return toast(what, "good");
}

/** A button that copies a text. */
export function copyButton(text, label) {
  return h("button.plain.copy", { type: "button", "aria-label": label, title: label, onclick: () => copy(text) }, icon("copy"));
}

/** Saves a text as a file. */
export function save(text, name) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const anchor = h("a", { href: url, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
