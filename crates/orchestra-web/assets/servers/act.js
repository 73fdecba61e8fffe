// What is done with a server: asked first where it interrupts something.

import { post } from "../lib/api.js";
import { announce, dialog, h, toast } from "../lib/dom.js";

/** Does something with a server and says what was done. */
export async function act(name, verb, body = {}) {
  const { told } = await post(`/api/servers/${encodeURIComponent(name)}/${verb}`, body);
  toast(told, "good");
  announce(told);
}

/** Asks first whether calls may be interrupted. */
export function asked(name, verb, inFlight) {
  const [label, effect] = { restart: ["Restart", "The server ends and starts again."], disable: ["Disable", "The server ends. Clients do not see its tools until you enable it again."] }[verb];
  const running = inFlight > 0 ? ` ${inFlight} ${inFlight === 1 ? "call runs" : "calls run"} and will be interrupted. Calls that are safe to repeat are repeated.` : "";
  dialog(`${label} ${name}?`, [h("p", {}, effect + running)], { submit: label, danger: verb === "disable", onSubmit: () => act(name, verb) });
}

/** The buttons that fit a server as it is. */
export function buttons(server) {
  const { name, status } = server;
  const button = (label, run, kind = "button") => h(kind, { type: "button", "aria-label": `${label} ${name}`, onclick: run }, label);
  if (status === "disabled") return [button("Enable", () => act(name, "enable"))];
  if (status === "needs_approval" || status === "invalid") return [button("Disable", () => asked(name, "disable", 0))];
  const inFlight = server.calls?.in_flight ?? 0;
  return [button("Restart", () => (inFlight > 0 ? asked(name, "restart", inFlight) : act(name, "restart"))), button("Disable", () => asked(name, "disable", inFlight))];
}
