// All servers, as they are.

import { link } from "../app.js";
import { get } from "../lib/api.js";
import { announce, h, replace } from "../lib/dom.js";
import { keys } from "../lib/keys.js";
import { on } from "../lib/stream.js";
import { buttons } from "./act.js";
import { sparkline } from "./sparkline.js";
import { millis, pathOf, stateOf } from "./words.js";

/** Shows the list and keeps it as things are. */
export async function listOf(root, signal) {
  const body = h("tbody", {});
  const table = h("div.servers-table", { role: "region", "aria-label": "Servers", tabindex: "0" }, h("table", {}, h("caption.unseen", {}, "MCP servers"), h("thead", {}, h("tr", {}, ["Server", "State", "Calls", "Latency", "Restarts", "Actions"].map((name) => h("th", { scope: "col" }, name)))), body));
  let states = new Map();
  let drawn = "";
  const show = ({ servers }) => {
    const now = JSON.stringify(servers, (key, value) => (key === "uptime_s" ? undefined : value));
    if (now === drawn) return;
    drawn = now;
    for (const { name, status } of servers) {
      const before = states.get(name);
      if (before && before !== status) announce(`${name} is ${stateOf(status)[0]}`);
    }
    states = new Map(servers.map(({ name, status }) => [name, status]));
    const held = document.activeElement?.closest("tr")?.dataset.name;
    const label = document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent;
    if (servers.length === 0) return replace(root, nothing());
    if (!table.isConnected) replace(root, table);
    replace(body, servers.map(row));
    const again = held && [...body.querySelectorAll("a,button")].find((one) => one.closest("tr").dataset.name === held && (one.getAttribute("aria-label") ?? one.textContent) === label);
    again?.focus();
  };
  on("servers", show, { signal });
  const load = async () => {
    const answer = await get("/api/mcp/servers", { signal });
    if (!signal.aborted) show(answer);
  };
  on("anew", load, { signal });
  await load();
  const step = (by) => {
    const links = [...body.querySelectorAll("a.title")];
    const now = links.indexOf(document.activeElement?.closest("tr")?.querySelector("a.title"));
    links[Math.max(0, Math.min(links.length - 1, now + by))]?.focus();
  };
  keys("j", "Next server", () => step(1), signal);
  keys("k", "Previous server", () => step(-1), signal);
  keys("ArrowDown", "Next server", () => step(1), signal);
  keys("ArrowUp", "Previous server", () => step(-1), signal);
}

function row(server) {
  const { name, transport, status, reason, calls, restarts, failed_starts: failed, latency_ms: latency } = server;
  const [word, kind] = stateOf(status);
  const sum = calls.answered + calls.refused + calls.failed;
  return h(
    "tr",
    { dataset: { name, status } },
    h("th", { scope: "row" }, link(pathOf(name), { class: "title" }, name), transport && h("div", {}, h("small", {}, transport))),
    h("td", {}, h("span.chip", { class: kind }, word), reason && h("div.reason", {}, h("small", {}, reason))),
    h("td", {}, String(sum), calls.failed > 0 && h("div", {}, h("small.problem", {}, `${calls.failed} failed`)), calls.in_flight > 0 && h("div", {}, h("small", {}, `${calls.in_flight} running`))),
    h("td", {}, sparkline(latency.recent), latency.recent.length > 0 && h("div", {}, h("small", {}, `half within ${millis(latency.p50)}, 99 % within ${millis(latency.p99)}`))),
    h("td", {}, String(restarts), failed > 0 && h("div", {}, h("small.problem", {}, `${failed} failed`))),
    h("td", {}, h("div.actions", {}, status === "needs_approval" && link(pathOf(name), { class: "button" }, "Review and approve"), buttons(server))),
  );
}

function nothing() {
  return h("div.empty", {}, h("h1", {}, "No MCP servers yet"), h("p", {}, "Orchestra runs the MCP servers of ", h("code", {}, ".mcp.json"), ", ", h("code", {}, ".vscode/mcp.json"), " or ", h("code", {}, "orchestra.toml"), " for all agents, after you approve them. Add one with ", h("code", {}, "orchestra mcp add"), "."));
}
