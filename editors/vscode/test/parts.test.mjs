// The parts that need no program.

import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { test } from "node:test";
import { load, vscode } from "./stub.mjs";

const { binary, events, migration, model, server, site: sites } = load(vscode().api);

function programs(t) {
  const directory = mkdtempSync(join(tmpdir(), "orchestra-find-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const program = (...parts) => {
    const file = join(directory, ...parts);
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, "#!/bin/sh\n");
    chmodSync(file, 0o755);
    return file;
  };
  const look = (more = {}) => binary.find({ chosen: "", extension: join(directory, "extension"), path: "", isWindows: false, ...more });
  return { directory, program, look };
}

test("the program of the setting is taken before all others", (t) => {
  const { directory, program, look } = programs(t);
  const chosen = program("mine", "other-name");
  program("path", "orchestra");
  assert.deepEqual(look({ chosen, path: join(directory, "path") }), { program: chosen, from: "setting" });
});

test("a program that the setting names and is not there is no reason to take another", (t) => {
  const { directory, program, look } = programs(t);
  program("path", "orchestra");
  const found = look({ chosen: join(directory, "gone"), path: join(directory, "path") });
  assert.match(found.problem, /gone/);
  assert.match(look({ chosen: "orchestra" }).problem, /whole path/);
});

test("the program is found on PATH, the first one that can be started", (t) => {
  const { directory, program, look } = programs(t);
  writeFileSync(join(directory, "orchestra"), "text");
  const second = program("second", "orchestra");
  assert.deepEqual(look({ path: [directory, join(directory, "second")].join(delimiter) }), { program: second, from: "path" });
});

test("a relative directory of PATH is left out, as it would be one of the workspace", (t) => {
  const { look } = programs(t);
  assert.match(look({ path: [".", "bin", ""].join(delimiter) }).problem, /not found/);
});

test("the program that came with the extension is the last one tried", (t) => {
  const { program, look } = programs(t);
  const bundled = program("extension", "bin", "orchestra");
  assert.deepEqual(look(), { program: bundled, from: "bundle" });
});

test("where there is no program it is said how to install one", (t) => {
  const { look } = programs(t);
  assert.match(look().problem, /cargo install/);
});

test("events are cut where they end, however they come", () => {
  const text = 'retry: 1000\r\nid: a-1\r\nevent: hello\r\ndata: {"n":1}\r\n\r\n: comment\n\nid: a-2\nevent: cards\ndata: {"n":\ndata: 2}\n\n';
  const whole = new events.Parser().take(text);
  assert.deepEqual(whole, [{ id: "a-1", event: "hello", data: { n: 1 } }, { id: "a-2", event: "cards", data: { n: 2 } }]);
  const parser = new events.Parser();
  assert.deepEqual([...text].flatMap((letter) => parser.take(letter)), whole);
});

test("an event that is no JSON is left out, and one that never ends is refused", () => {
  const parser = new events.Parser();
  assert.deepEqual(parser.take("data: nonsense\n\ndata: 1\n\n"), [{ id: "", event: "message", data: 1 }]);
  assert.throws(() => parser.take("data: ".padEnd(17 * 1024 * 1024, "x")), /too long/);
});

/** Answers each request as told; its address. */
async function answering(t, answer) {
  const server = createServer(answer);
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  t.after(() => server.close());
  return `http://127.0.0.1:${server.address().port}`;
}

/** Follows a site for so many connections, each of which holds so long. */
async function followed(site, connections, heldMs = 0) {
  const heard = { waits: [], told: [], broken: [] };
  let now = 0;
  const clock = {
    now: () => now,
    wait: async (ms) => {
      heard.waits.push(ms);
      if (heard.waits.length === connections) follower.stop();
    },
  };
  const listener = { told: ({ id }) => heard.told.push(id), live: () => (now += heldMs), broken: (error, inVain) => heard.broken.push([error.message, inVain]) };
  const follower = new events.Events(site, listener, 0, clock);
  await follower.run();
  return heard;
}

test("a connection that breaks is made anew where it broke", async (t) => {
  const seen = [];
  const address = await answering(t, (request, response) => {
    seen.push(request.headers["last-event-id"]);
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(`id: b-${seen.length}\nevent: cards\ndata: {}\n\n`);
  });
  const { told } = await followed(new sites.Site(address), 3);
  assert.deepEqual(seen, [undefined, "b-1", "b-2"]);
  assert.deepEqual(told, ["b-1", "b-2", "b-3"]);
});

test("whoever cannot be reached is asked less and less often", async () => {
  const { waits, broken } = await followed(new sites.Site("http://127.0.0.1:1"), 7);
  assert.deepEqual(waits, [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000]);
  assert.deepEqual(broken.map(([, inVain]) => inVain), [1, 2, 3, 4, 5, 6, 7]);
});

test("connections that break at once are made less and less often, those that held are made anew at once", async (t) => {
  const address = await answering(t, (_, response) => response.writeHead(200, { "content-type": "text/event-stream" }).end("data: {}\n\n"));
  assert.deepEqual((await followed(new sites.Site(address), 4)).waits, [250, 500, 1_000, 2_000]);
  assert.deepEqual((await followed(new sites.Site(address), 4, 60_000)).waits, [250, 250, 250, 250]);
});

test("the token is shown with every request, and that one is wanted is told as such", async (t) => {
  const shown = [];
  const address = await answering(t, (request, response) => {
    shown.push(request.headers.authorization);
    response.writeHead(request.headers.authorization === "Bearer right" ? 200 : 401).end("{}");
  });
  await new sites.Site(address, "right").get("/api/board");
  await new sites.Site(address, "right").call("list_projects", {});
  await assert.rejects(new sites.Site(address).get("/api/board"), sites.TokenWanted);
  await assert.rejects(new sites.Site(address, "wrong").call("list_projects", {}), sites.TokenWanted);
  assert.deepEqual(shown, ["Bearer right", "Bearer right", undefined, "Bearer wrong"]);
});

test("what is refused is said in the words of who refuses", async (t) => {
  const address = await answering(t, (request, response) => (request.method === "GET" ? response.writeHead(404).end('{"error": "no such plan"}') : response.end('{"isError": true, "content": [{"text": "it has ended"}]}')));
  await assert.rejects(new sites.Site(address).get("/api/plans/x"), /^Error: no such plan$/);
  await assert.rejects(new sites.Site(address).call("pause_copilot_plan", {}), /^Error: it has ended$/);
});

test("entries of an earlier orchestrator are known by name and by port", () => {
  const old = '{ // servers\n "servers": { "copilot-orchestrator": {"type": "http", "url": "http://example.org/mcp"}, "mine": {"type": "http", "url": "http://localhost:39219/mcp"}, "other": {"type": "http", "url": "http://localhost:80/mcp"}, "local": {"type": "stdio", "command": "x"}, }\n}';
  assert.deepEqual(migration.oldEntries(old), ["copilot-orchestrator", "mine"]);
});

test("an entry of an earlier orchestrator is known and taken out below mcpServers as well", () => {
  const old = '{"mcpServers": {"copilot-orchestrator": {"type": "http", "url": "http://localhost:39219/mcp"}, "mine": {"url": "http://127.0.0.1:39219/mcp"}, "b": {"command": "b"}}}';
  assert.deepEqual(migration.oldEntries(old), ["copilot-orchestrator", "mine"]);
  assert.deepEqual(JSON.parse(migration.without(old, migration.oldEntries(old))), { mcpServers: { b: { command: "b" } } });
});

test("a file that cannot be understood has no entries of before", () => {
  for (const text of ["", "{", "[]", '{"servers": 1}', '{"servers": {"x": null}}', '{"servers": {"x": {"type": "http", "url": "nonsense"}}}']) assert.deepEqual(migration.oldEntries(text), []);
});

test("our server is written beside what stands there, comments and all", () => {
  const before = '{\n  // mine\n  "servers": {\n    "a": { "type": "stdio", "command": "a" } // here\n  },\n  "inputs": []\n}\n';
  const after = migration.withServer(before, "http://127.0.0.1:7420/mcp");
  assert.ok(after.includes("// mine") && after.includes("// here") && after.includes('"inputs": []'), after);
  assert.ok(after.includes('"url": "http://127.0.0.1:7420/mcp"'), after);
  assert.equal(migration.withServer(after, "http://127.0.0.1:7420/mcp"), after);
});

test("an empty file becomes one with our server, and one that is damaged is left alone", () => {
  assert.deepEqual(JSON.parse(migration.withServer("", "http://127.0.0.1:1/mcp")), { servers: { orchestra: { type: "http", url: "http://127.0.0.1:1/mcp" } } });
  assert.throws(() => migration.withServer('{"servers": []}', "http://127.0.0.1:1/mcp"), /`servers` is no object/);
  for (const text of ["{", "[]", "1"]) assert.throws(() => migration.withServer(text, "http://127.0.0.1:1/mcp"), /by hand/);
});

test("an entry of before is taken out, and nothing else", () => {
  const left = migration.without('{"servers": {"mine": {"type": "http", "url": "x"}, "b": {"command": "b"}}}', ["mine"]);
  assert.deepEqual(JSON.parse(left), { servers: { b: { command: "b" } } });
});

test("the line with which the program says where it is is read with care", () => {
  assert.deepEqual(server.parse('{"event":"ready","http":"http://127.0.0.1:7420","mcp":"http://127.0.0.1:7420/mcp","asks_token":true}'), { http: "http://127.0.0.1:7420", mcp: "http://127.0.0.1:7420/mcp", asksToken: true });
  for (const line of ["", "null", "[]", "{}", '{"http":1,"mcp":2}', '{"http":"file:///etc","mcp":"x"}']) assert.equal(server.parse(line), undefined);
});

test("a program that is none is told", async () => {
  await assert.rejects(server.up("/nowhere/orchestra", tmpdir()), /cannot be started/);
  await assert.rejects(server.up("/bin/false", tmpdir()), /ended/);
  await assert.rejects(server.up("/bin/echo", tmpdir()), /instead of its address/);
});

test("a token is what the program prints, and none where it prints none", async () => {
  assert.equal(await server.tokenFrom("/bin/echo", tmpdir()), `token --workspace ${tmpdir()}`);
  for (const program of ["/bin/true", "/bin/false", "/nowhere/orchestra"]) assert.equal(await server.tokenFrom(program, tmpdir()), undefined);
});

function known() {
  const answers = {
    "/api/board": { projects: [{ slug: "app", name: "App" }] },
    "/api/board/app": { states: [{ state: "todo" }, { state: "done" }], cards: [{ id: "A-1", type: "task", title: "One", status: "todo" }, { id: "A-2", type: "epic", title: "Two", status: "todo" }] },
    "/api/board/new": { states: [{ state: "todo" }], cards: [] },
    "/api/plans": { plans: [{ id: "p1", name: "First", status: "running", createdAt: 1 }, { id: "p2", name: "Second", status: "paused", createdAt: 2 }] },
    "/api/plans/p1": { plan: { nodes: [{ id: "j", producerId: "words", name: "", status: "failed", type: "job" }] } },
  };
  const asked = [];
  const changes = [];
  const made = new model.Model(async (path) => (asked.push(path), answers[path]), (what) => changes.push(what));
  return { made, asked, changes };
}

test("the first event has everything asked for, and one after a short break nothing", async () => {
  const { made, asked } = known();
  await made.take("hello", { missed: false });
  assert.equal(asked.length, 3);
  await made.take("hello", { missed: false });
  assert.equal(asked.length, 3);
  await made.take("hello", { missed: true });
  assert.equal(asked.length, 6);
});

test("issues that change, come and go are known without asking", async () => {
  const { made, asked, changes } = known();
  await made.load();
  assert.deepEqual(made.inState("app", "todo").map(({ id }) => id), ["A-1"]);
  const before = asked.length;
  await made.take("cards", { project: "app", cards: [{ id: "A-1", type: "task", title: "One", status: "done" }, { id: "A-3", type: "bug", title: "Three", status: "todo" }] });
  assert.deepEqual(made.inState("app", "done").map(({ id }) => id), ["A-1"]);
  await made.take("gone", { project: "app", ids: ["A-3"] });
  assert.deepEqual(made.inState("app", "todo"), []);
  assert.equal(asked.length, before);
  assert.ok(changes.length >= 4);
});

test("what happens while everything is asked for is newer than what is answered", async () => {
  const { made } = known();
  const loading = made.load();
  const moved = made.take("cards", { project: "app", cards: [{ id: "A-1", type: "task", title: "One", status: "done" }] });
  await Promise.all([loading, moved]);
  assert.deepEqual(made.inState("app", "done").map(({ id }) => id), ["A-1"]);
});

test("a project that is made is asked for once", async () => {
  const { made, asked } = known();
  await made.load();
  const projects = { projects: [{ slug: "app", name: "App" }, { slug: "new", name: "New" }] };
  await made.take("projects", projects);
  await made.take("projects", projects);
  assert.equal(asked.filter((path) => path === "/api/board/new").length, 1);
});

test("plans stand newest first, and one that is deleted is gone", async () => {
  const { made } = known();
  await made.load();
  assert.deepEqual(made.newest().map(({ id }) => id), ["p2", "p1"]);
  await made.take("plan", { plan: { id: "p1", name: "First", status: "succeeded", createdAt: 1 } });
  assert.equal(made.plans.get("p1").status, "succeeded");
  await made.take("plan-gone", { planId: "p2" });
  assert.deepEqual(made.newest().map(({ id }) => id), ["p1"]);
  assert.deepEqual(await made.jobs("p1"), [{ id: "j", name: "words", status: "failed", type: "job" }]);
});

test("what is of another shape than known does no harm", async () => {
  const { made } = known();
  for (const [event, data] of [["cards", null], ["cards", { cards: [1, null, {}] }], ["gone", { ids: 3 }], ["plan", 7], ["plan-gone", []], ["unheard-of", {}]]) await made.take(event, data);
  assert.equal(made.plans.size, 0);
});
