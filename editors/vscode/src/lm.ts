// All use of `vscode.lm`, which older versions do not have: the definition of the MCP server.

import * as vscode from "vscode";

export const PROVIDER = "orchestra.mcp";
export const LABEL = "Orchestra";

/** What a definition is made of. */
export type Definition = { transport: "stdio"; command: string; args: string[]; cwd: string; env: Record<string, string>; version: string } | { transport: "http"; url: string; headers: Record<string, string>; version: string };

interface Provider {
  onDidChangeMcpServerDefinitions: vscode.Event<void>;
  provideMcpServerDefinitions(): Promise<unknown[]>;
  resolveMcpServerDefinition(definition: unknown): Promise<unknown>;
}

/** The part of the API that this floor of VS Code may lack. */
interface Api {
  lm?: { registerMcpServerDefinitionProvider?(id: string, provider: Provider): vscode.Disposable };
  McpStdioServerDefinition?: new (label: string, command: string, args: string[], env: Record<string, string>, version: string) => { cwd?: vscode.Uri };
  McpHttpServerDefinition?: new (label: string, uri: vscode.Uri, headers: Record<string, string>, version: string) => unknown;
}

const api = vscode as unknown as Api;

/** Whether this VS Code asks extensions for MCP servers. */
export function isThere(): boolean {
  return typeof api.lm?.registerMcpServerDefinitionProvider === "function";
}

/**
 * Offers the server to the chat.
 *
 * @param define tells what there is to offer now; nothing where it cannot be
 * @param changed fires whenever that is something else
 */
export function register(define: () => Promise<Definition | undefined>, changed: vscode.Event<void>): vscode.Disposable {
  const provide = async (): Promise<unknown[]> => {
    const definition = await define();
    return definition ? [made(definition)] : [];
  };
  const provider: Provider = {
    onDidChangeMcpServerDefinitions: changed,
    provideMcpServerDefinitions: provide,
    resolveMcpServerDefinition: async (definition) => definition,
  };
  const { lm } = api;
  if (!lm?.registerMcpServerDefinitionProvider) throw new Error("this VS Code has no registerMcpServerDefinitionProvider");
  return lm.registerMcpServerDefinitionProvider(PROVIDER, provider);
}

function made(definition: Definition): unknown {
  if (definition.transport === "http") {
    if (!api.McpHttpServerDefinition) throw new Error("this VS Code has no MCP servers over HTTP");
    return new api.McpHttpServerDefinition(LABEL, vscode.Uri.parse(definition.url), definition.headers, definition.version);
  }
  if (!api.McpStdioServerDefinition) throw new Error("this VS Code has no MCP servers over stdio");
  const { command, args, env, version, cwd } = definition;
  const server = new api.McpStdioServerDefinition(LABEL, command, args, env, version);
  server.cwd = vscode.Uri.file(cwd);
  return server;
}
