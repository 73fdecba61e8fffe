//! The small transport, and single messages.

use std::{pin::Pin, sync::Arc, time::Duration};

use orchestra_mcp::{
    JsonRpcRequest, JsonRpcResponse, Limits, RequestRouter, StdioTransport, TransportError,
    post::Post,
};
use orchestra_wire::{RawJson, RequestId};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
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
