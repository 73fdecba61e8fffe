// Plays a script (see ../README.md) through one client, in Node.js or in a browser.

/** Plays the steps and tells how many; throws at the first one that does not go as written. */
export async function play(steps, client) {
  const kept = {};
  for (const [index, raw] of steps.entries()) {
    const step = fill(raw, kept);
    try {
      await playStep(step, client, kept);
    } catch (error) {
      throw new Error(`step ${index + 1} ${JSON.stringify(step)}: ${error.message}`);
    }
  }
  return steps.length;
}

async function playStep(step, client, kept) {
  if (step.list) {
    const names = (await client.list(step.list)).map((item) => item.uriTemplate ?? item.uri ?? item.name);
    for (const name of step.has ?? []) {
      if (!names.includes(name)) throw new Error(`${name} is not in ${names}`);
    }
    return;
  }
  const text = await answer(step, client);
  for (const part of step.expect ?? []) {
    if (!text.includes(part)) throw new Error(`${part} is not in ${text}`);
  }
  for (const [name, pointer] of Object.entries(step.keep ?? {})) {
    kept[name] = pointer.split("/").slice(1).reduce((value, key) => value[key], JSON.parse(text));
    if (typeof kept[name] !== "string") throw new Error(`no text at ${pointer} in ${text}`);
  }
}

async function answer(step, client) {
  if (step.call) {
    const result = await client.call(step.call, step.with ?? {});
    if (Boolean(result.isError) !== Boolean(step.refused)) {
      throw new Error(`isError is ${result.isError}: ${JSON.stringify(result)}`);
    }
    return result.content.map((block) => block.text).join("\n");
  }
  if (step.prompt) {
    const result = await client.prompt(step.prompt, step.with ?? {});
    return result.messages.map((message) => message.content.text).join("\n");
  }
  const result = await client.read(step.read);
  return result.contents.map((content) => content.text).join("\n");
}

/** Replaces `${name}` in every text of a step by what was kept under that name. */
function fill(value, kept) {
  if (typeof value === "string") return value.replace(/\$\{(\w+)\}/g, (_, name) => kept[name]);
  if (Array.isArray(value)) return value.map((item) => fill(item, kept));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fill(item, kept)]));
}

/** The operations of a script on a client of either generation of the SDK. */
export function operations(client) {
  const lists = {
    tools: async () => (await client.listTools()).tools,
    prompts: async () => (await client.listPrompts()).prompts,
    resources: async () => (await client.listResources()).resources,
    templates: async () => (await client.listResourceTemplates()).resourceTemplates,
  };
  return {
    list: (what) => lists[what](),
    call: (name, args) => client.callTool({ name, arguments: args }),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    read: (uri) => client.readResource({ uri }),
  };
}
