// What happens, as it happens: one stream of events for the whole page.

const { base } = document.documentElement.dataset;

/** So long a page waits before it tries again by itself; the browser's own tries come before. */
const PAUSE_MS = 1_000;

const listeners = new Map();
let source;
let boot;
let state = "connecting";

/**
 * Hears of one kind of event until `signal` is aborted. The kinds are those of `/api/events`, and:
 * `state` with "connecting", "live" or "lost"; `anew` when so much was missed that what is shown has
 * to be loaded again.
 */
export function on(kind, hear, { signal } = {}) {
  if (!listeners.has(kind)) {
    listeners.set(kind, new Set());
    if (source) listen(kind);
  }
  listeners.get(kind).add(hear);
  signal?.addEventListener("abort", () => listeners.get(kind).delete(hear));
}

/** How the stream is. */
export function streamState() {
  return state;
}

/** Opens the stream; once is enough, whatever happens to the program. */
export function open() {
  source?.close();
  source = new EventSource(`${base}/api/events`);
  source.addEventListener("open", () => turn("live"));
  source.addEventListener("error", () => {
    turn(state === "live" ? "lost" : state);
    // A refusal ends the source; a break does not.
    if (source.readyState === EventSource.CLOSED) setTimeout(open, PAUSE_MS);
  });
  source.addEventListener("hello", (event) => {
    const hello = JSON.parse(event.data);
    const assets = document.documentElement.dataset.assets;
    // The program is another one than the page is of.
    if (hello.assets !== assets) return location.reload();
    const again = boot !== undefined && (boot !== hello.boot || hello.missed);
    boot = hello.boot;
    if (again) tell("anew", hello);
  });
  source.addEventListener("reset", () => tell("anew", {}));
  source.addEventListener("anew", () => tell("anew", {}));
  for (const kind of listeners.keys()) listen(kind);
}

function listen(kind) {
  if (["state", "anew", "hello", "reset"].includes(kind)) return;
  source.addEventListener(kind, (event) => tell(kind, JSON.parse(event.data), place(event.lastEventId)));
}

/** The number of an event in its run of the program: ids are `BOOT-NUMBER`. */
function place(id) {
  return Number(id.slice(id.lastIndexOf("-") + 1));
}

function tell(kind, data, at) {
  for (const hear of listeners.get(kind) ?? []) hear(data, at);
}

function turn(to) {
  if (state === to) return;
  state = to;
  tell("state", state);
}
