// Messages put together: each request with its reply.

/** How many are kept. */
const MOST_PAIRS = 2_000;

/** What passed, oldest first; the oldest are let go. */
export class Pairs {
  constructor() {
    this.clear();
  }

  clear() {
    this.list = [];
    this.open = new Map();
    this.dropped = 0;
  }

  /** Takes a message as `/api/traffic` tells it. */
  add(message) {
    // A reply goes the other way than what it answers.
    if (message.type === "response") {
      const key = keyOf(message, message.direction === "sent" ? "received" : "sent");
      const pair = this.open.get(key);
      if (pair) {
        this.open.delete(key);
        pair.reply = message;
        pair.changed = true;
        return;
      }
    }
    const pair = { n: message.n, first: message, reply: undefined };
    this.list.push(pair);
    if (message.type === "request") this.open.set(keyOf(message, message.direction), pair);
    while (this.list.length > MOST_PAIRS) {
      const gone = this.list.shift();
      if (gone.first.type === "request") this.open.delete(keyOf(gone.first, gone.first.direction));
    }
  }
}

function keyOf({ server, id }, direction) {
  return JSON.stringify([server, direction, id]);
}

/** Whether a pair is one of those that are asked for. */
export function passes(pair, { text, server, kind, errors }) {
  const { first, reply } = pair;
  if (server && first.server !== server) return false;
  if (kind === "calls" && first.method !== "tools/call") return false;
  if (kind === "sent" && first.direction !== "sent") return false;
  if (kind === "received" && first.direction !== "received") return false;
  if (errors && !first.error && !reply?.error) return false;
  if (text === "") return true;
  pair.said ??= JSON.stringify(first).toLowerCase();
  if (pair.said.includes(text)) return true;
  if (!reply) return false;
  pair.replied ??= JSON.stringify(reply).toLowerCase();
  return pair.replied.includes(text);
}
