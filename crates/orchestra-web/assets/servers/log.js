// What a server writes to standard error, as it does.

import { get } from "../lib/api.js";
import { h, replace } from "../lib/dom.js";
import { inNextFrame } from "../lib/frame.js";

/** How many lines are kept on the page. */
const MOST_LINES = 2_000;

/** Shows the last lines and follows. */
export async function logOf(root, name, signal) {
  const { base } = document.documentElement.dataset;
  const path = `/api/servers/${encodeURIComponent(name)}/log`;
  const text = h("pre", { tabindex: "0", role: "log", "aria-label": "Standard error" });
  const nothing = h("p", { hidden: true }, "The server has not written to standard error yet.");
  replace(root, h("h2", {}, "Standard error"), nothing, text);
  let fresh = [];
  const draw = inNextFrame(() => {
    const isAtEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
    text.append(...fresh.map((line) => h("span.line", {}, `${line}\n`)));
    fresh = [];
    while (text.childElementCount > MOST_LINES) text.firstElementChild.remove();
    nothing.hidden = text.childElementCount > 0;
    text.hidden = text.childElementCount === 0;
    if (isAtEnd) text.scrollTop = text.scrollHeight;
  }, signal);
  const load = async () => {
    const { lines } = await get(`${path}?lines=500`, { signal }).catch(() => ({ lines: [] }));
    if (signal.aborted) return;
    replace(text);
    fresh = lines;
    draw();
  };
  const source = new EventSource(`${base}${path}/follow`);
  signal.addEventListener("abort", () => source.close());
  // What was missed while the connection was lost is in the last lines.
  let wasOpen = false;
  source.addEventListener("open", () => {
    if (wasOpen) load();
    wasOpen = true;
  });
  source.addEventListener("line", (event) => {
    fresh.push(JSON.parse(event.data).text);
    draw();
  });
  await load();
}
