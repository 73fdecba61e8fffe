// The peer of the HTTP benchmark written with the official TypeScript SDK: sessions, answers in JSON.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const sessions = new Map();

async function begin() {
  const server = new McpServer({ name: "echo", version: "1.0.0" });
  server.registerTool(
    "echo",
    { description: "Returns the text", inputSchema: { text: z.string() } },
    async ({ text }) => ({ content: [{ type: "text", text }] }),
  );
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  await server.connect(transport);
  return transport;
}

const listener = createServer(async (request, response) => {
  const known = sessions.get(request.headers["mcp-session-id"]);
  const transport = known ?? (await begin());
  await transport.handleRequest(request, response);
});
listener.listen(0, "127.0.0.1", () => {
  process.stderr.write(`http://127.0.0.1:${listener.address().port}/mcp\n`);
});
