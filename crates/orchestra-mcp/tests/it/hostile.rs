//! HTTP in a bad world: clients that send too little, too much or the wrong thing, that do not
//! read, or that are gone. Whatever they do, others are served.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use orchestra_hub::{
    Annotations, BoxFuture, Catalog, Content, Cost, Hub, HubConfig, LongWork, Notice, Outcome,
    Provider, ProviderError, ProviderId, Request, ToolDescriptor, ToolResult,
};
use orchestra_mcp::{
    Limits, Server,
    http::{self, HttpOptions},
};
use orchestra_wire::RawJson;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{interval, timeout},
};

use crate::{
    http::{PATIENCE, Reply, Site, stateless, tool},
    memory::{WATCHED, server_with},
};

/// So short that a test can wait for its end.
const SOON: Duration = Duration::from_secs(1);

/// Far longer than a test.
const LONG: Duration = Duration::from_secs(600);

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

async fn connect(site: &Site) -> TcpStream {
    TcpStream::connect(site.address).await.unwrap()
}

/// Waits until `condition` says so.
async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    };
    let waited = timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("never: {what}"));
}

async fn is_served(site: &Site) -> bool {
    let params = json!({"name": "echo", "arguments": {"a": 1}});
    let reply = site.stateless("tools/call", params).await;
    reply.status == 200 && reply.json().await["result"]["content"][0]["text"] == "{\"a\":1}"
}

/// More clients than there are places send their heads a byte at a time.
#[tokio::test(flavor = "multi_thread")]
async fn heads_that_come_byte_by_byte_do_not_keep_the_places() {
    const PLACES: usize = 8;
    let limits = http::Limits {
        connections: PLACES,
        head_time: SOON,
        ..http::Limits::default()
    };
    let site = Site::on(listener().await, HttpOptions::default(), limits);
    let mut slow = JoinSet::new();
    for _ in 0..2 * PLACES {
        let mut stream = connect(&site).await;
        slow.spawn(async move {
            let head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: ";
            let mut beat = interval(Duration::from_millis(10));
            for byte in head.iter().chain(std::iter::repeat(&b'x')) {
                beat.tick().await;
                if stream.write_all(&[*byte]).await.is_err() {
                    break;
                }
            }
        });
    }
    assert!(is_served(&site).await);
    let ended = async { while slow.join_next().await.is_some() {} };
    timeout(PATIENCE, ended).await.expect("all are given up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_given_up() {
    let site = Site::new(HttpOptions {
        body_time: SOON,
        ..HttpOptions::default()
    })
    .await;
    for length in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        for path in ["/mcp", "/rpc"] {
            let mut stream = connect(&site).await;
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            assert_eq!(Reply::read(stream).await.status, 408, "{path} {length}");
        }
    }
    assert!(is_served(&site).await);
}

/// Large messages that dribble in fill the room for large ones, and keep nobody else out.
#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_that_do_not_come_leave_room_for_small_ones() {
    let site = Site::new(HttpOptions {
        body_time: LONG,
        ..HttpOptions::default()
    })
    .await;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        10 * 1024 * 1024
    );
    let mut held = Vec::new();
    let full = async {
        loop {
            let mut stream = connect(&site).await;
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut said = [0; 12];
            stream.read_exact(&mut said).await.unwrap();
            if said != *b"HTTP/1.1 100" {
                return said;
            }
            held.push(stream);
        }
    };
    let said = timeout(PATIENCE, full).await.expect("the room has an end");
    assert_eq!(said, *b"HTTP/1.1 503");
    assert!(held.len() > 1, "{}", held.len());
    assert!(is_served(&site).await);
}

/// Nobody can tell a client that has closed its half from one that is gone, so it is gone: its
/// call ends with it (MCP 2026-07-28, cancellation).
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_its_half_is_gone() {
    let site = Site::new(HttpOptions::default()).await;
    let body = tool(1, "never").to_string();
    let request = format!(
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for sent in [
        1,
        30,
        request.len() - body.len(),
        request.len() - 1,
        request.len(),
    ] {
        let mut stream = connect(&site).await;
        stream.write_all(&request.as_bytes()[..sent]).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut said = String::new();
        let ended = timeout(PATIENCE, stream.read_to_string(&mut said)).await;
        ended.expect("the connection ends").unwrap();
        assert!(
            !said.contains("200 OK") && !said.contains("\"result\""),
            "{sent}: {said}"
        );
    }
    assert!(is_served(&site).await);
    // The call may have begun before its client was gone, or never.
    let begun = site.shared.order.lock().unwrap().len() - 1;
    until("calls that began have ended", async || {
        site.shared.dropped.load(Ordering::SeqCst) == begun
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_refused_whether_its_length_is_told_or_not() {
    const MOST: usize = 4_096;
    let site = Site::new(HttpOptions {
        body_bytes: MOST,
        ..HttpOptions::default()
    })
    .await;
    let head = "HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let long = "x".repeat(MOST + 1);
    for path in ["/mcp", "/rpc"] {
        for request in [
            format!("POST {path} {head}Content-Length: {}\r\n\r\n", MOST + 1),
            format!("POST {path} {head}Content-Length: {}\r\n\r\n", 1_u64 << 60),
            format!(
                "POST {path} {head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n",
                MOST + 1
            ),
        ] {
            let mut stream = connect(&site).await;
            stream.write_all(request.as_bytes()).await.unwrap();
            let reply = Reply::read(stream).await;
            assert_eq!(reply.status, 413, "{}", &request[..80]);
        }
    }
    assert!(is_served(&site).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_are_wrong_or_missing_are_refused() {
    let site = Site::new(HttpOptions::default()).await;
    let body = tool(1, "echo").to_string();
    let json = "Content-Type: application/json\r\n";
    let length = format!("Content-Length: {}\r\n", body.len());
    for (headers, status) in [
        (length.clone(), 415),
        (format!("Content-Type: text/plain\r\n{length}"), 415),
        (format!("{json}{length}Accept: text/html\r\n"), 406),
        (format!("{json}{length}Mcp-Session-Id: none\r\n"), 404),
        (
            format!("{json}{length}MCP-Protocol-Version: 1999-01-01\r\n"),
            400,
        ),
        (
            format!("{json}{length}MCP-Protocol-Version: 2026-07-28\r\n"),
            400,
        ),
        (format!("{json}Content-Length: x\r\n"), 400),
        (format!("{json}Content-Length: -1\r\n"), 400),
        (format!("{json}{length}Content-Length: 1\r\n"), 400),
        (format!("{json}{length}Bad Name: x\r\n"), 400),
        (format!("{json}{length}X: \u{1}\r\n"), 400),
    ] {
        let mut stream = connect(&site).await;
        let text = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{body}");
        stream.write_all(text.as_bytes()).await.unwrap();
        assert_eq!(Reply::read(stream).await.status, status, "{headers}");
    }
    for text in [
        "\r\n\r\n\u{0}",
        "POST\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut stream = connect(&site).await;
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut said = String::new();
        let ended = timeout(PATIENCE, stream.read_to_string(&mut said)).await;
        assert!(ended.is_ok(), "{text}");
        assert!(!said.contains("200 OK"), "{text}: {said}");
    }
    assert!(is_served(&site).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_id_that_was_not_given_opens_nothing() {
    let site = Site::new(HttpOptions::default()).await;
    let session = site.session("2025-11-25").await;
    let forged = [
        String::new(),
        "0".repeat(32),
        session.to_ascii_uppercase(),
        session[..31].to_owned(),
        format!("{session}0"),
        format!("{session},{session}"),
        format!("{session}%00"),
        "../".to_owned() + &session,
        "x".repeat(8_000),
    ];
    for id in forged.iter().filter(|id| **id != session) {
        let headers = [
            ("Mcp-Session-Id", id.as_str()),
            ("Accept", "text/event-stream"),
        ];
        let call = site.in_session(id, &tool(1, "echo")).await;
        assert_eq!(call.status, 404, "{id}");
        assert_eq!(site.send("GET", &headers, "").await.status, 404, "{id}");
        assert_eq!(site.send("DELETE", &headers, "").await.status, 404, "{id}");
        let old = format!("POST /messages?sessionId={id}");
        let json = [("Content-Type", "application/json")];
        let reply = site.send(&old, &json, "{}").await;
        assert!(matches!(reply.status, 400 | 404), "{id}: {}", reply.status);
    }
    let call = site.in_session(&session, &tool(1, "echo")).await;
    assert_eq!(call.json().await["id"], 1, "the session is untouched");
}

/// What a session keeps is free again when its client is gone, in good order or not: the only
/// place for a session is taken by the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_in_the_middle_of_a_stream_leaves_nothing() {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
    }});
    for is_abrupt in [false, true] {
        for is_call in [false, true] {
            let site = Site::new(HttpOptions {
                sessions: 1,
                ..HttpOptions::default()
            })
            .await;
            let session = site.session("2025-11-25").await;
            let request = match is_call {
                true => {
                    let body = tool(1, "report").to_string();
                    let length = body.len();
                    format!(
                        "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
                         Accept: text/event-stream\r\nHost: localhost\r\nMcp-Session-Id: {session}\r\n\r\n{body}"
                    )
                }
                false => format!(
                    "GET /mcp HTTP/1.1\r\nAccept: text/event-stream\r\nHost: localhost\r\nMcp-Session-Id: {session}\r\n\r\n"
                ),
            };
            let mut stream = connect(&site).await;
            if is_abrupt {
                stream.set_zero_linger().unwrap();
            }
            stream.write_all(request.as_bytes()).await.unwrap();
            let reply = Reply::read(stream).await;
            assert_eq!(reply.status, 200);
            let taken = site.post(&[], &hello).await;
            assert_eq!(taken.status, 503, "the session is in use");
            drop(reply);
            if is_call {
                // The call goes on without its client, and has an end.
                site.shared.gate.notify_one();
            }
            until("the place is free", async || {
                site.post(&[], &hello).await.status == 200
            })
            .await;
        }
    }
}

/// A site whose connections take little of what a client does not read.
async fn narrow(options: HttpOptions, limits: http::Limits) -> Site {
    let socket = TcpSocket::new_v4().unwrap();
    // Connections that are accepted have it from the listener.
    socket.set_send_buffer_size(4_096).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    Site::on(socket.listen(1_024).unwrap(), options, limits)
}

fn large_call() -> Value {
    let arguments = json!({"text": "x".repeat(64 * 1024)});
    stateless(
        "tools/call",
        json!({"name": "echo", "arguments": arguments}),
    )
}

/// Asks for a reply that is too large for what is on the way, and reads none of it.
async fn asks_and_never_reads(address: SocketAddr, body: &str) -> TcpStream {
    asks(address, "tools/call", body).await
}

/// Asks, and takes little of what is answered.
async fn asks(address: SocketAddr, method: &str, body: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2_048).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: {method}\r\n\
         Mcp-Name: echo\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Whether a large reply is given, rather than the error that there is no room for it.
async fn is_room(site: &Site) -> bool {
    let headers = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "echo"),
    ];
    let reply = site.post(&headers, &large_call()).await.json().await;
    let is_busy = || {
        reply["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("busy")
    };
    assert!(reply["result"].is_object() || is_busy(), "{reply}");
    reply["result"].is_object()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_clients_that_never_read_hold_no_more_than_they_may() {
    const CLIENTS: usize = 1_000;
    let options = HttpOptions {
        reply_bytes: 1024 * 1024,
        ..HttpOptions::default()
    };
    let limits = http::Limits {
        write_time: LONG,
        ..http::Limits::default()
    };
    let site = narrow(options, limits).await;
    assert!(is_room(&site).await);
    let body = large_call().to_string();
    let mut silent = Vec::with_capacity(CLIENTS);
    for _ in 0..CLIENTS {
        silent.push(asks_and_never_reads(site.address, &body).await);
    }
    until("what they may hold is spent", async || {
        !is_room(&site).await
    })
    .await;
    for _ in 0..10 {
        assert!(is_served(&site).await, "others are served");
    }
    assert!(!is_room(&site).await, "nobody has read anything");
    drop(silent);
    until("all is free again", async || is_room(&site).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_given_up_though_it_stays() {
    let options = HttpOptions {
        reply_bytes: 1,
        ..HttpOptions::default()
    };
    let limits = http::Limits {
        write_time: SOON,
        ..http::Limits::default()
    };
    let site = narrow(options, limits).await;
    let mut silent = asks_and_never_reads(site.address, &large_call().to_string()).await;
    silent.readable().await.unwrap();
    until("its reply is let go", async || is_room(&site).await).await;
    let mut read = Vec::new();
    // A connection that was reset has given what it had as well.
    let _ = timeout(PATIENCE, silent.read_to_end(&mut read))
        .await
        .expect("an end");
    assert!(read.len() < 64 * 1024, "it was cut off: {}", read.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_never_reads_counts_and_keeps_nothing_when_it_is_gone() {
    let options = HttpOptions {
        reply_bytes: 1,
        ..HttpOptions::default()
    };
    let limits = http::Limits {
        write_time: LONG,
        ..http::Limits::default()
    };
    let site = narrow(options, limits).await;
    let params = json!({"notifications": {"resourceSubscriptions": [WATCHED]}});
    let body = stateless("subscriptions/listen", params).to_string();
    let listener = asks(site.address, "subscriptions/listen", &body).await;
    listener.readable().await.unwrap();
    until("what it does not read is held", async || {
        for _ in 0..100 {
            let update = Notice::ResourceUpdated(WATCHED.to_owned());
            site.shared.notices.send(update).await.unwrap();
        }
        !is_room(&site).await
    })
    .await;
    for _ in 0..10 {
        assert!(is_served(&site).await, "others are served");
        assert!(!is_room(&site).await, "it has read nothing");
    }
    drop(listener);
    until("all is free again", async || is_room(&site).await).await;
}

/// A provider of one tool, which says which provider it is.
struct Versioned {
    id: ProviderId,
    catalog: watch::Sender<Arc<Catalog>>,
    version: usize,
}

impl Versioned {
    fn new(version: usize) -> Arc<Self> {
        let tools = vec![ToolDescriptor {
            name: "version".into(),
            title: None,
            description: None,
            input_schema: RawJson::of(&json!({"type": "object"})).unwrap(),
            lean_schema: None,
            output_schema: None,
            annotations: Annotations::default(),
            group: "test".into(),
            definition: None,
            cost: Cost::Quick,
            long: LongWork::default(),
        }];
        let catalog = Catalog {
            tools,
            ..Catalog::default()
        };
        Arc::new(Self {
            id: ProviderId::parse("versioned").unwrap(),
            catalog: watch::Sender::new(Arc::new(catalog)),
            version,
        })
    }
}

impl Provider for Versioned {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn serve(&self, _request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        let version = self.version;
        Box::pin(async move {
            // Long enough to be replaced meanwhile.
            tokio::task::yield_now().await;
            let content = vec![Content::Text(version.to_string())];
            Ok(Outcome::Tool(ToolResult {
                content,
                ..ToolResult::default()
            }))
        })
    }
}

/// Each call is answered: by the provider that was there, or by the error that none was.
#[tokio::test(flavor = "multi_thread")]
async fn calls_while_their_provider_is_replaced_are_all_answered() {
    const CLIENTS: usize = 8;
    const REPLACED: usize = 200;
    let hub = Hub::new(HubConfig::default());
    hub.register(Versioned::new(0)).unwrap();
    let server = Server::builder(hub.clone(), "test").build();
    let (_, shared) = server_with(Limits::default());
    let site = Arc::new(Site::over(
        (server, shared),
        listener().await,
        HttpOptions::default(),
        http::Limits::default(),
    ));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (site, is_over) = (Arc::clone(&site), Arc::clone(&is_over));
        clients.spawn(async move {
            let (mut answered, mut last) = (0, 0);
            while !is_over.load(Ordering::SeqCst) {
                let params = json!({"name": "version", "arguments": {}});
                let reply = site.stateless("tools/call", params).await.json().await;
                if let Some(text) = reply["result"]["content"][0]["text"].as_str() {
                    let version: usize = text.parse().unwrap();
                    assert!(version >= last, "{version} after {last}");
                    (answered, last) = (answered + 1, version);
                } else {
                    assert!(reply["error"]["code"].is_number(), "{reply}");
                }
            }
            answered
        });
    }
    for version in 1..=REPLACED {
        let provider = Versioned::new(version);
        assert!(hub.remove(&provider.id));
        tokio::task::yield_now().await;
        hub.register(provider).unwrap();
        let params = json!({"name": "version", "arguments": {}});
        let reply = site.stateless("tools/call", params).await.json().await;
        let text = &reply["result"]["content"][0]["text"];
        assert_eq!(*text, version.to_string(), "{reply}");
    }
    is_over.store(true, Ordering::SeqCst);
    let mut answered = 0;
    while let Some(client) = clients.join_next().await {
        answered += client.unwrap();
    }
    assert!(answered > REPLACED, "{answered}");
}
