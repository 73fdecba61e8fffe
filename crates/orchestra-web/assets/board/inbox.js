// What happens to the issues of a project, in its order, taken in piece by piece.

import { breathe } from "./slices.js";

/** So long events are taken in before the page may draw, in milliseconds. */
const PIECE_MS = 4;

/** So long what this page did itself is not taken for the work of others. */
const OWN_MS = 3_000;

/** Keeps events until there is a model, and then applies those that it does not hold yet. */
export class Inbox {
  /** @param {() => void} onTaken is called after each piece */
  constructor(onTaken) {
    this.onTaken = onTaken;
    this.queue = [];
    this.mine = new Map();
    this.model = undefined;
  }

  /** Keeps what comes from now on. */
  hold() {
    this.model = undefined;
  }

  /** Applies to a model what its snapshot, taken at `at`, does not hold. */
  release(model, at) {
    this.model = model;
    this.queue = this.queue.filter((event) => !(event.at <= at));
    if (!this.draining) this.drain();
  }

  /** An issue is about to change by this page's own doing. */
  own(id) {
    this.mine.set(id, performance.now() + OWN_MS);
  }

  isOwn(id) {
    const until = this.mine.get(id);
    if (until === undefined) return false;
    if (performance.now() < until) return true;
    this.mine.delete(id);
    return false;
  }

  /** @param {"cards"|"gone"} kind */
  take(kind, data, at) {
    // Each issue by itself, as one event may hold thousands.
    for (const card of data.cards ?? []) this.queue.push({ kind, card, at });
    for (const id of data.ids ?? []) this.queue.push({ kind, id, at });
    if (this.model && !this.draining) this.drain();
  }

  async drain() {
    this.draining = true;
    let done = 0;
    let until = performance.now() + PIECE_MS;
    while (this.model && done < this.queue.length) {
      this.apply(this.queue[done]);
      done += 1;
      if (performance.now() < until) continue;
      this.queue.splice(0, done);
      done = 0;
      this.onTaken();
      await breathe();
      until = performance.now() + PIECE_MS;
    }
    this.queue.splice(0, done);
    this.draining = false;
    if (this.model) this.onTaken();
  }

  apply({ kind, card, id }) {
    if (kind === "gone") this.model.remove(id);
    else {
      const entry = this.model.get(card.id);
      const others = !entry?.pending && !this.isOwn(card.id);
      this.model.put(card, { changed: others ? performance.now() : 0 });
    }
  }
}
