// Drags a card with the mouse, a pen or a finger to another column.

/** So far a pointer moves before a press becomes a drag. */
const FAR = 5;
/** So long a finger rests before it drags instead of scrolling. */
const LONG_PRESS_MS = 350;
/** So near to an edge the board scrolls under a dragged card, in pixels, and so fast. */
const EDGE = 60;
const SPEED = 14;

/**
 * Lets the cards of a board be dragged until `signal` is aborted.
 *
 * @param {HTMLElement} board
 * @param {{ begin: (id: string) => void, drop: (id: string, state: string) => void, end: () => void }} acts
 */
export function drags(board, acts, signal) {
  let press;
  let ghost;
  let over;
  let frame;

  const begin = () => {
    clearTimeout(press.timer);
    press.dragging = true;
    const box = press.card.getBoundingClientRect();
    ghost = press.card.cloneNode(true);
    ghost.classList.add("ghost");
    ghost.removeAttribute("tabindex");
    ghost.setAttribute("aria-hidden", "true");
    ghost.style.transform = "";
    ghost.style.width = `${box.width}px`;
    press.dx = press.x - box.left;
    press.dy = press.y - box.top;
    document.body.append(ghost);
    board.setPointerCapture(press.pointer);
    acts.begin(press.card.dataset.id);
    follow();
  };

  const follow = () => {
    if (!press?.dragging) return;
    ghost.style.left = `${press.x - press.dx}px`;
    ghost.style.top = `${press.y - press.dy}px`;
    const column = document.elementsFromPoint(press.x, press.y).map((at) => at.closest?.("[data-state].column")).find(Boolean);
    if (over !== column) {
      over?.classList.remove("over");
      column?.classList.add("over");
      over = column;
    }
    const box = board.getBoundingClientRect();
    if (press.x > box.right - EDGE) board.scrollLeft += SPEED;
    else if (press.x < box.left + EDGE) board.scrollLeft -= SPEED;
    frame = requestAnimationFrame(follow);
  };

  const end = (drop) => {
    if (!press) return;
    clearTimeout(press.timer);
    const { dragging, card } = press;
    press = undefined;
    if (!dragging) return;
    cancelAnimationFrame(frame);
    ghost.remove();
    over?.classList.remove("over");
    const state = over?.dataset.state;
    over = undefined;
    acts.end();
    // What follows a drag is no click on the card.
    board.addEventListener("click", (event) => event.stopPropagation(), { capture: true, once: true });
    setTimeout(() => board.dispatchEvent(new Event("click")), 0);
    if (drop && state) acts.drop(card.dataset.id, state);
  };

  board.addEventListener(
    "pointerdown",
    (event) => {
      const card = event.target.closest(".card");
      if (!card || event.button !== 0) return;
      press = { card, pointer: event.pointerId, x: event.clientX, y: event.clientY, fromX: event.clientX, fromY: event.clientY };
      if (event.pointerType === "touch") press.timer = setTimeout(begin, LONG_PRESS_MS);
    },
    { signal },
  );
  board.addEventListener(
    "pointermove",
    (event) => {
      if (!press || event.pointerId !== press.pointer) return;
      press.x = event.clientX;
      press.y = event.clientY;
      if (press.dragging) return;
      const far = Math.hypot(press.x - press.fromX, press.y - press.fromY) > FAR;
      if (!far) return;
      if (event.pointerType === "touch") end(false);
      else begin();
    },
    { signal },
  );
  board.addEventListener("pointerup", () => end(true), { signal });
  board.addEventListener("pointercancel", () => end(false), { signal });
  document.addEventListener("keydown", (event) => event.key === "Escape" && press?.dragging && end(false), { signal });
  signal.addEventListener("abort", () => end(false));
}
