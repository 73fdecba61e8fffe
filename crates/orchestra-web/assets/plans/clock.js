// One timer for all that grows older on a page: it runs while something does and the page is looked at.

const SECOND_MS = 1_000;

const hearers = new Set();
let timer;

/**
 * Calls `beat` each second while `needed` says so and the page is visible, and once when it comes back
 * in sight.
 *
 * @param {() => boolean} needed whether time passes for anything
 * @param {() => void} beat
 * @param {AbortSignal} signal
 */
export function everySecond(needed, beat, signal) {
  const hearer = { needed, beat };
  hearers.add(hearer);
  signal.addEventListener("abort", () => {
    hearers.delete(hearer);
    wake();
  });
  wake();
}

/** Looks again whether anybody needs the timer: call it when something has begun or ended. */
export function wake() {
  const wanted = !document.hidden && [...hearers].some(({ needed }) => needed());
  if (wanted && timer === undefined) timer = setInterval(beatAll, SECOND_MS);
  if (!wanted && timer !== undefined) {
    clearInterval(timer);
    timer = undefined;
  }
}

function beatAll() {
  for (const { needed, beat } of hearers) if (needed()) beat();
  wake();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) beatAll();
  wake();
});
