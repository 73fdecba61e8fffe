// What a job prints, as it prints it: told by the program, or asked for where that cannot be.

import { call } from "../lib/api.js";

const { base } = document.documentElement.dataset;

/** So often is asked where nothing is told. */
const POLL_MS = 1_000;
/** So many lines are asked for at once. */
const PAGE = 5_000;
/** What is told within this is given on together. */
const TOGETHER_MS = 40;
/** So long after a break the stream is opened again. */
const AGAIN_MS = 1_000;

/** @typedef {{ phase: string, text: string, time?: number, isRunner: boolean }} Line */

const RUNNER = "orchestra: ";

/**
 * Follows the log of an attempt from its beginning.
 *
 * @param {{ planId: string, jobId: string, attempt: number, isLive: () => boolean,
 *   onLines: (lines: Line[]) => void, onEnd: () => void, signal: AbortSignal }} how
 */
export function followLog({ planId, jobId, attempt, isLive, onLines, onEnd, signal }) {
  const path = `${base}/api/plans/${encodeURIComponent(planId)}/jobs/${encodeURIComponent(jobId)}/log`;
  let cursor = "";
  let waiting = [];
  let timer;
  let source;
  let wasOpen = false;
  const give = () => {
    timer = undefined;
    const lines = waiting;
    waiting = [];
    if (!signal.aborted && lines.length > 0) onLines(lines);
  };
  const take = (line) => {
    waiting.push(line);
    timer ??= setTimeout(give, TOGETHER_MS);
  };
  const open = () => {
    source = new EventSource(`${path}?${new URLSearchParams({ attempt: String(attempt), phase: "", after: cursor })}`);
    source.addEventListener("open", () => (wasOpen = true));
    source.addEventListener("line", (event) => {
      const line = JSON.parse(event.data);
      cursor = String(line.cursor);
      take({ phase: line.phase, time: line.time, isRunner: line.stream === "runner", text: line.text });
    });
    source.addEventListener("end", () => {
      source.close();
      clearTimeout(timer);
      give();
      onEnd();
    });
    source.addEventListener("error", () => {
      source.close();
      if (signal.aborted) return;
      // What was never there is not told here at all; what broke is opened again where it broke.
      if (wasOpen) setTimeout(() => !signal.aborted && open(), AGAIN_MS);
      else poll();
    });
  };
  const poll = async () => {
    while (!signal.aborted) {
      const wasLive = isLive();
      let page;
      try {
        page = await call("get_copilot_job_logs", { planId, jobId, attemptNumber: attempt, limit: PAGE, ...(cursor && { cursor }) }, { signal });
      } catch (error) {
        if (signal.aborted) return;
        page = { logs: "", more: false, next_cursor: cursor };
        if (!wasLive) throw error;
      }
      if (signal.aborted) return;
      onLines(linesOf(page.logs));
      cursor = page.next_cursor ?? cursor;
      if (page.more) continue;
      if (!wasLive) return onEnd();
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  };
  open();
  signal.addEventListener("abort", () => {
    source.close();
    clearTimeout(timer);
  });
}

/** The lines of a text as the tool gives it: each begins with its phase. */
function linesOf(text) {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((line) => {
    const found = /^\[([a-z-]+)\] /u.exec(line);
    const rest = found ? line.slice(found[0].length) : line;
    const isRunner = rest.startsWith(RUNNER);
    return { phase: found?.[1] ?? "work", isRunner, text: isRunner ? rest.slice(RUNNER.length) : rest };
  });
}
