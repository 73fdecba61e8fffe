// Which issues are shown: from the address of the page, into it, and as a test.

/** What stands for "none" among the choices of a filter. */
export const NONE = "-";

const SETS = ["type", "priority", "label", "who", "epic"];

/** @typedef {{ q: string, type: Set<string>, priority: Set<string>, label: Set<string>, who: Set<string>, epic: Set<string>, blocked: boolean, mine: boolean, lanes: string }} Filter */

/** The filter that the query of an address asks for. @returns {Filter} */
export function fromQuery(query) {
  const filter = { q: query.get("q") ?? "", blocked: query.has("blocked"), mine: query.has("mine") };
  // One parameter for each choice, as a label may hold a comma.
  for (const name of SETS) filter[name] = new Set(query.getAll(name));
  filter.lanes = ["epic", "story"].includes(query.get("lanes")) ? query.get("lanes") : "";
  return filter;
}

/** The query of an address that asks for a filter, with its question mark. */
export function toQuery(filter) {
  const query = new URLSearchParams();
  if (filter.q.trim()) query.set("q", filter.q.trim());
  for (const name of SETS) for (const value of filter[name]) query.append(name, value);
  if (filter.blocked) query.set("blocked", "1");
  if (filter.mine) query.set("mine", "1");
  if (filter.lanes) query.set("lanes", filter.lanes);
  const text = query.toString();
  return text && `?${text}`;
}

/** Whether anything is left out. */
export function isActive(filter) {
  return filter.q.trim() !== "" || filter.blocked || filter.mine || SETS.some((name) => filter[name].size > 0);
}

/** Takes everything back that leaves something out. */
export function clear(filter) {
  filter.q = "";
  filter.blocked = false;
  filter.mine = false;
  for (const name of SETS) filter[name].clear();
}

function holds(set, values) {
  return values.length > 0 ? values.some((value) => set.has(value)) : set.has(NONE);
}

/** A test of a word: an id, the beginning of one, or a part of the title. */
function ofWord(word, model) {
  if (model.entries.has(word.toUpperCase())) return (entry) => entry.id === word.toUpperCase();
  const start = /^[a-z][a-z0-9]*-\d*$/.test(word) ? word.toUpperCase() : undefined;
  return (entry) => entry.text.includes(word) || (start !== undefined && entry.id.startsWith(start));
}

/**
 * The filter as a test; undefined where everything is shown.
 *
 * @param {Filter} filter
 * @param {string|undefined} me whose issues are "mine"
 */
export function testOf(filter, model, me) {
  if (!isActive(filter)) return undefined;
  const tests = filter.q.toLowerCase().split(/\s+/).filter(Boolean).map((word) => ofWord(word, model));
  if (filter.type.size > 0) tests.push(({ card }) => filter.type.has(card.type));
  if (filter.priority.size > 0) tests.push(({ card }) => filter.priority.has(card.priority ?? NONE));
  if (filter.label.size > 0) tests.push(({ card }) => holds(filter.label, card.labels ?? []));
  if (filter.who.size > 0) tests.push(({ card }) => holds(filter.who, [...(card.assignees ?? []), card.claim?.agent].filter(Boolean)));
  if (filter.epic.size > 0) tests.push(({ card }) => filter.epic.has(card.epic_id ?? (card.type === "epic" ? card.id : NONE)));
  if (filter.blocked) tests.push((entry) => entry.card.status === "blocked" || entry.waits > 0);
  if (filter.mine) tests.push(({ card }) => me !== undefined && (card.claim?.agent === me || (card.assignees ?? []).includes(me)));
  return tests.length === 1 ? tests[0] : (entry) => tests.every((test) => test(entry));
}
