// A snapshot and what happens after it, so that nothing is missed and nothing is told twice.

import { on } from "./stream.js";

/**
 * Loads a snapshot and applies the events that are not in it yet; loads anew when too much was missed.
 *
 * @param {{ kinds: string[], load: () => Promise<{at: number}>, reset: (snapshot: any) => void,
 *   apply: (kind: string, data: any) => void, signal: AbortSignal }} how
 * @returns {Promise<() => Promise<void>>} loads the snapshot again
 */
export async function follow({ kinds, load, reset, apply, signal }) {
  let at = -1;
  let queue = [];
  let loading = 0;
  for (const kind of kinds) {
    on(
      kind,
      (data, place) => {
        if (loading > 0) queue.push([kind, data, place]);
        // A place that is no number is that of an event without one: it is new.
        else if (!(place <= at)) apply(kind, data);
      },
      { signal },
    );
  }
  const again = async () => {
    loading += 1;
    try {
      const snapshot = await load();
      if (signal.aborted) return;
      at = snapshot.at ?? -1;
      reset(snapshot);
    } finally {
      loading -= 1;
      if (loading === 0) {
        const waiting = queue;
        queue = [];
        for (const [kind, data, place] of waiting) if (!signal.aborted && !(place <= at)) apply(kind, data);
      }
    }
  };
  on("anew", again, { signal });
  await again();
  return again;
}

/** Gives a function that runs `act` once, so many milliseconds after it was last asked for the first time. */
export function soon(act, ms, signal) {
  let timer;
  signal.addEventListener("abort", () => clearTimeout(timer));
  return () => {
    if (timer !== undefined || signal.aborted) return;
    timer = setTimeout(() => {
      timer = undefined;
      act();
    }, ms);
  };
}

/** Does things a few at a time; what is asked for again under a key while it waits is done once. */
export class Few {
  /** @param {number} most how many at once @param {AbortSignal} signal */
  constructor(most, signal) {
    this.most = most;
    this.signal = signal;
    this.waiting = new Map();
    this.busy = 0;
  }

  /** @param {string} key @param {() => Promise<void>} act */
  add(key, act) {
    this.waiting.set(key, act);
    this.next();
  }

  next() {
    while (this.busy < this.most && this.waiting.size > 0 && !this.signal.aborted) {
      const [key, act] = this.waiting.entries().next().value;
      this.waiting.delete(key);
      this.busy += 1;
      act()
        .catch(() => {})
        .finally(() => {
          this.busy -= 1;
          this.next();
        });
    }
  }
}
