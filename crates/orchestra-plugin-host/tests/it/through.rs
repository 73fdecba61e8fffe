//! What reaches a plugin of a call that comes in at a face, and what comes back: the fields that
//! nobody between them knows, who calls, and for which session.

use std::{
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::SystemTime,
};

use bytes::Bytes;
use orchestra_mcp::{Server, post::Post, stream};
use orchestra_plugin::{
    certs::CertDir,
    envelope::{Request, RequestKind, Response, ResponseKind},
    field::{Fields, put_text},
    generated::{
        PluginManifest, PromptGetRequest, StreamChunk, StreamEnd, StreamStart, ToolRequest,
        ToolResponse,
    },
    quic::{Caller, CallerOptions, Endpoint, Limits, Pace, Serving, Target},
};
use orchestra_plugin_host::{
    events::{EventLimits, Events},
    face::{Face, FaceOptions, Permissions},
    storage::NoStorage,
};
use prost::Message as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines, ReadHalf, WriteHalf},
    time::timeout,
};

use crate::{
    face_rig::{Operator, Peer, value},
    gated::{self, Gated},
    rig::{PATIENCE, Rig},
};

/// The numbers of fields that the schema may have some day.
const LATER: [u32; 3] = [50, 51, 50];

/// A plugin behind all that is between it and those who come over QUIC, or over other faces.
struct Through {
    gated: Gated,
    server: Server,
    _home: tempfile::TempDir,
    certs: CertDir,
    serving: Serving,
    address: std::net::SocketAddr,
}

impl Through {
    /// The plugin is `a`.
    async fn to(mode: &str) -> Self {
        let gated = Gated::with(vec![(gated::config("a"), Rig::new(mode))]).await;
        let server = Server::builder(gated.hub.clone(), "orchestra").build();
        let home = tempfile::tempdir().unwrap();
        let certs = CertDir::open(home.path().join("certs")).unwrap();
        certs.ensure_ca(SystemTime::now()).unwrap();
        let operator = Arc::new(Operator {
            permitted: Mutex::new(Permissions::all()),
            meanwhile: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        let links = Arc::new(gated.links[0].clone());
        let events = Events::new(links, EventLimits::default());
        let options = FaceOptions::default();
        let face = Face::new(&server, operator, Arc::new(NoStorage), events, options);
        let identity = certs.identity(&"orchestrator".parse().unwrap(), SystemTime::now());
        let endpoint = Endpoint::bind(Endpoint::LOOPBACK, &identity.unwrap(), Pace::default());
        let endpoint = endpoint.unwrap();
        Self {
            serving: endpoint.serve(Arc::new(face), Limits::default()),
            address: endpoint.address().unwrap(),
            gated,
            server,
            _home: home,
            certs,
        }
    }

    fn peer(&self, name: &str) -> Peer {
        let identity = self
            .certs
            .identity(&name.parse().unwrap(), SystemTime::now());
        let endpoint = Endpoint::outgoing(self.address, &identity.unwrap(), Pace::default());
        let target = Target::named(self.address, "orchestrator".parse().unwrap());
        let caller = Caller::start(endpoint.unwrap(), target, CallerOptions::default());
        Peer(caller)
    }

    fn bridge(&self) -> Peer {
        self.peer("transport.stdio-client")
    }

    async fn plugin(&self, id: &str) -> Peer {
        let peer = self.peer(&format!("{id}-client"));
        let manifest = PluginManifest {
            id: id.to_owned(),
            needs_tools: vec!["*".to_owned()],
            ..PluginManifest::default()
        };
        peer.ask(&manifest).await;
        peer
    }

    async fn close(self) {
        drop(self.serving);
        self.gated.close().await;
    }
}

/// A payload with fields of later schemas behind it.
fn with_later(message: &impl prost::Message) -> Bytes {
    let mut payload = message.encode_to_vec();
    for (place, number) in LATER.into_iter().enumerate() {
        put_text(&mut payload, number, &format!("later {place}"));
    }
    payload.into()
}

/// What of a payload is of later schemas.
fn later(payload: &Bytes) -> Vec<(u32, String)> {
    let fields = Fields::new(payload).map(Result::unwrap);
    let later = fields.filter(|field| (50..100).contains(&field.number));
    later
        .map(|field| (field.number, field.text().unwrap().to_owned()))
        .collect()
}

fn all_later() -> Vec<(u32, String)> {
    let all = LATER.into_iter().enumerate();
    all.map(|(place, number)| (number, format!("later {place}")))
        .collect()
}

async fn answer(peer: &Peer, kind: RequestKind, payload: Bytes) -> Response {
    let request = Request::raw("r", kind, payload).encode();
    Response::decode(&peer.raw(request).await).unwrap()
}

/// Spec 1.8, and 9, an orchestrator is compatible if it preserves unknown fields when routing.
#[tokio::test(flavor = "multi_thread")]
async fn fields_that_nobody_knows_reach_a_plugin_and_come_back() {
    let through = Through::to("greets").await;
    let bridge = through.bridge();
    let call = ToolRequest {
        tool_name: "a__echo".to_owned(),
        ..ToolRequest::default()
    };
    let told = answer(&bridge, RequestKind::ToolCall, with_later(&call)).await;
    let response: ToolResponse = told.message().unwrap();
    assert!(response.success, "{response:?}");
    assert_eq!(later(&told.payload()), all_later());
    // Of a call without any, none come back.
    let told = answer(&bridge, RequestKind::ToolCall, call.encode_to_vec().into()).await;
    assert_eq!(later(&told.payload()), []);

    let prompt = PromptGetRequest {
        prompt_name: "a__greet".to_owned(),
        ..PromptGetRequest::default()
    };
    let told = answer(&bridge, RequestKind::PromptGet, with_later(&prompt)).await;
    assert_eq!(told.kind(), Some(ResponseKind::PromptGet), "{told:?}");
    assert_eq!(later(&told.payload()), all_later());

    let start = StreamStart {
        stream_id: "s".to_owned(),
        tool_name: "a__drip".to_owned(),
        ..StreamStart::default()
    };
    let request = Request::raw("r", RequestKind::StreamStart, with_later(&start));
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut answers = bridge.0.stream(request.encode(), deadline).await.unwrap();
    let mut all = Vec::new();
    while let Some(frame) = timeout(PATIENCE, answers.next()).await.unwrap().unwrap() {
        all.push(Response::decode(&frame).unwrap());
    }
    for response in &all {
        assert_eq!(later(&response.payload()), all_later());
    }
    let end: StreamEnd = all.pop().unwrap().message().unwrap();
    assert!(end.success && end.total_chunks == 3, "{end:?}");
    // Each as it came, and nothing twice.
    let chunks: Vec<StreamChunk> = all.iter().map(|chunk| chunk.message().unwrap()).collect();
    let data: Vec<_> = chunks.iter().map(|chunk| &chunk.data[..]).collect();
    assert_eq!(data, [&b"one "[..], b"two ", b"three"]);
    for (sequence, chunk) in (0..).zip(&chunks) {
        assert_eq!((&*chunk.stream_id, chunk.sequence), ("s", sequence));
        assert_eq!(chunk.content_type, "text/plain");
    }
    through.close().await;
}

/// A peer of ours says in MCP what it means; what it says beside that is passed on as well.
#[tokio::test(flavor = "multi_thread")]
async fn fields_beside_mcp_reach_a_plugin_and_come_back() {
    let through = Through::to("ours").await;
    let call = ToolRequest {
        tool_name: "a__whole".to_owned(),
        mcp_params: json!({"name": "a__whole"}).to_string().into(),
        ..ToolRequest::default()
    };
    let told = answer(&through.bridge(), RequestKind::ToolCall, with_later(&call)).await;
    assert_eq!(later(&told.payload()), all_later(), "{told:?}");
    through.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_is_carried_is_refused() {
    let through = Through::to("ok").await;
    let mut payload = ToolRequest {
        tool_name: "a__echo".to_owned(),
        ..ToolRequest::default()
    }
    .encode_to_vec();
    put_text(&mut payload, 50, &"x".repeat(300 * 1024));
    let kind = RequestKind::ToolCall;
    let told = answer(&through.bridge(), kind, payload.into()).await;
    let told: ToolResponse = told.message().unwrap();
    assert_eq!(told.error_code, "invalid_request");
    assert!(told.error_message.contains("send fewer"), "{told:?}");
    through.close().await;
}

/// What the plugin's tool `who` says.
async fn who(peer: &Peer, session: &str) -> Value {
    let told: ToolResponse = peer
        .get(&ToolRequest {
            tool_name: "a__who".to_owned(),
            session_id: session.to_owned(),
            ..ToolRequest::default()
        })
        .await;
    said(told)
}

fn said(told: ToolResponse) -> Value {
    assert!(told.success, "{told:?}");
    let result = value(&told.result.unwrap());
    serde_json::from_str(result["text"].as_str().unwrap()).unwrap()
}

/// A client of the session era over a stream.
struct Client {
    lines: Lines<BufReader<ReadHalf<tokio::io::DuplexStream>>>,
    output: WriteHalf<tokio::io::DuplexStream>,
}

impl Client {
    async fn of(server: &Server) -> Self {
        let (stream, _) = stream::in_memory(server, "stdio");
        let (input, output) = tokio::io::split(stream);
        let lines = BufReader::new(input).lines();
        let mut client = Self { lines, output };
        let about = json!({"name": "c", "version": "1"});
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about,
        });
        client.ask("initialize", params).await;
        client
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let line = format!("{request}\n");
        self.output.write_all(line.as_bytes()).await.unwrap();
        let answer = timeout(PATIENCE, self.lines.next_line()).await.unwrap();
        serde_json::from_str(&answer.unwrap().unwrap()).unwrap()
    }

    async fn who(&mut self, meta: Value) -> Value {
        let params = json!({"name": "a__who", "arguments": {}, "_meta": meta});
        told(&self.ask("tools/call", params).await)
    }
}

/// What `who` said, in the result of a call.
fn told(answer: &Value) -> Value {
    let text = answer["result"]["content"][0]["text"].as_str();
    serde_json::from_str(text.unwrap_or_else(|| panic!("{answer}"))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_is_a_session_of_its_own() {
    for mode in ["ok", "ours"] {
        let through = Through::to(mode).await;
        let mut first = Client::of(&through.server).await;
        let mut second = Client::of(&through.server).await;
        let one = first.who(json!({})).await;
        assert_eq!(one["session"].as_str().unwrap().len(), 36, "{one}");
        assert_eq!(one["caller"], "orchestrator");
        if mode == "ours" {
            assert_eq!(one["meta"], one["session"]);
        }
        assert_eq!(first.who(json!({})).await, one);
        let other = second.who(json!({})).await;
        assert_ne!(other["session"], one["session"]);
        // Nobody takes the session of somebody else by naming it.
        let stolen = json!({"orchestra/sessionId": one["session"]});
        assert_eq!(second.who(stolen).await, other);
        through.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_sessions_are_told_apart_by_what_they_are() {
    let through = Through::to("ok").await;
    let post = Post::new(&through.server, "http");
    let who = async |client: &str| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": "a__who", "arguments": {}, "_meta": meta});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = post.handle(request.to_string().as_bytes()).await.unwrap();
        told(&serde_json::from_slice(&answer).unwrap())["session"].clone()
    };
    let one = who("one").await;
    assert_eq!(one, who("one").await);
    assert_ne!(one, who("another").await);
    through.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_names_the_sessions_of_its_clients() {
    for mode in ["ok", "ours"] {
        let through = Through::to(mode).await;
        let (bridge, other) = (through.bridge(), through.bridge());
        assert_eq!(who(&bridge, "s-1").await["session"], "s-1");
        // For nobody in particular, it is one of the connection.
        let own = who(&bridge, "").await;
        assert_eq!(own, who(&bridge, "").await);
        assert_ne!(own["session"], who(&other, "").await["session"]);
        assert_ne!(own["session"], "");
        // Also where it says so in MCP alone.
        let said = json!({"name": "a__who", "_meta": {"orchestra/sessionId": "s-2"}});
        let call = ToolRequest {
            tool_name: "a__who".to_owned(),
            mcp_params: said.to_string().into(),
            ..ToolRequest::default()
        };
        let answer: ToolResponse = bridge.get(&call).await;
        let result: Value = serde_json::from_slice(&answer.mcp_result).unwrap();
        let answer = told(&json!({ "result": result }));
        assert_eq!(answer["session"], "s-2");
        through.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_told_who_calls() {
    let through = Through::to("ok").await;
    let (bridge, plugin) = (through.bridge(), through.plugin("some.plugin").await);
    assert_eq!(who(&bridge, "s").await["caller"], "transport.stdio");
    assert_eq!(who(&plugin, "s").await["caller"], "some.plugin");
    // Whatever it says of itself.
    let call = ToolRequest {
        tool_name: "a__who".to_owned(),
        caller_plugin: "another".to_owned(),
        ..ToolRequest::default()
    };
    let told: ToolResponse = plugin.get(&call).await;
    assert_eq!(said(told)["caller"], "some.plugin");
    through.close().await;
}
