//! Servers over HTTP that forget their sessions, as those do that are started anew: whoever calls is
//! answered all the same, in a new session.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{http::Method, response::Response};
use orchestra_mcp::client::{
    Backoff, Client, ClientConfig, ClientError, Growth, ProtocolChoice, Retry, Sent, ServerCall,
    http::HttpConnector,
};
use orchestra_wire::Era;
use serde_json::json;
use tokio::{
    sync::{mpsc::UnboundedSender, watch},
    time::timeout,
};

use super::{config, result, safe, tool};
use crate::{
    client_http::scripted::{Scripted, Seen, empty, events, json_of, with},
    http::PATIENCE,
};

/// How a server says that it does not know a session: as MCP has it, and as the official SDKs and
/// their samples do.
const REFUSALS: [fn() -> Response; 4] = [
    || json_of(404, &json!({"error": "no such session"})),
    || refusal("Bad Request: No valid session ID provided"),
    || refusal("Bad Request: Server not initialized"),
    || with(400, &[], "Invalid or missing session ID"),
];

fn refusal(text: &str) -> Response {
    let error = json!({"code": -32000, "message": text});
    json_of(400, &json!({"jsonrpc": "2.0", "error": error, "id": null}))
}

/// What the server knows.
struct Memory {
    refusal: fn() -> Response,
    /// Whether it speaks by itself.
    speaks: bool,
    /// The session that it knows.
    known: Mutex<Option<String>>,
    /// The sessions that were begun.
    begun: watch::Sender<usize>,
    /// Whether calls that are held are answered.
    answers: watch::Sender<bool>,
    /// The streams of the session.
    streams: Mutex<Vec<UnboundedSender<String>>>,
}

impl Memory {
    fn knows(&self, seen: &Seen) -> bool {
        let known = self.known.lock().unwrap();
        known.is_some() && known.as_deref() == seen.header("mcp-session-id")
    }

    fn begin(&self, seen: &Seen) -> Response {
        let session = format!("s-{}", *self.begun.borrow());
        let greeting = json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "forgetful", "version": "1"},
        });
        let headers = [
            ("content-type", "application/json"),
            ("mcp-session-id", &*session),
        ];
        let answer = with(200, &headers, &seen.result(&greeting).to_string());
        *self.known.lock().unwrap() = Some(session);
        self.begun.send_modify(|begun| *begun += 1);
        answer
    }

    async fn answer(&self, seen: Seen) -> Response {
        if seen.rpc() == "initialize" {
            return self.begin(&seen);
        }
        if !self.knows(&seen) || (seen.method == Method::GET && !self.speaks) {
            return (self.refusal)();
        }
        if seen.method == Method::GET {
            let (response, stream) = events();
            self.streams.lock().unwrap().push(stream);
            return response;
        }
        if seen.rpc() != "tools/call" {
            return match seen.body.get("id") {
                Some(_) => json_of(200, &seen.result(&json!({}))),
                None => empty(202),
            };
        }
        let name = seen.body["params"]["name"].as_str().unwrap().to_owned();
        let session = seen.header("mcp-session-id");
        if name.starts_with("breaks") && session == Some("s-0") {
            self.answered().await;
            // A stream that ends without an answer.
            return events().0;
        }
        if name.starts_with("held") {
            self.answered().await;
            if !self.knows(&seen) {
                return (self.refusal)();
            }
        }
        json_of(200, &seen.result(&json!({ "session": session })))
    }

    async fn answered(&self) {
        let mut answers = self.answers.subscribe();
        answers.wait_for(|answers| *answers).await.unwrap();
    }
}

struct Stage {
    memory: Arc<Memory>,
    server: Scripted,
    client: Client,
}

impl Stage {
    async fn new(refusal: fn() -> Response, speaks: bool) -> Self {
        let memory = Arc::new(Memory {
            refusal,
            speaks,
            known: Mutex::default(),
            begun: watch::Sender::default(),
            answers: watch::Sender::default(),
            streams: Mutex::default(),
        });
        let plays = Arc::clone(&memory);
        let server = Scripted::new(move |seen| {
            let plays = Arc::clone(&plays);
            async move { plays.answer(seen).await }
        });
        let server = server.await;
        let pause = Duration::from_millis(5);
        let config = ClientConfig {
            protocol: ProtocolChoice::Era(Era::Session),
            call_timeout: PATIENCE,
            retry: Retry {
                attempts: 3,
                backoff: Backoff {
                    first: pause,
                    growth: Growth::Constant,
                    cap: pause,
                    jitter: 0.0,
                },
                unsafe_calls: false,
            },
            ..config()
        };
        let connector = HttpConnector::new(server.config("/mcp")).unwrap();
        let client = Client::new(Arc::new(connector), config);
        let stage = Self {
            memory,
            server,
            client,
        };
        assert_eq!(stage.session_of(tool("t")).await, "s-0");
        stage
    }

    /// It is started anew.
    fn forget(&self) {
        *self.memory.known.lock().unwrap() = None;
        self.memory.streams.lock().unwrap().clear();
    }

    async fn session_of(&self, call: ServerCall) -> String {
        let answered = timeout(PATIENCE, result(&self.client, call)).await;
        let answer = answered.expect("answered in time");
        answer["session"].as_str().unwrap().to_owned()
    }

    /// Makes a call, and waits until the server has it.
    async fn begin(
        &self,
        call: ServerCall,
    ) -> tokio::task::JoinHandle<Result<String, ClientError>> {
        let params: serde_json::Value = call.params.as_ref().unwrap().parse().unwrap();
        let client = self.client.clone();
        let called = tokio::spawn(async move {
            match client.call(call).await? {
                orchestra_mcp::client::Reply::Result(result) => {
                    let result: serde_json::Value = result.parse().unwrap();
                    Ok(result["session"].as_str().unwrap().to_owned())
                }
                asks => panic!("{asks:?}"),
            }
        });
        let is_this = |seen: &Seen| seen.body["params"]["name"] == params["name"];
        self.server.saw(is_this).await;
        called
    }

    /// How often the server was called.
    fn calls(&self, name: &str) -> usize {
        let seen = self.server.seen().into_iter();
        seen.filter(|seen| seen.body["params"]["name"] == name)
            .count()
    }

    fn begun(&self) -> usize {
        *self.memory.begun.borrow()
    }
}

async fn ended<T>(called: tokio::task::JoinHandle<T>) -> T {
    timeout(PATIENCE, called)
        .await
        .expect("it ends in time")
        .unwrap()
}

#[tokio::test]
async fn a_call_of_an_idle_session_that_was_forgotten_is_made_in_a_new_one() {
    for refusal in REFUSALS {
        for call in [tool, safe] {
            let stage = Stage::new(refusal, false).await;
            // A server without a stream of its own says so in the same words, and knows its session.
            stage.server.saw(|seen| seen.method == Method::GET).await;
            assert_eq!(stage.session_of(call("t")).await, "s-0");
            stage.forget();
            assert_eq!(stage.session_of(call("t")).await, "s-1");
            assert_eq!((stage.calls("t"), stage.begun()), (4, 2));
        }
    }
}

#[tokio::test]
async fn calls_on_their_way_to_a_server_that_forgets_their_session_are_answered_for_themselves() {
    for refusal in REFUSALS {
        let stage = Stage::new(refusal, false).await;
        let mut called = Vec::new();
        for call in [
            tool("held 1"),
            safe("held 2"),
            tool("breaks 1"),
            safe("breaks 2"),
        ] {
            called.push(stage.begin(call).await);
        }
        stage.forget();
        assert_eq!(stage.session_of(tool("t")).await, "s-1");
        stage.memory.answers.send_replace(true);
        let mut told = Vec::new();
        for call in called {
            told.push(ended(call).await);
        }
        // What did not run is made again, and so is what may run twice.
        let again: Vec<_> = [0, 1, 3]
            .map(|place| told[place].as_deref().unwrap())
            .into();
        assert_eq!(again, ["s-1"; 3]);
        let error = told[2].as_ref().unwrap_err();
        assert_eq!((error.sent(), stage.calls("breaks 1")), (Sent::Maybe, 1));
        assert_eq!(stage.begun(), 2);
    }
}

#[tokio::test]
async fn a_notification_and_whoever_listens_find_that_a_session_is_forgotten() {
    for refusal in REFUSALS {
        let stage = Stage::new(refusal, false).await;
        stage.forget();
        let told = stage
            .client
            .notify("notifications/roots/list_changed", None);
        let error = timeout(PATIENCE, told).await.unwrap().unwrap_err();
        assert_eq!(error.sent(), Sent::No, "{error:?}");
        assert_eq!(stage.session_of(tool("t")).await, "s-1");
        assert_eq!(stage.calls("t"), 2);

        let stage = Stage::new(refusal, true).await;
        stage.server.saw(|seen| seen.method == Method::GET).await;
        stage.forget();
        let mut begun = stage.memory.begun.subscribe();
        let anew = timeout(PATIENCE, begun.wait_for(|begun| *begun == 2)).await;
        anew.expect("a session is begun before anybody calls")
            .unwrap();
        assert_eq!(stage.session_of(tool("t")).await, "s-1");
    }
}

#[tokio::test]
async fn a_client_that_is_closed_ends_what_is_on_its_way_in_a_session_that_was_forgotten() {
    for call in [tool, safe] {
        let stage = Stage::new(REFUSALS[0], false).await;
        let held = stage.begin(call("held")).await;
        stage.forget();
        assert_eq!(stage.session_of(tool("t")).await, "s-1");
        timeout(PATIENCE, stage.client.close()).await.unwrap();
        let error = ended(held).await.unwrap_err();
        assert!(matches!(error, ClientError::Closed), "{error:?}");
    }
}

#[tokio::test]
async fn call_that_is_not_found_in_a_new_session_is_made_once_more_at_most() {
    // Whether a list is answered in the first session before the call.
    for answers in [false, true] {
        let server = Scripted::new(move |seen| async move {
            let greeting = json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "lost", "version": "1"},
            });
            let headers = [
                ("content-type", "application/json"),
                ("mcp-session-id", "s-0"),
            ];
            match seen.rpc() {
                "initialize" => with(200, &headers, &seen.result(&greeting).to_string()),
                "tools/list" => json_of(200, &seen.result(&json!({"tools": []}))),
                "notifications/initialized" => empty(202),
                "tools/call" => json_of(404, &json!({})),
                _ => empty(405),
            }
        });
        let server = server.await;
        let config = ClientConfig {
            protocol: ProtocolChoice::Era(Era::Session),
            call_timeout: PATIENCE,
            ..config()
        };
        let connector = HttpConnector::new(server.config("/mcp")).unwrap();
        let client = Client::new(Arc::new(connector), config);
        if answers {
            client.list(orchestra_hub::ListKind::Tools).await.unwrap();
        }
        let called = timeout(PATIENCE, client.call(tool("t"))).await.unwrap();
        let error = called.unwrap_err();
        assert_eq!(error.sent(), Sent::Maybe, "{error:?}");
        let seen = server.seen().into_iter();
        let calls = seen.filter(|seen| seen.rpc() == "tools/call").count();
        assert_eq!(calls, if answers { 2 } else { 1 });
    }
}
