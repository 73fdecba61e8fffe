// What the program is asked: its tools, and what pages show at once.

const { base } = document.documentElement.dataset;

/** A request that was refused, with what the program said. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message @param {string} [code] */
  constructor(status, message, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Runs when the program asks who it is; set by `app.js`. */
let login = () => Promise.reject(new ApiError(401, "a token is required"));

/** @param {() => Promise<void>} how resolves once somebody has shown a token */
export function setLogin(how) {
  login = how;
}

async function ask(path, options, again = true) {
  let response;
  try {
    response = await fetch(base + path, { credentials: "same-origin", ...options });
  } catch {
    throw new ApiError(0, "the program cannot be reached; it may be restarting");
  }
  if (response.status === 401 && again) {
    await login();
    return ask(path, options, false);
  }
  const text = await response.text();
  let body;
  try {
    body = text === "" ? undefined : JSON.parse(text);
  } catch {
    throw new ApiError(response.status, `the answer of the program cannot be parsed (status ${response.status})`);
  }
  if (!response.ok) {
    throw new ApiError(response.status, body?.error ?? `refused (${response.status})`);
  }
  return body;
}

/** Reads what is at a path below `/api`. */
export function get(path, { signal } = {}) {
  return ask(path, { signal, headers: { accept: "application/json" } });
}

/** Sends JSON to a path. */
export function post(path, body, { method = "POST", signal } = {}) {
  return ask(path, { method, signal, headers: { "content-type": "application/json" }, body: JSON.stringify(body ?? {}) });
}

/**
 * Calls a tool and gives its structured result.
 *
 * @throws {ApiError} with the text of the tool where it fails
 */
export async function call(name, args = {}, { signal } = {}) {
  const answer = await post("/api/mcp/tools/call", { name, arguments: args }, { signal });
  const text = (answer.content ?? []).filter((part) => part.type === "text").map((part) => part.text).join("\n");
  if (answer.isError) throw new ApiError(200, text || "the tool failed", answer.structuredContent?.code);
  return answer.structuredContent ?? text;
}
