//! Calls that may become tasks, given up on their way: what has not left by then never does, and what
//! has keeps its place until it is over.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::response::Response;
use orchestra_hub::BoxFuture;
use orchestra_mcp::client::{
    Client, ClientConfig, ClientError, Connected, Connector, Departure, LinesConfig, LinesLink,
    Outgoing, ProtocolChoice, ServerCall, TransportType,
    http::{Auth, AuthHeaders, AuthRequest, Authorizer, HttpConfig, HttpConnector, Refusal},
};
use orchestra_wire::Era;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream},
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::{
    client_of, config,
    played::{Greets, Played, Said},
    raw, result, tool,
};
use crate::{
    client_http::scripted::{Scripted, Seen, connected, empty, json_of, outgoing},
    http::PATIENCE,
};

/// What a server of the newest era says of itself that has tasks.
fn discovered() -> Value {
    json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        "ttlMs": 0, "cacheScope": "private",
    })
}

/// A configuration for a server of that kind.
fn stateless() -> ClientConfig {
    ClientConfig {
        protocol: ProtocolChoice::Era(Era::Stateless),
        call_timeout: PATIENCE,
        ..config()
    }
}

/// Makes a call in a task of its own.
fn begin(client: &Client, call: ServerCall) -> JoinHandle<()> {
    let client = client.clone();
    tokio::spawn(async move { drop(client.call(call).await) })
}

async fn give_up(call: JoinHandle<()>) {
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
}

/// Says nothing of who sends a request, when it may, and takes each refusal for one that has passed.
struct Slow {
    /// Whether it says so at once.
    ready: watch::Sender<bool>,
    /// Told when it is asked, and when it was heard to the end or not.
    asked: mpsc::UnboundedSender<&'static str>,
}

/// Tells how somebody's waiting ended.
struct Waits {
    end: &'static str,
    told: mpsc::UnboundedSender<&'static str>,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.told.send(self.end).ok();
    }
}

impl Authorizer for Slow {
    fn headers(&self, _: AuthRequest) -> BoxFuture<Result<AuthHeaders, ClientError>> {
        let (mut ready, told) = (self.ready.subscribe(), self.asked.clone());
        Box::pin(async move {
            told.send("asked").ok();
            let mut waits = Waits { end: "left", told };
            ready.wait_for(|ready| *ready).await.unwrap();
            waits.end = "done";
            Ok(Vec::new())
        })
    }

    fn refused(&self, _: Refusal) -> BoxFuture<Result<bool, ClientError>> {
        Box::pin(async { Ok(true) })
    }
}

/// A server over HTTP, and what was asked there and of whoever lets in.
struct Stage {
    server: Scripted,
    client: Client,
    slow: Arc<Slow>,
    told: mpsc::UnboundedReceiver<&'static str>,
    /// Whether calls named `refused` are refused now.
    refuses: Arc<watch::Sender<bool>>,
}

impl Stage {
    async fn new() -> Self {
        let refuses = Arc::new(watch::Sender::new(false));
        let refusing = Arc::clone(&refuses);
        let server = Scripted::new(move |seen: Seen| {
            let mut refuses = refusing.subscribe();
            async move {
                if seen.rpc() == "server/discover" {
                    return json_of(200, &seen.result(&discovered()));
                }
                if seen.body["params"]["name"] == "refused" {
                    refuses.wait_for(|refuses| *refuses).await.unwrap();
                    return empty(401);
                }
                complete(&seen)
            }
        });
        let server = server.await;
        let (asked, told) = mpsc::unbounded_channel();
        let slow = Arc::new(Slow {
            ready: watch::Sender::new(true),
            asked,
        });
        let mut http = server.config("/mcp");
        http.auth = Auth::Through(Arc::clone(&slow) as Arc<dyn Authorizer>);
        let config = ClientConfig {
            outstanding: 1,
            ..stateless()
        };
        let client = Client::new(Arc::new(HttpConnector::new(http).unwrap()), config);
        client.reach(Instant::now() + PATIENCE).await.unwrap();
        Self {
            server,
            client,
            slow,
            told,
            refuses,
        }
    }

    async fn is_told(&mut self, what: &str) {
        let told = timeout(PATIENCE, self.told.recv()).await;
        assert_eq!(told.expect("it is told").unwrap(), what);
    }

    /// The names of the tools that were called.
    fn called(&self) -> Vec<Value> {
        let seen = self.server.seen().into_iter();
        seen.filter(|seen| seen.rpc() == "tools/call")
            .map(|seen| seen.body["params"]["name"].clone())
            .collect()
    }
}

fn complete(seen: &Seen) -> Response {
    json_of(
        200,
        &seen.result(&json!({"resultType": "complete", "content": []})),
    )
}

#[tokio::test]
async fn a_call_that_is_given_up_while_its_token_is_waited_for_is_never_sent() {
    let mut stage = Stage::new().await;
    stage.is_told("asked").await;
    stage.is_told("done").await;
    stage.slow.ready.send_replace(false);
    let call = begin(&stage.client, tool("first"));
    stage.is_told("asked").await;
    give_up(call).await;
    stage.slow.ready.send_replace(true);
    stage.is_told("left").await;
    result(&stage.client, tool("second")).await;
    assert_eq!(stage.called(), ["second"]);
}

#[tokio::test]
async fn a_call_that_is_given_up_and_then_refused_is_not_sent_once_more() {
    let stage = Stage::new().await;
    let call = begin(&stage.client, tool("refused"));
    let is_it = |seen: &Seen| seen.body["params"]["name"] == "refused";
    stage.server.saw(is_it).await;
    give_up(call).await;
    stage.refuses.send_replace(true);
    // Its place is free when it is over.
    result(&stage.client, tool("second")).await;
    assert_eq!(stage.called(), ["refused", "second"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_keeps_its_place_until_it_is_known_whether_it_is_a_task() {
    const NAMED: Duration = Duration::from_millis(200);
    for transport in [TransportType::Stdio, TransportType::Http] {
        let played = Played::new(Greets::Not, transport, |asked| {
            match (asked.method.as_str(), asked.params["name"].as_str()) {
                ("server/discover", _) => Said::result(discovered()),
                ("tools/call", Some("first")) => Said::after(
                    NAMED,
                    json!({"resultType": "task", "taskId": "T1", "status": "working"}),
                ),
                _ => Said::result(json!({"resultType": "complete"})),
            }
        });
        let config = ClientConfig {
            outstanding: 1,
            ..stateless()
        };
        let client = client_of(&played, config);
        let call = begin(&client, tool("first"));
        played.until("tools/call", 1).await;
        let began = Instant::now();
        give_up(call).await;
        result(&client, tool("second")).await;
        assert!(began.elapsed() >= NAMED, "{:?}", began.elapsed());
        played.until("tasks/cancel", 1).await;
    }
}

/// A request whose departure is in the hands of the test.
fn watched(departure: &Departure) -> Outgoing {
    Outgoing {
        along: Default::default(),
        departure: Some(departure.clone()),
        ..outgoing(1, "tools/call", &json!({"name": "t"}))
    }
}

#[tokio::test]
async fn a_request_has_left_when_there_is_a_connection_for_it() {
    // Somebody listens, and does not answer to who wants to speak in secret.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    let there = connected(HttpConfig::new("there", url.parse().unwrap())).await;
    let departure = Departure::default();
    let request = tokio::spawn(there.link.request(watched(&departure)));
    let (mut stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let hello = timeout(PATIENCE, stream.read_u8()).await;
    hello.unwrap().unwrap();
    assert!(!departure.give_up());
    request.abort();

    let server = Scripted::new(|seen| async move {
        match seen.path.as_str() {
            "/held" => std::future::pending().await,
            _ => complete(&seen),
        }
    });
    let server = server.await;
    let there = connected(server.config("/held")).await;
    let departure = Departure::default();
    let request = tokio::spawn(there.link.request(watched(&departure)));
    let seen = server.saw(|seen| seen.rpc() == "tools/call").await;
    let length = seen.text.len().to_string();
    assert_eq!(seen.header("content-length"), Some(&*length));
    assert!(departure.give_up());
    request.abort();
    // What was given up before is not sent.
    let there = connected(server.config("/mcp")).await;
    let told = timeout(PATIENCE, there.link.request(watched(&departure))).await;
    assert!(matches!(told.unwrap(), Err(ClientError::Cancelled)));
    assert_eq!(server.seen().len(), 1);
}

/// Reaches a server over lines in memory.
struct Lines(Mutex<Option<DuplexStream>>);

impl Connector for Lines {
    fn transport(&self) -> TransportType {
        TransportType::Stdio
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let ours = self.0.lock().unwrap().take().expect("it is started once");
        let (read, write) = tokio::io::split(ours);
        let config = LinesConfig {
            name: "memory".to_owned(),
            max_message_bytes: 1 << 20,
            max_junk_lines: 20,
        };
        let (_, connected) = LinesLink::over(read, write, config);
        Box::pin(async { Ok(connected) })
    }
}

/// A call with an argument of so many bytes.
fn large(name: &str, bytes: usize) -> ServerCall {
    let params = json!({"name": name, "arguments": {"text": "x".repeat(bytes)}});
    ServerCall {
        params: Some(raw(&params)),
        ..tool(name)
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_before_the_pipe_has_room_is_never_sent() {
    let (ours, theirs) = tokio::io::duplex(1 << 10);
    let client = Client::new(Arc::new(Lines(Mutex::new(Some(ours)))), stateless());
    let (reads, mut writes) = tokio::io::split(theirs);
    let mut reads = BufReader::new(reads);
    let mut serve = async move |until: &str| {
        let mut called = Vec::new();
        loop {
            let mut line = String::new();
            reads.read_line(&mut line).await.unwrap();
            let said: Value = serde_json::from_str(&line).unwrap();
            let answer = match said["method"].as_str().unwrap() {
                "server/discover" => discovered(),
                "tools/call" => {
                    called.push(said["params"]["name"].clone());
                    json!({"resultType": "complete", "content": []})
                }
                other => panic!("nobody says {other}"),
            };
            let answer = json!({"jsonrpc": "2.0", "id": said["id"], "result": answer});
            writes
                .write_all(format!("{answer}\n").as_bytes())
                .await
                .unwrap();
            if said["method"] == until || said["params"]["name"] == until {
                return called;
            }
        }
    };
    client.start();
    timeout(PATIENCE, serve("server/discover")).await.unwrap();
    client.reach(Instant::now() + PATIENCE).await.unwrap();

    // The first is being written, the second is all that may wait.
    let mut calls = Vec::new();
    for (count, call) in [
        large("first", 1 << 20),
        large("second", 4 << 20),
        tool("third"),
    ]
    .into_iter()
    .enumerate()
    {
        calls.push(begin(&client, call));
        let is_begun = async {
            while client.stats().in_flight <= count {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, is_begun).await.expect("it is begun");
    }
    give_up(calls.pop().unwrap()).await;
    let last = begin(&client, tool("last"));
    let called = timeout(PATIENCE, serve("last")).await.unwrap();
    assert_eq!(called, ["first", "second", "last"]);
    for call in calls.into_iter().chain([last]) {
        timeout(PATIENCE, call).await.unwrap().unwrap();
    }
}
