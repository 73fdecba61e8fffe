// What is known of the workspace: its projects with their issues, and its plans.

export interface Card {
  id: string;
  type: string;
  title: string;
  status: string;
}

export interface Project {
  slug: string;
  name: string;
}

export interface Plan {
  id: string;
  name: string;
  status: string;
  createdAt: number;
}

export interface Job {
  id: string;
  name: string;
  status: string;
  type: string;
}

/** Reads something below the site. */
export type Get = (path: string) => Promise<unknown>;

type Members = Record<string, unknown>;

function members(value: unknown): Members {
  return typeof value === "object" && value !== null ? (value as Members) : {};
}

function list(value: unknown): Members[] {
  return Array.isArray(value) ? value.map(members) : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export class Model {
  projects: Project[] = [];
  readonly cards = new Map<string, Map<string, Card>>();
  states: string[] = [];
  readonly plans = new Map<string, Plan>();

  constructor(
    private readonly get: Get,
    private readonly changed: (what: "board" | "plans") => void,
  ) {}

  /** What is done one after the other: what is asked for may be older than an event that comes meanwhile. */
  private turn: Promise<void> = Promise.resolve();

  private inTurn(act: () => Promise<void>): Promise<void> {
    const done = this.turn.then(act);
    this.turn = done.catch(() => undefined);
    return done;
  }

  /** Asks for everything. */
  load(): Promise<void> {
    return this.inTurn(() => this.loadAll());
  }

  private async loadAll(): Promise<void> {
    await Promise.all([this.loadBoard(), this.loadPlans()]);
  }

  private async loadBoard(): Promise<void> {
    const { projects } = members(await this.get("/api/board"));
    this.takeProjects(projects);
    for (const slug of this.cards.keys()) if (!this.projects.some((project) => project.slug === slug)) this.cards.delete(slug);
    await Promise.all(this.projects.map(({ slug }) => this.loadProject(slug)));
    this.changed("board");
  }

  private async loadProject(slug: string): Promise<void> {
    const board = members(await this.get(`/api/board/${encodeURIComponent(slug)}`));
    this.states = list(board["states"]).map(({ state }) => text(state));
    this.cards.set(slug, new Map());
    this.takeCards(slug, board["cards"]);
  }

  private async loadPlans(): Promise<void> {
    const { plans } = members(await this.get("/api/plans"));
    this.plans.clear();
    for (const plan of list(plans)) this.takePlan(plan);
    this.changed("plans");
  }

  private takeProjects(projects: unknown): void {
    this.projects = list(projects).map(({ slug, name }) => ({ slug: text(slug), name: text(name) }));
  }

  private takeCards(slug: string, cards: unknown): void {
    const known = this.cards.get(slug) ?? new Map<string, Card>();
    this.cards.set(slug, known);
    for (const card of list(cards)) {
      const id = text(card["id"]);
      if (id !== "") known.set(id, { id, type: text(card["type"]), title: text(card["title"]), status: text(card["status"]) });
    }
  }

  private takePlan(plan: Members): void {
    const id = text(plan["id"]);
    if (id !== "") this.plans.set(id, { id, name: text(plan["name"]), status: text(plan["status"]), createdAt: Number(plan["createdAt"]) || 0 });
  }

  /** Takes an event; what it does not know is of no matter here. */
  take(event: string, data: unknown): Promise<void> {
    return this.inTurn(() => this.apply(event, data));
  }

  private async apply(event: string, data: unknown): Promise<void> {
    const told = members(data);
    switch (event) {
      case "hello":
        // The first time, and after more was missed than could be told.
        if (told["missed"] === true || this.states.length === 0) await this.loadAll();
        return;
      case "reset":
      case "anew":
        return this.loadAll();
      case "projects": {
        this.takeProjects(told["projects"]);
        const fresh = this.projects.filter(({ slug }) => !this.cards.has(slug));
        await Promise.all(fresh.map(({ slug }) => this.loadProject(slug)));
        return this.changed("board");
      }
      case "cards":
        this.takeCards(text(told["project"]), told["cards"]);
        return this.changed("board");
      case "gone": {
        const ids = Array.isArray(told["ids"]) ? told["ids"] : [];
        for (const id of ids) this.cards.get(text(told["project"]))?.delete(text(id));
        return this.changed("board");
      }
      case "plan":
        this.takePlan(members(told["plan"] ?? told));
        return this.changed("plans");
      case "plan-gone":
        this.plans.delete(text(told["planId"]));
        return this.changed("plans");
      default:
    }
  }

  /** The issues of a project in a state. */
  inState(slug: string, state: string): Card[] {
    const cards = [...(this.cards.get(slug)?.values() ?? [])];
    return cards.filter((card) => card.status === state && card.type !== "epic" && card.type !== "story");
  }

  /** The plans, newest first. */
  newest(): Plan[] {
    return [...this.plans.values()].sort((one, other) => other.createdAt - one.createdAt);
  }

  /** The jobs of a plan, as they are now. */
  async jobs(plan: string): Promise<Job[]> {
    const answer = members(await this.get(`/api/plans/${encodeURIComponent(plan)}`));
    const jobs = list(members(answer["plan"])["nodes"] ?? members(answer["plan"])["jobs"] ?? answer["nodes"]);
    return jobs.map((job) => ({ id: text(job["id"]), name: text(job["name"]) || text(job["producerId"]), status: text(job["status"]), type: text(job["type"]) }));
  }
}
