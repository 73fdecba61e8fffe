// Words that an issue bears, each of which can be taken away, and a field for more.

import { h, icon } from "../../lib/dom.js";
import { swap } from "../panel.js";
import { listOf } from "../newissue.js";

/**
 * Makes the editor.
 *
 * @param {string} name what the words are, as "Labels"
 * @param {string} one one of them, as "label"
 * @param {{ known: () => Iterable<string>, onChange: (words: string[]) => void }} options
 */
export function tags(name, one, { known, onChange }) {
  let words = [];
  // Shown at once, so that the next change goes on from it; a refusal shows again what was before.
  const change = (now) => {
    show(now);
    onChange(now);
  };
  const list = h("ul.tags", { "aria-label": name });
  const offers = h("datalist", { id: `offers-${one}` });
  const more = h("input", { list: offers.id, placeholder: `Add a ${one}`, "aria-label": `Add a ${one}`, "data-testid": `add-${one}`, maxlength: 200, onfocus: () => offers.replaceChildren(...[...known()].slice(0, 100).map((value) => h("option", { value }))) });
  const form = h("form", { onsubmit: (event) => {
    event.preventDefault();
    const added = listOf(more.value).filter((word) => !words.includes(word));
    more.value = "";
    if (added.length > 0) change([...words, ...added]);
  } }, more, offers);
  const show = (now) => {
    words = now;
    swap(list, words.map((word) => h("li.chip", {}, word, h("button.plain.away", { type: "button", "aria-label": `Take ${word} away`, dataset: { key: word }, onclick: () => change(words.filter((other) => other !== word)) }, icon("close")))));
    list.hidden = words.length === 0;
  };
  return { element: h("div.tag-editor", {}, h("span.label", {}, name), list, form), show };
}
