//! The two routes of 2024-11-05 below `/api/mcp`.

use axum::Router;
use orchestra_hub::HubConfig;
use orchestra_mcp::http::{Eras, HttpOptions};
use serde_json::json;

use crate::site::Site;

const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_names_where_messages_go_and_has_the_answers() {
    let site = Site::new().await;
    let mut events = site.open("GET /api/mcp/sse", &[], "").await;
    let endpoint = events.data().await;
    let (path, session) = endpoint.split_once('?').unwrap();
    assert_eq!(path, "/api/mcp/messages");
    assert!(session.starts_with("sessionId="), "{endpoint}");

    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }});
    let target = format!("POST {endpoint}");
    let answer = site.described(&target, &JSON, &hello.to_string()).await;
    assert_eq!((answer.status, answer.body.len()), (202, 0));
    let reply = events.message().await;
    assert_eq!(reply["result"]["protocolVersion"], "2024-11-05");
    let params = json!({"name": "echo", "arguments": {"text": "over the old pair"}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
    site.described(&target, &JSON, &call.to_string()).await;
    let reply = events.message().await;
    assert_eq!(reply["result"]["content"][0]["text"], "over the old pair");

    for (target, headers, body, status) in [
        ("POST /api/mcp/messages", &JSON[..], "{}", 400),
        ("POST /api/mcp/messages?sessionId=0", &JSON, "{}", 404),
        (&target, &JSON, "{", 400),
        (&target, &[], "{}", 415),
        (&target, &[JSON[0], ("Host", "evil.example")], "{}", 403),
    ] {
        let answer = site.described(target, headers, body).await;
        assert_eq!(answer.status, status, "{target}: {answer:?}");
        assert!(answer.json()["error"].is_string());
    }
    drop(events);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pair_moves_with_the_routes() {
    let nested = |app| Router::new().nest("/deep/er", app);
    let site = Site::with(HubConfig::default(), HttpOptions::default(), nested).await;
    let mut events = site.open("GET /deep/er/api/mcp/sse", &[], "").await;
    let endpoint = events.data().await;
    assert!(
        endpoint.starts_with("/deep/er/api/mcp/messages?sessionId="),
        "{endpoint}"
    );
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let answer = site.send(&format!("POST {endpoint}"), &JSON, &ping).await;
    assert_eq!(answer.status, 202);
    assert_eq!(events.message().await["id"], 1);
    for (stream, messages) in [
        ("GET /deep/er/sse", "/deep/er/messages?"),
        ("GET /deep/er/sse/", "/deep/er/messages?"),
        ("GET /deep/er/api/mcp/sse/", "/deep/er/api/mcp/messages?"),
    ] {
        let mut events = site.open(stream, &[], "").await;
        let endpoint = events.data().await;
        assert!(endpoint.starts_with(messages), "{stream}: {endpoint}");
        let target = format!("POST {}", endpoint.replacen('?', "/?", 1));
        let answer = site.send(&target, &JSON, &ping).await;
        assert_eq!(answer.status, 202, "{target}");
        assert_eq!(events.message().await["id"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_sessions_are_not_served_it_is_not_there() {
    let options = HttpOptions {
        eras: Eras::Stateless,
        ..HttpOptions::default()
    };
    let site = Site::with(HubConfig::default(), options, |app| app).await;
    assert_eq!(
        site.described("GET /api/mcp/sse", &[], "").await.status,
        404
    );
}
