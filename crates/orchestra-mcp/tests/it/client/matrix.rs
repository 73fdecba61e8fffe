//! The client against our own server, over a stream and over HTTP, in each era and where the server
//! speaks only one: what a call needs beside its answer comes through alike.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use orchestra_hub::{
    Answers, BoxFuture, ClientFeatures, ListKind, LogLevel, Notice, ProgressListener, ProgressSink,
};
use orchestra_mcp::{
    Limits,
    client::{
        ChildConfig, ChildConnector, Client, ClientConfig, ClientError, ClientEvent, ClientEvents,
        ClientStatus, Connected, Connector, Launcher, LinesConfig, LinesLink, MAX_JUNK_LINES,
        MAX_MESSAGE_BYTES, ProtocolChoice, Reply, TransportType,
        http::{HttpConfig, HttpConnector},
    },
    http::{Eras, HttpOptions},
    stream,
};
use orchestra_wire::RawJson;
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use super::{raw, result, tool};
use crate::{
    faulty::example,
    http::{PATIENCE, Site},
    memory::{Shared, WATCHED, server_with},
};

/// A server at the other end of a stream in memory.
struct InMemory(orchestra_mcp::Server);

impl Connector for InMemory {
    fn transport(&self) -> TransportType {
        TransportType::Stdio
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let (ours, _served) = stream::in_memory(&self.0, "memory");
        let (input, output) = tokio::io::split(ours);
        let config = LinesConfig {
            name: "memory".to_owned(),
            max_message_bytes: MAX_MESSAGE_BYTES,
            max_junk_lines: MAX_JUNK_LINES,
        };
        let (_, connected) = LinesLink::over(input, output, config);
        Box::pin(async { Ok(connected) })
    }
}

struct Heard(watch::Sender<Vec<f64>>);

impl ProgressListener for Heard {
    fn progress(&self, progress: f64, _: Option<f64>, _: Option<&str>) {
        self.0.send_modify(|heard| heard.push(progress));
    }
    fn log(&self, _: LogLevel, _: Option<&str>, _: &RawJson) {}
}

fn config(protocol: &str) -> ClientConfig {
    ClientConfig {
        name: "matrix".to_owned(),
        protocol: ProtocolChoice::parse(protocol).unwrap(),
        ..ClientConfig::default()
    }
}

fn in_memory(protocol: &str) -> (Client, Arc<Shared>) {
    let (server, shared) = server_with(Limits::default());
    let client = Client::new(Arc::new(InMemory(server)), config(protocol));
    (client, shared)
}

async fn over_http(protocol: &str, eras: Eras) -> (Client, Arc<Shared>, Site) {
    let options = HttpOptions {
        eras,
        ..HttpOptions::default()
    };
    let site = Site::new(options).await;
    let url = format!("http://{}/mcp", site.address).parse().unwrap();
    let connector = HttpConnector::new(HttpConfig::new("matrix", url)).unwrap();
    let client = Client::new(Arc::new(connector), config(protocol));
    (client, Arc::clone(&site.shared), site)
}

/// Everything that a call may need, whatever is spoken.
async fn play(client: &Client, shared: &Arc<Shared>, revision: &str) {
    let mut events = client.take_events().unwrap();
    let said = result(client, tool("echo")).await;
    assert_eq!(said["content"][0]["text"], "{}", "{revision}");
    assert_eq!(client.metadata().protocol_version, revision);
    assert_eq!(client.list(ListKind::Tools).await.unwrap().len(), 15);
    client.health_check().await.unwrap();
    asks(client).await;
    reports(client, shared).await;
    cancels(client, shared).await;
    watches(client, shared, &mut events).await;
    let mut unknown = tool("echo");
    unknown.method = "vendor/unknown".into();
    let error = client.call(unknown).await.unwrap_err();
    assert!(matches!(error, ClientError::Rpc(error) if error.code.0 == -32601));
    client.close().await;
}

/// The server needs a form filled in.
async fn asks(client: &Client) {
    let mut call = tool("ask_once");
    call.cx.connection = 1;
    call.cx.features = ClientFeatures {
        elicitation: true,
        ..ClientFeatures::default()
    };
    let Reply::InputRequired(input) = client.call(call.clone()).await.unwrap() else {
        panic!("it does not ask");
    };
    let requests: Value = input.requests.parse().unwrap();
    let (key, request) = requests.as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], "well?");
    call.cx.answers = Some(Answers {
        responses: raw(&json!({key: {"action": "accept", "content": {}}})),
        state: input.state,
    });
    assert_eq!(result(client, call).await["content"][0]["text"], "{}");
}

async fn reports(client: &Client, shared: &Arc<Shared>) {
    let (sender, mut heard) = watch::channel(Vec::new());
    let mut call = tool("report");
    call.cx.progress = ProgressSink::new(Arc::new(Heard(sender)));
    let calling = tokio::spawn({
        let client = client.clone();
        async move { result(&client, call).await }
    });
    let first = heard.wait_for(|heard| !heard.is_empty());
    timeout(PATIENCE, first).await.unwrap().unwrap();
    shared.gate.notify_one();
    calling.await.unwrap();
    timeout(PATIENCE, heard.wait_for(|heard| heard.len() == 2))
        .await
        .unwrap()
        .unwrap();
}

async fn cancels(client: &Client, shared: &Arc<Shared>) {
    let before = shared.dropped.load(std::sync::atomic::Ordering::SeqCst);
    let began = shared.order.lock().unwrap().len();
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.call(tool("never")).await }
    });
    let until = async |done: &dyn Fn() -> bool| {
        let waiting = async {
            while !done() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap();
    };
    until(&|| shared.order.lock().unwrap().len() > began).await;
    calling.abort();
    let dropped = || shared.dropped.load(std::sync::atomic::Ordering::SeqCst);
    until(&|| dropped() > before).await;
}

async fn watches(client: &Client, shared: &Arc<Shared>, events: &mut ClientEvents) {
    client.watch(WATCHED);
    let seen = Mutex::new(false);
    let heard = async {
        while let Some(event) = events.recv().await {
            if matches!(&event, ClientEvent::ResourceUpdated(uri) if uri == WATCHED) {
                *seen.lock().unwrap() = true;
                return;
            }
        }
    };
    // Said until it is heard: when a subscription has begun is nobody's to see.
    let telling = async {
        loop {
            let updated = Notice::ResourceUpdated(WATCHED.to_owned());
            shared.notices.send(updated).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = heard => {}
        () = telling => {}
        () = tokio::time::sleep(PATIENCE) => {}
    }
    assert!(*seen.lock().unwrap(), "a change is not told");
}

const OLD: &str = "2025-11-25";
const NEW: &str = "2026-07-28";

#[tokio::test]
async fn a_stream_carries_everything_in_both_eras() {
    for (protocol, revision) in [("auto", NEW), ("modern", NEW), ("legacy", OLD)] {
        let (client, shared) = in_memory(protocol);
        play(&client, &shared, revision).await;
    }
}

#[tokio::test]
async fn http_carries_everything_in_both_eras() {
    for (protocol, revision) in [("auto", NEW), ("legacy", OLD)] {
        let (client, shared, _site) = over_http(protocol, Eras::Both).await;
        play(&client, &shared, revision).await;
    }
}

/// What is spoken between a server of these eras and a client that insists on something.
const MEETINGS: [(&str, &str, Option<&str>); 9] = [
    ("both", "auto", Some(NEW)),
    ("both", "modern", Some(NEW)),
    ("both", "legacy", Some(OLD)),
    ("session", "auto", Some(OLD)),
    ("session", "legacy", Some(OLD)),
    ("session", "modern", None),
    ("stateless", "auto", Some(NEW)),
    ("stateless", "modern", Some(NEW)),
    ("stateless", "legacy", None),
];

/// Whether two meet as they should: they speak the revision, or the client says that there is none.
async fn meet(client: &Client, revision: Option<&str>, what: &str) {
    if let Some(revision) = revision {
        let tools = timeout(PATIENCE, client.list(ListKind::Tools)).await;
        assert!(!tools.unwrap().unwrap().is_empty(), "{what}");
        assert_eq!(client.metadata().protocol_version, revision, "{what}");
        client.health_check().await.unwrap();
        client.close().await;
        return;
    }
    let mut status = client.status();
    client.start();
    let failed = |status: &ClientStatus| match status {
        ClientStatus::Restarting { reason, .. } | ClientStatus::Offline { reason, .. } => {
            assert!(
                matches!(**reason, ClientError::Handshake { .. }),
                "{what}: {reason:?}"
            );
            true
        }
        other => {
            assert!(!matches!(other, ClientStatus::Ready), "{what}");
            false
        }
    };
    let ended = timeout(PATIENCE, status.wait_for(failed)).await;
    ended.expect("it says so").unwrap();
    client.close().await;
}

#[tokio::test]
async fn every_client_meets_every_server_over_stdio() {
    for (eras, protocol, revision) in MEETINGS {
        let mut child = ChildConfig::new("everything", example("everything"));
        if eras != "both" {
            child.args = vec!["--era".into(), eras.into()];
        }
        child.launcher = Some(Launcher::new(example("faulty"), ["__child"]));
        let client = Client::new(Arc::new(ChildConnector::new(child)), config(protocol));
        meet(&client, revision, &format!("{eras} {protocol}")).await;
    }
}

#[tokio::test]
async fn every_client_meets_every_server_over_http() {
    for (eras, protocol, revision) in MEETINGS {
        let served = match eras {
            "session" => Eras::Session,
            "stateless" => Eras::Stateless,
            _ => Eras::Both,
        };
        let (client, _shared, _site) = over_http(protocol, served).await;
        meet(&client, revision, &format!("{eras} {protocol}")).await;
    }
}

/// `TestHTTPHandshake`: a real HTTP server, and the handshake that it knows.
#[tokio::test]
async fn test_http_handshake_is_the_one_that_the_server_knows() {
    for (eras, revision) in [(Eras::Session, OLD), (Eras::Stateless, NEW)] {
        let (client, shared, _site) = over_http("auto", eras).await;
        play(&client, &shared, revision).await;
    }
}
