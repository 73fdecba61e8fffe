// What passes between the program and servers of others, as it passes: requests with their replies.

import { go } from "../app.js";
import { announce, h, replace } from "../lib/dom.js";
import { inNextFrame } from "../lib/frame.js";
import { keys } from "../lib/keys.js";
import { Pairs, passes } from "./pairs.js";
import { tryAgain } from "./playground.js";
import { tree } from "./tree.js";
import { bytes, millis } from "./words.js";

/** How many rows stand on the page. */
const MOST_ROWS = 300;

const KINDS = { all: "All messages", calls: "Calls of tools", sent: "Sent by Orchestra", received: "Sent by servers" };

/** Shows the traffic from now on. */
export function trafficPage(root, query, signal) {
  new Traffic(root, query, signal).begin();
}

class Traffic {
  constructor(root, query, signal) {
    Object.assign(this, { root, signal });
    this.filter = { text: query.get("q") ?? "", server: query.get("server") ?? "", kind: query.get("kind") in KINDS ? query.get("kind") : "all", errors: query.has("errors") };
    this.pairs = new Pairs();
    this.rows = new Map();
    this.servers = new Set();
    this.later = inNextFrame(() => this.draw(), signal);
  }

  begin() {
    const { signal, filter } = this;
    this.find = h("input", { type: "search", placeholder: "Filter by text", "aria-label": "Filter traffic", value: filter.text, oninput: () => this.narrow({ text: this.find.value }) });
    this.choose = h("select", { "aria-label": "Server", onchange: () => this.narrow({ server: this.choose.value }) });
    const kinds = h("select", { "aria-label": "Which messages", onchange: () => this.narrow({ kind: kinds.value }) }, Object.entries(KINDS).map(([value, label]) => h("option", { value, selected: value === filter.kind }, label)));
    const errors = h("input", { type: "checkbox", checked: filter.errors, onchange: () => this.narrow({ errors: errors.checked }) });
    this.hold = h("button.toggle", { type: "button", "aria-pressed": "false", onclick: () => this.pause() }, "Pause");
    this.state = h("span", { role: "status" });
    this.body = h("tbody", {});
    this.nothing = h("p.nothing", {});
    this.details = h("section.panel.details", { "aria-label": "Message", hidden: true, tabindex: "-1" });
    replace(
      this.root,
      h("div.bar", { role: "search" }, this.find, this.choose, kinds, h("label.check", {}, errors, " Errors only"), h("span.grow"), this.state, this.hold, h("button", { type: "button", onclick: () => this.clear() }, "Clear")),
      h("div.traffic", {}, h("div.servers-table", { role: "region", "aria-label": "Messages", tabindex: "0" }, h("table", {}, h("caption.unseen", {}, "Messages, newest first"), h("thead", {}, h("tr", {}, ["When", "Server", "What", "Took", "Size"].map((name) => h("th", { scope: "col" }, name)))), this.body), this.nothing), this.details),
    );
    keys("/", "Filter the traffic", () => this.find.focus(), signal);
    keys("p", "Pause or resume", () => this.pause(), signal);
    keys("c", "Clear", () => this.clear(), signal);
    keys("j", "Next message", () => this.step(1), signal);
    keys("k", "Previous message", () => this.step(-1), signal);
    keys("Escape", "Close the message", () => this.close(), signal);
    this.listen();
    this.draw();
  }

  listen() {
    const { base } = document.documentElement.dataset;
    const source = new EventSource(`${base}/api/traffic`);
    this.signal.addEventListener("abort", () => source.close());
    source.addEventListener("message", (event) => this.take(JSON.parse(event.data)));
    source.addEventListener("dropped", (event) => {
      this.pairs.dropped += JSON.parse(event.data).dropped;
      this.later();
    });
  }

  take(message) {
    if (this.isHeld) {
      this.missed = (this.missed ?? 0) + 1;
    } else {
      this.pairs.add(message);
      this.servers.add(message.server);
    }
    this.later();
  }

  narrow(change) {
    Object.assign(this.filter, change);
    const { text, server, kind, errors } = this.filter;
    const query = new URLSearchParams();
    if (text) query.set("q", text);
    if (server) query.set("server", server);
    if (kind !== "all") query.set("kind", kind);
    if (errors) query.set("errors", "1");
    go(`/servers/traffic${query.size > 0 ? `?${query}` : ""}`, { replace: true, quiet: true });
    this.draw();
  }

  pause() {
    this.isHeld = !this.isHeld;
    this.missed = 0;
    this.hold.setAttribute("aria-pressed", String(this.isHeld));
    this.hold.textContent = this.isHeld ? "Resume" : "Pause";
    announce(this.isHeld ? "Paused" : "Resumed");
    this.draw();
  }

  clear() {
    this.pairs.clear();
    this.close();
    this.draw();
  }

  draw() {
    const names = ["", ...this.servers, ...(this.filter.server && !this.servers.has(this.filter.server) ? [this.filter.server] : [])];
    if (this.choose.childElementCount !== names.length) replace(this.choose, names.map((name) => h("option", { value: name, selected: name === this.filter.server }, name || "All servers")));
    const asked = { ...this.filter, text: this.filter.text.trim().toLowerCase() };
    const shown = [];
    for (let at = this.pairs.list.length - 1; at >= 0 && shown.length < MOST_ROWS; at -= 1) if (passes(this.pairs.list[at], asked)) shown.push(this.pairs.list[at]);
    const wanted = new Set(shown);
    for (const [pair, row] of this.rows) {
      if (wanted.has(pair)) continue;
      row.remove();
      this.rows.delete(pair);
    }
    let at = this.body.firstElementChild;
    for (const pair of shown) {
      let row = this.rows.get(pair);
      if (row && pair.changed) {
        const made = this.row(pair);
        const isFocused = row.contains(document.activeElement);
        if (at === row) at = made;
        row.replaceWith(made);
        if (isFocused) made.querySelector("button").focus();
        row = made;
      }
      row ??= this.row(pair);
      pair.changed = false;
      this.rows.set(pair, row);
      if (at === row) at = at.nextElementSibling;
      else this.body.insertBefore(row, at);
    }
    const { dropped } = this.pairs;
    this.state.textContent = [this.isHeld && `paused, ${this.missed} not shown`, dropped > 0 && `${dropped} messages dropped`].filter(Boolean).join("; ");
    this.nothing.hidden = shown.length > 0;
    this.nothing.textContent = this.pairs.list.length > 0 ? "No message matches. Change the filter." : "No messages yet. Call a tool of a server in the playground or from an agent: its messages are shown here.";
    if (this.opened) this.showDetails();
  }

  row(pair) {
    const { first, reply } = pair;
    const isBad = first.error || reply?.error;
    const what = [first.method ?? first.type, first.tool].filter(Boolean).join(" ");
    const took = reply ? millis(reply.ms ?? reply.time - first.time) : first.type === "request" ? "…" : "";
    return h(
      "tr",
      { class: isBad ? "is-bad" : "" },
      h("td", {}, new Date(first.time).toLocaleTimeString()),
      h("td", {}, first.server),
      h("td", {}, h("span", { "aria-hidden": "true" }, first.direction === "sent" ? "→ " : "← "), h("button.plain.title", { type: "button", onclick: () => this.open(pair) }, what, h("span.unseen", {}, first.direction === "sent" ? ", sent" : ", received")), isBad && h("span.chip.bad", {}, "error")),
      h("td.number", {}, took),
      h("td.number", {}, bytes(first.bytes + (reply?.bytes ?? 0))),
    );
  }

  open(pair) {
    this.opened = pair;
    this.shownReply = undefined;
    this.details.hidden = false;
    this.showDetails(true);
    this.details.focus();
  }

  close() {
    if (!this.opened) return;
    const row = this.rows.get(this.opened);
    this.opened = undefined;
    this.details.hidden = true;
    row?.querySelector("button").focus();
  }

  showDetails(isNew = false) {
    const { first, reply } = this.opened;
    if (!isNew && this.shownReply === reply) return;
    this.shownReply = reply;
    const params = typeof first.body === "object" ? first.body?.params : undefined;
    const canRepeat = first.direction === "sent" && first.method === "tools/call" && params?.name;
    const masked = first.masked || reply?.masked;
    replace(
      this.details,
      h("div.bar", {}, h("h2", {}, [first.method ?? first.type, first.tool].filter(Boolean).join(" ")), h("span.grow"), canRepeat && h("button", { type: "button", onclick: () => tryAgain(`${first.server}__${first.tool ?? params.name}`, params.arguments ?? {}) }, "Replay…"), h("button", { type: "button", onclick: () => this.close() }, "Close")),
      masked && h("p", {}, h("small", {}, "Values that look like secrets are masked. Fill them in before you replay the call.")),
      message(first, first.type === "request" ? "Request" : "Message"),
      reply && message(reply, "Reply"),
    );
  }

  step(by) {
    const buttons = [...this.body.querySelectorAll("button.title")];
    const now = buttons.indexOf(document.activeElement);
    buttons[Math.max(0, Math.min(buttons.length - 1, now + by))]?.focus();
  }
}

function message({ time, body, bytes: size }, title) {
  const shown = body === undefined ? h("p", {}, "The text of this message was not recorded.") : typeof body === "string" ? [h("pre", { tabindex: "0" }, body), h("small", {}, "Only the beginning is shown.")] : tree(body);
  return h("section", { "aria-label": title }, h("h3", {}, title, " ", h("small", {}, `${new Date(time).toISOString()}, ${bytes(size)}`)), shown);
}
