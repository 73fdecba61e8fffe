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

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_leaves_a_body_unread_says_that_the_connection_ends() {
    let site = Site::new(HttpOptions {
        body_bytes: 1024,
        ..HttpOptions::default()
    })
    .await;
    let json = ("Content-Type", "application/json");
    let large = "x".repeat(2048);
    for (target, headers, body, status) in [
        ("POST /mcp", vec![("Content-Type", "text/plain")], "{}", 415),
        ("POST /mcp", vec![json, ("Accept", "text/html")], "{}", 406),
        ("POST /mcp", vec![json], &large, 413),
        ("POST /rpc", vec![json], &large, 413),
        ("PUT /mcp", vec![json], "{}", 405),
        ("POST /nowhere", vec![json], "{}", 404),
    ] {
        let reply = site.send(target, &headers, body).await;
        assert_eq!(reply.status, status, "{target}");
        let ends = reply.header("connection");
        assert_eq!(ends.as_deref(), Some("close"), "{target} {status}");
    }
    let answered = site.stateless("things/new", json!({})).await;
    assert_eq!(
        (answered.status, answered.header("connection")),
        (404, None)
    );
}

/// As HTTP has it (RFC 9110): media types in any case, with parameters and weights.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_with_a_slash_and_headers_of_any_form_are_understood() {
    let site = Site::new(HttpOptions::default()).await;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": [],
        "clientInfo": {"name": "t", "version": "1"},
    }});
    let (plain, marked) = (hello.to_string(), format!("\u{feff}{hello}\r\n"));
    let json = "application/json";
    for (target, kind, accept, body, status) in [
        ("POST /mcp/", json, "", &plain, 200),
        (
            "POST /mcp",
            "Application/JSON; Charset=UTF-8",
            "",
            &plain,
            200,
        ),
        (
            "POST /mcp",
            json,
            "Application/JSON, Text/Event-Stream",
            &plain,
            200,
        ),
        (
            "POST /mcp",
            json,
            "application/json;q=0.5, */*;q=0.1",
            &plain,
            200,
        ),
        ("POST /mcp", json, "APPLICATION/*", &plain, 200),
        (
            "POST /mcp",
            json,
            "text/html, application/json;q=0",
            &plain,
            406,
        ),
        ("POST /mcp", json, "", &marked, 200),
        ("POST /rpc", json, "", &marked, 200),
        ("POST /rpc/", json, "", &plain, 200),
    ] {
        let mut headers = vec![("Content-Type", kind)];
        if !accept.is_empty() {
            headers.push(("Accept", accept));
        }
        let reply = site.send(target, &headers, body).await;
        assert_eq!(reply.status, status, "{target} {kind} {accept}");
    }
}

/// The most specific media range decides (RFC 9110, section 12.5.1).
#[tokio::test(flavor = "multi_thread")]
async fn stream_of_a_session_is_sent_for_each_media_range_that_allows_it() {
    let site = Site::new(HttpOptions::default()).await;
    for (accept, status) in [
        (Some("text/event-stream"), 200),
        (Some("Text/*"), 200),
        (Some("*/*"), 200),
        (Some("application/json, */*;q=0.1"), 200),
        (Some("text/*;q=0, text/event-stream"), 200),
        (None, 200),
        (Some("application/json"), 406),
        (Some("text/html"), 406),
        (Some("*/*;q=0"), 406),
        (Some("text/event-stream;q=0, */*"), 406),
    ] {
        let session = site.session("2025-06-18").await;
        let mut headers = vec![("Mcp-Session-Id", session.as_str())];
        headers.extend(accept.map(|accept| ("Accept", accept)));
        let reply = site.send("GET", &headers, "").await;
        assert_eq!(reply.status, status, "{accept:?}");
        assert_eq!(reply.is_stream(), status == 200, "{accept:?}");
    }
    // A message is answered with a stream only where the client expects one, or takes nothing else.
    let session = site.session("2025-06-18").await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for (accept, status, is_stream) in [
        ("*/*", 200, false),
        ("application/json;q=0, */*", 200, true),
        ("*/*;q=0", 406, false),
    ] {
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", accept),
            ("Mcp-Session-Id", session.as_str()),
        ];
        let reply = site.send("POST", &headers, &ping).await;
        assert_eq!(
            (reply.status, reply.is_stream()),
            (status, is_stream),
            "{accept}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_body_is_refused_with_how_to_send_it() {
    let site = Site::new(HttpOptions::default()).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for (coding, status) in [
        ("gzip", 415),
        ("deflate", 415),
        ("br", 415),
        ("identity, GZIP", 415),
        ("Identity", 200),
    ] {
        let headers = [
            ("Content-Type", "application/json"),
            ("Content-Encoding", coding),
        ];
        let reply = site.send("POST /rpc", &headers, &body).await;
        assert_eq!(reply.status, status, "{coding}");
        if status == 415 {
            let accepted = reply.header("accept-encoding");
            assert_eq!(accepted.as_deref(), Some("identity"), "{coding}");
            let message = reply.json().await["error"]["message"].to_string();
            assert!(message.contains("Content-Encoding"), "{message}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_the_head_alone_takes_no_stream() {
    let site = Site::new(HttpOptions::default()).await;
    let session = site.session("2025-11-25").await;
    let headers = [
        ("Mcp-Session-Id", session.as_str()),
        ("Accept", "text/event-stream"),
        ("Last-Event-ID", "0-0"),
    ];
    for target in ["HEAD /mcp", "HEAD /sse"] {
        assert_eq!(
            site.send(target, &headers, "").await.status,
            405,
            "{target}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_pair_is_for_its_own_sessions_and_era() {
    let site = Site::new(HttpOptions::default()).await;
    let json = [("Content-Type", "application/json")];
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let session = site.session("2025-11-25").await;
    let target = format!("POST /messages?sessionId={session}");
    assert_eq!(site.send(&target, &json, &hello).await.status, 404);
    let mut stream = site.send("GET /sse", &[], "").await;
    let target = format!("POST {}", stream.event().await.unwrap().data);
    assert_eq!(site.send(&target, &json, &hello).await.status, 202);
    assert_eq!(stream.message().await["id"], 1);
    let named = stateless("tools/list", json!({})).to_string();
    assert_eq!(site.send(&target, &json, &named).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_were_read_leave_room_for_others() {
    let site = Site::new(HttpOptions {
        reply_bytes: 64 * 1024,
        ..HttpOptions::default()
    })
    .await;
    let arguments = json!({"text": "x".repeat(40 * 1024)});
    let params = json!({"name": "echo", "arguments": arguments});
    let session = site.session("2025-11-25").await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "text/event-stream"),
        ("Mcp-Session-Id", &session),
    ];
    let mut kept = site.send("POST", &headers, &call.to_string()).await;
    while let Some(event) = kept.event().await {
        assert!(event.data.is_empty() || event.data.contains("result"));
    }
    // Its reader is gone a moment after it has said all.
    let has_room = async {
        loop {
            let reply = site.stateless("tools/call", params.clone()).await;
            if reply.json().await["result"].is_object() {
                return;
            }
        }
    };
    let waited = timeout(Duration::from_secs(30), has_room).await;
    assert!(waited.is_ok(), "what was read is kept instead");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_a_revision_without_any_is_told_so() {
    let site = only(Eras::Stateless).await;
    let headers = [("MCP-Protocol-Version", "2026-07-28")];
    let batch = json!([{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]);
    let reply = site.post(&headers, &batch).await;
    assert_eq!(reply.status, 400);
    let error = reply.json().await["error"].clone();
    assert_eq!(error["code"], -32600);
    assert!(error["message"].as_str().unwrap().contains("each message"));
}
