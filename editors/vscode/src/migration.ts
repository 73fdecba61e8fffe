// Entries of `mcp.json` that an earlier orchestrator was reached by, and our own in its place.

import { applyEdits, modify, parse, type ParseError } from "jsonc-parser";

/** Under which name our server is written. */
export const NAME = "orchestra";
const OLD_PORT = "39219";

/** The names of entries that lead to the HTTP server of the earlier extension. */
export function oldEntries(text: string): string[] {
  const errors: ParseError[] = [];
  const file: unknown = parse(text, errors, { allowTrailingComma: true });
  const servers = typeof file === "object" && file !== null ? (file as Record<string, unknown>)["servers"] : undefined;
  if (errors.length > 0 || typeof servers !== "object" || servers === null) return [];
  const isOld = ([name, entry]: [string, unknown]): boolean => {
    const { type, url } = typeof entry === "object" && entry !== null ? (entry as Record<string, unknown>) : {};
    if (type !== "http" || typeof url !== "string") return false;
    return name === "copilot-orchestrator" || isOldAddress(url);
  };
  return Object.entries(servers).filter(isOld).map(([name]) => name);
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
  return names.reduce((left, name) => applyEdits(left, modify(left, ["servers", name], undefined, FORM)), text);
}
