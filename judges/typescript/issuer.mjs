// An OAuth issuer on this machine, as far as clients use one by themselves: it describes itself,
// registers clients, asks nobody before it lets one in (PKCE), takes client credentials, and signs
// tokens (RS256) for whichever resource they are asked for.

import { createHash, generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { createServer } from "node:http";

const MINUTES = 60;

/**
 * Serves at an origin until it is closed. The clients that it knows from the start are told by
 * their names: `secret`, and `audience` if their tokens are for that, whatever they ask for.
 */
export async function serveIssuer(origin, clients) {
  const issuer = new Issuer(origin, clients);
  const site = createServer(async (request, response) => {
    const { status, headers, body } = await issuer.answer(request).catch((error) => refused(error.message));
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(body && JSON.stringify(body));
  });
  const { hostname, port } = new URL(origin);
  await new Promise((resolve, reject) => site.on("error", reject).listen(Number(port), hostname, resolve));
  return {
    close() {
      site.close();
      site.closeAllConnections();
    },
  };
}

const good = (body, status = 200) => ({ status, body });
const refused = (why) => ({ status: 400, body: { error: "invalid_request", error_description: why } });

class Issuer {
  #origin;
  #clients;
  #codes = new Map();
  #keys = generateKeyPairSync("rsa", { modulusLength: 2048 });

  constructor(origin, clients) {
    this.#origin = origin;
    this.#clients = new Map(Object.entries(clients));
  }

  async answer(request) {
    const url = new URL(request.url, this.#origin);
    let text = "";
    for await (const chunk of request) text += chunk;
    switch (`${request.method} ${url.pathname}`) {
      case "GET /.well-known/oauth-authorization-server":
        return good(this.#described());
      case "GET /keys":
        return good({ keys: [{ ...this.#keys.publicKey.export({ format: "jwk" }), kid: "a", use: "sig", alg: "RS256" }] });
      case "POST /register":
        return this.#register(JSON.parse(text));
      case "GET /authorize":
        return this.#authorize(url.searchParams);
      case "POST /token":
        return this.#token(new URLSearchParams(text), request.headers.authorization);
      default:
        return { status: 404, body: {} };
    }
  }

  #described() {
    return {
      issuer: this.#origin,
      jwks_uri: `${this.#origin}/keys`,
      registration_endpoint: `${this.#origin}/register`,
      authorization_endpoint: `${this.#origin}/authorize`,
      token_endpoint: `${this.#origin}/token`,
      response_types_supported: ["code"],
      grant_types_supported: ["authorization_code", "client_credentials"],
      token_endpoint_auth_methods_supported: ["none", "client_secret_basic"],
      code_challenge_methods_supported: ["S256"],
      authorization_response_iss_parameter_supported: true,
    };
  }

  #register(client) {
    const id = randomUUID();
    this.#clients.set(id, { redirects: client.redirect_uris });
    return good({ ...client, client_id: id }, 201);
  }

  #authorize(asked) {
    const client = this.#clients.get(asked.get("client_id"));
    const back = asked.get("redirect_uri");
    if (!client?.redirects?.includes(back)) throw new Error("no such client, or another place to go back to");
    if (asked.get("code_challenge_method") !== "S256") throw new Error("no challenge");
    const code = randomUUID();
    this.#codes.set(code, asked);
    const location = new URL(back);
    location.search = new URLSearchParams({ code, state: asked.get("state"), iss: this.#origin });
    return { status: 302, headers: { location: location.href } };
  }

  #token(asked, shown) {
    if (asked.get("grant_type") === "client_credentials") {
      const [id, secret] = atob(shown.replace("Basic ", "")).split(":");
      const client = this.#clients.get(id);
      if (!client?.secret || client.secret !== secret) throw new Error("no such client");
      return this.#granted(id, asked, client.audience);
    }
    const begun = this.#codes.get(asked.get("code"));
    this.#codes.delete(asked.get("code"));
    const challenge = createHash("sha256").update(asked.get("code_verifier")).digest("base64url");
    if (begun?.get("code_challenge") !== challenge) throw new Error("no such code, or another verifier");
    for (const name of ["client_id", "redirect_uri", "resource"]) {
      if (asked.get(name) !== begun.get(name)) throw new Error(`another ${name}`);
    }
    return this.#granted(asked.get("client_id"), begun);
  }

  #granted(id, asked, audience = asked.get("resource")) {
    const scope = asked.get("scope");
    if (!audience || !scope) throw new Error("for which resource and scope?");
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: this.#origin, sub: `user of ${id}`, client_id: id, aud: audience, scope };
    const token = this.#signed({ ...claims, iat: now, exp: now + 5 * MINUTES, jti: randomUUID() });
    return good({ access_token: token, token_type: "Bearer", expires_in: 5 * MINUTES, scope });
  }

  #signed(claims) {
    const header = { alg: "RS256", typ: "at+jwt", kid: "a" };
    const parts = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"));
    const signature = sign("sha256", Buffer.from(parts.join(".")), this.#keys.privateKey);
    return [...parts, signature.toString("base64url")].join(".");
  }
}
