// Records the lists of a server and its answers to the steps of a script (see ../README.md), and prints them as one
// JSON object. No schema of the SDK changes a result: the members are those that the server sent.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { commandLine } from "./script.mjs";

const { revision, steps, server, url } = await commandLine();
const stateless = revision >= "2026-07-28";
const options = stateless ? { versionNegotiation: { mode: { pin: revision } } } : {};
// Servers offer some tools only to clients that can be asked.
options.capabilities = { elicitation: { form: {}, url: {} }, sampling: { tools: {} } };
const client = new Client({ name: "judge", version: "1.0.0" }, options);
await client.connect(url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport(server));

const unchecked = { "~standard": { version: 1, vendor: "judge", validate: (value) => ({ value }) } };
const METHOD_NOT_FOUND = -32601;

/** The error of the server. Over HTTP in 2026-07-28 the SDK reports a status, and the error is in its body. */
function errorOf(error) {
  const body = typeof error.code === "number" ? undefined : error.data?.text;
  const { code, message, data } = body ? JSON.parse(body).error : error;
  return { code, message, data };
}

/** All pages of a list, which is empty for a server without the method. */
async function list(method, member) {
  const items = [];
  let cursor;
  do {
    try {
      const page = await client.request({ method, params: cursor ? { cursor } : {} }, unchecked);
      items.push(...page[member]);
      cursor = page.nextCursor;
    } catch (error) {
      if (errorOf(error).code !== METHOD_NOT_FOUND) throw error;
      cursor = undefined;
    }
  } while (cursor);
  return items;
}

/** The result or the error of a step. */
async function answer(step) {
  const params = step.with ?? {};
  const [method, of] = step.call
    ? ["tools/call", { name: step.call, arguments: params }]
    : step.prompt
      ? ["prompts/get", { name: step.prompt, arguments: params }]
      : ["resources/read", { uri: step.read }];
  try {
    return { result: await client.request({ method, params: of }, unchecked) };
  } catch (error) {
    return { error: errorOf(error) };
  }
}

const recorded = {
  tools: await list("tools/list", "tools"),
  prompts: await list("prompts/list", "prompts"),
  resources: await list("resources/list", "resources"),
  templates: await list("resources/templates/list", "resourceTemplates"),
  answers: [],
};
for (const step of steps.filter((step) => !step.list)) recorded.answers.push(await answer(step));
console.log(JSON.stringify(recorded));
await client.close();
