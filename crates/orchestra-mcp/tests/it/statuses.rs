//! What the status, the list of revisions and the end of a stream over HTTP say.

use std::time::Duration;

use orchestra_mcp::http::{Eras, HttpOptions};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::http::{Site, stateless};

async fn only(eras: Eras) -> Site {
    Site::new(HttpOptions {
        eras,
        ..HttpOptions::default()
    })
    .await
}

/// A request that names a revision of its own.
async fn named(site: &Site, version: &str) -> Value {
    let mut message = stateless("server/discover", json!({}));
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = version.into();
    let headers = [
        ("MCP-Protocol-Version", version),
        ("Mcp-Method", "server/discover"),
    ];
    let reply = site.post(&headers, &message).await;
    reply.json().await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_served_is_named() {
    let sessions = json!(["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
    let site = only(Eras::Stateless).await;
    let discovered = named(&site, "2026-07-28").await;
    let stateless = json!(["2026-07-28"]);
    assert_eq!(discovered["result"]["supportedVersions"], stateless);
    let refused = named(&site, "1900-01-01").await;
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"]["supported"], stateless);
    let site = only(Eras::Session).await;
    for version in ["1900-01-01", "2026-07-28"] {
        let refused = named(&site, version).await;
        assert_eq!(refused["error"]["code"], -32022);
        assert_eq!(refused["error"]["data"]["supported"], sessions, "{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_is_not_served_is_refused_whatever_is_asked() {
    let site = only(Eras::Session).await;
    let session = site.session("2025-11-25").await;
    let id = ("Mcp-Session-Id", session.as_str());
    for version in ["1900-01-01", "2026-07-28"] {
        let headers = [id, ("MCP-Protocol-Version", version)];
        let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(site.post(&headers, &notice).await.status, 400, "{version}");
    }
    let headers = [id, ("MCP-Protocol-Version", "1900-01-01")];
    assert_eq!(site.send("DELETE", &headers, "").await.status, 400);
    let headers = [id, ("MCP-Protocol-Version", "2025-11-25")];
    let ended = site.send("DELETE", &headers, "").await;
    assert_eq!(ended.status, 204, "it was still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_has_its_status_where_a_stream_was_expected() {
    let site = Site::new(HttpOptions::default()).await;
    // Its client knows no tasks.
    let filter = json!({"notifications": {"taskIds": ["x"]}});
    let reply = site.stateless("subscriptions/listen", filter).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json().await["error"]["code"], -32021);
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "things/new"),
    ];
    let message = stateless("things/new", json!({})).to_string();
    let reply = site.send("POST", &headers, &message).await;
    assert_eq!(reply.status, 404);
    assert_eq!(reply.json().await["error"]["code"], -32601);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_could_not_come_back_is_not_sent_away() {
    let options = HttpOptions {
        poll_after: Some(Duration::from_millis(10)),
        ..HttpOptions::default()
    };
    let site = Site::new(options).await;
    let session = site.session("2025-06-18").await;
    let params = json!({"name": "gate", "arguments": {}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    // The head comes when the answer takes its time.
    let mut reply = site.in_session(&session, &call).await;
    let early = timeout(Duration::from_millis(200), reply.event()).await;
    assert!(early.is_err(), "the stream has ended before its answer");
    site.shared.gate.notify_one();
    assert_eq!(reply.message().await["id"], 1);
}
