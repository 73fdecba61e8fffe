// The extension in a stand-in of VS Code, with the real program where ORCHESTRA_BIN names it.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, readFileSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { context, load, until, vscode, workspace } from "./stub.mjs";

const program = process.env.ORCHESTRA_BIN;
const real = { skip: program ? false : "ORCHESTRA_BIN names no program" };

/** Activates the extension; it is left when the test ends. */
async function active(t, { folder, settings = {}, ...more } = {}) {
  const code = vscode({ folder, settings: { "orchestra.path": program ?? "/bin/true", ...settings }, ...more });
  const given = context();
  const face = await load(code.api).extension.activate(given);
  t.after(() => given.subscriptions.forEach((one) => one.dispose()));
  return { ...code, face, given };
}

const offered = async ({ said }) => said.definitions.provider.provideMcpServerDefinitions();
const quiet = { "orchestra.live.enabled": false };

test("the chat is offered the server over stdio, with the workspace in arguments and environment", async (t) => {
  const folder = workspace();
  const code = await active(t, { folder, settings: quiet });
  const [server, ...more] = await offered(code);
  assert.deepEqual(more, []);
  assert.equal(code.said.definitions.id, "orchestra.mcp");
  const { label, command, args, env, version, cwd } = server;
  assert.deepEqual({ label, args, env, version, cwd: cwd.fsPath }, { label: "Orchestra", args: ["stdio", "--workspace", folder], env: { ORCHESTRATOR_WORKSPACE: folder }, version: "1.2.3", cwd: folder });
  assert.equal(command, program ?? "/bin/true");
  assert.equal(await code.said.definitions.provider.resolveMcpServerDefinition(server), server);
});

test("the storage of plans is in the environment where a setting names one", async (t) => {
  const folder = workspace();
  const [server] = await offered(await active(t, { folder, settings: { ...quiet, "orchestra.plans.storage": "/elsewhere/plans" } }));
  assert.deepEqual(server.env, { ORCHESTRATOR_WORKSPACE: folder, ORCHESTRATOR_STORAGE: "/elsewhere/plans" });
});

test("nothing is offered without a folder, when it is switched off, or without a program", async (t) => {
  assert.deepEqual(await offered(await active(t, { settings: quiet })), []);
  const folder = workspace();
  assert.deepEqual(await offered(await active(t, { folder, settings: { ...quiet, "orchestra.mcp.enabled": false } })), []);
  const without = await active(t, { folder, settings: { ...quiet, "orchestra.path": "/nowhere/orchestra" } });
  assert.deepEqual(await offered(without), []);
  assert.match(without.said.warnings.join(), /nowhere/);
});

test("a change of a setting is told to the chat, one of another is not", async (t) => {
  const code = await active(t, { folder: workspace(), settings: quiet });
  let told = 0;
  code.said.definitions.provider.onDidChangeMcpServerDefinitions(() => (told += 1));
  code.set("editor.fontSize", 12);
  assert.equal(told, 0);
  code.set("orchestra.mcp.enabled", false);
  assert.equal(told, 1);
  code.set("copilotOrchestrator.mcp.transport", "http");
  assert.equal(told, 2);
});

test("a program that is replaced is told to the chat", async (t) => {
  const folder = workspace();
  const own = join(folder, "orchestra");
  copyFileSync("/bin/true", own);
  const code = await active(t, { folder, settings: { ...quiet, "orchestra.path": own } });
  let told = 0;
  code.said.definitions.provider.onDidChangeMcpServerDefinitions(() => (told += 1));
  utimesSync(own, new Date(), new Date(Date.now() + 60_000));
  await until("a change is told", () => told > 0);
});

test("the program that another setting names is looked at from then on, and the one before no more", async (t) => {
  const folder = workspace();
  const [first, second] = ["first", "second"].map((name) => join(folder, name));
  for (const own of [first, second]) copyFileSync("/bin/true", own);
  const code = await active(t, { folder, settings: { ...quiet, "orchestra.path": first } });
  let told = 0;
  code.said.definitions.provider.onDidChangeMcpServerDefinitions(() => (told += 1));
  code.set("orchestra.path", second);
  assert.equal((await offered(code))[0].command, second);
  assert.equal(told, 1);
  utimesSync(first, new Date(), new Date(Date.now() + 60_000));
  utimesSync(second, new Date(), new Date(Date.now() + 60_000));
  await until("a change is told", () => told === 2);
});

test("why there is no program is told once, and again when it is another reason", async (t) => {
  const code = await active(t, { folder: workspace(), settings: { "orchestra.path": "/nowhere/orchestra" } });
  await code.face.connected;
  await offered(code);
  assert.equal(code.said.warnings.length, 1);
  code.set("orchestra.path", "/elsewhere/orchestra");
  await until("the other is told", () => code.said.warnings.length === 2);
  assert.match(code.said.warnings[1], /elsewhere/);
});

test("a server that cannot be started is told, and started again when asked", async (t) => {
  const folder = workspace();
  const own = join(folder, "orchestra");
  copyFileSync("/bin/false", own);
  const code = vscode({ folder, settings: { "orchestra.path": own } });
  code.answers.push("Try Again");
  const given = context();
  t.after(() => given.subscriptions.forEach((one) => one.dispose()));
  await load(code.api).extension.activate(given);
  await until("it was tried twice", () => code.said.warnings.length === 2);
  assert.match(code.said.warnings.join(), /orchestra up ended/);
  assert.equal(code.status.command, "orchestra.reconnect");
});

test("the setting of the earlier extension counts while ours is unset", async (t) => {
  const settings = { ...quiet, "copilotOrchestrator.mcp.transport": "http" };
  const code = await active(t, { folder: workspace(), settings });
  assert.match(code.said.log.join("\n"), /over HTTP/);
  // No server runs, so there is none to offer.
  assert.deepEqual(await offered(code), []);
  code.set("orchestra.mcp.transport", "stdio");
  assert.equal((await offered(code)).length, 1);
});

test("HTTP without live updates and an unknown transport are reported once", async (t) => {
  const code = await active(t, { folder: workspace(), settings: { ...quiet, "orchestra.mcp.transport": "http" } });
  assert.match(code.said.warnings.join("\n"), /no MCP server.*orchestra\.live\.enabled/);
  code.set("orchestra.plans.storage", "/elsewhere");
  assert.equal(code.said.warnings.length, 1);
  code.set("orchestra.mcp.transport", "pipe");
  assert.match(code.said.warnings.at(-1), /"pipe".*"stdio" or "http"/);
  assert.equal((await offered(code)).length, 1);
  code.set("orchestra.mcp.transport", "stdio");
  assert.equal(code.said.warnings.length, 2);
});

test("an entry of before is told of once, and taken out when asked", async (t) => {
  const folder = workspace({ ".vscode/mcp.json": '{"servers": {"mine": {"type": "http", "url": "http://localhost:39219/mcp"}, "b": {"command": "b"}}}' });
  const code = vscode({ folder, settings: { "orchestra.path": "/bin/true", ...quiet } });
  code.answers.push("Remove it");
  const given = context();
  t.after(() => given.subscriptions.forEach((one) => one.dispose()));
  const { extension } = load(code.api);
  await extension.activate(given);
  assert.match(code.said.warnings.join(), /mine/);
  await until("it is taken out", () => !readFileSync(join(folder, ".vscode/mcp.json"), "utf8").includes("39219"));
  assert.deepEqual(JSON.parse(readFileSync(join(folder, ".vscode/mcp.json"), "utf8")), { servers: { b: { command: "b" } } });
});

test("whoever was told of an entry of before is not told again", async (t) => {
  const folder = workspace({ ".vscode/mcp.json": '{"servers": {"mine": {"type": "http", "url": "http://localhost:39219/mcp"}}}' });
  const code = vscode({ folder, settings: { "orchestra.path": "/bin/true", ...quiet } });
  const given = context();
  t.after(() => given.subscriptions.forEach((one) => one.dispose()));
  const { extension } = load(code.api);
  await extension.activate(given);
  await extension.activate(given);
  assert.equal(code.said.warnings.length, 1);
});

test("the board and the plans are shown as they change, and plans are steered", real, async (t) => {
  const folder = workspace();
  const code = await active(t, { folder });
  await code.face.connected;
  const site = /http:\/\/[^\s]+/.exec(code.said.log.join("\n"))[0];
  const call = async (name, args) => {
    const answer = await (await fetch(`${site}/api/mcp/tools/call`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ name, arguments: args }) })).json();
    assert.ok(!answer.isError, JSON.stringify(answer));
    return answer.structuredContent;
  };
  await call("create_project", { name: "App" });
  const epic = await call("create_epic", { project: "app", title: "First" });
  const story = await call("create_story", { project: "app", epic_id: epic.id, title: "Greeting", user_story: "As a visitor I am greeted" });
  const task = await call("create_task", { project: "app", story_id: story.id, title: "Say hello", type: "task" });
  const board = code.trees.get("orchestra.board");
  const cards = () => board.getChildren().flatMap((state) => board.getChildren(state)).map((node) => [node.card.id, node.card.status]);
  await until("the card is seen", () => cards().length === 1);
  await call("update_task", { project: "app", task_id: task.id, status: "todo" });
  await call("update_task", { project: "app", task_id: task.id, status: "in-progress" });
  await until("it moves", () => cards()[0]?.[1] === "in-progress");
  assert.match(code.status.text, /1 in progress/);
  const [state] = board.getChildren();
  const [node] = board.getChildren(state);
  await code.commands.get("orchestra.openTask")(node);
  assert.equal(code.said.opened.at(-1), `${site}/board/app/${task.id}`);
  assert.equal(board.getTreeItem(node).command.command, "orchestra.openTask");
  const plans = code.trees.get("orchestra.plans");
  await call("create_copilot_plan", { name: "Two", startPaused: true, jobs: [{ producerId: "first", task: "first", work: "true", dependencies: [] }] });
  const [plan] = await until("the plan is seen", async () => { const all = await plans.getChildren(); return all.length === 1 && all; });
  assert.equal(plans.getTreeItem(plan).contextValue, "plan.pending-start");
  const jobs = await plans.getChildren(plan);
  assert.ok(jobs.some(({ job }) => job.name === "first"), JSON.stringify(jobs));
  await code.commands.get("orchestra.openLog")(jobs[0]);
  assert.match(code.said.opened.at(-1), /\/plans\/.+\/jobs\/.+/);
  await code.commands.get("orchestra.startPlan")(plan);
  await until("it runs or fails", async () => (await plans.getChildren())[0].plan.status !== "pending-start");
  await code.commands.get("orchestra.startPlan")({ kind: "plan", plan: { id: "none" } });
  assert.equal(code.said.errors.length, 1);
});

test("two windows share one server, and the one that stays goes on without the other", real, async (t) => {
  const folder = workspace();
  const first = await active(t, { folder });
  await first.face.connected;
  const second = await active(t, { folder });
  await second.face.connected;
  const site = ({ said }) => /http:\/\/[^\s]+/.exec(said.log.join("\n"))[0];
  assert.equal(site(first), site(second));
  await until("both know", () => first.face.model() && second.face.model());
  first.given.subscriptions.splice(0).forEach((one) => one.dispose());
  await until("the second starts one of its own", () => second.said.log.filter((line) => line.includes("Connected")).length === 2);
});

test("a server that asks for a token is shown the one that is entered, which is kept", real, async (t) => {
  const folder = workspace();
  const token = "a-token-that-nobody-guesses";
  const server = spawn(program, ["up", "--workspace", folder, "--http", "127.0.0.1:0", "--quic", "off", "--json"], { stdio: ["ignore", "pipe", "ignore"], env: { ...process.env, ORCHESTRA_TOKEN: token } });
  t.after(() => server.kill());
  await new Promise((ready) => server.stdout.once("data", ready));
  const code = vscode({ folder, settings: { "orchestra.path": program, "orchestra.mcp.transport": "http" } });
  code.inputs.push("a-wrong-one", token);
  code.answers.push("Enter the Token");
  const given = context();
  t.after(() => given.subscriptions.forEach((one) => one.dispose()));
  const { extension } = load(code.api);
  await extension.activate(given);
  await until("the board is followed", () => code.status.text.includes("in progress"));
  assert.ok(code.said.asked.length === 2 && code.said.asked.every(({ password }) => password));
  assert.match(code.said.warnings.join(), /does not know the token/);
  const [definition] = await offered(code);
  assert.deepEqual(definition.headers, { authorization: `Bearer ${token}` });
  await (await extension.activate(given)).connected;
  assert.equal(code.said.asked.length, 2);
  assert.ok(!code.said.log.join().includes(token));
});

test("the dashboard behind a forwarded port is opened with a token", real, async (t) => {
  const folder = workspace();
  const code = await active(t, { folder });
  await until("the board is followed", () => code.status.text.includes("in progress"));
  await code.commands.get("orchestra.openDashboard")();
  assert.match(code.said.opened.at(-1), /\/board$/);
  code.api.env.asExternalUri = async () => code.api.Uri.parse("https://forwarded.example/board");
  await code.commands.get("orchestra.openDashboard")();
  const token = execFileSync(program, ["token", "--workspace", folder], { encoding: "utf8" }).trim();
  assert.equal(code.said.opened.at(-1), `https://forwarded.example/board#token=${token}`);
});

test("over HTTP the chat is offered the address of the server that runs", real, async (t) => {
  const code = await active(t, { folder: workspace(), settings: { "orchestra.mcp.transport": "http" } });
  const [server] = await offered(code);
  assert.match(server.uri.toString(), /^http:\/\/127\.0\.0\.1:\d+\/mcp$/);
  assert.match(code.said.log.join("\n"), /over HTTP/);
});

test("a VS Code without the API is offered the address in mcp.json, and the upgrade", real, async (t) => {
  const folder = workspace({ ".vscode/mcp.json": '{\n  // mine\n  "servers": { "a": { "command": "a" } }\n}\n' });
  const code = vscode({ folder, lm: false, settings: { "orchestra.path": program } });
  assert.equal(code.api.lm, undefined);
  code.answers.push("Write it there");
  const given = context();
  t.after(() => given.subscriptions.forEach((one) => one.dispose()));
  await load(code.api).extension.activate(given);
  const text = await until("it is written", () => { const now = readFileSync(join(folder, ".vscode/mcp.json"), "utf8"); return now.includes("/mcp") && now; });
  assert.ok(text.includes("// mine") && text.includes('"a"'), text);
  assert.match(code.said.warnings.join(), /1\.101/);
});

test("a file that cannot be read is not written over", real, async (t) => {
  const before = '{"servers": {"a": {"command": "a"}}}';
  const folder = workspace({ ".vscode/mcp.json": before });
  const code = vscode({ folder, lm: false, settings: { "orchestra.path": program } });
  code.api.workspace.fs.readFile = async () => {
    throw Object.assign(new Error("not now"), { code: "NoPermissions" });
  };
  code.answers.push("Write it there");
  const given = context();
  t.after(() => given.subscriptions.forEach((one) => one.dispose()));
  await load(code.api).extension.activate(given);
  await until("it is told", () => code.said.errors.length === 1);
  assert.match(code.said.errors[0], /not now/);
  assert.equal(readFileSync(join(folder, ".vscode/mcp.json"), "utf8"), before);
});
