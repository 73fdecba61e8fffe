// The cards that are shown, sorted into the lanes of epics or stories.

import { insertInto, placeIn, removeFrom } from "./model.js";
import { STATES } from "./states.js";

/**
 * One lane.
 *
 * @typedef {{ key: string, cells: Map<string, any[]>, count: number, folded: boolean, top: number, height: number }} Band
 */

/** Sorts what a model shows into lanes, and keeps it so. */
export class Bands {
  /** @param {import("./model.js").Model} model @param {"epic"|"story"} by @param {Set<string>} folded keys of lanes that are folded */
  constructor(model, by, folded) {
    Object.assign(this, { model, by, folded });
    model.watcher = this;
    this.rebuilt();
  }

  /** The lane of an entry; undefined for those that lanes are made of. */
  keyOf({ card }) {
    if (card.type === this.by) return undefined;
    return (this.by === "epic" ? card.epic_id : card.story_id) ?? "";
  }

  rebuilt() {
    /** @type {Map<string, Band>} */
    this.all = new Map();
    for (const state of STATES) {
      for (const entry of this.model.columns.get(state).shown) {
        const key = this.keyOf(entry);
        if (key !== undefined) this.cell(key, state).push(entry);
      }
    }
    for (const band of this.all.values()) for (const cell of band.cells.values()) band.count += cell.length;
    this.sorted = undefined;
  }

  cell(key, state) {
    let band = this.all.get(key);
    if (!band) {
      band = { key, cells: new Map(STATES.map((one) => [one, []])), count: 0, folded: this.folded.has(key), top: 0, height: 0 };
      this.all.set(key, band);
      this.sorted = undefined;
    }
    return band.cells.get(state);
  }

  added(entry) {
    const key = this.keyOf(entry);
    if (key === undefined) return;
    insertInto(this.cell(key, entry.state), entry);
    this.all.get(key).count += 1;
  }

  removed(entry) {
    const key = this.keyOf(entry);
    const band = this.all.get(key);
    if (!band) return;
    removeFrom(band.cells.get(entry.state), entry);
    band.count -= 1;
    if (band.count > 0) return;
    this.all.delete(key);
    this.sorted = undefined;
  }

  replaced(entry) {
    const key = this.keyOf(entry);
    if (key === undefined) {
      // The order of lanes is that of their owners.
      this.sorted = undefined;
      return;
    }
    const cell = this.all.get(key)?.cells.get(entry.state);
    const at = cell ? placeIn(cell, entry) : -1;
    if (cell?.[at]?.id === entry.id) cell[at] = entry;
    // It was moved below another without any change of its column.
    else this.rebuilt();
  }

  /** The lanes in their order: that of their epics or stories, those without one last. */
  inOrder() {
    this.sorted ??= [...this.all.values()].sort((one, other) => {
      const [a, b] = [this.model.get(one.key), this.model.get(other.key)];
      return Number(!a) - Number(!b) || (a && b ? a.order - b.order : 0) || (one.key < other.key ? -1 : 1);
    });
    return this.sorted;
  }

  /** The lane, the cell and the place in it of an entry. */
  find(id) {
    const entry = this.model.get(id);
    const key = entry?.fits ? this.keyOf(entry) : undefined;
    const band = key === undefined ? undefined : this.all.get(key);
    if (!band) return undefined;
    return { entry, band, at: placeIn(band.cells.get(entry.state), entry) };
  }
}
