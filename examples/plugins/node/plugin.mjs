// A plugin of Orchestra that repeats what it is told and tells news: see docs/plugins.md.

import { createHmac, randomBytes, randomFillSync, X509Certificate } from 'node:crypto';
import { fstatSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import Logger, { LogLevel } from '@matrixai/logger';
import { events, QUICClient, QUICServer } from '@matrixai/quic';
import protobuf from 'protobufjs';

const ID = 'tools.node';
const MAX_FRAME = 16 * 1024 * 1024;
const schema = protobuf.loadSync(fileURLToPath(new URL('plugin.proto', import.meta.url)));
const { PluginRequest, PluginResponse } = schema.lookup('orchestra.plugin.v1').nested;

// A Struct is JSON within a message. protobufjs leaves it to us to make one of the other.
const KINDS = { string: 'stringValue', number: 'numberValue', boolean: 'boolValue' };
const each = (members, change) =>
  Object.fromEntries(Object.entries(members).map(([name, value]) => [name, change(value)]));
const toStruct = (json) => ({ fields: each(json, toValue) });
const toValue = (json) => {
  if (Array.isArray(json)) return { listValue: { values: json.map(toValue) } };
  if (json === null) return { nullValue: 0 };
  return typeof json === 'object' ? { structValue: toStruct(json) } : { [KINDS[typeof json]]: json };
};
const fromStruct = (struct) => each(struct?.fields ?? {}, fromValue);
const fromValue = (value) => {
  if (value.listValue) return value.listValue.values.map(fromValue);
  return value.structValue ? fromStruct(value.structValue) : value[value.kind];
};

const tools = {
  repeat: { about: 'Repeats what it is told.', takes: ['text'], run: async ({ text }) => String(text) },
  tell_news: {
    about: 'Tells news to whoever listens to the topic sample.news.',
    takes: ['news'],
    async run({ news }) {
      await ask({ publish: { topic: 'sample.news', eventType: 'told', payload: toStruct({ news }) } });
      return 'told';
    },
  },
};
const definitions = Object.entries(tools).map(([name, { about, takes }]) => {
  const properties = Object.fromEntries(takes.map((argument) => [argument, { type: 'string' }]));
  const inputSchema = toStruct({ type: 'object', properties, required: takes });
  return { name, description: about, inputSchema };
});
const manifest = { id: ID, version: '0.1.0', language: 'node', providesTools: Object.keys(tools) };
const answers = {
  register: { accepted: true }, boot: { ready: true }, shutdown: { clean: true },
  health: { status: 1, message: 'ok' }, listTools: { tools: definitions }, listPrompts: {},
};

/** The field of the response that is set, and what it says. To an event nothing is said. */
async function answer({ request: kind, toolCall }) {
  const failed = (errorCode, errorMessage) => ({ toolCall: { errorCode, errorMessage } });
  if (kind === 'publish') return {};
  if (Object.hasOwn(answers, kind ?? '')) return { [kind]: answers[kind] };
  if (kind !== 'toolCall') return failed('unknown_request', 'unrecognized request type');
  const name = toolCall.toolName;
  if (!Object.hasOwn(tools, name)) return failed('tool_not_found', `tool "${name}" not found`);
  try {
    const text = await tools[name].run(fromStruct(toolCall.arguments));
    return { toolCall: { success: true, result: toStruct({ text }) } };
  } catch (error) {
    return failed('handler_error', error.message);
  }
}

async function read(stream, type) {
  const chunks = [];
  let [size, length] = [0];
  for await (const chunk of stream.readable) {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= 4 && length === undefined) length = Buffer.concat(chunks).readUInt32BE();
    if (length > MAX_FRAME || size > 4 + MAX_FRAME) throw new Error('too long a frame');
  }
  if (size !== 4 + length) throw new Error('the length of a frame is wrong');
  return type.decode(Buffer.concat(chunks).subarray(4));
}

async function write(stream, type, message) {
  const payload = type.encode(type.fromObject(message)).finish();
  const length = Buffer.alloc(4);
  length.writeUInt32BE(payload.length);
  const writer = stream.writable.getWriter();
  await writer.write(Buffer.concat([length, payload]));
  await writer.close();
}

let connected;
const orchestrator = new Promise((resolve) => (connected = resolve));
async function ask(request, connection = orchestrator) {
  const stream = (await connection).newStream();
  const deadline = setTimeout(() => stream.cancel(new Error('no answer in time')), 20_000);
  await write(stream, PluginRequest, request);
  const response = await read(stream, PluginResponse).finally(() => clearTimeout(deadline));
  if (response.toolCall) throw new Error(response.toolCall.errorMessage); // All kinds fail so.
  return response;
}

async function respond(stream) {
  const request = await read(stream, PluginRequest);
  await write(stream, PluginResponse, { requestId: request.requestId, ...(await answer(request)) });
}

const options = { manifest: { type: 'boolean' }, workspace: { type: 'string' } };
for (const flag of ['orchestrator-addr', 'listen-addr', 'certs-dir']) options[flag] = { type: 'string' };
const { values: flags } = parseArgs({ options });
if (flags.manifest) {
  console.log(JSON.stringify({ id: ID, version: '0.1.0', provides_tools: Object.keys(tools) }));
  process.exit();
}
if (fstatSync(0).isFIFO()) process.stdin.on('end', () => process.exit()).resume(); // Its starter is gone.

const pem = (file) => readFileSync(`${flags['certs-dir']}/${file}`, 'utf8');
const secured = (name) => ({
  ca: pem('ca.crt'), cert: pem(`${name}.crt`), key: pem(`${name}.key`), verifyPeer: true,
  applicationProtos: ['orchestra-plugin'], maxIdleTimeout: 60_000, enableEarlyData: false,
});
const hmac = (key, data) => createHmac('sha256', Buffer.from(key)).update(Buffer.from(data)).digest();
const ops = {
  sign: async (key, data) => Uint8Array.from(hmac(key, data)).buffer,
  verify: async (key, data, sum) => hmac(key, data).equals(Buffer.from(sum)),
  randomBytes: async (bytes) => randomFillSync(new Uint8Array(bytes)),
};
const logger = new Logger(ID, LogLevel.ERROR, []); // Its own would write to stderr all the time.
const server = new QUICServer({ crypto: { key: randomBytes(32), ops }, config: secured(ID), logger });
server.addEventListener(events.EventQUICServerConnection.name, ({ detail: connection }) => {
  // That our authority has signed this has been checked; whose it is has not.
  const { subjectAltName: names } = new X509Certificate(connection.meta().remoteCertsChain[0]);
  if (!names.split(', ').includes(`DNS:orchestrator-to-${ID}`)) return connection.stop({ force: true });
  connection.addEventListener(events.EventQUICConnectionStream.name, ({ detail: stream }) =>
    respond(stream).catch((error) => stream.cancel(error)),
  );
});
await server.start({ host: '127.0.0.1', port: 0 });
console.error(`READY 127.0.0.1:${server.port}`);
if (flags['orchestrator-addr']) {
  const [host, port] = flags['orchestrator-addr'].split(':');
  const target = { host, port: Number(port), localHost: '127.0.0.1', serverName: 'orchestrator' };
  const config = secured(`${ID}-client`);
  const client = await QUICClient.createQUICClient({ ...target, crypto: { ops }, config, logger });
  client.closedP.then(() => process.exit(1));
  const { register } = await ask({ register: manifest }, client.connection);
  if (!register.accepted) throw new Error(register.rejectReason);
  connected(client.connection);
}
