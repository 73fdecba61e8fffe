// The tokens that were spent on an issue and on all that is below it.

import { call } from "../../lib/api.js";
import { h } from "../../lib/dom.js";
import { soon } from "../../lib/follow.js";
import { on } from "../../lib/stream.js";
import { MEASURES } from "../../usage/model.js";
import { isParent } from "../states.js";

/** So long after something was recorded it is asked for, as agents record much at once. */
const PAUSE_MS = 500;

/** @param {import("../panel.js").Panel} panel */
export function spent(panel) {
  const { board, id } = panel;
  const { signal } = panel.leave;
  const words = h("p", { "data-testid": "spent" });
  const element = h("section.side-section", { "aria-label": "Tokens spent" }, h("h3", {}, "Tokens spent"), words);
  let reading = 0;

  const read = async () => {
    const run = (reading += 1);
    let text;
    try {
      text = told(await call("get_usage", { project: board.slug, issue_id: id }, { signal }));
    } catch (error) {
      text = `Not known: ${error.message}`;
    }
    if (run === reading && !signal.aborted) words.textContent = text;
  };

  const told = ({ requests, totals: { total_input: input, total_output: output, total_cost: cost } }) => {
    const where = isParent(panel.issue) ? " here and below" : "";
    if (requests === 0) return `None recorded${where}.`;
    const { tokens, cost: money } = MEASURES;
    const asked = requests === 1 ? "1 request" : `${requests.toLocaleString()} requests`;
    const paid = cost > 0 ? `, cost ${money.format(cost)}` : "";
    return `${tokens.format(input + output)} in ${asked}${where}: ${input.toLocaleString()} in, ${output.toLocaleString()} out${paid}`;
  };

  const later = soon(() => element.isConnected && read(), PAUSE_MS, signal);
  on("changed", ({ what, project }) => what === "usage" && project === board.slug && later(), { signal });
  return { element, show: read };
}
