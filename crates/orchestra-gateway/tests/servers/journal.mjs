// A server of the session era for tests, in plain Node.js: `node journal.mjs JOURNAL` writes every
// call down before it answers.
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const journal = process.argv[2];
const tools = [
  {
    name: "echo",
    inputSchema: { type: "object" },
    annotations: { readOnlyHint: true },
  },
];

function call({ name, arguments: given }) {
  appendFileSync(journal, `${process.pid} ${name} ${JSON.stringify(given)}\n`);
  return { content: [{ type: "text", text: String(given.text) }] };
}

function answer({ method, params }) {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: "2025-06-18",
        capabilities: { tools: {} },
        serverInfo: { name: "journal-node", version: "1" },
      };
    case "ping":
      return {};
    case "tools/list":
      return { tools };
    case "tools/call":
      return call(params);
    default:
      return undefined;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.id === undefined || message.method === undefined) continue;
  const result = answer(message);
  const error = { code: -32601, message: "method not found" };
  const outcome = result === undefined ? { error } : { result };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id: message.id, ...outcome })}\n`);
}
