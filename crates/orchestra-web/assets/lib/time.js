// Times and amounts in words that are short.

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long ago, as "3 min". @param {number|string} at milliseconds since 1970, or ISO 8601 */
export function ago(at) {
  const since = Date.now() - new Date(at).getTime();
  if (since < MINUTE) return "just now";
  if (since < HOUR) return `${Math.floor(since / MINUTE)} min ago`;
  if (since < DAY) return `${Math.floor(since / HOUR)} h ago`;
  return `${Math.floor(since / DAY)} d ago`;
}

/** A span of milliseconds, as "350 ms", "4.2 s", "3 min 5 s". */
export function span(ms) {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ${Math.floor((ms % MINUTE) / SECOND)} s`;
  return `${Math.floor(ms / HOUR)} h ${Math.floor((ms % HOUR) / MINUTE)} min`;
}

/** A time of day, or a date where it was another day. */
export function clock(at) {
  const time = new Date(at);
  const today = time.toDateString() === new Date().toDateString();
  return today ? time.toLocaleTimeString() : time.toLocaleString();
}

/** A count, as "950", "12.4 k", "3.1 M". */
export function amount(count) {
  if (count < 1_000) return String(count);
  if (count < 1_000_000) return `${(count / 1_000).toFixed(1)} k`;
  return `${(count / 1_000_000).toFixed(1)} M`;
}
