// Runs in the browser: plays the script of `task.json` and posts how that went.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { operations, play } from "./play.mjs";

async function judge() {
  const { revision, steps, url } = await (await fetch("/task.json")).json();
  const stateless = revision >= "2026-07-28";
  const options = stateless
    ? { versionNegotiation: { mode: { pin: revision } } }
    : { supportedProtocolVersions: [revision] };
  const client = new Client({ name: "judge", version: "1.0.0" }, options);
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const negotiated = client.getNegotiatedProtocolVersion();
  if (negotiated !== revision) throw new Error(`negotiated ${negotiated}, expected ${revision}`);
  const count = await play(steps, operations(client));
  await client.close();
  return `${count} steps`;
}

const body = await judge().catch((error) => String(error.stack ?? error));
await fetch("/", { method: "POST", body });
