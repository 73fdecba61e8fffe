// The TypeScript SDK's second generation inside a page of a browser: `REVISION SCRIPT URL`. The page
// is served at JUDGE_ORIGIN, which the server must allow, and tells here how the script went.

import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const [revision, path, server] = process.argv.slice(2);
const origin = process.env.JUDGE_ORIGIN;
const { steps } = JSON.parse(await readFile(path, "utf8"));

const bundle = await build({
  entryPoints: [fileURLToPath(new URL("page.mjs", import.meta.url))],
  bundle: true,
  format: "esm",
  platform: "browser",
  write: false,
});
const page = `<!doctype html><title>judge</title><script type="module" src="/page.js"></script>`;
const task = JSON.stringify({ revision, steps, url: new URL("/mcp", server).href });
const files = {
  "/": ["text/html", page],
  "/page.js": ["text/javascript", bundle.outputFiles[0].text],
  "/task.json": ["application/json", task],
};

const told = Promise.withResolvers();
const site = createServer(async (request, response) => {
  if (request.method === "POST") {
    let text = "";
    for await (const chunk of request) text += chunk;
    response.end();
    told.resolve(text);
    return;
  }
  const [type, text] = files[request.url] ?? [];
  response.writeHead(type ? 200 : 404, { "content-type": type ?? "text/plain" }).end(text);
});
const { hostname, port } = new URL(origin);
await new Promise((resolve) => site.listen(Number(port), hostname, resolve));

const home = await mkdtemp(join(tmpdir(), "judge-"));
const flags = ["--headless", "--no-sandbox", "--disable-gpu", `--user-data-dir=${home}`, "--remote-debugging-port=0"];
// What is started may be a script that starts the browser, and that has processes of its own: all
// are one group, and share a pipe that closes when the last of them has ended. Until then they write.
const browser = spawn(process.env.JUDGE_BROWSER, [...flags, origin], {
  detached: true,
  stdio: ["ignore", "ignore", "pipe"],
});
browser.stderr.resume();
const ended = new Promise((resolve) => browser.on("close", resolve));
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => told.reject(new Error(signal)));
browser.on("error", told.reject);
ended.then((code) => told.reject(new Error(`the browser ended with ${code}`)));
try {
  const text = await told.promise;
  if (text !== `${steps.length} steps`) throw new Error(text);
  console.log(text);
} finally {
  try {
    process.kill(-browser.pid, "SIGKILL");
  } catch {
    // It did not start, or has ended.
  }
  await ended;
  site.close();
  await rm(home, { recursive: true, force: true, maxRetries: 5 });
}
