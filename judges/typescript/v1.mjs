// The client of the TypeScript SDK's first generation: for each revision the release that has it
// as its newest, for a client of this generation always asks for its newest.

import { commandLine, operations, play } from "./script.mjs";

const { revision, steps, server } = await commandLine();
const { Client } = await import(`sdk-${revision}/client/index.js`);
const { StdioClientTransport } = await import(`sdk-${revision}/client/stdio.js`);

const transport = new StdioClientTransport(server);
// Later releases tell the transport what was negotiated; earlier ones know only one answer.
let negotiated = revision;
transport.setProtocolVersion = (version) => (negotiated = version);

const client = new Client({ name: "judge", version: "1.0.0" });
await client.connect(transport);
if (negotiated !== revision) throw new Error(`negotiated ${negotiated}, expected ${revision}`);
await client.ping();
await play(steps, operations(client));
await client.close();
