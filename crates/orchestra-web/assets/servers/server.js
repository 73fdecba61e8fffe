// One server: how it is, what it would run, what waits to be approved, its tools and its log.

import { go, link } from "../app.js";
import { get } from "../lib/api.js";
import { announce, h, replace } from "../lib/dom.js";
import { keys } from "../lib/keys.js";
import { on } from "../lib/stream.js";
import { ago, clock } from "../lib/time.js";
import { act, buttons } from "./act.js";
import { logOf } from "./log.js";
import { sparkline } from "./sparkline.js";
import { changeOf } from "./changes.js";
import { bytes, millis, stateOf } from "./words.js";

/** Shows a server. */
export async function serverPage(root, name, signal) {
  const facts = h("section.panel", { "aria-label": "Status" });
  const waits = h("section.panel.warning", { "aria-label": "Waiting for approval", hidden: true });
  const does = h("section.panel", { "aria-label": "Definition" });
  const tools = h("section.panel", { "aria-label": "Tools" });
  const log = h("section.panel.server-log", { "aria-label": "Standard error" });
  replace(root, h("p", {}, link("/servers", {}, "All servers")), facts, waits, does, tools, log);
  let status;
  const define = async () => {
    const definition = await get(`/api/servers/${encodeURIComponent(name)}/definition`, { signal });
    if (signal.aborted) return;
    replace(does, h("h2", {}, "Definition"), definition.reason && h("p.problem", {}, definition.reason), h("pre", { tabindex: "0", "aria-label": "Definition" }, definition.does.join("\n")), h("p", {}, h("small", {}, "From ", definition.origin)));
    approve(waits, name, definition.waits, define);
  };
  const list = async () => {
    const answer = await get("/api/mcp/tools", { signal });
    if (signal.aborted) return;
    const own = answer.tools.filter((tool) => tool.name.startsWith(`${name}__`));
    replace(tools, h("h2", {}, `Tools (${own.length})`), own.length === 0 ? h("p", {}, "This server offers no tools at present.") : h("ul.tool-list", {}, own.map((tool) => h("li", {}, link(`/servers/playground/${encodeURIComponent(tool.name)}`, {}, tool.name.slice(name.length + 2)), " ", h("small", {}, tool.description ?? "")))));
  };
  const show = ({ servers }) => {
    const server = servers.find((one) => one.name === name);
    if (!server) return replace(facts, h("h2", {}, name), h("p.problem", {}, "This server is no longer configured."));
    drawFacts(facts, server);
    if (status !== undefined && status !== server.status) {
      announce(`${name} is ${stateOf(server.status)[0]}`);
      define();
      list();
    }
    status = server.status;
  };
  on("servers", show, { signal });
  const load = async () => {
    // From above to below, so that nothing moves away below a finger.
    show(await get("/api/mcp/servers", { signal }));
    await define();
    await list();
  };
  on("anew", load, { signal });
  await load();
  if (signal.aborted) return;
  await logOf(log, name, signal);
  keys("Escape", "All servers", () => go("/servers"), signal);
}

function drawFacts(root, server) {
  const { status, reason, protocol, transport, calls, restarts, processes, latency_ms: latency, last_error: error, uptime_s: uptime } = server;
  const [word, kind] = stateOf(status);
  const held = root.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : undefined;
  const entries = [
    ["Transport", [transport, protocol].filter(Boolean).join(", MCP ")],
    ["Up since", uptime !== undefined && clock(Date.now() - uptime * 1_000)],
    ["Processes", String(processes)],
    ["Restarts", String(restarts)],
    ["Calls", `${calls.answered} answered, ${calls.refused} refused, ${calls.failed} failed, ${calls.in_flight} running`],
    ["Latency", latency.recent.length > 0 && [sparkline(latency.recent), ` mean ${millis(latency.mean)}, p50 ${millis(latency.p50)}, p90 ${millis(latency.p90)}, p99 ${millis(latency.p99)}`]],
    ["Bytes", `${bytes(server.bytes_out)} sent, ${bytes(server.bytes_in)} received`],
    ["Last error", error && [h("span", { title: new Date(error.unix_ms).toISOString() }, ago(error.unix_ms)), ": ", error.text]],
  ].filter(([, what]) => what);
  replace(root, h("div.bar", {}, h("h2", {}, server.name), h("span.chip", { class: kind }, word), h("span.grow"), buttons(server)), reason && h("p", {}, reason), h("dl.facts", {}, entries.map(([term, what]) => h("div", {}, h("dt", {}, term), h("dd", {}, what)))));
  if (held) [...root.querySelectorAll("button")].find((button) => button.getAttribute("aria-label") === held)?.focus();
}

/** Shows what waits, all of it, and lets it be approved as it was shown. */
function approve(root, name, waits, again) {
  root.hidden = !waits;
  if (!waits) return;
  const button = h("button.primary", { type: "button", onclick: async () => {
    button.disabled = true;
    try {
      await act(name, "approve", { fingerprint: waits.fingerprint });
    } finally {
      button.disabled = false;
      await again();
    }
  } }, "Approve this definition");
  replace(root, h("h2", {}, "Waiting for approval"), h("pre", { tabindex: "0", "aria-label": "Definition to approve" }, waits.shows.join("\n")), waits.tools.map(changeOf), h("p", {}, button), h("small", {}, "If the definition changes before you approve it, nothing is approved and the new definition is shown."));
}
