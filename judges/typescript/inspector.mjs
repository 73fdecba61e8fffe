// The Inspector's command line: one process of it for each step, and over stdio one of the server.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { play } from "./play.mjs";
import { commandLine } from "./script.mjs";

const { revision, steps, server, url } = await commandLine();
const era = revision >= "2026-07-28" ? "modern" : "legacy";
const inspector = fileURLToPath(
  new URL("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", import.meta.url),
);

async function inspect(method, ...options) {
  const flags = ["--cli", "--protocol-era", era, "--format", "json", "--quiet", "--method", method];
  const target = ["--", ...(url ? [url.href] : [server.command, ...server.args])];
  // A tool that answers with an error makes the Inspector exit with one, after the same result.
  const run = promisify(execFile)(process.execPath, [inspector, ...flags, ...options, ...target]);
  const { stdout, stderr } = await run.catch((error) => error);
  try {
    const answer = JSON.parse(stdout);
    return answer.result ?? answer;
  } catch {
    throw new Error(`${method}: ${stdout}${stderr}`);
  }
}

const pairs = (args) => Object.entries(args).map(([key, value]) => `${key}=${value}`);
const lists = {
  tools: async () => (await inspect("tools/list")).tools,
  prompts: async () => (await inspect("prompts/list")).prompts,
  resources: async () => (await inspect("resources/list")).resources,
  templates: async () => (await inspect("resources/templates/list")).resourceTemplates,
};

const count = await play(steps, {
  list: (what) => lists[what](),
  call: (name, args) => inspect("tools/call", "--tool-name", name, "--tool-args-json", JSON.stringify(args)),
  prompt: (name, args) =>
    inspect("prompts/get", "--prompt-name", name, ...(pairs(args).length ? ["--prompt-args", ...pairs(args)] : [])),
  read: (uri) => inspect("resources/read", "--uri", uri),
});

// Whoever serves skills has each of them read, and its files held against their digests (SEP-2640).
const { resources } = await inspect("resources/list");
let verified = 0;
if (resources.some((resource) => resource.uri.startsWith("skill://"))) {
  const flags = ["--cli", "--protocol-era", era, "--format", "json", "--quiet"];
  const check = ["--method", "skills/list", "--verify", "--require-digests"];
  const target = ["--", ...(url ? [url.href] : [server.command, ...server.args])];
  // A violation makes it exit with a code of its own, which ends this, too.
  const { stdout } = await promisify(execFile)(process.execPath, [inspector, ...flags, ...check, ...target]);
  const reports = stdout.trim().split("\n").map((line) => JSON.parse(line));
  const wrong = reports.filter((report) => report.outcome !== "verified");
  if (wrong.length > 0) throw new Error(JSON.stringify(wrong));
  verified = reports.length;
}
console.log(`${count} steps, ${verified} skills verified`);
