// The events of `GET /api/events`, one after the other, again whenever the connection breaks. Nothing is polled.

import type { Site } from "./site";

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
/** So long a connection has to hold until those before it that broke are forgotten. */
const HELD_MS = 30_000;

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

/** Who hears of the events. */
export interface Listener {
  /** Given every event; those of kind `hello` begin a connection. */
  told(event: Told): void;
  /** There is a connection. */
  live(): void;
  /** There is none, why not, and how many in a row did not hold. */
  broken(error: Error, inVain: number): void;
}

/** What time is to the follower. */
export interface Clock {
  now(): number;
  wait(ms: number): Promise<void>;
}

const CLOCK: Clock = { now: () => Date.now(), wait: (ms) => new Promise((done) => setTimeout(done, ms)) };

/** Follows the events until it is stopped. */
export class Events {
  private readonly stopper = new AbortController();
  private last: string | undefined;

  /** @param inVain how many connections before the first one did not hold */
  constructor(
    private readonly site: Site,
    private readonly listener: Listener,
    private inVain = 0,
    private readonly clock = CLOCK,
  ) {}

  stop(): void {
    this.stopper.abort();
  }

  /** Runs until it is stopped. */
  async run(): Promise<void> {
    const { signal } = this.stopper;
    while (!signal.aborted) {
      const began = this.clock.now();
      const error = await this.follow().catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
      if (signal.aborted) return;
      this.inVain = this.clock.now() - began < HELD_MS ? this.inVain + 1 : 1;
      this.listener.broken(error ?? new Error("the connection ended"), this.inVain);
      await this.clock.wait(Math.min(FIRST_MS * 2 ** (this.inVain - 1), LONGEST_MS));
    }
  }

  private async follow(): Promise<undefined> {
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (this.last) headers["last-event-id"] = this.last;
    const response = await this.site.ask("/api/events", { headers, signal: this.stopper.signal });
    if (!response.body) throw new Error("the events have no body");
    this.listener.live();
    const parser = new Parser();
    const decoder = new TextDecoder();
    for await (const part of response.body) {
      for (const told of parser.take(decoder.decode(part as Uint8Array, { stream: true }))) {
        if (told.id !== "") this.last = told.id;
        this.listener.told(told);
      }
    }
    return undefined;
  }
}
