// The client of the TypeScript SDK's second generation, held to one revision.

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { operations, play } from "./play.mjs";
import { commandLine } from "./script.mjs";

const { revision, steps, answers, server, url } = await commandLine();
const stateless = revision >= "2026-07-28";
const options = stateless
  ? { versionNegotiation: { mode: { pin: revision } } }
  : { supportedProtocolVersions: [revision] };

if (answers) options.capabilities = { elicitation: { form: {} } };

const client = new Client({ name: "judge", version: "1.0.0" }, options);
if (answers) {
  client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: answers }));
}
const HttpTransport = url?.pathname === "/sse" ? SSEClientTransport : StreamableHTTPClientTransport;
await client.connect(url ? new HttpTransport(url) : new StdioClientTransport(server));
const negotiated = client.getNegotiatedProtocolVersion();
if (negotiated !== revision) throw new Error(`negotiated ${negotiated}, expected ${revision}`);
if (!stateless) await client.ping();
console.log(`${await play(steps, operations(client))} steps`);
await client.close();
