// The events of `GET /api/events`, one after the other, again whenever the connection breaks. Nothing is polled.

/** One event. */
export interface Told {
  id: string;
  event: string;
  data: unknown;
}

/** The longest event that is read. */
const MOST_BYTES = 16 * 1024 * 1024;
/** How long it is waited before the first and before any later try. */
const FIRST_MS = 250;
const LONGEST_MS = 10_000;

/** Cuts a stream of text into events (the event stream format of the HTML standard). */
export class Parser {
  private rest = "";
  private lines: string[] = [];
  private size = 0;

  take(text: string): Told[] {
    const told: Told[] = [];
    this.rest += text;
    for (;;) {
      const end = /\r\n|\n|\r(?!$)/.exec(this.rest);
      if (!end) break;
      const line = this.rest.slice(0, end.index);
      this.rest = this.rest.slice(end.index + end[0].length);
      if (line === "") {
        const one = event(this.lines);
        if (one) told.push(one);
        this.lines = [];
        this.size = 0;
      } else {
        this.lines.push(line);
        this.size += line.length;
      }
    }
    if (this.size + this.rest.length > MOST_BYTES) throw new Error("an event is too long");
    return told;
  }
}

function event(lines: string[]): Told | undefined {
  let [id, kind] = ["", "message"];
  const data: string[] = [];
  for (const line of lines) {
    const [, name, value] = /^([^:]*)(?::[ ]?(.*))?$/s.exec(line) ?? [];
    if (name === "id") id = value ?? "";
    else if (name === "event") kind = value ?? "";
    else if (name === "data") data.push(value ?? "");
  }
  if (data.length === 0) return undefined;
  try {
    return { id, event: kind, data: JSON.parse(data.join("\n")) };
  } catch {
    return undefined;
  }
}

/** Follows the events until it is stopped. */
export class Events {
  private readonly stopper = new AbortController();
  private last: string | undefined;

  /**
   * @param site the beginning of the address, `http://127.0.0.1:7420`
   * @param hear is given every event; those of kind `hello` begin a connection
   * @param turned is told whether there is a connection
   */
  constructor(
    private readonly site: string,
    private readonly hear: (told: Told) => void,
    private readonly turned: (isLive: boolean, problem?: string) => void,
    private readonly wait: (ms: number) => Promise<void> = (ms) => new Promise((done) => setTimeout(done, ms)),
  ) {}

  stop(): void {
    this.stopper.abort();
  }

  /** Runs until it is stopped. */
  async run(): Promise<void> {
    const { signal } = this.stopper;
    let pause = FIRST_MS;
    while (!signal.aborted) {
      let problem = "the connection ended";
      try {
        await this.follow(() => (pause = FIRST_MS));
      } catch (error) {
        problem = error instanceof Error ? error.message : String(error);
      }
      if (signal.aborted) return;
      this.turned(false, problem);
      await this.wait(pause);
      pause = Math.min(pause * 2, LONGEST_MS);
    }
  }

  private async follow(begun: () => void): Promise<void> {
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (this.last) headers["last-event-id"] = this.last;
    const response = await fetch(`${this.site}/api/events`, { headers, signal: this.stopper.signal });
    if (!response.ok || !response.body) throw new Error(response.status === 401 ? "a token is asked for here" : `refused (${response.status})`);
    begun();
    this.turned(true);
    const parser = new Parser();
    const decoder = new TextDecoder();
    for await (const part of response.body) {
      for (const told of parser.take(decoder.decode(part as Uint8Array, { stream: true }))) {
        if (told.id !== "") this.last = told.id;
        this.hear(told);
      }
    }
  }
}
