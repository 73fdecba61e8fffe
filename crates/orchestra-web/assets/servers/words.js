// How the states of servers are said and coloured.

const STATES = {
  ready: ["ready", "good"],
  idle: ["idle", "good"],
  starting: ["starting", "run"],
  restarting: ["restarting", "warn"],
  degraded: ["degraded", "warn"],
  needs_auth: ["needs a login", "warn"],
  needs_approval: ["waits for approval", "warn"],
  offline: ["offline", "bad"],
  invalid: ["cannot be read", "bad"],
  disabled: ["disabled", ""],
  closed: ["closed", ""],
};

/** The word for a state, and the class of its chip. */
export function stateOf(status) {
  return STATES[status] ?? [status, ""];
}

/** The address of a server's page. */
export function pathOf(name) {
  return `/servers/of/${encodeURIComponent(name)}`;
}

/** A count of bytes in words. */
export function bytes(count) {
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${(count / 1024).toFixed(1)} KiB`;
  return `${(count / 1024 / 1024).toFixed(1)} MiB`;
}

/** Milliseconds that a call took. */
export function millis(ms) {
  return ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
