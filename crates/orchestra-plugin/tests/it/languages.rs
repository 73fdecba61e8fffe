//! Plugins in other languages than Rust, from `examples/plugins`: each is started, called and called
//! back as an orchestrator does it, and left alone by nobody else.

use std::{net::SocketAddr, process::Stdio, sync::Arc};

use orchestra_plugin::{
    envelope::{PayloadOf, Request, RequestKind, Response, ResponseKind},
    generated::{
        BootRequest, BootResult, HealthRequest, HealthResult, ListPromptsRequest,
        ListPromptsResponse, ListToolsRequest, ListToolsResponse, McpRequest, PluginManifest,
        Publish, RegistrationResult, ShutdownRequest, ShutdownResult, StreamStart, ToolResponse,
    },
    quic::{Caller, CallerOptions, Endpoint, Pace, Target},
    structs::{self, Style},
};
use quinn::crypto::rustls::QuicClientConfig;
use rustix::process::{Pid, Signal, kill_process};
use rustls_pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    task::JoinSet,
    time::timeout,
};

use crate::{
    kit_rig::{Fake, Manners, tool_request},
    language_rig::{Language, languages, python, root},
    quic_rig::{Authority, PATIENCE, soon},
};

/// More lines than any of them may have.
const LINES: usize = 150;

/// A plugin that runs.
struct Plugin {
    authority: Arc<Authority>,
    id: &'static str,
    child: Child,
    address: SocketAddr,
    caller: Caller,
}

impl Plugin {
    /// Starts one as orchestrators do, with what it needs in the directory of certificates.
    async fn start(authority: &Arc<Authority>, language: &Language, back: SocketAddr) -> Self {
        let id = language.id;
        for name in [id.to_owned(), format!("{id}-client")] {
            authority.identity(&name);
        }
        let mut child = Command::new(&language.command[0])
            .arg(&language.command[1])
            .arg(format!("--orchestrator-addr={back}"))
            .arg("--listen-addr=localhost:0")
            .arg(format!("--certs-dir={}", authority.dir.path().display()))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = timeout(PATIENCE, stderr.next_line()).await.unwrap();
        let line = line.unwrap().expect("a line on stderr");
        let address = line.strip_prefix("READY ").expect(&line).parse().unwrap();
        // As an orchestrator does, so that it never stands still.
        tokio::spawn(async move { while let Ok(Some(_)) = stderr.next_line().await {} });
        let identity = authority.identity(&format!("orchestrator-to-{id}"));
        let endpoint = Endpoint::outgoing(address, &identity, Pace::default()).unwrap();
        let target = Target::named(address, id.parse().unwrap());
        Self {
            authority: Arc::clone(authority),
            id,
            child,
            address,
            caller: Caller::start(endpoint, target, CallerOptions::default()),
        }
    }

    async fn request(&self, request: Request) -> Response {
        let answer = self.caller.call(request.encode(), soon()).await.unwrap();
        Response::decode(&answer).unwrap()
    }

    async fn ask<Q: PayloadOf<RequestKind>>(&self, message: &Q) -> Response {
        let response = self.request(Request::new("r-1", message)).await;
        assert_eq!(response.request_id(), "r-1");
        response
    }

    async fn get<A: PayloadOf<ResponseKind>, Q: PayloadOf<RequestKind>>(&self, message: &Q) -> A {
        let response = self.ask(message).await;
        response
            .message()
            .unwrap_or_else(|error| panic!("{}: {error}: {response:?}", self.id))
    }

    /// The text that a tool answers.
    async fn text(&self, tool: &str, arguments: &str) -> String {
        let response: ToolResponse = self.get(&tool_request(tool, arguments)).await;
        assert!(response.success, "{}: {response:?}", self.id);
        let json = structs::decode(&response.result.unwrap(), Style::Plain).unwrap();
        let value: Value = serde_json::from_str(&json).unwrap();
        value["text"].as_str().unwrap().to_owned()
    }

    /// The code and the message of the failure that is answered.
    async fn fails<Q: PayloadOf<RequestKind>>(&self, message: &Q) -> (String, String) {
        let response: ToolResponse = self.get(message).await;
        assert!(!response.success, "{}: {response:?}", self.id);
        (response.error_code, response.error_message)
    }

    /// A connection that is bound to no rule of ours, by a certificate or without one.
    async fn stranger(
        &self,
        name: Option<&str>,
    ) -> Result<(quinn::Endpoint, quinn::Connection), quinn::ConnectionError> {
        let shown = self.authority.identity(name.unwrap_or("nobody"));
        let mut roots = rustls::RootCertStore::empty();
        for anchor in shown.anchors() {
            roots.add(anchor.clone()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match name {
            Some(_) => {
                let key = PrivateKeyDer::Pkcs8(shown.key().clone_key());
                builder.with_client_auth_cert(shown.chain().to_vec(), key)
            }
            None => Ok(builder.with_no_client_auth()),
        }
        .unwrap();
        config.alpn_protocols = vec![b"orchestra-plugin".to_vec()];
        let config = QuicClientConfig::try_from(config).unwrap();
        let config = quinn::ClientConfig::new(Arc::new(config));
        let endpoint = quinn::Endpoint::client(Endpoint::LOOPBACK).unwrap();
        let connecting = endpoint.connect_with(config, self.address, self.id);
        let connection = connecting.unwrap().await?;
        Ok((endpoint, connection))
    }

    /// Waits for the end of the process.
    async fn ended(&mut self) -> std::process::ExitStatus {
        timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap()
    }
}

fn orchestrator(authority: &Authority) -> Fake {
    Fake::start(authority, Endpoint::LOOPBACK, Manners::default())
}

/// Bytes of a stream until its end, or nothing where it was broken off.
async fn said(connection: &quinn::Connection, bytes: &[u8]) -> Option<Vec<u8>> {
    let exchange = async {
        let (mut send, mut receive) = connection.open_bi().await.ok()?;
        send.write_all(bytes).await.ok()?;
        // Whoever stops the stream may do so before its end was said.
        let _ = send.finish();
        receive.read_to_end(1024).await.ok()
    };
    timeout(PATIENCE, exchange).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_request_is_answered_as_the_guide_says() {
    for language in languages() {
        let authority = Arc::new(Authority::new());
        let fake = orchestrator(&authority);
        let plugin = Plugin::start(&authority, &language, fake.address).await;
        let manifest = PluginManifest {
            id: language.id.to_owned(),
            ..PluginManifest::default()
        };
        let registered: RegistrationResult = plugin.get(&manifest).await;
        assert!(registered.accepted);
        let booted: BootResult = plugin.get(&BootRequest::default()).await;
        assert!(booted.ready);
        let health: HealthResult = plugin.get(&HealthRequest::default()).await;
        assert_eq!((health.status, health.message.as_str()), (1, "ok"));
        let listed: ListToolsResponse = plugin.get(&ListToolsRequest {}).await;
        let (tool, arguments, answer) = language.answers;
        assert_eq!(listed.tools[0].name, tool);
        let schema = listed.tools[0].input_schema.as_ref().unwrap();
        let schema: Value =
            serde_json::from_str(&structs::decode(schema, Style::Plain).unwrap()).unwrap();
        let text = json!({"text": {"type": "string"}});
        let wanted = json!({"type": "object", "properties": text, "required": ["text"]});
        assert_eq!(schema, wanted);
        let prompts: ListPromptsResponse = plugin.get(&ListPromptsRequest {}).await;
        assert_eq!(prompts, ListPromptsResponse::default());
        assert_eq!(plugin.text(tool, arguments).await, answer);
        let event = Publish {
            topic: "sample.said".into(),
            ..Publish::default()
        };
        assert_eq!(plugin.ask(&event).await.kind(), None);
        let missing = plugin.fails(&tool_request("nothing", "{}")).await;
        let why = "tool \"nothing\" not found".to_owned();
        assert_eq!(missing, ("tool_not_found".to_owned(), why));
        let unknown = (
            "unknown_request".to_owned(),
            "unrecognized request type".to_owned(),
        );
        assert_eq!(plugin.fails(&StreamStart::default()).await, unknown);
        assert_eq!(plugin.fails(&McpRequest::default()).await, unknown);
        let empty = plugin.caller.call(bytes::Bytes::new(), soon()).await;
        let empty: ToolResponse = Response::decode(&empty.unwrap())
            .unwrap()
            .message()
            .unwrap();
        assert_eq!((empty.error_code, empty.error_message), unknown);
        let finished: ShutdownResult = plugin.get(&ShutdownRequest::default()).await;
        assert!(finished.clean);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_registers_and_publishes_under_its_own_name() {
    for language in languages() {
        let authority = Arc::new(Authority::new());
        let mut fake = orchestrator(&authority);
        let plugin = Plugin::start(&authority, &language, fake.address).await;
        let (tool, arguments) = language.publishes;
        plugin.text(tool, arguments).await;
        let client = format!("{}-client", language.id);
        let (who, register) = fake.hear(RequestKind::Register).await;
        let manifest: PluginManifest = register.message().unwrap();
        assert_eq!((who, manifest.id), (client.clone(), language.id.to_owned()));
        assert!(manifest.provides_tools.iter().any(|name| name == tool));
        let (who, publish) = fake.hear(RequestKind::Publish).await;
        let event: Publish = publish.message().unwrap();
        assert_eq!((who, event.topic.as_str()), (client, "sample.news"));
        let payload = structs::decode(&event.payload.unwrap(), Style::Plain).unwrap();
        assert_eq!(payload, r#"{"news":"it rains"}"#);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_set_when_it_is_what_the_writer_knows() {
    let Some(language) = python() else {
        return;
    };
    let authority = Arc::new(Authority::new());
    let fake = orchestrator(&authority);
    let plugin = Plugin::start(&authority, &language, fake.address).await;
    let note = |version: &str| format!(r#"{{"path":"a.md","content":"x","version":{version}}}"#);
    assert_eq!(plugin.text("keep", &note("0")).await, "version 1");
    let (code, why) = plugin.fails(&tool_request("keep", &note("0"))).await;
    assert_eq!(code, "handler_error");
    assert!(
        why.contains("version conflict: expected 0, current 1"),
        "{why}"
    );
    assert_eq!(plugin.text("keep", &note("1")).await, "version 2");
    for wrong in ["{}", r#"{"path":1,"content":2,"version":3}"#] {
        let (code, _) = plugin.fails(&tool_request("keep", wrong)).await;
        assert_eq!(code, "handler_error", "{wrong}");
    }
}

/// The plugin in Python with one more tool, which sleeps for an hour and writes down when it begins
/// and when it ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_given_up_ends_where_it_runs() {
    let Some(mut language) = python() else {
        return;
    };
    let authority = Arc::new(Authority::new());
    let fake = orchestrator(&authority);
    let home = tempfile::tempdir().unwrap();
    let source = root().join("examples/plugins/python");
    let text = std::fs::read_to_string(source.join("plugin.py")).unwrap();
    let marker = "def definition(tool):";
    let slow = "async def slow(path: str):
    \"\"\"Sleeps.\"\"\"
    try:
        open(path + '.begun', 'w').close()
        await asyncio.sleep(3600)
    finally:
        open(path + '.ended', 'w').close()
";
    assert!(text.contains(marker) && text.contains("keep)}"));
    let text = text
        .replace(marker, &format!("{slow}\n\n{marker}"))
        .replace("keep)}", "keep, slow)}");
    language.command[1] = home.path().join("plugin.py");
    std::fs::write(&language.command[1], text).unwrap();
    let messages = "plugin_pb2.py";
    std::fs::copy(source.join(messages), home.path().join(messages)).unwrap();
    let plugin = Plugin::start(&authority, &language, fake.address).await;
    let written = async |name: &str| {
        let path = home.path().join(name);
        let wait = async {
            while !path.exists() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, wait).await.expect(name);
    };
    let path = json!({"path": home.path().join("it")}).to_string();
    let request = Request::new("r", &tool_request("slow", &path)).encode();
    tokio::select! {
        answer = plugin.caller.call(request, soon()) => panic!("{answer:?}"),
        () = written("it.begun") => {}
    }
    written("it.ended").await;
    assert_eq!(
        plugin.text(language.answers.0, language.answers.1).await,
        language.answers.2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_the_orchestrator_is_answered() {
    for language in languages() {
        let authority = Arc::new(Authority::new());
        let fake = orchestrator(&authority);
        let plugin = Plugin::start(&authority, &language, fake.address).await;
        let health = Request::new("", &HealthRequest::default())
            .to_frame()
            .unwrap();
        let ours = format!("orchestrator-to-{}", language.id);
        for (name, is_served) in [
            (None, false),
            (Some("orchestrator-to-tools.other"), false),
            (Some("transport.stdio-client"), false),
            (Some(language.id), false),
            (Some(&ours), true),
        ] {
            let answered = match plugin.stranger(name).await {
                // The client's side of a handshake may be over before the server has judged it.
                Ok((_endpoint, connection)) => said(&connection, &health).await,
                Err(_) => None,
            };
            let answered = answered.is_some_and(|answer| !answer.is_empty());
            assert_eq!(answered, is_served, "{} for {name:?}", language.id);
        }
        // Another authority's word counts for nothing, whatever it says.
        let other = Authority::new();
        let identity = other.identity(&ours);
        let endpoint = Endpoint::outgoing(plugin.address, &identity, Pace::default()).unwrap();
        let target = Target::named(plugin.address, language.id.parse().unwrap());
        assert!(endpoint.connect(&target).await.is_err());
        let (tool, arguments, answer) = language.answers;
        assert_eq!(plugin.text(tool, arguments).await, answer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_may_be_large_but_not_too_large() {
    for language in languages() {
        let authority = Arc::new(Authority::new());
        let fake = orchestrator(&authority);
        let plugin = Plugin::start(&authority, &language, fake.address).await;
        let ours = format!("orchestrator-to-{}", language.id);
        for bad in [
            &[1, 0, 0, 1][..],
            &[255, 255, 255, 255, 0],
            &[0, 0, 0, 9, 106],
            &[0, 0],
        ] {
            let (_endpoint, connection) = plugin.stranger(Some(&ours)).await.unwrap();
            let answered = said(&connection, bad).await.unwrap_or_default();
            assert!(answered.is_empty(), "{}: {bad:?}", language.id);
        }
        let (tool, ..) = language.answers;
        let arguments = json!({"text": "word ".repeat(3_000_000)}).to_string();
        let response: ToolResponse = plugin.get(&tool_request(tool, &arguments)).await;
        assert!(response.success);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_are_answered_at_once_and_one_after_the_other() {
    for language in languages() {
        let authority = Arc::new(Authority::new());
        let fake = orchestrator(&authority);
        let plugin = Arc::new(Plugin::start(&authority, &language, fake.address).await);
        let (tool, arguments, answer) = language.answers;
        // More than there is credit for streams at the start of a connection.
        let mut calls = JoinSet::new();
        for _ in 0..1_000 {
            let plugin = Arc::clone(&plugin);
            calls.spawn(async move { plugin.text(tool, arguments).await });
        }
        let all = timeout(PATIENCE, calls.join_all()).await.unwrap();
        assert!(all.iter().all(|one| one == answer), "{}", language.id);
        for _ in 0..300 {
            assert_eq!(plugin.text(tool, arguments).await, answer);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_whoever_started_it_and_when_it_is_told_to() {
    for language in languages() {
        let authority = Arc::new(Authority::new());
        let fake = orchestrator(&authority);
        let mut plugin = Plugin::start(&authority, &language, fake.address).await;
        drop(plugin.child.stdin.take());
        assert_eq!(plugin.ended().await.code(), Some(0), "{}", language.id);
        let mut plugin = Plugin::start(&authority, &language, fake.address).await;
        let process = i32::try_from(plugin.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(process).unwrap(), Signal::TERM).unwrap();
        plugin.ended().await;
        let mut plugin = Plugin::start(&authority, &language, fake.address).await;
        plugin
            .text(language.publishes.0, language.publishes.1)
            .await;
        fake.vanish().await;
        // Waiting would close its input, which ends it as well.
        let _input = plugin.child.stdin.take();
        assert_eq!(plugin.ended().await.code(), Some(1), "{}", language.id);
    }
}

#[test]
fn each_is_one_short_file_and_the_schema_is_the_only_one() {
    let examples = root().join("examples/plugins");
    for file in ["python/plugin.py", "node/plugin.mjs"] {
        let text = std::fs::read_to_string(examples.join(file)).unwrap();
        assert!(text.lines().count() < LINES, "{file}");
    }
    let schema = "crates/orchestra-plugin/proto/orchestra/plugin/v1/plugin.proto";
    let schema = std::fs::read(root().join(schema)).unwrap();
    assert_eq!(
        std::fs::read(examples.join("node/plugin.proto")).unwrap(),
        schema
    );
}
