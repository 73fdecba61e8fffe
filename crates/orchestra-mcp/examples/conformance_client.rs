//! The client that the public conformance suite plays its client scenarios with. The suite starts
//! it with the URL of a server as its last argument; `MCP_CONFORMANCE_SCENARIO` names the scenario,
//! and `MCP_CONFORMANCE_CONTEXT` holds what belongs to it.
//!
//! It does what a scenario describes, by the client as it is, and fails when that fails.

#![expect(
    clippy::print_stderr,
    reason = "the suite shows what a client writes there when it fails"
)]

use std::{env, error::Error, sync::Arc, time::Duration};

use orchestra_hub::{Answers, Cx, InputRequired, ListKind};
use orchestra_mcp::client::{
    Client, ClientConfig, ClientError, Reply, ServerCall,
    http::{
        Auth, HttpConfig, HttpConnector, MirroredParams, Template,
        oauth::{ClientProof, Enterprise, Grant, KnownClient, MemoryStore, OAuthConfig},
    },
};
use orchestra_wire::RawJson;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The description of a client that the suite expects to be named by it.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// More rounds of questions than any scenario has.
const MAX_ROUNDS: usize = 8;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let url = env::args().next_back().ok_or("which server?")?;
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO")?;
    let context = match env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Value::Null,
    };
    let mut config = HttpConfig::new("conformance", url.parse()?);
    if scenario.starts_with("auth/") {
        config.auth = Auth::OAuth(Box::new(signs_in(&scenario, &context)?));
    }
    let connector = Arc::new(HttpConnector::new(config)?);
    let config = ClientConfig {
        // The suite answers, however busy the machine is.
        probe_timeout: Duration::from_secs(30),
        ..ClientConfig::default()
    };
    let client = Client::new(connector, config);
    let played = Player { client }.play(&scenario, &context).await;
    if let Err(error) = &played
        && let Some(error) = error.downcast_ref::<ClientError>()
    {
        return Err(format!("{error}: {}", error.explain()).into());
    }
    played
}

/// How a scenario of authorization wants to be signed in to.
fn signs_in(scenario: &str, context: &Value) -> Outcome<OAuthConfig> {
    let said = |name: &str| {
        let text = context[name].as_str();
        text.map(str::to_owned)
            .ok_or_else(|| format!("the context has no {name}"))
    };
    let secret = |name: &str| said(name).map(Template::verbatim);
    let mut oauth = OAuthConfig::new(Arc::new(MemoryStore::default()));
    oauth.client_document = Some(DOCUMENT.to_owned());
    oauth.sign_in = Some(Arc::new(|url: &reqwest::Url| {
        tokio::spawn(browse(url.clone()));
    }));
    let proof = match scenario {
        "auth/client-credentials-jwt" => ClientProof::Key {
            pem: secret("private_key_pem")?,
            algorithm: context["signing_algorithm"]
                .as_str()
                .unwrap_or("ES256")
                .to_owned(),
        },
        _ if context["client_secret"].is_string() => ClientProof::Secret(secret("client_secret")?),
        _ => ClientProof::None,
    };
    if context["client_id"].is_string() {
        let id = said("client_id")?;
        oauth.client = Some(KnownClient { id, proof });
    }
    oauth.grant = match scenario {
        "auth/client-credentials-jwt" | "auth/client-credentials-basic" => Grant::Client,
        "auth/wif-jwt-bearer" => Grant::Workload {
            assertion: secret("valid_jwt")?,
        },
        "auth/enterprise-managed-authorization" => Grant::Enterprise(Enterprise {
            token_endpoint: said("idp_token_endpoint")?.parse()?,
            client_id: said("idp_client_id")?,
            client_secret: None,
            id_token: secret("idp_id_token")?,
        }),
        _ => Grant::Person,
    };
    Ok(oauth)
}

/// Does what a person's browser would: asks, and goes where it is sent.
async fn browse(url: reqwest::Url) {
    let mut next = Some(url);
    while let Some(url) = next.take() {
        next = match get(&url).await {
            Ok(place) => place.and_then(|place| url.join(&place).ok()),
            Err(error) => {
                eprintln!("the browser failed: {error}");
                None
            }
        };
    }
}

/// Asks for a page; answers where it leads.
async fn get(url: &reqwest::Url) -> std::io::Result<Option<String>> {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(80);
    let mut stream = TcpStream::connect((host, port)).await?;
    let query = url
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let request = format!(
        "GET {}{query} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n",
        url.path()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let place = response.lines().find_map(|line| {
        let (name, place) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location")
            .then(|| place.to_owned())
    });
    Ok(place)
}

struct Player {
    client: Client,
}

impl Player {
    async fn play(&self, scenario: &str, context: &Value) -> Outcome<()> {
        let tools = self.tools().await?;
        match scenario {
            "http-custom-headers" => {
                for call in context["toolCalls"].as_array().into_iter().flatten() {
                    let name = call["name"].as_str().unwrap_or_default();
                    let tool = tools.iter().find(|tool| tool["name"] == name);
                    self.use_tool(tool.ok_or("no such tool")?, &call["arguments"])
                        .await?;
                }
            }
            "http-invalid-tool-headers" => {
                for tool in &tools {
                    self.use_tool(tool, &json!({"region": "us-west1"})).await?;
                }
            }
            "http-standard-headers" => {
                self.use_first(&tools).await?;
                self.read_and_get().await?;
            }
            "json-schema-2020-12-preservation" => {
                let named = |name: &str| tools.iter().find(|tool| tool["name"] == name);
                let focal = named("json_schema_2020_12_tool").ok_or("no tool to echo")?;
                let echo = named("json_schema_echo").ok_or("no tool that echoes")?;
                let arguments = json!({"schema": focal["inputSchema"]});
                self.use_tool(echo, &arguments).await?;
            }
            "json-schema-ref-no-deref" => {}
            "sep-2322-client-request-state" => self.ask_and_answer(&tools).await?,
            _ => self.use_first(&tools).await?,
        }
        self.client.close().await;
        Ok(())
    }

    /// The tools that can be used.
    async fn tools(&self) -> Outcome<Vec<Value>> {
        let listed = self.client.list(ListKind::Tools).await?;
        let mut tools = Vec::new();
        for tool in listed {
            let tool: Value = tool.parse()?;
            match MirroredParams::of(&RawJson::of(&tool["inputSchema"])?) {
                Ok(_) => tools.push(tool),
                Err(error) => eprintln!("left out {}: {error}", tool["name"]),
            }
        }
        Ok(tools)
    }

    async fn use_first(&self, tools: &[Value]) -> Outcome<()> {
        let Some(tool) = tools.first() else {
            return Ok(());
        };
        let arguments = match tool["inputSchema"]["properties"].get("a") {
            Some(_) => json!({"a": 5, "b": 3}),
            None => json!({}),
        };
        self.use_tool(tool, &arguments).await
    }

    /// Calls a tool until it asks nothing more.
    async fn use_tool(&self, tool: &Value, arguments: &Value) -> Outcome<()> {
        let mut call = Self::call_of(tool, arguments)?;
        for _ in 0..MAX_ROUNDS {
            match self.client.call(call.clone()).await? {
                Reply::Result(_) => return Ok(()),
                Reply::InputRequired(input) => call.cx.answers = Some(answers(&input)?),
            }
        }
        Err("it does not end to ask".into())
    }

    fn call_of(tool: &Value, arguments: &Value) -> Outcome<ServerCall> {
        let name = tool["name"].as_str().ok_or("a tool without a name")?;
        let params = RawJson::of(&json!({"name": name, "arguments": arguments}))?;
        let mut call = ServerCall::new("tools/call", Some(params), Cx::default());
        call.name = Some(name.to_owned());
        let mirrored = MirroredParams::of(&RawJson::of(&tool["inputSchema"])?)?;
        call.headers = mirrored.headers(Some(&RawJson::of(arguments)?));
        call.cx.features = ClientConfig::default().features;
        Ok(call)
    }

    /// Answers what tools ask, with another call between.
    async fn ask_and_answer(&self, tools: &[Value]) -> Outcome<()> {
        let unrelated = tools
            .iter()
            .find(|tool| tool["name"] == "test_mrtr_unrelated");
        for tool in tools {
            let mut call = Self::call_of(tool, &json!({}))?;
            if let Reply::InputRequired(input) = self.client.call(call.clone()).await? {
                if let Some(unrelated) = unrelated {
                    self.use_tool(unrelated, &json!({})).await?;
                }
                call.cx.answers = Some(answers(&input)?);
                self.client.call(call).await?;
            }
        }
        Ok(())
    }

    /// Reads a resource and gets a prompt, the first of each.
    async fn read_and_get(&self) -> Outcome<()> {
        for (kind, method, key) in [
            (ListKind::Resources, "resources/read", "uri"),
            (ListKind::Prompts, "prompts/get", "name"),
        ] {
            let listed = self.client.list(kind).await?;
            let Some(first) = listed.first() else {
                continue;
            };
            let first: Value = first.parse()?;
            let params = RawJson::of(&json!({key: first[key]}))?;
            let mut call = ServerCall::new(method, Some(params), Cx::default());
            call.name = first[key].as_str().map(str::to_owned);
            self.client.call(call).await?;
        }
        Ok(())
    }
}

/// What a person would answer who agrees to everything and changes nothing.
fn answers(input: &InputRequired) -> Outcome<Answers> {
    let requests: Map<String, Value> = input.requests.parse()?;
    let mut responses = Map::new();
    for (key, request) in requests {
        let response = match request["method"].as_str() {
            Some("elicitation/create") => {
                let schema = &request["params"]["requestedSchema"];
                json!({"action": "accept", "content": filled_in(schema)})
            }
            Some("roots/list") => json!({"roots": []}),
            _ => json!({
                "role": "assistant",
                "content": {"type": "text", "text": "yes"},
                "model": "none",
            }),
        };
        responses.insert(key, response);
    }
    Ok(Answers {
        responses: RawJson::of(&responses)?,
        state: input.state.clone(),
    })
}

/// A form with its defaults (MCP, elicitation: they are filled in where nothing else is said).
fn filled_in(schema: &Value) -> Value {
    let properties = schema["properties"].as_object();
    let fields = properties
        .into_iter()
        .flatten()
        .filter_map(|(name, field)| {
            let value = match (field.get("default"), field["type"].as_str()) {
                (Some(default), _) => default.clone(),
                (None, Some("boolean")) => json!(true),
                _ => return None,
            };
            Some((name.clone(), value))
        });
    Value::Object(fields.collect())
}
