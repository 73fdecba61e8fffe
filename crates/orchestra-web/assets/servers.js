// Servers of others and plugins: how they are, what is said to them, and a place to try tools.

import { link, nowhere } from "./app.js";
import { h, replace } from "./lib/dom.js";
import { listOf } from "./servers/list.js";

/** @param {HTMLElement} root @param {{ parts: string[], query: URLSearchParams }} place @param {AbortSignal} signal */
export async function page(root, { parts, query }, signal) {
  const [kind, ...names] = parts;
  const content = h("div.servers-content", {});
  if (kind && (!["of", "playground", "traffic"].includes(kind) || (kind === "of" && !names[0]))) return nowhere(root);
  replace(root, head(kind), content);
  if (!kind) return listOf(content, signal);
  if (kind === "traffic") {
    const { trafficPage } = await import("./servers/traffic.js");
    return trafficPage(content, query, signal);
  }
  if (kind === "playground") {
    const { playgroundPage } = await import("./servers/playground.js");
    return playgroundPage(content, names[0], query, signal);
  }
  const { serverPage } = await import("./servers/server.js");
  return serverPage(content, names[0], signal);
}

function head(kind) {
  const tab = (path, label, isCurrent) => link(path, { class: "tab", "aria-current": isCurrent ? "true" : undefined }, label);
  const isOfServers = kind !== "traffic" && kind !== "playground";
  return h("div.bar", {}, h("h1", {}, "Servers"), h("nav.servers-tabs", { "aria-label": "Server pages" }, tab("/servers", "All", isOfServers), tab("/servers/playground", "Playground", kind === "playground"), tab("/servers/traffic", "Traffic", kind === "traffic")));
}
