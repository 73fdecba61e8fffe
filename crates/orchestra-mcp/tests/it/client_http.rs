//! Servers of others over HTTP, as a connection sees them.

mod auth;
mod faults;
mod listening;
mod oauth;
pub(crate) mod scripted;
mod streams;
mod tls;

use std::sync::Arc;

use axum::http::Method;
use orchestra_mcp::{
    client::{
        Agreed, ClientError, Sent,
        http::{Auth, Flavour, HttpConfig, HttpConnector, Template},
    },
    http::HttpOptions,
};
use orchestra_wire::{RawJson, Revision};
use serde_json::{Value, json};
use tokio::time::timeout;

use self::scripted::{Scripted, ask, connected, empty, json_of, result, with};
use crate::http::{PATIENCE, Site};

/// What a request of 2026-07-28 says about itself.
fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

fn greeting() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    })
}

/// Seed 002, Testing Strategy, `TestHTTPTransport`: the request goes to `/rpc` below the URL, with
/// the token that is put in when it is sent.
#[tokio::test]
async fn test_http_transport_a_reply_of_the_plain_flavour_is_received() {
    let server = Scripted::new(|seen| async move { json_of(200, &seen.result(&json!([1, null]))) });
    let server = server.await;
    let mut config = server.config("/base/");
    config.flavour = Flavour::Rpc;
    config.auth = Auth::Bearer(Template::parse("${TOKEN}").unwrap());
    config.secrets = Arc::new(|name: &str| (name == "TOKEN").then(|| "abc".to_owned()));
    let there = connected(config).await;
    let got = result(&*there.link, 1, "search", &json!({"q": "x"})).await;
    assert_eq!(got, json!([1, null]));

    let seen = server.seen().remove(0);
    assert_eq!(
        (seen.method.clone(), &*seen.path),
        (Method::POST, "/base/rpc")
    );
    assert_eq!(seen.header("authorization"), Some("Bearer abc"));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("mcp-protocol-version"), None);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"q": "x"}});
    assert_eq!(seen.body, body);
}

#[tokio::test]
async fn our_own_server_is_spoken_to_in_both_eras() {
    let site = Site::new(HttpOptions::default()).await;
    let url = format!("http://{}/mcp", site.address).parse().unwrap();
    let config = HttpConfig::new("own", url);
    let echo = json!({"name": "echo", "arguments": {"text": "hello"}});

    let there = connected(config.clone()).await;
    let told = result(&*there.link, 1, "initialize", &greeting()).await;
    assert_eq!(told["protocolVersion"], "2025-11-25");
    let revision = Revision::V2025_11_25;
    drop(there.link.agreed(Agreed { revision }));
    let initialized = there.link.notify("notifications/initialized", None);
    timeout(PATIENCE, initialized).await.unwrap().unwrap();
    let old = result(&*there.link, 2, "tools/call", &echo).await;
    there.link.close().await;
    assert!(matches!(
        ask(&*there.link, 3, "ping", &json!({})).await,
        Err(ClientError::Closed)
    ));

    let there = connected(config).await;
    let told = result(&*there.link, 1, "server/discover", &stateless(json!({}))).await;
    assert!(told["supportedVersions"].to_string().contains("2026-07-28"));
    let revision = Revision::V2026_07_28;
    drop(there.link.agreed(Agreed { revision }));
    let new = result(&*there.link, 2, "tools/call", &stateless(echo)).await;
    assert_eq!(new["content"], old["content"]);
    let error = ask(&*there.link, 3, "nothing/such", &stateless(json!({}))).await;
    assert_eq!(error.unwrap().unwrap_err().code.0, -32601);
}

#[tokio::test]
async fn a_session_is_kept_ended_and_missed() {
    let server = Scripted::new(|seen| async move {
        match (seen.method.as_str(), seen.rpc()) {
            ("POST", "initialize") => with(
                200,
                &[
                    ("content-type", "application/json"),
                    ("mcp-session-id", "s-1"),
                ],
                &seen.result(&json!({})).to_string(),
            ),
            ("POST", "gone") => json_of(404, &json!({"error": "no session"})),
            ("POST", "notifications/initialized") => empty(202),
            ("POST", _) => json_of(200, &seen.result(&json!({}))),
            _ => empty(405),
        }
    });
    let server = server.await;

    let there = connected(server.config("/mcp")).await;
    result(&*there.link, 1, "initialize", &greeting()).await;
    let revision = Revision::V2025_06_18;
    drop(there.link.agreed(Agreed { revision }));
    there
        .link
        .notify("notifications/initialized", None)
        .await
        .unwrap();
    result(&*there.link, 2, "tools/list", &json!({})).await;
    let first = server.seen().remove(0);
    assert_eq!(first.header("mcp-session-id"), None);
    assert_eq!(first.header("mcp-protocol-version"), None);
    let listed = server.saw(|seen| seen.rpc() == "tools/list").await;
    assert_eq!(listed.header("mcp-session-id"), Some("s-1"));
    assert_eq!(listed.header("mcp-protocol-version"), Some("2025-06-18"));
    assert_eq!(listed.header("mcp-method"), None);
    // A server without a stream of its own says so, and the session goes on.
    let listens = server.saw(|seen| seen.method == Method::GET).await;
    assert_eq!(listens.header("accept"), Some("text/event-stream"));

    let ended = there.link.ended();
    let error = ask(&*there.link, 3, "gone", &json!({})).await.unwrap_err();
    assert_eq!(error.sent(), Sent::No, "{error:?}");
    assert!(error.explain().contains("session"), "{}", error.explain());
    let ended = timeout(PATIENCE, ended).await.unwrap();
    assert!(matches!(ended, ClientError::Closed));
    // Nothing of what comes later is sent.
    let later = ask(&*there.link, 4, "tools/list", &json!({})).await;
    assert_eq!(later.unwrap_err().sent(), Sent::No);
    let mut incoming = there.incoming;
    let over = timeout(PATIENCE, incoming.recv()).await.unwrap();
    assert!(over.is_none());

    let there = connected(server.config("/mcp")).await;
    result(&*there.link, 1, "initialize", &greeting()).await;
    timeout(PATIENCE, there.link.close()).await.unwrap();
    let left = server.saw(|seen| seen.method == Method::DELETE).await;
    assert_eq!(left.header("mcp-session-id"), Some("s-1"));
}

#[tokio::test]
async fn a_stateless_request_says_in_headers_what_it_is() {
    let server = Scripted::new(|seen| async move { json_of(200, &seen.result(&json!({}))) });
    let server = server.await;
    let mut config = server.config("/mcp");
    config.headers = vec![("X-Team".into(), Template::parse("${TEAM:-none}").unwrap())];
    let there = connected(config).await;
    for (id, agreed) in [(1, false), (2, true)] {
        if agreed {
            let revision = Revision::V2026_07_28;
            drop(there.link.agreed(Agreed { revision }));
        }
        let params = stateless(json!({"name": "größe"}));
        let mut outgoing = scripted::outgoing(id, "tools/call", &params);
        outgoing.headers = vec![("Mcp-Param-Region".into(), "us-west1".into())];
        there.link.request(outgoing).await.unwrap().unwrap();
        let seen = server.seen().pop().unwrap();
        for (name, value) in [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?Z3LDtsOfZQ==?="),
            ("mcp-param-region", "us-west1"),
            ("x-team", "none"),
            ("accept", "application/json, text/event-stream"),
        ] {
            assert_eq!(seen.header(name), Some(value), "{name}");
        }
    }
}

#[tokio::test]
async fn an_error_in_the_body_of_a_refusal_is_an_answer() {
    let server = Scripted::new(|seen| async move {
        let error = json!({"code": -32022, "message": "no", "data": {"supported": ["2025-11-25"]}});
        let id = match seen.rpc() {
            "mine" => seen.body["id"].clone(),
            "nobodys" => Value::Null,
            _ => json!("another"),
        };
        let body = json!({"jsonrpc": "2.0", "id": id, "error": error});
        json_of(400, &body)
    });
    let server = server.await;
    let there = connected(server.config("/")).await;
    for method in ["mine", "nobodys"] {
        let error = ask(&*there.link, 1, method, &json!({})).await.unwrap();
        let error = error.unwrap_err();
        assert_eq!(error.code.0, -32022);
        let data: RawJson = error.data.unwrap();
        assert_eq!(data.as_str(), r#"{"supported":["2025-11-25"]}"#);
    }
    let error = ask(&*there.link, 1, "other", &json!({})).await.unwrap_err();
    assert!(
        error.explain().starts_with("HTTP status 400: {"),
        "{error:?}"
    );
}

#[tokio::test]
async fn what_cannot_be_used_is_told_before_anything_is_sent() {
    let refused = |change: &dyn Fn(&mut HttpConfig)| {
        let mut config = HttpConfig::new("there", "http://127.0.0.1:1/mcp".parse().unwrap());
        change(&mut config);
        match HttpConnector::new(config) {
            Err(ClientError::InvalidConfig { what }) => what,
            _ => panic!("it was taken"),
        }
    };
    let text = refused(&|config| config.url = "http://example.com/mcp".parse().unwrap());
    assert!(text.contains("allowInsecure"), "{text}");
    let text = refused(&|config| config.url = "ftp://example.com/".parse().unwrap());
    assert!(text.contains("only http and https"), "{text}");
    let text = refused(&|config| config.url = "https://me:secret@example.com/".parse().unwrap());
    assert!(
        text.contains("user name") && !text.contains("secret"),
        "{text}"
    );
    let text = refused(&|config| config.ca_file = Some("/nowhere/ca.pem".into()));
    assert!(text.contains("/nowhere/ca.pem"), "{text}");
    // Nobody writes to these pipes: whoever waited for them would wait for ever.
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe.pem");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let text = refused(&|config| config.ca_file = Some(pipe.clone()));
    assert!(text.contains("no regular file"), "{text}");
    let text = refused(&|config| config.client_certificate = Some((pipe.clone(), pipe.clone())));
    assert!(text.contains("no regular file"), "{text}");
    let header = Template::verbatim("x");
    let text = refused(&|config| config.headers = vec![("Host".into(), header.clone())]);
    assert!(text.contains("belongs to the transport"), "{text}");
    HttpConnector::new({
        let mut config = HttpConfig::new("there", "http://example.com/mcp".parse().unwrap());
        config.allow_insecure = true;
        config
    })
    .map(drop)
    .unwrap();
}
