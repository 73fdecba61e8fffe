// Where `orchestra up` is served, and how it is asked.

/** It asks for a token, and was shown none or one that it does not know. */
export class TokenWanted extends Error {
  constructor() {
    super("a token is asked for");
  }
}

type Members = { isError?: boolean; content?: { text?: string }[]; structuredContent?: { error?: string }; error?: string };

export class Site {
  /**
   * @param address the beginning of its addresses, `http://127.0.0.1:7420`
   * @param token what is shown there; nothing where nothing is asked for
   */
  constructor(
    readonly address: string,
    readonly token?: string,
  ) {}

  /** What shows the token. */
  get headers(): Record<string, string> {
    return this.token === undefined ? {} : { authorization: `Bearer ${this.token}` };
  }

  /** Asks; what is refused is an error in its own words. */
  async ask(path: string, how: RequestInit = {}): Promise<Response> {
    const response = await fetch(this.address + path, { ...how, headers: { ...this.headers, ...(how.headers as Record<string, string> | undefined) } });
    if (response.ok) return response;
    if (response.status === 401) throw new TokenWanted();
    const said = (await response.json().catch(() => ({}))) as Members;
    throw new Error(said.error ?? `${path}: refused (${response.status})`);
  }

  async get(path: string): Promise<unknown> {
    return (await this.ask(path)).json();
  }

  /** Calls a tool. */
  async call(name: string, args: Record<string, unknown>): Promise<void> {
    const response = await this.ask("/api/mcp/tools/call", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ name, arguments: args }) });
    const answer = (await response.json()) as Members;
    if (answer.isError) throw new Error(answer.structuredContent?.error ?? answer.content?.[0]?.text ?? `${name} failed`);
  }
}
