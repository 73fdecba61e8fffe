// The extension: offers the MCP server to the chat, and shows the board and the plans as they are.

import { statSync } from "node:fs";
import * as vscode from "vscode";
import { find } from "./binary";
import { chosenPath, isLiveEnabled, isMcpEnabled, plansStorage, touchesDefinition, transport, transportProblem } from "./config";
import { Events, type Listener } from "./events";
import * as lm from "./lm";
import { NAME, oldEntries, withServer, without } from "./migration";
import { Model } from "./model";
import { tokenFrom, up } from "./server";
import { Site, TokenWanted } from "./site";
import { type BoardNode, BoardTree, type PlanNode, PlanTree } from "./views";

/** Where it is remembered that somebody was told of an old entry. */
const TOLD_OF_OLD = "orchestra.toldOfOldEntries";
const TOLD_OF_UPGRADE = "orchestra.toldOfUpgrade";
/** How often it is looked whether the program was replaced, by one look at its file. */
const LOOK_MS = 5_000;
/** After each so many connections that do not hold, whoever serves is looked for anew. */
const IN_VAIN = 3;

/** What there is, for tests. */
export interface Face {
  definition(): Promise<lm.Definition | undefined>;
  model(): Model | undefined;
  connected: Promise<void>;
}

export async function activate(context: vscode.ExtensionContext): Promise<Face> {
  const orchestra = new Orchestra(context);
  await orchestra.begin();
  return orchestra;
}

export function deactivate(): void {
  // Everything is among the subscriptions.
}

class Orchestra implements Face {
  private readonly log = vscode.window.createOutputChannel("Orchestra", { log: true });
  private readonly changed = new vscode.EventEmitter<void>();
  private readonly status = vscode.window.createStatusBarItem("orchestra.status", vscode.StatusBarAlignment.Left, 10);
  private readonly boards = new BoardTree(() => this.known);
  private readonly plans = new PlanTree(() => this.known);
  private known: Model | undefined;
  private site: Site | undefined;
  private mcp: string | undefined;
  private events: Events | undefined;
  /** The process that this window has started, if it has. */
  private own: { end: () => void; isRunning: boolean } | undefined;
  /** Ends the look at the program that is in use, and which one that is. */
  private watched: { program: string; end: () => void } | undefined;
  /** The trouble with finding a program that was told last. */
  private trouble: string | undefined;
  /** The problem of the transport's setting that was reported last. */
  private transportProblem: string | undefined;
  /** The token that the program printed last, and whether it was refused. */
  private printed: { token: string; isRefused: boolean } | undefined;
  private connecting: Promise<void> | undefined;
  connected: Promise<void> = Promise.resolve();

  constructor(private readonly context: vscode.ExtensionContext) {}

  /** The folder that all is about: the first one of the window. */
  private get folder(): vscode.WorkspaceFolder | undefined {
    return vscode.workspace.workspaceFolders?.find(({ uri }) => uri.scheme === "file");
  }

  private get version(): string {
    return String(this.context.extension.packageJSON.version);
  }

  /** The program to use now, which is looked at from then on; why there is none is told once. */
  private program(): string | undefined {
    const found = find({ chosen: chosenPath(), extension: this.context.extensionPath, path: process.env["PATH"], isWindows: process.platform === "win32" });
    if ("program" in found) {
      this.trouble = undefined;
      this.watch(found.program);
      return found.program;
    }
    if (this.trouble === found.problem) return undefined;
    this.trouble = found.problem;
    this.log.warn(found.problem);
    void this.say(found.problem, ["Open the settings"]).then((choice) => choice && vscode.commands.executeCommand("workbench.action.openSettings", "orchestra.path"));
    return undefined;
  }

  private say(text: string, choices: string[] = []): Thenable<string | undefined> {
    return vscode.window.showWarningMessage(text, ...choices);
  }

  model(): Model | undefined {
    return this.known;
  }

  async begin(): Promise<void> {
    const { subscriptions } = this.context;
    subscriptions.push(this.log, this.changed, this.status, { dispose: () => this.leave() }, { dispose: () => this.watched?.end() });
    subscriptions.push(vscode.window.registerTreeDataProvider("orchestra.board", this.boards), vscode.window.registerTreeDataProvider("orchestra.plans", this.plans));
    this.commands();
    subscriptions.push(
      vscode.workspace.onDidChangeConfiguration((change) => {
        if (touchesDefinition(change)) this.redefine();
        else if (change.affectsConfiguration("orchestra.live")) this.checkTransport();
        if (change.affectsConfiguration("orchestra.path") || change.affectsConfiguration("orchestra.live")) void this.reconnect();
      }),
      vscode.workspace.onDidChangeWorkspaceFolders(() => {
        this.redefine();
        void this.reconnect();
      }),
    );
    this.show("$(circle-slash) Orchestra", "Not connected");
    if (this.folder) this.program();
    if (lm.isThere()) {
      subscriptions.push(lm.register(() => this.definition(), this.changed.event));
      if (transport() === "http") this.log.info("The chat uses the MCP server over HTTP because of the setting orchestra.mcp.transport. With stdio, no running server is needed.");
      this.checkTransport();
    }
    if (!this.folder) return;
    await this.tellOfOld();
    this.connected = this.reconnect();
    if (!lm.isThere()) void this.connected.then(() => this.doWithoutApi());
  }

  /** What the chat is offered now. */
  async definition(): Promise<lm.Definition | undefined> {
    const { folder, version } = this;
    if (!folder || !isMcpEnabled()) return undefined;
    if (transport() === "http") {
      await this.connect();
      return this.mcp && this.site ? { transport: "http", url: this.mcp, headers: this.site.headers, version } : undefined;
    }
    const command = this.program();
    if (!command) return undefined;
    const workspace = folder.uri.fsPath;
    const storage = plansStorage();
    const env = { ORCHESTRATOR_WORKSPACE: workspace, ...(storage ? { ORCHESTRATOR_STORAGE: storage } : {}) };
    return { transport: "stdio", command, args: ["stdio", "--workspace", workspace], cwd: workspace, env, version };
  }

  private redefine(): void {
    if (transport() === "http") this.log.info("The chat uses the MCP server over HTTP because of the setting orchestra.mcp.transport.");
    this.checkTransport();
    this.changed.fire();
  }

  /** Reports settings by which the chat is not served, or not as they ask; each once. */
  private checkTransport(): void {
    const problem = this.folder ? transportProblem() : undefined;
    if (problem !== undefined && problem !== this.transportProblem) {
      this.log.warn(problem);
      void this.say(problem, ["Open the settings"]).then((choice) => choice && vscode.commands.executeCommand("workbench.action.openSettings", "orchestra.mcp.transport"));
    }
    this.transportProblem = problem;
  }

  /** Over HTTP the chat is told where the server is now, and with which token. */
  private readdress(): void {
    if (transport() === "http") this.changed.fire();
  }

  /** Whenever the program is another one, the chat has to start it anew. */
  private watch(program: string): void {
    if (this.watched?.program === program) return;
    this.watched?.end();
    let before = stamp(program);
    const look = (): void => {
      const now = stamp(program);
      if (now === before) return;
      before = now;
      this.changed.fire();
    };
    const looking = setInterval(look, LOOK_MS);
    looking.unref();
    this.watched = { program, end: () => clearInterval(looking) };
  }

  /** Follows nothing more. A server that this window has started ends with that; other windows that use it start the next. */
  private leave(): void {
    this.events?.stop();
    this.events = undefined;
    this.own?.end();
    this.own = undefined;
    this.site = undefined;
    this.mcp = undefined;
    this.known = undefined;
  }

  /** @param inVain how many connections before did not hold */
  private async reconnect(inVain = 0): Promise<void> {
    // One that is on its way would be left as soon as it is there.
    await this.connecting;
    this.leave();
    this.show("$(circle-slash) Orchestra", "Not connected");
    this.boards.refresh();
    this.plans.refresh();
    await this.connect(inVain);
  }

  /** Learns where `orchestra up` runs, or starts it, and follows what it tells. */
  private connect(inVain = 0): Promise<void> {
    if (this.site) return Promise.resolve();
    this.connecting ??= this.begun(inVain).finally(() => (this.connecting = undefined));
    return this.connecting;
  }

  private async begun(inVain: number): Promise<void> {
    const { folder } = this;
    const program = folder && isLiveEnabled() ? this.program() : undefined;
    if (!folder || !program) return;
    try {
      const { served, ended, end } = await up(program, folder.uri.fsPath);
      const own = { end, isRunning: true };
      this.own = own;
      void ended.then(() => (own.isRunning = false));
      const token = served.asksToken ? await this.token(program, folder, served.http) : undefined;
      if (served.asksToken && token === undefined) return this.failed(`Orchestra at ${served.http} asks for a token.`, "Enter the Token");
      this.log.info(`Connected to ${served.http}`);
      this.site = new Site(served.http, token);
      this.mcp = served.mcp;
      this.follow(this.site, inVain);
      this.readdress();
    } catch (error) {
      this.failed(message(error), "Try Again");
    }
  }

  /** There is no connection until somebody wants it anew. */
  private failed(text: string, again: string): void {
    this.log.error(text);
    this.show("$(error) Orchestra", text, "orchestra.reconnect");
    void this.say(text, [again]).then((choice) => (choice === again ? this.reconnect() : undefined));
  }

  /** The token of a server that asks for one: what was entered before, what the program prints, or what is entered now. */
  private async token(program: string, folder: vscode.WorkspaceFolder, address: string): Promise<string | undefined> {
    const { secrets } = this.context;
    const kept = await secrets.get(tokenOf(address));
    if (kept !== undefined) return kept;
    const printed = await this.print(program, folder);
    if (printed !== undefined) return printed;
    const entered = await vscode.window.showInputBox({ title: "Orchestra", prompt: `Token of the server at ${address}, from its configuration`, password: true, ignoreFocusOut: true });
    if (!entered) return undefined;
    await secrets.store(tokenOf(address), entered);
    return entered;
  }

  /** The token that the program prints for this workspace, unless it was refused before. */
  private async print(program: string, folder: vscode.WorkspaceFolder): Promise<string | undefined> {
    const token = await tokenFrom(program, folder.uri.fsPath);
    if (token === undefined || (this.printed?.isRefused && this.printed.token === token)) return undefined;
    this.printed = { token, isRefused: false };
    return token;
  }

  private follow(site: Site, before: number): void {
    const model = new Model(
      (path) => site.get(path),
      (what) => {
        (what === "board" ? this.boards : this.plans).refresh();
        this.count();
      },
    );
    this.known = model;
    const listener: Listener = {
      told: ({ event, data }) => void model.take(event, data).catch((error: unknown) => this.log.error(message(error))),
      live: () => this.count(),
      broken: (error, inVain) => {
        if (this.events !== events) return;
        if (error instanceof TokenWanted) return void this.refused(site);
        this.show("$(sync~spin) Orchestra", `Trying again: ${error.message}`, "orchestra.reconnect");
        // Somebody may have ended it for good: then it is started anew, or found elsewhere. What was started here and
        // still runs is what others use.
        if (inVain % IN_VAIN === 0 && !this.own?.isRunning) void this.reconnect(inVain);
      },
    };
    const events = new Events(site, listener, before);
    this.events = events;
    void events.run();
  }

  /** The token that was shown is none that is known there. */
  private async refused(site: Site): Promise<void> {
    this.leave();
    this.readdress();
    if (this.printed && this.printed.token === site.token) {
      this.printed.isRefused = true;
      return this.reconnect();
    }
    await this.context.secrets.delete(tokenOf(site.address));
    this.failed(`Orchestra at ${site.address} does not know the token that was entered.`, "Enter the Token");
  }

  private count(): void {
    const running = this.known?.newest().filter(({ status }) => status === "running").length ?? 0;
    const busy = this.known?.projects.reduce((sum, { slug }) => sum + (this.known?.inState(slug, "in-progress").length ?? 0), 0) ?? 0;
    this.show(`$(project) ${busy} in progress, ${running} ${running === 1 ? "plan" : "plans"} running`, `Orchestra at ${this.site?.address ?? "?"}; MCP over ${transport()}`);
  }

  private show(text: string, more: string, command = "orchestra.openDashboard"): void {
    this.status.text = text;
    this.status.tooltip = more;
    this.status.command = command;
    this.status.show();
  }

  private commands(): void {
    const command = (name: string, act: (...given: never[]) => unknown): void => void this.context.subscriptions.push(vscode.commands.registerCommand(`orchestra.${name}`, act));
    const plan = (tool: string) => async (node?: PlanNode): Promise<void> => {
      if (node) await this.call(tool, { planId: node.plan.id });
    };
    command("openDashboard", () => this.open("/board"));
    command("openTask", (node?: BoardNode) => node?.kind === "card" && this.open(`/board/${encodeURIComponent(node.project.slug)}/${encodeURIComponent(node.card.id)}`));
    command("openPlan", (node?: PlanNode) => node && this.open(`/plans/${encodeURIComponent(node.plan.id)}`));
    command("openLog", (node?: PlanNode) => node?.kind === "job" && this.open(`/plans/${encodeURIComponent(node.plan.id)}/jobs/${encodeURIComponent(node.job.id)}`));
    command("startPlan", plan("resume_copilot_plan"));
    command("pausePlan", plan("pause_copilot_plan"));
    command("retryPlan", plan("retry_copilot_plan"));
    command("reconnect", () => this.reconnect());
  }

  private async open(path: string): Promise<void> {
    await this.connect();
    if (!this.site) return;
    const here = vscode.Uri.parse(this.site.address + path);
    // Where the workspace is on another machine, its port is brought here. The connection is then one of a proxy, which
    // has to show a token.
    const there = await vscode.env.asExternalUri(here);
    const token = this.site.token ?? (there.authority === here.authority ? undefined : await this.tokenForProxy());
    await vscode.env.openExternal(token === undefined ? there : there.with({ fragment: `token=${token}` }));
  }

  private async tokenForProxy(): Promise<string | undefined> {
    const { folder } = this;
    const program = folder && this.program();
    return program ? this.print(program, folder) : undefined;
  }

  private async call(name: string, args: Record<string, unknown>): Promise<void> {
    await this.connect();
    if (!this.site) return;
    try {
      await this.site.call(name, args);
    } catch (error) {
      void vscode.window.showErrorMessage(`Orchestra: ${message(error)}`);
    }
  }

  /** Says once that an entry of before leads nowhere any more. */
  private async tellOfOld(): Promise<void> {
    const { folder, context } = this;
    if (!folder || context.workspaceState.get(TOLD_OF_OLD) === true) return;
    const file = vscode.Uri.joinPath(folder.uri, ".vscode", "mcp.json");
    // One that cannot be read has nothing to tell of; it is looked at again with the next window.
    const names = oldEntries(await read(file).catch(() => ""));
    if (names.length === 0) return;
    await context.workspaceState.update(TOLD_OF_OLD, true);
    const told = `.vscode/mcp.json has an HTTP server of an earlier orchestrator (${names.join(", ")}). Orchestra offers its server by itself; the entry is not needed any more.`;
    void this.say(told, ["Remove it", "Open the file"]).then(async (choice) => {
      if (choice === "Remove it") await write(file, without(await read(file), names));
      if (choice === "Open the file") await vscode.window.showTextDocument(file);
    });
  }

  /** In a VS Code that asks no extension for servers, the file says where ours is. */
  private async doWithoutApi(): Promise<void> {
    const { folder, mcp, context } = this;
    if (!folder || !mcp || context.workspaceState.get(TOLD_OF_UPGRADE) === mcp) return;
    await context.workspaceState.update(TOLD_OF_UPGRADE, mcp);
    const file = vscode.Uri.joinPath(folder.uri, ".vscode", "mcp.json");
    const told = `This VS Code is too old to ask Orchestra for its MCP server: 1.101 and later do. Until you upgrade, its address can stand in .vscode/mcp.json, as \`${NAME}\`.`;
    if ((await this.say(told, ["Write it there"])) !== "Write it there") return;
    try {
      await write(file, withServer(await read(file), mcp));
    } catch (error) {
      void vscode.window.showErrorMessage(`.vscode/mcp.json: ${message(error)}`);
    }
  }
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Under which name the token of a server is kept. */
function tokenOf(address: string): string {
  return `orchestra.token ${address}`;
}

function stamp(file: string): string {
  try {
    const { mtimeMs, size, ino } = statSync(file);
    return `${mtimeMs} ${size} ${ino}`;
  } catch {
    return "";
  }
}

/** The text of a file; one that is not there is empty, and any other that cannot be read is an error. */
async function read(file: vscode.Uri): Promise<string> {
  try {
    return new TextDecoder().decode(await vscode.workspace.fs.readFile(file));
  } catch (error) {
    const code = typeof error === "object" && error !== null ? (error as { code?: unknown }).code : undefined;
    if (code === "FileNotFound" || code === "ENOENT") return "";
    throw error;
  }
}

async function write(file: vscode.Uri, text: string): Promise<void> {
  await vscode.workspace.fs.writeFile(file, new TextEncoder().encode(text));
}
