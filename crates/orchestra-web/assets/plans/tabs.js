// Tabs, by mouse and arrow keys.

import { h } from "../lib/dom.js";

/**
 * A list of tabs for one panel.
 *
 * @param {string} label
 * @param {{ name: string, content: (Node|string)[], title?: string }[]} tabs
 * @param {{ panel: HTMLElement, current: string, choose: (name: string) => void }} how
 */
export function tabList(label, tabs, { panel, current, choose }) {
  const buttons = new Map();
  const list = h("div.tabs", { role: "tablist", "aria-label": label });
  panel.id ||= `panel-${label.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  panel.setAttribute("role", "tabpanel");
  for (const { name, content, title } of tabs) {
    const button = h("button.tab", { type: "button", role: "tab", id: `${panel.id}-${name}`, "aria-controls": panel.id, title, onclick: () => choose(name) }, content);
    buttons.set(name, button);
    list.append(button);
  }
  list.addEventListener("keydown", (event) => {
    const names = [...buttons.keys()];
    const at = names.findIndex((name) => buttons.get(name) === document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const name = names[(to + names.length) % names.length];
    choose(name);
    buttons.get(name).focus();
  });
  const show = (name) => {
    for (const [one, button] of buttons) {
      button.setAttribute("aria-selected", String(one === name));
      button.tabIndex = one === name ? 0 : -1;
    }
    panel.setAttribute("aria-labelledby", `${panel.id}-${name}`);
  };
  show(current);
  return { list, buttons, show };
}
