// The settings.

import * as vscode from "vscode";

export type Transport = "stdio" | "http";

/** What a setting says where somebody has said it, at whatever level. */
function said<T>(section: string, key: string): T | undefined {
  const found = vscode.workspace.getConfiguration(section).inspect<T>(key);
  return found?.workspaceFolderValue ?? found?.workspaceValue ?? found?.globalValue;
}

function chosenTransport(): unknown {
  return said<unknown>("orchestra", "mcp.transport") ?? said<unknown>("copilotOrchestrator", "mcp.transport");
}

/** How the chat talks to the server: as our setting says, else as that of the earlier extension does. */
export function transport(): Transport {
  return chosenTransport() === "http" ? "http" : "stdio";
}

/** Why the chat is not served as the settings ask. */
export function transportProblem(): string | undefined {
  const chosen = chosenTransport() ?? "stdio";
  if (chosen !== "stdio" && chosen !== "http") return `The setting orchestra.mcp.transport is ${JSON.stringify(chosen)}; it can be "stdio" or "http". The chat is served over stdio.`;
  if (chosen === "http" && isMcpEnabled() && !isLiveEnabled()) return "The chat has no MCP server: orchestra.mcp.transport is http, and orchestra.live.enabled is off, so no server is started. Switch orchestra.live.enabled on, or set orchestra.mcp.transport to stdio.";
  return undefined;
}

export function isMcpEnabled(): boolean {
  return said<boolean>("orchestra", "mcp.enabled") ?? true;
}

export function isLiveEnabled(): boolean {
  return said<boolean>("orchestra", "live.enabled") ?? true;
}

/** The directory of plans, where the user's setting names one. */
export function plansStorage(): string | undefined {
  return (said<string>("orchestra", "plans.storage") ?? "").trim() || undefined;
}

export function chosenPath(): string {
  return (said<string>("orchestra", "path") ?? "").trim();
}

/** Whether a change touches what the definition is made of. */
export function touchesDefinition(change: vscode.ConfigurationChangeEvent): boolean {
  return ["orchestra.path", "orchestra.plans", "orchestra.mcp", "copilotOrchestrator.mcp.transport"].some((key) => change.affectsConfiguration(key));
}
