// Elements made in code: text is always text, never markup.

import { ICONS } from "./icons.js";

/**
 * Makes an element.
 *
 * @param {string} tag its name; classes may follow, as in "div.card.quiet"
 * @param {Object<string, any>} [props] attributes; `on…` are listeners, `class` adds classes,
 *   `dataset` and `style` are objects, true and false set and leave out
 * @param {...(Node|string|number|null|undefined|false|Array)} children
 * @returns {HTMLElement}
 */
export function h(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  fill(element, classes, props);
  append(element, children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** As {@link h}, of SVG. */
export function s(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElementNS(SVG, name);
  fill(element, classes, props);
  append(element, children);
  return element;
}

function fill(element, classes, props) {
  element.classList.add(...classes);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.classList.add(...String(value).split(" ").filter(Boolean));
    else if (key.startsWith("on")) element.addEventListener(key.slice(2).toLowerCase(), value);
    else if (key === "dataset") Object.assign(element.dataset, value);
    else if (key === "style") {
      // By the object model, which the content-security policy lets pass.
      for (const [name, what] of Object.entries(value)) element.style.setProperty(name, what);
    } else if (key === "value" || key === "checked" || key === "selected" || key === "indeterminate") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
}

/** Appends children, of which some may be nothing, and some lists. */
export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Puts these in place of what an element holds. */
export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

const icons = new Map();

/** An icon, for the eye alone. One of a sheet beside the page would be asked for each time it is shown. */
export function icon(name) {
  if (!icons.has(name)) icons.set(name, s("svg.icon", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: ICONS[name] })));
  return icons.get(name).cloneNode(true);
}

/** Says something to whoever listens to the page rather than looks at it. */
export function announce(text) {
  const region = document.getElementById("live");
  // The same words twice are said twice.
  region.textContent = region.textContent === text ? `${text}\u00a0` : text;
}

/**
 * Shows a short message for a while, and says it.
 *
 * @param {string} text
 * @param {"info"|"good"|"bad"} [kind] what is bad stays until it is put away
 */
export function toast(text, kind = "info") {
  const shown = h(`div.toast.${kind}`, { role: kind === "bad" ? "alert" : "status" }, h("p", {}, text));
  const away = () => shown.remove();
  shown.append(h("button.plain", { type: "button", "aria-label": "Put away", onclick: away }, icon("close")));
  document.getElementById("toasts").append(shown);
  if (kind !== "bad") setTimeout(away, 6_000);
}

/**
 * Opens a dialog; the browser keeps the focus in it and Escape closes it.
 *
 * @param {string} title
 * @param {Node[]} body
 * @param {{ submit?: string, danger?: boolean, onSubmit?: (form: FormData) => Promise<void>|void,
 *   onClose?: () => void, wide?: boolean, cancel?: string }} [options] an error that `onSubmit`
 *   throws is shown in the dialog, which stays
 * @returns {HTMLDialogElement}
 */
export function dialog(title, body, options = {}) {
  const problem = h("p.problem", { role: "alert", hidden: true });
  const buttons = h(
    "footer",
    {},
    h("button", { type: "button", onclick: () => box.close() }, options.cancel ?? (options.submit ? "Cancel" : "Close")),
    options.submit && h(options.danger ? "button.danger" : "button.primary", { type: "submit" }, options.submit),
  );
  const form = h("form", { method: "dialog", novalidate: true }, h("h2", { id: "dialog-title" }, title), h("div.body", {}, body), problem, buttons);
  const box = h(`dialog${options.wide ? ".wide" : ""}`, { "aria-labelledby": "dialog-title" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const pressed = form.querySelector("button[type=submit]");
    if (!form.reportValidity()) return;
    pressed.disabled = true;
    try {
      await options.onSubmit?.(new FormData(form));
      box.close();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      pressed.disabled = false;
    }
  });
  const before = document.activeElement;
  box.addEventListener("close", () => {
    box.remove();
    if (before instanceof HTMLElement && before.isConnected) before.focus();
    options.onClose?.();
  });
  document.body.append(box);
  box.showModal();
  return box;
}

/** A field with its label; `control` gets an id where it has none. */
export function field(label, control, hint) {
  control.id ||= `field-${(field.count = (field.count ?? 0) + 1)}`;
  const told = hint && h("small", { id: `${control.id}-hint` }, hint);
  if (told) control.setAttribute("aria-describedby", told.id);
  return h("div.field", {}, h("label", { for: control.id }, label), control, told);
}
