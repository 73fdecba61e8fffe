// The `orchestra up` of a workspace: one for all windows. Whoever starts a second one is told where the first is.

import { type ChildProcess, execFile, spawn } from "node:child_process";

/** Where it is served. */
export interface Served {
  http: string;
  mcp: string;
  asksToken: boolean;
}

/** How long it may take to come up. */
const PATIENCE_MS = 30_000;
/** How much it may say before it is up. */
const MOST_BYTES = 64 * 1024;

/**
 * Starts it, or learns where it runs.
 *
 * @returns where, and what ends the process that was started here; nothing to end where another one serves
 */
export function up(program: string, workspace: string, env: NodeJS.ProcessEnv = process.env): Promise<{ served: Served; ended: Promise<void>; end: () => void }> {
  return new Promise((done, failed) => {
    const child = spawn(program, ["up", "--workspace", workspace, "--json"], { cwd: workspace, env, stdio: ["ignore", "pipe", "pipe"], windowsHide: true });
    let said = "";
    let complaint = "";
    let isReady = false;
    const ended = new Promise<void>((end) => child.once("close", () => end()));
    const stop = (text: string): void => {
      clearTimeout(timer);
      child.kill();
      failed(new Error(text));
    };
    const timer = setTimeout(() => stop(`orchestra up was not ready after ${PATIENCE_MS / 1000} s`), PATIENCE_MS);
    child.once("error", (error) => stop(`${program} cannot be started: ${error.message}`));
    child.stderr.on("data", (part: Buffer) => {
      complaint = (complaint + part.toString("utf8")).slice(-2_000);
    });
    child.stdout.on("data", (part: Buffer) => {
      if (isReady) return;
      said += part.toString("utf8");
      const line = said.split("\n", 1)[0] ?? "";
      if (said.length > MOST_BYTES) return stop("The first line of orchestra up is too long");
      if (line.length === said.length) return;
      const served = parse(line);
      if (!served) return stop(`orchestra up printed this line instead of its address: ${line.slice(0, 200)}`);
      isReady = true;
      clearTimeout(timer);
      done({ served, ended, end: () => end(child) });
    });
    void ended.then(() => !isReady && stop(`orchestra up ended: ${complaint.trim() || "without a word"}`));
  });
}

/** Reads the line with which it says that it is ready. */
export function parse(line: string): Served | undefined {
  try {
    const told: unknown = JSON.parse(line);
    if (typeof told !== "object" || told === null) return undefined;
    const { http, mcp, asks_token: asksToken } = told as Record<string, unknown>;
    if (typeof http !== "string" || typeof mcp !== "string" || !/^https?:\/\//.test(http)) return undefined;
    return { http, mcp, asksToken: asksToken === true };
  } catch {
    return undefined;
  }
}

/** Asks the program for a token that its `up` admits; nothing where it has none to give, as with tokens of an issuer. */
export function tokenFrom(program: string, workspace: string, env: NodeJS.ProcessEnv = process.env): Promise<string | undefined> {
  return new Promise((done) => {
    execFile(program, ["token", "--workspace", workspace], { cwd: workspace, env, timeout: PATIENCE_MS, windowsHide: true }, (error, stdout) => {
      const token = error ? "" : stdout.trim();
      done(token === "" ? undefined : token);
    });
  });
}

function end(child: ChildProcess): void {
  // Signals end it as ctrl-c does; where there are none, this kills it.
  child.kill("SIGTERM");
}
