// A form for any JSON Schema: a control for each argument, and JSON as text where none fits.

import { h, replace } from "../lib/dom.js";

/** So deep forms stand in forms; what is deeper is written as JSON. */
const MOST_DEEP = 4;
/** How long a text may be for one line. */
const ONE_LINE = 200;

let count = 0;

/**
 * A control for a value: `element`, `value()` (undefined where nothing is given) and `set(value)`.
 *
 * @param {any} schema @param {any} root what references point into
 * @param {{ name: string, required?: boolean, deep?: number }} about
 */
export function control(schema, root, { name, required = false, deep = 0 }) {
  const meant = resolved(schema, root);
  const about = { name, required, deep };
  if (meant.const !== undefined) return fixed(meant.const);
  if (Array.isArray(meant.enum)) return choice(meant, about);
  const variants = (meant.oneOf ?? meant.anyOf)?.filter((one) => resolved(one, root).type !== "null");
  if (deep < MOST_DEEP && variants?.length === 1) return control({ ...meant, anyOf: undefined, oneOf: undefined, ...variants[0] }, root, about);
  if (deep < MOST_DEEP && variants?.length > 1) return oneOf(variants, root, about);
  const type = Array.isArray(meant.type) ? meant.type.find((one) => one !== "null") : meant.type;
  if (type === "string") return text(meant, about);
  if (type === "integer" || type === "number") return number(meant, type, about);
  if (type === "boolean") return choice({ ...meant, enum: [true, false] }, about);
  if (type === "array" && deep < MOST_DEEP && meant.items && typeof meant.items === "object") return list(meant, root, about);
  if (type === "object" && deep < MOST_DEEP && Object.keys(meant.properties ?? {}).length > 0) return members(meant, root, about);
  return json(meant, about);
}

/** What a schema means once references within the document are followed. */
function resolved(schema, root, hops = 0) {
  if (typeof schema !== "object" || schema === null) return {};
  if (typeof schema.$ref !== "string" || hops > 8) return schema;
  if (!schema.$ref.startsWith("#")) return {};
  let at = root;
  for (const part of schema.$ref.slice(1).split("/").filter(Boolean)) at = at?.[decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~")];
  const { $ref: _, ...more } = schema;
  return { ...resolved(at, root, hops + 1), ...more };
}

/** A control with its label and what the schema says of it. */
export function labelled(made, schema, root, { name, required }) {
  const meant = resolved(schema, root);
  const target = made.input ?? made.element;
  target.id ||= `argument-${(count += 1)}`;
  const told = [meant.description, bounds(meant)].filter(Boolean).join(" ");
  const hint = told && h("small", { id: `${target.id}-hint` }, told);
  if (hint) target.setAttribute("aria-describedby", hint.id);
  const mark = required && h("span.required", { "aria-hidden": "true", title: "required" }, " *");
  // A group has its name itself.
  if (!made.input) {
    target.setAttribute("aria-label", name);
    return h("div.field", {}, h("span.group-name", { "aria-hidden": "true" }, name, mark), hint, made.element);
  }
  return h("div.field", {}, h("label", { for: target.id }, name, mark), made.element, hint);
}

function bounds({ minimum, maximum, minLength, maxLength, minItems, maxItems, default: preset, format }) {
  const said = [];
  if (minimum !== undefined || maximum !== undefined) said.push(`From ${minimum ?? "…"} to ${maximum ?? "…"}.`);
  if (minLength > 1 || maxLength !== undefined) said.push(`${minLength ?? 0} to ${maxLength ?? "any number of"} characters.`);
  if (minItems !== undefined || maxItems !== undefined) said.push(`${minItems ?? 0} to ${maxItems ?? "any number of"} items.`);
  if (format) said.push(`As ${format}.`);
  if (preset !== undefined && preset !== null) said.push(`Unless given: ${JSON.stringify(preset)}.`);
  return said.join(" ");
}

function fixed(value) {
  const input = h("input", { type: "text", readonly: true, value: JSON.stringify(value) });
  return { element: input, input, value: () => value, set: () => {} };
}

function choice({ enum: values }, { required }) {
  const options = values.map((value, at) => h("option", { value: String(at) }, typeof value === "string" ? value : JSON.stringify(value)));
  const input = h("select", { required }, h("option", { value: "" }, required ? "choose…" : "not given"), options);
  return {
    element: input,
    input,
    value: () => (input.value === "" ? undefined : values[Number(input.value)]),
    set: (value) => {
      const at = values.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));
      input.value = at < 0 ? "" : String(at);
    },
  };
}

const KINDS = { date: "date", email: "email", uri: "url" };

function text({ maxLength, minLength, pattern, format }, { name, required }) {
  const isLong = maxLength > ONE_LINE || /(content|description|text|body|summary|evidence|notes|reason)$/i.test(name);
  const sized = { required: required && minLength !== 0, maxlength: maxLength, minlength: minLength > 0 ? minLength : undefined };
  const input = isLong ? h("textarea", { ...sized, rows: "3" }) : h("input", { type: KINDS[format] ?? "text", ...sized });
  if (pattern && !isLong) {
    input.addEventListener("input", () => input.setCustomValidity(fits(pattern, input.value) ? "" : `The value must match ${pattern}`));
  }
  return { element: input, input, value: () => (input.value === "" && !required ? undefined : input.value), set: (value) => (input.value = String(value ?? "")) };
}

function fits(pattern, value) {
  try {
    return value === "" || new RegExp(pattern, "u").test(value);
  } catch {
    // A pattern that the browser does not know is judged by the tool.
    return true;
  }
}

function number({ minimum, maximum }, type, { required }) {
  const input = h("input", { type: "number", required, min: minimum, max: maximum, step: type === "integer" ? "1" : "any" });
  return { element: input, input, value: () => (input.value === "" ? undefined : Number(input.value)), set: (value) => (input.value = value ?? "") };
}

function json({ type }, { required }) {
  const input = h("textarea.json", { required, rows: "3", spellcheck: "false", placeholder: type === "object" ? "{ }" : type === "array" ? "[ ]" : "JSON" });
  const read = () => (input.value.trim() === "" ? undefined : JSON.parse(input.value));
  input.addEventListener("input", () => {
    try {
      read();
      input.setCustomValidity("");
    } catch (error) {
      input.setCustomValidity(`Not valid JSON: ${error.message}`);
    }
  });
  return { element: input, input, value: read, set: (value) => (input.value = value === undefined ? "" : JSON.stringify(value, null, 2)) };
}

function list(schema, root, { name, deep }) {
  const items = h("ol.items", {});
  const made = new Map();
  const add = (value) => {
    const item = control(schema.items, root, { name: `${name} ${made.size + 1}`, required: true, deep: deep + 1 });
    if (value !== undefined) item.set(value);
    (item.input ?? item.element).setAttribute("aria-label", `${name} ${made.size + 1}`);
    const row = h("li", {}, item.element, h("button.plain", { type: "button", "aria-label": `Remove ${name} ${made.size + 1}`, onclick: () => {
      made.delete(row);
      row.remove();
      more.focus();
    } }, "Remove"));
    made.set(row, item);
    items.append(row);
    return item;
  };
  const more = h("button", { type: "button", "aria-label": `Add to ${name}`, onclick: () => {
    const item = add();
    (item.input ?? item.element.querySelector("input,select,textarea"))?.focus();
  } }, "Add");
  return {
    element: h("div.list", { role: "group" }, items, more),
    value: () => (made.size === 0 ? undefined : [...made.values()].map((item) => item.value() ?? null)),
    set: (values) => {
      made.clear();
      replace(items);
      for (const value of Array.isArray(values) ? values : []) add(value);
    },
  };
}

function members(schema, root, { deep, required }) {
  const needed = new Set(schema.required ?? []);
  const parts = Object.entries(schema.properties).map(([name, part]) => {
    // What is needed of an object that may be left out is needed only with it: the tool says so.
    const about = { name, required: needed.has(name) && (required || deep === 0), deep: deep + 1 };
    const made = control(part, root, about);
    return [name, made, labelled(made, part, root, about), about.required];
  });
  const given = parts.filter(([, , , isNeeded]) => isNeeded);
  const others = parts.filter(([, , , isNeeded]) => !isNeeded);
  const rest = others.length > 6 && given.length > 0 ? h("details", {}, h("summary", {}, `${others.length} optional arguments`), others.map(([, , element]) => element)) : others.map(([, , element]) => element);
  return {
    element: h("div.members", { role: "group" }, given.map(([, , element]) => element), rest),
    value: () => {
      const entries = parts.map(([name, made]) => [name, made.value()]).filter(([, value]) => value !== undefined);
      return entries.length === 0 && !required ? undefined : Object.fromEntries(entries);
    },
    set: (value) => {
      for (const [name, made] of parts) made.set(value?.[name]);
      if (others.some(([name]) => value?.[name] !== undefined) && rest instanceof HTMLDetailsElement) rest.open = true;
    },
  };
}

function oneOf(variants, root, { name, required, deep }) {
  const made = variants.map((variant) => control(variant, root, { name, required, deep: deep + 1 }));
  const names = variants.map((variant, at) => {
    const meant = resolved(variant, root);
    return meant.title ?? meant.type ?? `form ${at + 1}`;
  });
  const choose = h("select", { "aria-label": `Form of ${name}` }, names.map((one, at) => h("option", { value: String(at) }, String(one))));
  const place = h("div", {}, made[0].element);
  const turn = (at) => {
    choose.value = String(at);
    replace(place, made[at].element);
    (made[at].input ?? made[at].element).setAttribute("aria-label", name);
  };
  choose.addEventListener("change", () => turn(Number(choose.value)));
  turn(0);
  return {
    element: h("div.one-of", { role: "group" }, choose, place),
    value: () => made[Number(choose.value)].value(),
    set: (value) => {
      const kind = Array.isArray(value) ? "array" : typeof value;
      const at = variants.findIndex((variant) => resolved(variant, root).type === kind || (kind === "number" && resolved(variant, root).type === "integer"));
      turn(Math.max(at, 0));
      made[Number(choose.value)].set(value);
    },
  };
}
