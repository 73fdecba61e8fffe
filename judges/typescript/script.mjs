// What the judges of this directory that run in Node.js share.

import { readFile } from "node:fs/promises";

/** Reads `REVISION SCRIPT SERVER ARGUMENT...` or `REVISION SCRIPT URL` from the command line. */
export async function commandLine() {
  const [revision, path, command, ...args] = process.argv.slice(2);
  const { steps, answers } = JSON.parse(await readFile(path, "utf8"));
  // Over HTTP, the first revision has a transport of its own.
  const route = revision === "2024-11-05" ? "/sse" : "/mcp";
  const url = command.startsWith("http://") ? new URL(route, command) : undefined;
  return { revision, steps, answers, server: { command, args }, url };
}
