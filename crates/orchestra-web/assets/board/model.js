// The issues of a project, sorted into the columns of the board and kept so as they change.

import { FINAL, STATES, isParent } from "./states.js";
import { inSlices } from "./slices.js";

const RANKS = { critical: 0, high: 1, medium: 2, low: 3 };
const NO_RANK = 4;

/** More than any number in an id, so that the priority decides first. */
const PER_RANK = 1e10;

/**
 * What is known of a card. It is another object whenever it has to be drawn anew.
 *
 * @typedef {{ id: string, card: any, order: number, text: string, waits: number, pending?: string,
 *   state: string, fits: boolean, changed: number }} Entry
 */

function orderOf(card) {
  return (RANKS[card.priority] ?? NO_RANK) * PER_RANK + Number(card.id.slice(card.id.lastIndexOf("-") + 1));
}

function compare(one, other) {
  return one.order - other.order || (one.id < other.id ? -1 : Number(one.id > other.id));
}

/** Where an entry is in a sorted list, or would be. */
export function placeIn(list, entry) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(list[middle], entry) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Puts an entry into a sorted list. */
export function insertInto(list, entry) {
  list.splice(placeIn(list, entry), 0, entry);
}

/** Takes an entry out of a sorted list. */
export function removeFrom(list, entry) {
  const at = placeIn(list, entry);
  if (list[at]?.id === entry.id) list.splice(at, 1);
}

/** The one that stands below another: a task below its story, a story below its epic. */
function parentOf(card) {
  return card.type === "story" ? card.epic_id : card.story_id;
}

function count(tally, key, by) {
  if (key === undefined) return;
  const now = (tally.get(key) ?? 0) + by;
  if (now > 0) tally.set(key, now);
  else tally.delete(key);
}

function join(sets, key, id) {
  if (!sets.has(key)) sets.set(key, new Set());
  sets.get(key).add(id);
}

function part(sets, key, id) {
  const set = sets.get(key);
  set?.delete(id);
  if (set?.size === 0) sets.delete(key);
}

/** All issues of a project, and which of them each column shows. */
export class Model {
  constructor(states) {
    this.exits = new Map(states.map(({ state, exits }) => [state, exits]));
    /** @type {Map<string, Entry>} */
    this.entries = new Map();
    this.columns = new Map(STATES.map((state) => [state, { all: [], shown: [] }]));
    this.neededBy = new Map();
    this.below = new Map();
    this.progress = new Map();
    this.labels = new Map();
    this.people = new Map();
    this.test = undefined;
    this.dirty = new Set();
    this.touched = new Set();
    this.watcher = undefined;
  }

  /** Builds a model of a snapshot, piece by piece. */
  static async build({ states, cards }) {
    const model = new Model(states);
    const buckets = new Map(STATES.map((state) => [state, Array.from({ length: NO_RANK + 1 }, () => [])]));
    await inSlices(cards, (card) => {
      const entry = model.entryOf(card);
      model.entries.set(card.id, entry);
      model.index(card, 1);
      buckets.get(card.status)?.[Math.floor(entry.order / PER_RANK)].push(entry);
    });
    await inSlices(model.neededBy.values(), (ids) => {
      // Nobody has seen these yet, so they need not become others.
      for (const id of ids) model.entries.get(id).waits = model.waitsFor(model.entries.get(id).card).length;
    });
    // What comes in order of its number is sorted in one pass, where it is one priority.
    await inSlices(buckets, ([state, ranks]) => {
      const { all } = model.columns.get(state);
      for (const rank of ranks) for (const entry of rank.sort(compare)) all.push(entry);
      model.columns.get(state).shown = all;
      model.dirty.add(state);
    });
    return model;
  }

  entryOf(card, { pending, changed = 0 } = {}) {
    const entry = {
      id: card.id,
      card,
      order: orderOf(card),
      text: card.title.toLowerCase(),
      waits: 0,
      pending,
      state: pending ?? card.status,
      fits: true,
      changed,
    };
    return entry;
  }

  /** Counts a card among what others need to know, or takes it out. */
  index(card, by) {
    const set = by > 0 ? join : part;
    for (const id of card.depends_on ?? []) set(this.neededBy, id, card.id);
    const parent = parentOf(card);
    if (parent) set(this.below, parent, card.id);
    for (const label of card.labels ?? []) count(this.labels, label, by);
    for (const name of new Set([...(card.assignees ?? []), card.claim?.agent])) count(this.people, name, by);
    if (isParent(card)) return;
    for (const above of [card.story_id, card.epic_id]) {
      if (!above) continue;
      const known = this.progress.get(above) ?? { total: 0, done: 0 };
      if (card.status === "cancelled") continue;
      this.progress.set(above, { total: known.total + by, done: known.done + (card.status === "done" ? by : 0) });
    }
  }

  get(id) {
    return this.entries.get(id);
  }

  /** The ids of unfinished issues that a card waits for. */
  waitsFor(card) {
    return (card.depends_on ?? []).filter((id) => {
      const other = this.entries.get(id);
      return other !== undefined && !FINAL.has(other.card.status);
    });
  }

  /** How far what is below an epic or a story is. */
  progressOf(id) {
    return this.progress.get(id) ?? { total: 0, done: 0 };
  }

  /** Puts a card in place of what was known of it. @returns {boolean} whether anything is another */
  put(card, { changed = 0 } = {}) {
    const before = this.entries.get(card.id);
    if (before && JSON.stringify(before.card) === JSON.stringify(card)) return false;
    if (before) this.index(before.card, -1);
    this.index(card, 1);
    this.swap(before, this.entryOf(card, { pending: before?.pending, changed: changed || before?.changed }));
    const was = before && FINAL.has(before.card.status);
    if (was !== FINAL.has(card.status)) for (const id of this.neededBy.get(card.id) ?? []) this.refresh(id);
    if (before && before.card.title !== card.title) this.renamed(card.id);
    const moved = before?.card.status !== card.status || before?.card.story_id !== card.story_id || before?.card.epic_id !== card.epic_id;
    if (moved) for (const id of [before?.card.story_id, before?.card.epic_id, card.story_id, card.epic_id]) this.refresh(id);
    return true;
  }

  /** What stands below an issue shows its title. */
  renamed(id) {
    for (const child of this.below.get(id) ?? []) {
      this.refresh(child);
      this.renamed(child);
    }
  }

  /** Takes in what a tool answered of an issue: those of its fields that a card has. */
  adopt(result) {
    const before = this.entries.get(result.id);
    const { children, description, created_at, fixes, cancelled_with, ...card } = result;
    if (!before) return this.put(card);
    const kept = { ...before.card };
    // Without a version nothing is known of the one that the issue has now.
    if (!card.version) delete kept.version;
    // A field that is left out is empty.
    for (const name of ["priority", "assignees", "labels", "depends_on", "claim"]) delete kept[name];
    return this.put({ ...kept, ...card });
  }

  /** Forgets an issue and all that is below it. */
  remove(id) {
    const before = this.entries.get(id);
    if (!before) return;
    for (const child of [...(this.below.get(id) ?? [])]) this.remove(child);
    this.index(before.card, -1);
    this.entries.delete(id);
    this.drop(before);
    for (const other of this.neededBy.get(id) ?? []) this.refresh(other);
    for (const above of [before.card.story_id, before.card.epic_id]) this.refresh(above);
  }

  /** Shows a card in another column until it is known whether it may go there. */
  setPending(id, state) {
    const before = this.entries.get(id);
    if (before) this.swap(before, this.entryOf(before.card, { pending: state, changed: before.changed }));
  }

  /** Lets a card be drawn anew, as something around it is another. */
  refresh(id) {
    const before = id && this.entries.get(id);
    if (before) this.swap(before, this.entryOf(before.card, before));
  }

  swap(before, now) {
    now.waits = this.waitsFor(now.card).length;
    now.fits = this.test === undefined || this.test(now);
    this.entries.set(now.id, now);
    const same = before && before.state === now.state && before.order === now.order;
    if (!same) {
      if (before) this.drop(before);
      this.add(now);
      return;
    }
    const { all, shown } = this.columns.get(now.state) ?? {};
    if (!all) return;
    all[placeIn(all, now)] = now;
    this.touched.add(now.id);
    if (before.fits && now.fits) {
      if (shown !== all) shown[placeIn(shown, now)] = now;
      this.dirty.add(now.state);
      this.watcher?.replaced(now);
    } else if (before.fits !== now.fits) {
      (now.fits ? insertInto : removeFrom)(shown, now);
      this.dirty.add(now.state);
      if (now.fits) this.watcher?.added(now);
      else this.watcher?.removed(before);
    }
  }

  add(entry) {
    this.touched.add(entry.id);
    const column = this.columns.get(entry.state);
    if (!column) return;
    insertInto(column.all, entry);
    this.dirty.add(entry.state);
    if (!entry.fits) return;
    if (column.shown !== column.all) insertInto(column.shown, entry);
    this.watcher?.added(entry);
  }

  drop(entry) {
    this.touched.add(entry.id);
    const column = this.columns.get(entry.state);
    if (!column) return;
    removeFrom(column.all, entry);
    this.dirty.add(entry.state);
    if (!entry.fits) return;
    if (column.shown !== column.all) removeFrom(column.shown, entry);
    this.watcher?.removed(entry);
  }

  /** Lets only those be shown that pass; without a test all are. */
  filter(test) {
    this.test = test;
    for (const [state, column] of this.columns) {
      if (test === undefined) {
        for (const entry of column.all) entry.fits = true;
        column.shown = column.all;
      } else {
        column.shown = column.all.filter((entry) => (entry.fits = test(entry)));
      }
      this.dirty.add(state);
    }
    this.watcher?.rebuilt();
  }

  /** How many are shown. */
  shownCount() {
    let sum = 0;
    for (const { shown } of this.columns.values()) sum += shown.length;
    return sum;
  }

  /** Entries of some types, by number. */
  ofTypes(...types) {
    const found = [];
    for (const entry of this.entries.values()) if (types.includes(entry.card.type)) found.push(entry);
    return found.sort((one, other) => (one.order % PER_RANK) - (other.order % PER_RANK));
  }
}
