// Who the person before the board is: a name that claims, comments and moves bear.

import { dialog, field, h } from "../lib/dom.js";

const KEY = "orchestra-agent";

/** The name, if it was said before. */
export function myName() {
  return localStorage.getItem(KEY) ?? undefined;
}

/** What a changing tool is told of who calls it. */
export function asMe() {
  const agent = myName();
  return agent ? { agent } : {};
}

/** The name, asked for where it is not known; undefined when none is given. */
export function askMyName({ again = false } = {}) {
  const known = myName();
  if (known && !again) return Promise.resolve(known);
  return new Promise((resolve) => {
    const name = h("input", { name: "agent", required: true, maxlength: 100, autocomplete: "nickname", value: known ?? "", "data-testid": "agent-name" });
    dialog("Your name", [field("Name", name, "The name appears on your claims, comments and moves. It is stored in this browser.")], {
      submit: "Remember",
      onSubmit: () => localStorage.setItem(KEY, name.value.trim()),
      onClose: () => resolve(myName()),
    });
    name.focus();
  });
}
