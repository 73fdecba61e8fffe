//! The small transport, and single messages.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use orchestra_mcp::{
    JsonRpcRequest, JsonRpcResponse, Limits, RequestRouter, StdioTransport, TransportError,
    post::Post,
};
use orchestra_wire::{RawJson, RequestId};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    sync::Semaphore,
    time::timeout,
};

use crate::memory;

/// Answers `{"tools":[]}` to everything.
struct NoTools;

impl RequestRouter for NoTools {
    fn handle_request(
        &self,
        request: JsonRpcRequest,
    ) -> Pin<Box<dyn Future<Output = Option<JsonRpcResponse>> + Send + '_>> {
        Box::pin(async move {
            let outcome = Ok(RawJson::of(&json!({"tools": []})).unwrap());
            Some(JsonRpcResponse {
                id: Some(request.id?),
                outcome,
            })
        })
    }
}

type Transport = StdioTransport<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

struct Peer {
    output: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
}

impl Peer {
    fn new() -> (Arc<Transport>, Self) {
        let (ours, theirs) = tokio::io::duplex(1024);
        let (input, output) = tokio::io::split(theirs);
        let transport = Arc::new(StdioTransport::new(input, output));
        let (input, output) = tokio::io::split(ours);
        (
            transport,
            Self {
                output,
                lines: BufReader::new(input).lines(),
            },
        )
    }

    async fn send(&mut self, line: &str) {
        self.output
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn reply(&mut self) -> Value {
        let line = timeout(Duration::from_secs(30), self.lines.next_line())
            .await
            .unwrap();
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }
}

#[tokio::test]
async fn routes_a_request_and_writes_the_response() {
    let (transport, mut peer) = Peer::new();
    transport.on_request(Arc::new(NoTools));
    let started = Arc::clone(&transport);
    let done = tokio::spawn(async move { started.start().await });
    peer.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .await;
    assert_eq!(
        peer.reply().await,
        json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}})
    );
    peer.send("{oops").await;
    let reply = peer.reply().await;
    assert_eq!(
        (&reply["id"], &reply["error"]["code"]),
        (&Value::Null, &json!(-32700))
    );
    peer.send(&format!("[{}1]", "1,".repeat(1_024))).await;
    assert_eq!(peer.reply().await["error"]["code"], -32600);
    peer.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#)
        .await;
    assert_eq!(peer.reply().await["id"], 2);
    peer.output.shutdown().await.unwrap();
    done.await.unwrap().unwrap();
    assert!(matches!(
        transport.start().await,
        Err(TransportError::Started)
    ));
}

#[tokio::test]
async fn sends_what_it_is_told_and_can_be_closed() {
    let (transport, mut peer) = Peer::new();
    let started = Arc::clone(&transport);
    let done = tokio::spawn(async move { started.start().await });
    let outcome = Ok(RawJson::empty_object());
    let id = Some(RequestId::from_number(5));
    transport
        .send(JsonRpcResponse { id, outcome })
        .await
        .unwrap();
    assert_eq!(peer.reply().await["id"], 5);
    // Without a router there is no method.
    peer.send(r#"{"jsonrpc":"2.0","id":6,"method":"x"}"#).await;
    assert_eq!(
        peer.reply().await["error"]["message"],
        "method not found: x"
    );
    transport.close();
    done.await.unwrap().unwrap();
}

#[tokio::test]
async fn it_ends_when_its_output_breaks() {
    let (mut requests, input) = tokio::io::duplex(1024);
    let (output, replies) = tokio::io::duplex(1024);
    drop(replies);
    let transport = StdioTransport::new(input, output);
    let started = transport.start();
    requests
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}\n")
        .await
        .unwrap();
    // The input stays open.
    let ended = timeout(Duration::from_secs(30), started).await.unwrap();
    assert!(matches!(ended, Err(TransportError::Io(_))), "{ended:?}");
}

/// Answers what has no parameters, never what has some.
struct Stuck;

impl RequestRouter for Stuck {
    fn handle_request(
        &self,
        request: JsonRpcRequest,
    ) -> Pin<Box<dyn Future<Output = Option<JsonRpcResponse>> + Send + '_>> {
        Box::pin(async move {
            if request.params.is_some() {
                std::future::pending::<()>().await;
            }
            NoTools.handle_request(request).await
        })
    }
}

/// Answers when it is let.
struct Gate {
    open: Semaphore,
    seen: AtomicUsize,
}

impl RequestRouter for Gate {
    fn handle_request(
        &self,
        request: JsonRpcRequest,
    ) -> Pin<Box<dyn Future<Output = Option<JsonRpcResponse>> + Send + '_>> {
        Box::pin(async move {
            self.seen.fetch_add(1, Ordering::SeqCst);
            drop(self.open.acquire().await);
            NoTools.handle_request(request).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_router_that_hangs_does_not_keep_it_from_ending() {
    for closes in [true, false] {
        let (transport, mut peer) = Peer::new();
        transport.on_request(Arc::new(Stuck));
        let started = Arc::clone(&transport);
        let done = tokio::spawn(async move { started.start().await });
        peer.send(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{}}"#)
            .await;
        peer.send(r#"{"jsonrpc":"2.0","id":2,"method":"x"}"#).await;
        assert_eq!(peer.reply().await["id"], 2);
        if closes {
            transport.close();
        } else {
            peer.output.shutdown().await.unwrap();
        }
        let ended = timeout(Duration::from_secs(60), done).await;
        ended.expect("the transport ends").unwrap().unwrap();
    }
}

#[tokio::test]
async fn what_was_read_is_still_answered_after_it_was_closed() {
    let (transport, mut peer) = Peer::new();
    let gate = Arc::new(Gate {
        open: Semaphore::new(0),
        seen: AtomicUsize::new(0),
    });
    transport.on_request(gate.clone());
    let started = Arc::clone(&transport);
    let done = tokio::spawn(async move { started.start().await });
    for id in 1..4 {
        peer.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#))
            .await;
    }
    while gate.seen.load(Ordering::SeqCst) < 3 {
        tokio::task::yield_now().await;
    }
    transport.close();
    tokio::task::yield_now().await;
    gate.open.add_permits(1);
    for id in 1..4 {
        assert_eq!(peer.reply().await["id"], id);
    }
    done.await.unwrap().unwrap();
}

#[tokio::test]
async fn nothing_is_sent_where_the_router_answers_nothing() {
    let (transport, mut peer) = Peer::new();
    transport.on_request(Arc::new(NoTools));
    let started = Arc::clone(&transport);
    let done = tokio::spawn(async move { started.start().await });
    peer.send(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#)
        .await;
    peer.send(r#"{"jsonrpc":"2.0","id":2,"method":"x"}"#).await;
    peer.output.shutdown().await.unwrap();
    assert_eq!(peer.reply().await["id"], 2);
    assert_eq!(peer.lines.next_line().await.unwrap(), None);
    done.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_hub_is_a_router_as_well() {
    let (transport, mut peer) = Peer::new();
    transport.on_request(Arc::new(Post::new(
        &memory::server(Limits::default()),
        "test",
    )));
    let started = Arc::clone(&transport);
    let done = tokio::spawn(async move { started.start().await });
    peer.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .await;
    let reply = peer.reply().await;
    assert_eq!(
        reply["result"]["tools"].as_array().unwrap().len(),
        memory::TOOLS
    );
    peer.send(r#"{"jsonrpc":"2.0","id":2,"method":"nope"}"#)
        .await;
    assert_eq!(
        peer.reply().await["error"]["message"],
        "method not found: nope"
    );
    drop(peer);
    done.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_single_message_is_answered_or_not() {
    let post = Post::new(
        &memory::server(Limits {
            line_bytes: 500,
            ..Limits::default()
        }),
        "test",
    );
    let pretty = b"{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n  \"method\": \"ping\"\n}\n";
    let answer = post.handle(pretty).await.unwrap();
    assert_eq!(answer, br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(
        post.handle(br#"{"jsonrpc":"2.0","method":"ping"}"#).await,
        None
    );
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe"});
    let reply = memory::post(&post, &subscribe).await.unwrap();
    assert_eq!(reply["error"]["code"], -32601);
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "yield", "arguments": {"a": [1]}}});
    let reply = memory::post(&post, &call).await.unwrap();
    assert_eq!(reply["result"]["content"][0]["text"], "{\"a\":[1]}");
    assert!(
        post.handle(b"nonsense")
            .await
            .unwrap()
            .starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":null")
    );
    let reply = post.handle(&[b'x'; 501]).await.unwrap();
    assert!(String::from_utf8(reply).unwrap().contains("-32600"));
}
