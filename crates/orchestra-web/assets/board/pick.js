// A button that opens a list of choices, of which any number may be on.

import { h, icon, replace } from "../lib/dom.js";

/** From so many choices on there is a field to find one among them. */
const MANY = 10;

/** No more choices than these are shown at once; words find the others. */
const MOST = 200;

/**
 * Makes the button and its list.
 *
 * @param {string} name what is chosen, as "Type"
 * @param {{ choices: () => { value: string, name: string, count?: number }[], chosen: Set<string>,
 *   onChange: () => void }} options choices are asked for whenever the list opens
 * @returns {{ element: HTMLElement, button: HTMLButtonElement, tell: () => void }} `tell` brings the
 *   button up to date
 */
export function pick(name, { choices, chosen, onChange }) {
  const key = name.toLowerCase();
  const said = h("span.said");
  const list = h("div.pick-list", { popover: "auto", id: `pick-${key}`, role: "group", "aria-label": name });
  const button = h("button.pick", { type: "button", popovertarget: list.id, "aria-haspopup": "dialog", "aria-expanded": "false", "data-testid": `pick-${key}` }, name, said, icon("chevron"));

  const tell = () => {
    said.textContent = chosen.size === 0 ? "" : `: ${chosen.size < 3 ? [...chosen].map(nameOf).join(", ") : chosen.size}`;
    button.classList.toggle("on", chosen.size > 0);
  };
  let known = [];
  const nameOf = (value) => known.find((choice) => choice.value === value)?.name ?? (value === "-" ? "none" : value);

  const rows = (words) => {
    const fit = known.filter((choice) => choice.name.toLowerCase().includes(words));
    const shown = fit.slice(0, MOST);
    return [
      shown.map(({ value, name: text, count }) => {
        const box = h("input", {
          type: "checkbox",
          checked: chosen.has(value),
          value,
          onchange: () => {
            chosen[box.checked ? "add" : "delete"](value);
            tell();
            onChange();
          },
        });
        return h("label.pick-row", {}, box, h("span.name", {}, text), count !== undefined && h("small", {}, count));
      }),
      fit.length === 0 && h("p", {}, h("small", {}, "No match")),
      fit.length > shown.length && h("p", {}, h("small", {}, `and ${fit.length - shown.length} more; type to filter`)),
    ];
  };

  const open = () => {
    known = choices();
    // Whatever is chosen can be taken back, even when no issue has it any more.
    for (const value of chosen) if (!known.some((choice) => choice.value === value)) known.push({ value, name: nameOf(value) });
    const body = h("div.pick-rows", {}, rows(""));
    const find = h("input", { type: "search", placeholder: "Find", "aria-label": `Find among ${key}`, oninput: () => replace(body, rows(find.value.trim().toLowerCase())) });
    const none = h("button.plain", { type: "button", onclick: () => {
      chosen.clear();
      tell();
      onChange();
      list.hidePopover();
    } }, "Any");
    replace(list, known.length >= MANY && find, body, none);
  };
  list.addEventListener("beforetoggle", (event) => {
    if (event.newState === "open") open();
  });
  list.addEventListener("toggle", (event) => {
    button.setAttribute("aria-expanded", String(event.newState === "open"));
    if (event.newState !== "open") return;
    const box = button.getBoundingClientRect();
    list.style.left = `${Math.max(8, Math.min(box.left, innerWidth - list.offsetWidth - 8))}px`;
    list.style.top = `${box.bottom + 4}px`;
    list.style.maxHeight = `${innerHeight - box.bottom - 16}px`;
    list.querySelector("input")?.focus();
  });
  list.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const boxes = [...list.querySelectorAll("input")];
    const next = boxes[boxes.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  return {
    element: h("div.pick-box", {}, button, list),
    button,
    tell: () => {
      if (chosen.size > 0) known = choices();
      tell();
    },
  };
}
