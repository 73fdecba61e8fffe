//! Who is let in over HTTP, over real sockets.

use std::num::NonZeroU32;

use axum::http::{Extensions, HeaderMap};
use futures_util::FutureExt as _;
use orchestra_mcp::http::{Access, AccessRules, HttpOptions, PeerUser, Rate};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::timeout};

use crate::http::{PATIENCE, Reply, Site, tool};

const TOKENS: [&str; 2] = ["0123456789abcdef0123", "fedcba9876543210fedc"];

fn rules() -> AccessRules {
    AccessRules {
        tokens: TOKENS.map(|token| token.parse().unwrap()).into(),
        ..AccessRules::default()
    }
}

async fn site(rules: AccessRules) -> Site {
    Site::new(HttpOptions {
        access: Access::new(rules),
        ..HttpOptions::default()
    })
    .await
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// The reply to a request as it is written here.
async fn raw(site: &Site, text: &str) -> Reply {
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    Reply::read(stream).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_shows_a_token_is_let_in_whatever_the_route() {
    let site = site(rules()).await;
    let held = bearer(TOKENS[1]);
    for target in [
        "POST /mcp",
        "GET /mcp",
        "DELETE /mcp",
        "GET /sse",
        "POST /messages",
        "POST /rpc",
        "GET /",
        "GET /elsewhere",
    ] {
        let none = site.send(target, &[], "").await;
        assert_eq!(none.status, 401, "{target}");
        let challenge = none.header("www-authenticate");
        assert_eq!(challenge.as_deref(), Some("bearer realm=\"orchestra\""));
        assert_eq!(none.json().await["error"]["code"], -32600);
        for wrong in ["Bearer 0123456789abcdef0124", "Bearer x"] {
            let wrong = site.send(target, &[("Authorization", wrong)], "").await;
            assert_eq!(wrong.status, 401, "{target}");
            let challenge = wrong.header("www-authenticate").unwrap();
            assert!(challenge.contains("invalid_token"), "{challenge}");
        }
        let right = site.send(target, &[("Authorization", &held)], "").await;
        assert_ne!(right.status, 401, "{target}");
    }
    let reply = site
        .post(&[("Authorization", &held)], &tool(1, "echo"))
        .await;
    assert_eq!(reply.json().await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_nobodys_but_whose_who_began_it() {
    let site = site(rules()).await;
    let [owner, other] = TOKENS.map(bearer);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let begun = site.post(&[("Authorization", &owner)], &hello).await;
    let session = begun.header("mcp-session-id").expect("a session");
    let as_other = [
        ("Authorization", other.as_str()),
        ("Mcp-Session-Id", &session),
        ("Accept", "text/event-stream"),
    ];
    let call = site.post(&as_other[..2], &tool(1, "echo")).await;
    assert_eq!(call.status, 404);
    assert_eq!(site.send("GET", &as_other, "").await.status, 404);
    assert_eq!(site.send("DELETE", &as_other, "").await.status, 404);
    let old = format!("POST /messages?sessionId={session}");
    assert_eq!(site.send(&old, &as_other[..2], "").await.status, 404);
    let as_owner = [
        ("Authorization", owner.as_str()),
        ("Mcp-Session-Id", &session),
    ];
    let call = site.post(&as_owner, &tool(1, "echo")).await;
    assert_eq!(call.json().await["id"], 1);
    assert_eq!(site.send("DELETE", &as_owner, "").await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_end_with_the_login_that_opened_them() {
    let access = Access::new(rules());
    let site = Site::new(HttpOptions {
        access: access.clone(),
        ..HttpOptions::default()
    })
    .await;
    let mut host = HeaderMap::new();
    host.insert("host", site.address.to_string().parse().unwrap());
    let mut extensions = Extensions::new();
    extensions.insert(PeerUser::Same);
    let log_in = || {
        let set = access.log_in(&host, &extensions, TOKENS[0]).unwrap();
        let set = set.unwrap();
        set.to_str().unwrap().split(';').next().unwrap().to_owned()
    };
    let [first, second] = [log_in(), log_in()];
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
        {"protocolVersion": "2025-11-25", "capabilities": {}}});
    let begun = site.post(&[("Cookie", &first)], &hello).await;
    let session = begun.header("mcp-session-id").expect("a session");
    let as_first = [
        ("Cookie", first.as_str()),
        ("Mcp-Session-Id", &session),
        ("Accept", "text/event-stream"),
    ];
    let mut streams = Vec::new();
    for target in ["GET /mcp", "GET /sse"] {
        let headers = match target {
            "GET /sse" => &as_first[..1],
            _ => &as_first[..],
        };
        let open = site.send(target, headers, "").await;
        assert!(open.is_stream(), "{target}");
        streams.push(open);
    }
    let held = bearer(TOKENS[0]);
    let mut of_token = site.send("GET /sse", &[("Authorization", &held)], "").await;
    let mut other = site.send("GET /sse", &[("Cookie", &second)], "").await;
    let mut as_shown = host.clone();
    as_shown.insert("cookie", first.parse().unwrap());
    let _ = access.log_out(&as_shown, &extensions);
    for mut stream in streams {
        timeout(PATIENCE, async { while stream.event().await.is_some() {} })
            .await
            .unwrap();
    }
    assert_eq!(site.send("GET /sse", &as_first[..1], "").await.status, 401);
    // Streams of other logins continue.
    for stream in [&mut of_token, &mut other] {
        assert!(stream.event().await.is_some(), "the path of messages");
        assert!(stream.event().now_or_never().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_token_admits_no_request_and_ends_the_event_streams_of_its_holder() {
    let access = Access::new(rules());
    let site = Site::new(HttpOptions {
        access: access.clone(),
        ..HttpOptions::default()
    })
    .await;
    let mut host = HeaderMap::new();
    host.insert("host", site.address.to_string().parse().unwrap());
    let mut extensions = Extensions::new();
    extensions.insert(PeerUser::Same);
    let cookie = access.log_in(&host, &extensions, TOKENS[0]).unwrap();
    let cookie = cookie.unwrap().to_str().unwrap().to_owned();
    let cookie = cookie.split(';').next().unwrap();
    let [removed, other] = TOKENS.map(bearer);
    let of_removed = [("Authorization", removed.as_str()), ("Cookie", cookie)];
    let mut streams = Vec::new();
    for shown in of_removed {
        streams.push(site.send("GET /sse", &[shown], "").await);
    }
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
        {"protocolVersion": "2025-11-25", "capabilities": {}}});
    let begun = site.post(&of_removed[..1], &hello).await;
    let session = begun.header("mcp-session-id").expect("a session");
    let in_session = [of_removed[0], ("Mcp-Session-Id", session.as_str())];
    streams.push(site.post(&in_session, &tool(1, "never")).await);
    let mut of_other = site
        .send("GET /sse", &[("Authorization", &other)], "")
        .await;
    access.list_tokens(vec![TOKENS[1].parse().unwrap()]);
    for mut stream in streams {
        assert!(stream.is_stream());
        timeout(PATIENCE, async { while stream.event().await.is_some() {} })
            .await
            .unwrap();
    }
    for shown in of_removed {
        assert_eq!(site.send("GET /sse", &[shown], "").await.status, 401);
    }
    access.log_in(&host, &extensions, TOKENS[0]).unwrap_err();
    assert!(of_other.event().await.is_some(), "the path of messages");
    assert!(of_other.event().now_or_never().is_none());
    access.list_tokens(rules().tokens);
    for shown in of_removed {
        assert_eq!(site.send("GET /sse", &[shown], "").await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_host_or_origin_reaches_no_route() {
    let site = site(AccessRules::default()).await;
    for target in [
        "POST /mcp",
        "GET /mcp",
        "DELETE /mcp",
        "OPTIONS /mcp",
        "GET /sse",
        "POST /messages",
        "POST /rpc",
        "GET /",
    ] {
        for headers in [
            "Host: evil.example",
            "Host: localhost.evil.example:7420",
            "Host: localhost\r\nHost: evil.example",
            "Host: localhost\r\nOrigin: http://evil.example",
            "Host: localhost\r\nOrigin: null",
            "Host: localhost\r\nOrigin: http://localhost:1",
            "Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example",
        ] {
            let text = format!("{target} HTTP/1.1\r\n{headers}\r\nContent-Length: 0\r\n\r\n");
            let reply = raw(&site, &text).await;
            assert_eq!(reply.status, 403, "{text}");
            assert_eq!(reply.header("access-control-allow-origin"), None);
        }
    }
    let absolute = "GET http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(raw(&site, absolute).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_an_allowed_origin_may_call_and_read() {
    let page = "https://app.example";
    let site = site(AccessRules {
        origins: vec![page.parse().unwrap()],
        ..rules()
    })
    .await;
    let asks = [
        ("Origin", page),
        ("Access-Control-Request-Method", "POST"),
        (
            "Access-Control-Request-Headers",
            "authorization,content-type,mcp-param-region,x-evil",
        ),
    ];
    let preflight = site.send("OPTIONS", &asks, "").await;
    assert_eq!(preflight.status, 204, "asked before there is a token");
    let told = |name: &str| preflight.header(name).unwrap_or_default();
    assert_eq!(told("access-control-allow-origin"), page);
    assert_eq!(
        told("access-control-allow-headers"),
        "authorization, content-type, mcp-param-region"
    );
    assert!(told("access-control-allow-methods").contains("delete"));
    assert!(told("vary").contains("origin"));

    let held = bearer(TOKENS[0]);
    let headers = [("Origin", page), ("Authorization", held.as_str())];
    let answer = site.post(&headers, &tool(1, "echo")).await;
    assert_eq!(answer.status, 200);
    let refused = site.post(&headers[..1], &tool(1, "echo")).await;
    assert_eq!(refused.status, 401);
    for reply in [answer, refused] {
        let origin = reply.header("access-control-allow-origin");
        assert_eq!(origin.as_deref(), Some(page));
        let exposed = reply.header("access-control-expose-headers").unwrap();
        assert!(exposed.contains("mcp-session-id"), "{exposed}");
    }
    let asks = [("Origin", "https://evil.example"), asks[1], asks[2]];
    assert_eq!(site.send("OPTIONS", &asks, "").await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_too_much_waits_and_others_do_not() {
    let site = site(AccessRules {
        rate: Some(Rate {
            per_second: NonZeroU32::MIN,
            burst: NonZeroU32::new(2).unwrap(),
        }),
        ..rules()
    })
    .await;
    let [greedy, other] = TOKENS.map(bearer);
    let refused = async {
        loop {
            let reply = site
                .post(&[("Authorization", &greedy)], &tool(1, "echo"))
                .await;
            if reply.status != 200 {
                return reply;
            }
        }
    };
    let refused = timeout(PATIENCE, refused)
        .await
        .expect("the bucket is empty");
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(wait, 1, "one request a second");
    let served = site
        .post(&[("Authorization", &other)], &tool(1, "echo"))
        .await;
    assert_eq!(served.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_large_is_refused() {
    let site = site(AccessRules::default()).await;
    let request = |headers: &str| {
        format!("GET / HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n")
    };
    let many: String = (0..100)
        .map(|number| format!("X-{number}: x\r\n"))
        .collect();
    let long = format!("X: {}\r\n", "x".repeat(64 * 1024));
    for headers in [many, long] {
        let reply = raw(&site, &request(&headers)).await;
        assert_eq!(reply.status, 431);
    }
    let within = format!("X: {}\r\n", "x".repeat(32 * 1024));
    assert_eq!(raw(&site, &request(&within)).await.status, 404);
}
