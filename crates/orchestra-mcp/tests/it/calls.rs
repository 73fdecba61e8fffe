//! Calls: at once, cancelled, too many, in order, and those that break.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use orchestra_mcp::{Limits, post::Post};
use serde_json::{Value, json};

use crate::{
    child::Server,
    memory::{self, Client},
};

#[test]
fn a_slow_call_holds_nobody_up() {
    let mut server = Server::session("everything", "2025-11-25", "{}");
    for tool in ["test_slow", "test_heavy"] {
        server.send(&format!(r#"{{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{{"name":"{tool}","arguments":{{"milliseconds":60000}}}}}}"#));
        server.check(
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        );
        server.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow","reason":"test"}}"#);
        let reply = server.call(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_simple_text"}}"#);
        assert_eq!(reply["id"], 2);
    }
    // The cancelled calls are never answered, and do not hold up the end either.
    server.close_input();
    assert_eq!(server.rest(), [""; 0]);
    assert!(server.exit().success());
}

#[test]
fn a_panic_ends_one_call_and_prints_cannot_corrupt_the_stream() {
    let mut server = Server::session("everything", "2025-11-25", "{}");
    let reply = server
        .call(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_panic"}}"#);
    assert_eq!(reply["error"]["code"], -32603);
    let reply = server
        .call(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_print"}}"#);
    assert_eq!(reply["result"]["content"][0]["text"], "printed");
}

#[test]
fn a_result_that_is_too_large_becomes_an_error() {
    let mut server = Server::session("everything", "2025-11-25", "{}");
    let large = |bytes: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"test_large","arguments":{{"bytes":{bytes}}}}}}}"#
        )
    };
    let reply = server.call(&large(17 * 1024 * 1024));
    assert_eq!(reply["error"]["code"], -32603);
    assert!(
        reply["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("result_too_large")
    );
    let reply = server.call(&large(15 * 1024 * 1024));
    assert_eq!(
        reply["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .len(),
        15 * 1024 * 1024
    );
}

#[tokio::test]
async fn panics_of_every_kind_end_only_their_call() {
    let (server, _) = memory::server_with(Limits::default());
    let mut client = Client::connect(&server);
    for (id, tool) in ["panic", "panic_later", "panic_at_once"]
        .into_iter()
        .enumerate()
    {
        client.tool(id, tool).await;
        let reply = client.next().await.unwrap();
        assert_eq!(
            (&reply["id"], &reply["error"]["code"]),
            (&json!(id), &json!(-32603))
        );
    }
    client.tool(8, "panic_on_drop").await;
    client
        .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}"#)
        .await;
    client.tool(9, "echo").await;
    assert_eq!(client.next().await.unwrap()["id"], 9);
}

#[tokio::test]
async fn past_the_bounds_calls_queue_and_then_are_refused_while_pings_pass() {
    let limits = Limits {
        running: 2,
        queued: 3,
        ..Limits::default()
    };
    let (server, shared) = memory::server_with(limits);
    let mut client = Client::connect(&server);
    for id in 0..6 {
        client.tool(id, "gate").await;
    }
    let refused = client.next().await.unwrap();
    assert_eq!(refused["id"], 5);
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("busy")
    );
    client
        .send(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)
        .await;
    assert_eq!(client.next().await.unwrap()["id"], "p");
    // One that queues is cancelled, and never starts.
    client
        .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#)
        .await;
    let mut answered = Vec::new();
    while answered.len() < 4 {
        shared.gate.notify_one();
        answered.push(client.next().await.unwrap()["id"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, [0, 1, 2, 4]);
    assert_eq!(
        *shared.order.lock().unwrap(),
        [0, 1, 2, 4].map(|n| format!("{{\"n\":{n}}}"))
    );
}

#[tokio::test]
async fn calls_start_in_the_order_in_which_they_came() {
    let (server, shared) = memory::server_with(Limits {
        running: 3,
        ..Limits::default()
    });
    let mut client = Client::connect(&server);
    for id in 0..200 {
        client
            .tool(id, if id % 3 == 0 { "echo" } else { "yield" })
            .await;
    }
    for _ in 0..200 {
        assert!(client.next().await.unwrap().get("result").is_some());
    }
    let expected: Vec<String> = (0..200).map(|n| format!("{{\"n\":{n}}}")).collect();
    assert_eq!(*shared.order.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_cancelled_call_is_dropped_and_its_id_is_free_again() {
    let (server, shared) = memory::server_with(Limits::default());
    let mut client = Client::connect(&server);
    client.tool(1, "never").await;
    client.tool(1, "echo").await;
    assert_eq!(client.next().await.unwrap()["error"]["code"], -32600);
    client
        .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .await;
    client.tool(1, "echo").await;
    assert_eq!(
        client.next().await.unwrap()["result"]["content"][0]["text"],
        "{\"n\":1}"
    );
    while shared.dropped.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_end_of_input_lets_calls_finish() {
    let (server, shared) = memory::server_with(Limits::default());
    let mut client = Client::connect(&server);
    client.tool(1, "gate").await;
    client.end().await;
    while shared.order.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    shared.gate.notify_one();
    let replies: Vec<Value> = [client.next().await, client.next().await]
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0]["id"], 1);
}

#[test]
fn a_large_reply_does_not_wait_for_calls_that_compute() {
    let mut server = Server::session("everything", "2025-11-25", "{}");
    let call = |id: &Value, tool: &str, milliseconds: u32| {
        let params = json!({"name": tool, "arguments": {"milliseconds": milliseconds}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    for id in 0..40 {
        server.send(&call(&json!(id), "test_heavy", 600_000));
    }
    // More than a pipe takes without blocking, so that a thread has to write it.
    let id = json!("x".repeat(6_000));
    assert_eq!(server.call(&call(&id, "test_slow", 20))["id"], id);
    // One that waits for its turn gives up its place.
    for id in 0..40 {
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        server.send(&cancel.to_string());
    }
    server.close_input();
    assert_eq!(server.rest(), [""; 0]);
    assert!(server.exit().success());
}

#[tokio::test]
async fn a_call_cannot_take_the_id_of_an_open_stream() {
    let (server, _) = memory::server_with(Limits::default());
    let mut client = Client::connect(&server);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "notifications": {"toolsListChanged": true}, "_meta": meta
    }});
    client.send(&listen.to_string()).await;
    let acknowledged = client.next().await.unwrap();
    assert!(acknowledged.get("method").is_some());
    client.tool(1, "echo").await;
    assert_eq!(client.next().await.unwrap()["error"]["code"], -32600);
    client
        .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .await;
    client.tool(1, "echo").await;
    let reply = client.next().await.unwrap();
    assert!(reply.get("result").is_some(), "{reply}");
}

#[tokio::test]
async fn a_single_message_that_is_dropped_cancels_its_call() {
    let (server, shared) = memory::server_with(Limits::default());
    for (at, tool) in ["never", "heavy"].into_iter().enumerate() {
        let post = Post::new(&server, "test");
        let call =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}});
        let handling = tokio::spawn(async move { post.handle(call.to_string().as_bytes()).await });
        while shared.order.lock().unwrap().len() == at {
            tokio::task::yield_now().await;
        }
        handling.abort();
        let end = Instant::now() + Duration::from_secs(30);
        while shared.dropped.load(Ordering::SeqCst) == at {
            assert!(Instant::now() < end, "{tool} goes on");
            tokio::task::yield_now().await;
        }
    }
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
