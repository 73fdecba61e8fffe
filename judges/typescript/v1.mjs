// The client of the TypeScript SDK's first generation: for each revision the release that has it
// as its newest, for a client of this generation always asks for its newest.

import { operations, play } from "./play.mjs";
import { commandLine } from "./script.mjs";

const { revision, steps, server, url } = await commandLine();
const { Client } = await import(`sdk-${revision}/client/index.js`);

async function open() {
  if (!url) {
    const { StdioClientTransport } = await import(`sdk-${revision}/client/stdio.js`);
    return new StdioClientTransport(server);
  }
  if (url.pathname === "/sse") {
    const { SSEClientTransport } = await import(`sdk-${revision}/client/sse.js`);
    return new SSEClientTransport(url);
  }
  const { StreamableHTTPClientTransport } = await import(`sdk-${revision}/client/streamableHttp.js`);
  return new StreamableHTTPClientTransport(url);
}

const transport = await open();
// Later releases tell the transport what was negotiated; earlier ones know only one answer.
let negotiated = revision;
const tell = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  negotiated = version;
  tell?.(version);
};

const client = new Client({ name: "judge", version: "1.0.0" });
await client.connect(transport);
if (negotiated !== revision) throw new Error(`negotiated ${negotiated}, expected ${revision}`);
await client.ping();
console.log(`${await play(steps, operations(client))} steps`);
await client.close();
