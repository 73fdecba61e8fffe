// One issue as a card.

import { h, icon } from "../lib/dom.js";
import { isParent } from "./states.js";

/** How high a card is with the gap below it, in rem; the style sheet says the same. */
const ROW_REM = 7.75;

/** So long a card shows that somebody else changed it. */
const FLASH_MS = 1_600;

const MINUTE = 60_000;

/** The height of a row in pixels, at the size that letters have here. */
export function rowHeight() {
  return Math.round(ROW_REM * Number.parseFloat(getComputedStyle(document.documentElement).fontSize));
}

/** Who has claimed an issue and still holds it. */
export function liveClaim(card) {
  return card.claim && new Date(card.claim.until).getTime() > Date.now() ? card.claim : undefined;
}

/** How much of a claim is left, as "12 min". */
export function timeLeft(until) {
  const left = new Date(until).getTime() - Date.now();
  if (left <= 0) return "over";
  return left < MINUTE ? "< 1 min" : `${Math.ceil(left / MINUTE)} min`;
}

/** An icon that says something which stands nowhere else. */
function sign(name, words) {
  const shown = icon(name);
  shown.removeAttribute("aria-hidden");
  shown.setAttribute("role", "img");
  shown.setAttribute("aria-label", words);
  return shown;
}

/** A priority by a sign and its name. */
export function priorityMark(priority) {
  return h("span.priority", { dataset: { priority } }, sign(`priority-${priority}`, "priority"), " ", priority);
}

/** Where an issue stands, as "Login › Form". */
function within(card, model) {
  return [card.epic_id, card.story_id].filter(Boolean).map((id) => model.get(id)?.card.title ?? id).join(" › ");
}

function labels(all) {
  return [all.slice(0, 2).map((label) => h("span.chip", {}, label)), all.length > 2 && h("span.chip", { title: all.slice(2).join(", ") }, `+${all.length - 2}`)];
}

function people(claim, assignees) {
  return [
    claim && h("span.chip.run.who", { title: `Claimed by ${claim.agent}` }, sign("clock", "claimed by"), " ", h("span.name", {}, claim.agent), " ", h("span", { dataset: { until: claim.until } }, timeLeft(claim.until))),
    assignees.length > 0 && h("span.who", { title: `Assigned to ${assignees.join(", ")}` }, sign("person", "assigned to"), " ", h("span.name", {}, assignees.join(", "))),
  ];
}

function progress(card, model) {
  const { total, done } = model.progressOf(card.id);
  return total > 0 ? `${done} of ${total} done` : "nothing below it";
}

/** What the words of a row are, which differ from card to card, and of what sort it is; rows of one sort are alike in all else. */
const known = new WeakMap();

/** The sort of the row of an entry; undefined where it has more than words of its own. */
function sortOf(entry, board) {
  const { card } = entry;
  const isPlain = entry.waits === 0 && !entry.pending && !card.labels && !card.claim && !card.assignees && board.opened !== card.id;
  return isPlain ? `${card.type} ${card.priority}` : undefined;
}

function wordsOf({ card }, model) {
  return { id: card.id, title: card.title, where: isParent(card) ? progress(card, model) : within(card, model) };
}

/** Shows for a while that somebody else changed a card; one that is drawn anew meanwhile goes on from there. */
function flash(parts, { changed }) {
  clearTimeout(parts.flashing);
  const left = changed > 0 ? changed + FLASH_MS - performance.now() : 0;
  parts.link.classList.toggle("changed", left > 0);
  if (left > 0) parts.flashing = setTimeout(() => parts.link.classList.remove("changed"), left);
}

/**
 * Makes the row of an entry: a list item that holds a link to the issue.
 *
 * @param {import("./model.js").Entry} entry
 * @param {{ model: import("./model.js").Model, href: (id: string) => string, opened?: string }} board
 */
export function cardRow(entry, board) {
  const { card } = entry;
  const { model } = board;
  const words = wordsOf(entry, model);
  const claim = liveClaim(card);
  const others = (card.assignees ?? []).filter((name) => name !== claim?.agent);
  const [id, title, where] = [h("span.id", {}, words.id), h("span.title", { title: words.title }, words.title), h("span.within", {}, words.where)];
  const link = h(
    "a.card",
    { href: board.href(card.id), tabindex: "-1", draggable: "false", dataset: { id: card.id, type: card.type, priority: card.priority ?? "" } },
    h(
      "span.top",
      {},
      sign(card.type, card.type),
      " ",
      id,
      " ",
      entry.waits > 0 && h("span.waits", { title: `Waits for ${model.waitsFor(card).slice(0, 20).join(", ")}` }, sign("lock", "waits for unfinished"), " ", String(entry.waits)),
      entry.pending && h("span.moving", {}, "moving…"),
      card.priority && priorityMark(card.priority),
    ),
    title,
    where,
    (card.labels || claim || others.length > 0) && h("span.foot", {}, labels(card.labels ?? []), h("span.grow"), people(claim, others)),
  );
  if (entry.pending) link.classList.add("pending");
  if (board.opened === card.id) link.setAttribute("aria-current", "true");
  const row = h("div.row", { role: "listitem" }, link);
  const parts = { link, id, title, where, words, sort: sortOf(entry, board) };
  known.set(row, parts);
  flash(parts, entry);
  return row;
}

/**
 * Turns the row of one entry into that of another, where only their words differ.
 *
 * @returns {boolean} whether it could be
 */
export function reuseRow(row, entry, board) {
  const parts = known.get(row);
  const { link, id, title, where, words, sort } = parts;
  if (sort === undefined || sort !== sortOf(entry, board)) return false;
  const now = wordsOf(entry, board.model);
  if (now.id !== words.id) {
    id.textContent = now.id;
    link.dataset.id = now.id;
  }
  // It holds the filter of the board, too.
  const href = board.href(now.id);
  if (link.getAttribute("href") !== href) link.setAttribute("href", href);
  if (now.title !== words.title) {
    title.textContent = now.title;
    title.title = now.title;
  }
  if (now.where !== words.where) where.textContent = now.where;
  Object.assign(words, now);
  flash(parts, entry);
  return true;
}

/** Brings the times of all claims in sight up to date. */
export function tick(region) {
  for (const shown of region.querySelectorAll("[data-until]")) shown.textContent = timeLeft(shown.dataset.until);
}
