// The client of the TypeScript SDK's second generation where callers must sign in: `REVISION SCRIPT
// URL`. The issuer that the server trusts is served here, at JUDGE_ORIGIN. A client that knows only
// the URL finds it, registers and plays the script; a program with credentials gets in as well, and
// one whose tokens are for another resource does not.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import {
  Client,
  ClientCredentialsProvider,
  SdkErrorCode,
  StreamableHTTPClientTransport,
  UnauthorizedError,
  extractWWWAuthenticateParams,
} from "@modelcontextprotocol/client";
import { serveIssuer } from "./issuer.mjs";
import { operations, play } from "./play.mjs";
import { commandLine } from "./script.mjs";

const { revision, steps, url } = await commandLine();
const origin = process.env.JUDGE_ORIGIN;
const programs = {
  program: { secret: randomUUID() },
  elsewhere: { secret: randomUUID(), audience: "https://elsewhere.example/mcp" },
};

/** Somebody whom the issuer knows and does not ask; their client is not registered yet. */
class Person {
  redirectUrl = "http://127.0.0.1/signed-in";
  clientMetadata = { client_name: "judge", redirect_uris: [this.redirectUrl], token_endpoint_auth_method: "none" };
  #kept = {};

  state = () => (this.#kept.state = randomUUID());
  clientInformation = () => this.#kept.client;
  saveClientInformation = (client) => void (this.#kept.client = client);
  tokens = () => this.#kept.tokens;
  saveTokens = (tokens) => void (this.#kept.tokens = tokens);
  codeVerifier = () => this.#kept.verifier;
  saveCodeVerifier = (verifier) => void (this.#kept.verifier = verifier);
  discoveryState = () => this.#kept.discovery;
  saveDiscoveryState = (discovery) => void (this.#kept.discovery = discovery);

  /** What a browser would do: the answer of the issuer leads back to the client. */
  async redirectToAuthorization(page) {
    const { headers } = await fetch(page, { redirect: "manual" });
    this.answer = new URL(headers.get("location")).searchParams;
    assert.equal(this.answer.get("state"), this.#kept.state);
  }
}

/** A client that has not connected, its transport, and each answer that it got as text. */
function newClient(authProvider) {
  const stateless = revision >= "2026-07-28";
  const options = stateless
    ? { versionNegotiation: { mode: { pin: revision } } }
    : { supportedProtocolVersions: [revision] };
  const way = [];
  const challenges = [];
  const watched = async (target, init) => {
    const response = await fetch(target, init);
    way.push(`${init?.method ?? "GET"} ${new URL(target).href} ${response.status}`);
    if (response.status === 401) challenges.push(extractWWWAuthenticateParams(response));
    return response;
  };
  const client = new Client({ name: "judge", version: "1.0.0" }, options);
  const open = () => new StreamableHTTPClientTransport(url, { authProvider, fetch: watched });
  return { client, open, way, challenges };
}

/** Connects, and tells that the right revision was negotiated. */
async function connect({ client, open }) {
  await client.connect(open());
  assert.equal(client.getNegotiatedProtocolVersion(), revision);
}

async function signIn() {
  const person = new Person();
  const stranger = newClient(person);
  const transport = stranger.open();
  await assert.rejects(stranger.client.connect(transport), UnauthorizedError);
  await transport.finishAuth(person.answer);
  // The place of the metadata is the one that the refusal named.
  const [{ resourceMetadataUrl, error }] = stranger.challenges;
  assert.equal(error, undefined);
  assert.deepEqual(stranger.way, [
    `POST ${url} 401`,
    `GET ${resourceMetadataUrl} 200`,
    `GET ${origin}/.well-known/oauth-authorization-server 200`,
    `POST ${origin}/register 201`,
    `POST ${origin}/token 200`,
  ]);
  const known = newClient(person);
  await connect(known);
  const count = await play(steps, operations(known.client));
  await known.client.close();
  assert.deepEqual(known.challenges, []);
  return count;
}

const credentials = (name) =>
  new ClientCredentialsProvider({ clientId: name, clientSecret: programs[name].secret, expectedIssuer: origin });

async function letIn() {
  const program = newClient(credentials("program"));
  await connect(program);
  const result = await program.client.callTool({ name: "list_projects", arguments: {} });
  assert.ok(!result.isError, JSON.stringify(result));
  await program.client.close();
}

async function refuse() {
  const { client, open, way, challenges } = newClient(credentials("elsewhere"));
  await assert.rejects(client.connect(open()), { code: SdkErrorCode.ClientHttpAuthentication });
  // It had a token, and showed it.
  assert.deepEqual(way.slice(-2), [`POST ${origin}/token 200`, `POST ${url} 401`]);
  assert.equal(challenges.at(-1).error, "invalid_token");
}

const issuer = await serveIssuer(origin, programs);
try {
  const count = await signIn();
  await letIn();
  await refuse();
  console.log(`${count} steps signed in, a program let in, one for elsewhere refused`);
} finally {
  issuer.close();
}
