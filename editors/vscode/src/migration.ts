// Entries of `mcp.json` that an earlier orchestrator was reached by, and our own in its place.

import { applyEdits, modify, parse, type ParseError } from "jsonc-parser";

/** Under which name our server is written. */
export const NAME = "orchestra";
const OLD_PORT = "39219";
/** Where servers are listed: VS Code's key, and that of other clients, which the earlier documents show. */
const LISTS = ["servers", "mcpServers"];

/** The names of entries that lead to the HTTP server of the earlier extension. */
export function oldEntries(text: string): string[] {
  const errors: ParseError[] = [];
  const file: unknown = parse(text, errors, { allowTrailingComma: true });
  if (errors.length > 0) return [];
  return [...new Set(LISTS.flatMap((list) => Object.entries(members(members(file)[list])).filter(isOld).map(([name]) => name)))];
}

/** The members of an object; anything else has none. */
function members(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function isOld([name, entry]: [string, unknown]): boolean {
  const { type, url } = members(entry);
  if ((type ?? "http") !== "http" || typeof url !== "string") return false;
  return name === "copilot-orchestrator" || isOldAddress(url);
}

function isOldAddress(url: string): boolean {
  try {
    const { hostname, port } = new URL(url);
    return port === OLD_PORT && ["localhost", "127.0.0.1", "[::1]"].includes(hostname);
  } catch {
    return false;
  }
}

const FORM = { formattingOptions: { insertSpaces: true, tabSize: 2 } };

/** The file with our server at this address; all else stays as it is, comments too. */
export function withServer(text: string, url: string): string {
  const errors: ParseError[] = [];
  const before = text.trim() === "" ? "{}\n" : text;
  const file: unknown = parse(before, errors, { allowTrailingComma: true });
  if (errors.length > 0 || typeof file !== "object" || file === null || Array.isArray(file)) throw new Error("it is no JSON with comments; mend it by hand first");
  const { servers } = file as Record<string, unknown>;
  if (servers !== undefined && (typeof servers !== "object" || servers === null || Array.isArray(servers))) throw new Error("its `servers` is no object; mend it by hand first");
  return applyEdits(before, modify(before, ["servers", NAME], { type: "http", url }, FORM));
}

/** The file without these entries. */
export function without(text: string, names: string[]): string {
  const file: unknown = parse(text, [], { allowTrailingComma: true });
  const paths = LISTS.flatMap((list) => names.filter((name) => name in members(members(file)[list])).map((name) => [list, name]));
  return paths.reduce((left, path) => applyEdits(left, modify(left, path, undefined, FORM)), text);
}
