//! MCP over HTTP, over real sockets.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use orchestra_hub::Notice;
use orchestra_mcp::{
    Limits, Server,
    http::{self, HttpOptions},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

use crate::memory::{self, Shared, WATCHED, server_with};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

const BOTH: &str = "application/json, text/event-stream";
const STATELESS: &str = "2026-07-28";

pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

/// A reply whose body is still coming.
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    body: BufReader<TcpStream>,
}

/// One event of a stream.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

impl Site {
    pub(crate) async fn new(options: HttpOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, options, http::Limits::default())
    }

    pub(crate) fn on(listener: TcpListener, options: HttpOptions, limits: http::Limits) -> Self {
        Self::over(server_with(Limits::default()), listener, options, limits)
    }

    /// A site of another server.
    pub(crate) fn over(
        (server, shared): (Server, Arc<Shared>),
        listener: TcpListener,
        mut options: HttpOptions,
        limits: http::Limits,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        options.stop = Some(stopped.clone());
        let app = http::router(&server, options);
        tokio::spawn(http::serve(listener, app, stopped, limits));
        Self {
            address,
            shared,
            stop,
        }
    }

    /// Sends a request to `target`, a method and a path; without a path to `/mcp`.
    pub(crate) async fn send(&self, target: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let target = match target.contains(' ') {
            true => target.to_owned(),
            false => format!("{target} /mcp"),
        };
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut head = format!(
            "{target} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n",
            self.address,
            body.len()
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream
            .write_all(format!("{head}\r\n{body}").as_bytes())
            .await
            .unwrap();
        Reply::read(stream).await
    }

    pub(crate) async fn post(&self, headers: &[(&str, &str)], message: &Value) -> Reply {
        let mut all = vec![("Content-Type", "application/json"), ("Accept", BOTH)];
        all.extend(headers);
        self.send("POST", &all, &message.to_string()).await
    }

    /// A stateless request with the headers it needs.
    pub(crate) async fn stateless(&self, method: &str, params: Value) -> Reply {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let mut headers = vec![("MCP-Protocol-Version", STATELESS), ("Mcp-Method", method)];
        if !name.is_empty() {
            headers.push(("Mcp-Name", &name));
        }
        self.post(&headers, &stateless(method, params)).await
    }

    /// Begins a session; answers its id.
    pub(crate) async fn session(&self, revision: &str) -> String {
        let params = json!({"protocolVersion": revision, "capabilities": {"elicitation": {}}});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let reply = self.post(&[], &message).await;
        assert_eq!(reply.status, 200);
        let id = reply.header("mcp-session-id").expect("a session");
        assert_eq!(reply.json().await["result"]["protocolVersion"], revision);
        id
    }

    pub(crate) async fn in_session(&self, session: &str, message: &Value) -> Reply {
        self.post(&[("Mcp-Session-Id", session)], message).await
    }
}

impl Reply {
    /// Reads the head of a reply.
    pub(crate) async fn read(stream: TcpStream) -> Self {
        let mut body = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = timeout(PATIENCE, body.read_line(&mut head)).await;
            assert!(read.expect("answered").unwrap() > 0, "{head}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            status,
            head: head.to_ascii_lowercase(),
            body,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let mut lines = self.head.lines();
        let line = lines.find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.map(str::to_owned)
    }

    pub(crate) async fn json(mut self) -> Value {
        let length = self.header("content-length").expect("a whole body");
        let mut body = vec![0; length.parse().unwrap()];
        self.body.read_exact(&mut body).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type").as_deref() == Some("text/event-stream")
    }

    /// The next event of the stream, whatever chunks it came in; `None` at the end.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        let (mut id, mut data, mut seen) = (None, None, false);
        loop {
            let mut line = String::new();
            let read = timeout(PATIENCE, self.body.read_line(&mut line)).await;
            if read.expect("something comes").unwrap() == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(value) = line.strip_prefix("id: ") {
                id = Some(value.to_owned());
            } else if let Some(value) = line.strip_prefix("data:") {
                data = Some(value.trim().to_owned());
                seen = true;
            } else if line == "0" {
                return None;
            } else if line.is_empty() && seen {
                return data.map(|data| Event { id, data });
            }
        }
    }

    pub(crate) async fn message(&mut self) -> Value {
        let event = self.event().await.expect("one more event");
        serde_json::from_str(&event.data).unwrap_or_else(|_| panic!("{event:?}"))
    }
}

pub(crate) fn stateless(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": "t"
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

pub(crate) fn tool(id: u64, name: &str) -> Value {
    let params = json!({"name": name, "arguments": {}, "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateless_request_is_answered_in_json_and_with_the_status_of_its_kind() {
    let site = Site::new(HttpOptions::default()).await;
    let reply = site
        .stateless("tools/call", json!({"name": "echo", "arguments": {"a": 1}}))
        .await;
    assert_eq!(reply.status, 200);
    assert!(!reply.is_stream());
    assert_eq!(
        reply.json().await["result"]["content"][0]["text"],
        "{\"a\":1}"
    );
    let reply = site.stateless("no/such", json!({})).await;
    assert_eq!(reply.status, 404);
    assert_eq!(reply.json().await["error"]["code"], -32601);
    let mut lacking = stateless("tools/list", json!({}));
    lacking["params"]["_meta"] = json!({});
    let headers = [
        ("MCP-Protocol-Version", STATELESS),
        ("Mcp-Method", "tools/list"),
    ];
    let reply = site.post(&headers, &lacking).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json().await["error"]["code"], -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_differ_from_the_body_are_refused() {
    let site = Site::new(HttpOptions::default()).await;
    let call = stateless("tools/call", json!({"name": "echo", "arguments": {}}));
    let right = [
        ("MCP-Protocol-Version", STATELESS),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "=?base64?ZWNobw==?="),
    ];
    assert_eq!(site.post(&right, &call).await.status, 200);
    for wrong in [
        ("MCP-Protocol-Version", "2025-11-25"),
        ("Mcp-Method", "tools/list"),
        ("Mcp-Name", "gate"),
        ("Mcp-Name", "=?base64?####?="),
    ] {
        let headers: Vec<_> = right
            .iter()
            .map(|header| if header.0 == wrong.0 { wrong } else { *header })
            .collect();
        let reply = site.post(&headers, &call).await;
        assert_eq!(reply.status, 400, "{wrong:?}");
        assert_eq!(reply.json().await["error"]["code"], -32020, "{wrong:?}");
        let without: Vec<_> = right
            .iter()
            .filter(|header| header.0 != wrong.0)
            .copied()
            .collect();
        assert_eq!(site.post(&without, &call).await.status, 400, "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stateless_call_reports_comes_before_its_answer_and_leaving_cancels_it() {
    let site = Site::new(HttpOptions::default()).await;
    let params = json!({"name": "report", "arguments": {}});
    let mut reply = site.stateless("tools/call", params).await;
    assert!(reply.is_stream());
    let told = reply.message().await;
    assert_eq!(told["params"]["progress"], 1);
    site.shared.gate.notify_one();
    assert_eq!(reply.message().await["params"]["progress"], 2);
    assert_eq!(reply.message().await["id"], 1);
    assert!(reply.event().await.is_none(), "the answer is the last");
    let params = json!({"name": "never", "arguments": {}});
    let headers = [
        ("MCP-Protocol-Version", STATELESS),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "never"),
    ];
    let call = stateless("tools/call", params);
    let calls = || site.shared.order.lock().unwrap().len();
    let before = calls();
    let begun = async {
        while calls() == before {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = site.post(&headers, &call) => panic!("it is never answered"),
        begun = timeout(PATIENCE, begun) => begun.expect("the call begins"),
    }
    let gone = async {
        while site
            .shared
            .dropped
            .load(std::sync::atomic::Ordering::SeqCst)
            == 0
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone)
        .await
        .expect("the call is cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_is_told_what_it_asked_for() {
    let site = Site::new(HttpOptions::default()).await;
    let params = json!({"notifications": {"resourceSubscriptions": [WATCHED]}});
    let mut reply = site.stateless("subscriptions/listen", params).await;
    assert!(reply.is_stream());
    let first = reply.message().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let notice = Notice::ResourceUpdated(WATCHED.to_owned());
    site.shared.notices.send(notice).await.unwrap();
    let told = reply.message().await;
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"]["uri"], WATCHED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_session_that_is_cancelled_ends_its_stream_and_frees_its_id() {
    let site = Site::new(HttpOptions::default()).await;
    let session = site.session("2025-06-18").await;
    let mut reply = site.in_session(&session, &tool(5, "report")).await;
    assert!(reply.is_stream());
    assert_eq!(reply.message().await["params"]["progress"], 1);
    let params = json!({"requestId": 5});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert_eq!(site.in_session(&session, &cancel).await.status, 202);
    let rest = reply.event().await;
    assert!(rest.is_none(), "{rest:?}");
    let again = site.in_session(&session, &tool(5, "echo")).await;
    assert_eq!(again.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_lasts_until_it_is_deleted() {
    let site = Site::new(HttpOptions::default()).await;
    let session = site.session("2025-06-18").await;
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(site.in_session(&session, &done).await.status, 202);
    let reply = site.in_session(&session, &tool(1, "echo")).await;
    assert_eq!(reply.json().await["id"], 1);
    let none = site.in_session("0123456789abcdef", &tool(1, "echo")).await;
    assert_eq!(none.status, 404);
    let headers = [("Mcp-Session-Id", session.as_str())];
    assert_eq!(site.send("DELETE", &headers, "").await.status, 204);
    assert_eq!(site.send("DELETE", &headers, "").await.status, 404);
    let gone = site.in_session(&session, &tool(2, "echo")).await;
    assert_eq!(gone.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_session_asks_its_client_on_its_own_stream() {
    let site = Site::new(HttpOptions::default()).await;
    let session = site.session("2025-11-25").await;
    let mut reply = site.in_session(&session, &tool(7, "ask_once")).await;
    assert!(reply.is_stream());
    let prime = reply.event().await.unwrap();
    assert_eq!((prime.id.is_some(), prime.data.as_str()), (true, ""));
    let question = reply.message().await;
    assert_eq!(question["method"], "elicitation/create");
    let result = json!({"action": "accept", "content": {}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    assert_eq!(site.in_session(&session, &answer).await.status, 202);
    let last = reply.message().await;
    assert_eq!((&last["id"], last["error"].is_null()), (&json!(7), true));
    assert!(reply.event().await.is_none(), "the answer is the last");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_connection_broke_goes_on_where_it_was() {
    let site = Site::new(HttpOptions::default()).await;
    let session = site.session("2025-11-25").await;
    let mut reply = site.in_session(&session, &tool(3, "report")).await;
    reply.event().await.expect("the priming event");
    let first = reply.event().await.expect("progress");
    drop(reply);
    site.shared.gate.notify_one();
    let place = first.id.expect("an id");
    for _ in 0..2 {
        let headers = [
            ("Mcp-Session-Id", session.as_str()),
            ("Accept", "text/event-stream"),
            ("Last-Event-ID", place.as_str()),
        ];
        let mut rest = site.send("GET", &headers, "").await;
        assert_eq!(rest.status, 200);
        assert_eq!(rest.message().await["params"]["progress"], 2);
        assert_eq!(rest.message().await["id"], 3);
        assert!(rest.event().await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn newest_connection_with_the_stream_of_a_session_gets_its_messages() {
    let site = Site::new(HttpOptions::default()).await;
    let session = site.session("2025-11-25").await;
    let headers = [
        ("Mcp-Session-Id", session.as_str()),
        ("Accept", "text/event-stream"),
    ];
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": WATCHED}});
    let subscribed = site.in_session(&session, &subscribe).await;
    assert!(subscribed.json().await["error"].is_null());
    let update = || Notice::ResourceUpdated(WATCHED.to_owned());
    let mut first = site.send("GET", &headers, "").await;
    first.event().await.expect("the priming event");
    let mut second = site.send("GET", &headers, "").await;
    assert_eq!(second.status, 200);
    second.event().await.expect("the priming event");
    assert!(first.event().await.is_none(), "its stream ends");
    site.shared.notices.send(update()).await.unwrap();
    let message = second.message().await;
    assert_eq!(message["method"], "notifications/resources/updated");
    // The server does not notice at once that a client has closed a connection.
    let mut own = second;
    for _ in 0..20 {
        drop(own);
        own = site.send("GET", &headers, "").await;
        assert_eq!(own.status, 200);
    }
    own.event().await.expect("the priming event");
    site.shared.notices.send(update()).await.unwrap();
    let message = own.message().await;
    assert_eq!(message["method"], "notifications/resources/updated");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_bounded_and_the_longest_idle_one_makes_room() {
    let site = Site::new(HttpOptions {
        sessions: 2,
        ..HttpOptions::default()
    })
    .await;
    let first = site.session("2025-11-25").await;
    let headers = [
        ("Mcp-Session-Id", first.as_str()),
        ("Accept", "text/event-stream"),
    ];
    let _in_use = site.send("GET", &headers, "").await;
    let second = site.session("2025-11-25").await;
    let third = site.session("2025-11-25").await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(site.in_session(&first, &ping).await.status, 200);
    assert_eq!(site.in_session(&second, &ping).await.status, 404);
    assert_eq!(site.in_session(&third, &ping).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_no_stream_gets_the_answer_alone() {
    let site = Site::new(HttpOptions::default()).await;
    let session = site.session("2025-11-25").await;
    site.shared.gate.notify_one();
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
        ("Mcp-Session-Id", session.as_str()),
    ];
    let body = tool(5, "report").to_string();
    let reply = site.send("POST", &headers, &body).await;
    assert!(!reply.is_stream());
    assert_eq!(reply.json().await["id"], 5);
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "text/html"),
    ];
    assert_eq!(site.send("POST", &headers, &body).await.status, 406);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_the_first_revision_have_one_stream_for_everything() {
    let site = Site::new(HttpOptions::default()).await;
    let headers = [("Accept", "text/event-stream")];
    let mut stream = site.send("GET /sse", &headers, "").await;
    let place = stream.event().await.expect("where to post to").data;
    let json = [("Content-Type", "application/json")];
    let post = format!("POST {place}");
    let message = json!({"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {"protocolVersion": "2024-11-05"}});
    let reply = site.send(&post, &json, &message.to_string()).await;
    assert_eq!(reply.status, 202);
    let answer = stream.message().await;
    assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
    let reply = site
        .send(&post, &json, &tool(2, "ask_once").to_string())
        .await;
    assert_eq!(reply.status, 202);
    assert_eq!(stream.message().await["id"], 2);
    drop(stream);
    let gone = async {
        while site
            .send(&post, &json, &tool(3, "echo").to_string())
            .await
            .status
            != 404
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone)
        .await
        .expect("the session ends with its stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_when_the_server_stops() {
    let site = Site::new(HttpOptions::default()).await;
    let params = json!({"notifications": {"resourceSubscriptions": [WATCHED]}});
    let mut listening = site.stateless("subscriptions/listen", params).await;
    listening.message().await;
    let session = site.session("2025-11-25").await;
    let headers = [
        ("Mcp-Session-Id", session.as_str()),
        ("Accept", "text/event-stream"),
    ];
    let mut own = site.send("GET", &headers, "").await;
    own.event().await.expect("the priming event");
    site.stop.send_replace(true);
    assert!(own.event().await.is_none());
    let cancelled = listening.message().await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    let last = listening.message().await;
    assert_eq!(last["result"]["resultType"], "complete");
    assert_eq!(cancelled["params"]["requestId"], last["id"]);
    assert!(listening.event().await.is_none(), "the answer is the last");
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_tells_the_same_as_on_a_stream() {
    let site = Site::new(HttpOptions::default()).await;
    let reply = site.stateless("server/discover", json!({})).await;
    let posted = reply.json().await;
    let mut stream = memory::Client::connect(&server_with(Limits::default()).0);
    let params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    }});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": params});
    stream.send(&request.to_string()).await;
    let streamed = stream.next().await.unwrap();
    let capabilities = &posted["result"]["capabilities"];
    assert_eq!(*capabilities, streamed["result"]["capabilities"]);
    assert_eq!(capabilities["tools"]["listChanged"], true);
    assert_eq!(capabilities["resources"]["subscribe"], true);
    assert_eq!(capabilities["logging"], json!({}));
}
