//! What a client can make a server hold, and for how long.

use std::time::Duration;

use orchestra_hub::{LogLevel, Notice};
use orchestra_mcp::Limits;
use orchestra_wire::RawJson;
use serde_json::{Value, json};

use crate::memory::{self, Client};

#[tokio::test]
async fn whatever_a_call_that_waits_is_large_by_counts() {
    let limits = Limits {
        running: 1,
        queued_bytes: 64 * 1024,
        ..Limits::default()
    };
    let (server, _) = memory::server_with(limits);
    let mut client = Client::connect(&server);
    client.tool(0, "never").await;
    let large = "x".repeat(70_000);
    let call = |id: &Value, params: &Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    let small = json!({"name": "echo"});
    for (id, params) in [
        (json!(large), small),
        (json!(1), json!({"name": large})),
        (json!(2), json!({"name": "echo", "requestState": large})),
        (
            json!(3),
            json!({"name": "echo", "inputResponses": {"a": large}}),
        ),
        (
            json!(4),
            json!({"name": "echo", "_meta": {"progressToken": large}}),
        ),
        (json!(5), json!({"name": "echo", "arguments": {"a": large}})),
    ] {
        client.send(&call(&id, &params)).await;
        // Answered in any case.
        client
            .send(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)
            .await;
        let refused = client.next().await.unwrap();
        assert_eq!(refused["id"], id);
        let text = refused["error"]["message"].as_str().unwrap();
        assert!(text.starts_with("busy"), "{text}");
        assert_eq!(client.next().await.unwrap()["id"], "p");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_told_that_it_missed_something() {
    let (server, shared) = memory::server_with(Limits::default());
    let mut client = Client::connect(&server);
    client.initialize("2025-11-25").await;
    let sent = 1_500;
    let data = RawJson::of(&json!("x".repeat(16 * 1024))).unwrap();
    for _ in 0..sent {
        let log = Notice::Log {
            level: LogLevel::Error,
            logger: None,
            data: data.clone(),
        };
        shared.notices.send(log).await.unwrap();
    }
    shared.notices_are_taken().await;
    // The answer to this is behind whatever was kept.
    client
        .send(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)
        .await;
    let (mut logs, mut missed) = (0, false);
    let mut answered = false;
    while !(answered && missed) {
        let message = client.next().await.unwrap();
        answered |= message["id"] == "p";
        match message["method"].as_str() {
            Some("notifications/message") => logs += 1,
            Some("notifications/tools/list_changed") => missed = true,
            _ => {}
        }
        assert!(logs < sent, "everything was kept");
    }
    // The outbox's megabyte, the hub's queue and the pipe.
    assert!(logs <= 64 + 256 + 8, "{logs}");
}

#[tokio::test]
async fn a_client_that_does_not_answer_a_question_is_given_up_by_time_alone() {
    let limits = Limits {
        answer: Duration::from_millis(50),
        ..Limits::default()
    };
    let (server, _) = memory::server_with(limits);
    let mut client = Client::connect(&server);
    client.initialize("2025-11-25").await;
    for id in 1..3 {
        client.tool(id, "ask").await;
        let asked = client.next().await.unwrap();
        assert_eq!(asked["method"], "elicitation/create");
        // Not a line more from us.
        let withdrawn = client.next().await.unwrap();
        assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
        let reply = client.next().await.unwrap();
        assert_eq!(reply["id"], id);
        assert_eq!(
            reply["result"]["content"][0]["text"],
            "the client did not answer in time"
        );
    }
}

#[tokio::test]
async fn call_of_a_client_that_gives_no_roots_goes_on_without_any() {
    let limits = Limits {
        answer: Duration::from_millis(50),
        ..Limits::default()
    };
    for (limits, refuses) in [(Limits::default(), true), (limits, false)] {
        let (server, _) = memory::server_with(limits);
        let mut client = Client::connect(&server);
        let capabilities = json!({"roots": {}});
        client.initialize_with("2025-11-25", capabilities).await;
        client.tool(1, "roots").await;
        let asked = client.next().await.unwrap();
        assert_eq!(asked["method"], "roots/list");
        if refuses {
            let error = json!({"code": -32603, "message": "no"});
            let refusal = json!({"jsonrpc": "2.0", "id": asked["id"], "error": error});
            client.send(&refusal.to_string()).await;
        }
        let reply = client.next().await.unwrap();
        assert_eq!(reply["id"], 1);
        let text = &reply["result"]["content"][0]["text"];
        assert_eq!(text, r#"{"r":{"roots":[]}}"#);
    }
}

#[tokio::test]
async fn a_calls_question_ends_with_its_connection() {
    let (server, _) = memory::server_with(Limits::default());
    let mut client = Client::connect(&server);
    client.initialize("2025-11-25").await;
    client.tool(1, "ask").await;
    assert_eq!(client.next().await.unwrap()["method"], "elicitation/create");
    client.end().await;
    let withdrawn = client.next().await.unwrap();
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    let reply = client.next().await.unwrap();
    assert_eq!(reply["id"], 1);
    assert_eq!(reply["result"]["isError"], true);
    assert_eq!(client.next().await, None);
}

#[tokio::test]
async fn a_call_that_is_made_again_waits_for_its_turn() {
    let limits = Limits {
        running: 1,
        ..Limits::default()
    };
    let (server, shared) = memory::server_with(limits);
    let mut client = Client::connect(&server);
    client.initialize("2025-11-25").await;
    client.tool(1, "ask").await;
    let asked = client.next().await.unwrap();
    client.tool(2, "gate").await;
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}});
    client.send(&answer.to_string()).await;
    client
        .send(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)
        .await;
    // It would have asked again before this.
    assert_eq!(client.next().await.unwrap()["id"], "p");
    shared.gate.notify_one();
    let next = [client.next().await.unwrap(), client.next().await.unwrap()];
    assert!(next.iter().any(|message| message["id"] == 2));
    assert!(
        next.iter()
            .any(|message| message["method"] == "elicitation/create")
    );
}

#[tokio::test]
async fn long_names_do_not_come_back_whole() {
    let (server, _) = memory::server_with(Limits::default());
    let mut client = Client::connect(&server);
    let long = "x".repeat(100_000);
    for (method, params) in [
        (long.as_str(), json!({})),
        ("tools/call", json!({"name": long})),
        ("resources/read", json!({"uri": long})),
        (
            "completion/complete",
            json!({"ref": {"type": long}, "argument": {}}),
        ),
        (
            "tools/list",
            json!({"_meta": {"io.modelcontextprotocol/protocolVersion": long}}),
        ),
    ] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        client.send(&request.to_string()).await;
        let reply = client.next().await.unwrap();
        assert!(reply.get("error").is_some(), "{method:.50}");
        assert!(reply.to_string().len() < 2_000, "{method:.50}");
    }
    // None is as good as absent.
    let params = json!({"name": "echo", "requestState": null});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    client.send(&request.to_string()).await;
    assert!(client.next().await.unwrap().get("result").is_some());
}

#[tokio::test]
async fn a_session_is_not_asked_in_ways_that_its_revision_does_not_have() {
    let (server, _) = memory::server_with(Limits::default());
    for (revision, asks) in [
        ("2024-11-05", false),
        ("2025-03-26", false),
        ("2025-06-18", true),
    ] {
        let mut client = Client::connect(&server);
        client.initialize(revision).await;
        client.tool(1, "ask").await;
        let message = client.next().await.unwrap();
        assert_eq!(message["method"] == "elicitation/create", asks, "{message}");
        assert_eq!(message["result"]["isError"] == true, !asks, "{message}");
    }
}
