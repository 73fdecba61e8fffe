// A server of the TypeScript SDK's second generation, which speaks both eras.

import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

const text = (text) => ({ content: [{ type: "text", text }] });

void serveStdio((request) => {
  const server = new McpServer({ name: "both", version: "1.0.0" }, { capabilities: { tools: {} } });
  server.registerTool("era", { description: "Tells the era in which it is called." }, async () =>
    text(`called in ${request.era === "modern" ? "2026-07-28" : "2025-11-25"}`),
  );
  server.registerTool(
    "ask",
    { description: "Asks the user within the call, as servers of the session era do." },
    async (context) => {
      const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
      const answer = await context.mcpReq.elicitInput({ mode: "form", message: "Who are you?", requestedSchema });
      return text(answer.action === "accept" ? `hello ${answer.content.name}` : answer.action);
    },
  );
  return server;
});
