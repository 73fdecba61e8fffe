// What a tool answered.

import { h } from "../lib/dom.js";
import { tree } from "./tree.js";

/** How much of a text is shown. */
const MOST_TEXT = 200_000;

/** Shows the result of a call. @param {any} result as MCP has it */
export function resultOf(result) {
  const parts = (result.content ?? []).map(part);
  const structured = result.structuredContent !== undefined && h("section", { "aria-label": "Structured result" }, h("h3", {}, "Structured"), tree(result.structuredContent));
  return [parts.length === 0 && !structured && h("p", {}, "The result is empty."), structured, parts];
}

function part(content) {
  if (content.type === "text") return h("section", { "aria-label": "Text" }, h("h3", {}, "Text"), textOf(content.text));
  if (content.type === "image" && /^image\/(png|jpeg|gif|webp)$/.test(content.mimeType)) return h("section", { "aria-label": "Picture" }, h("h3", {}, content.mimeType), h("img", { alt: "image in the result", src: `data:${content.mimeType};base64,${content.data}` }));
  return h("section", { "aria-label": String(content.type) }, h("h3", {}, String(content.type)), tree(content));
}

function textOf(text) {
  try {
    const value = JSON.parse(text);
    if (value !== null && typeof value === "object") return tree(value);
  } catch {
    // It is text, then.
  }
  const cut = text.length > MOST_TEXT;
  return [h("pre", { tabindex: "0", "aria-label": "Text of the result" }, cut ? text.slice(0, MOST_TEXT) : text), cut && h("small", {}, `${text.length - MOST_TEXT} characters more`)];
}
