// Long work in short pieces, so that the page answers in between.

/** So long the page may be kept from drawing, in milliseconds. */
const PIECE_MS = 6;

/** Lets the browser do what waits, and comes back. */
export function breathe() {
  return globalThis.scheduler?.yield?.() ?? new Promise((resolve) => setTimeout(resolve, 0));
}

/** Does something with each item, and rests whenever a piece has lasted long enough. */
export async function inSlices(items, act) {
  let until = performance.now() + PIECE_MS;
  for (const item of items) {
    act(item);
    if (performance.now() < until) continue;
    await breathe();
    until = performance.now() + PIECE_MS;
  }
}
