// Drawing once, however often it is asked for.

/**
 * Gives a function that has `draw` run in the next frame: once, however often it is called before.
 *
 * @param {() => void} draw
 * @param {AbortSignal} [signal] after its end nothing is drawn
 */
export function inNextFrame(draw, signal) {
  let pending = false;
  return () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      if (!signal?.aborted) draw();
    });
  };
}
