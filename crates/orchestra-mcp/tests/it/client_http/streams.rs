//! Answers on event streams, and what comes with them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::Method;
use futures_util::FutureExt as _;
use orchestra_mcp::client::{
    Agreed, ClientError, ServerMessage,
    http::{Flavour, HttpConfig},
};
use orchestra_wire::{RawJson, RequestId, Revision};
use serde_json::{Value, json};
use tokio::{
    sync::{Mutex, Semaphore, mpsc},
    time::timeout,
};

use super::scripted::{
    Scripted, Seen, ask, connected, empty, event, events, json_of, outgoing, result, said,
};
use crate::http::PATIENCE;

#[tokio::test]
async fn what_comes_before_an_answer_says_to_which_call_it_belongs() {
    let (asks, mut asked) = mpsc::unbounded_channel();
    let server = Scripted::new(move |seen: Seen| {
        let asks = asks.clone();
        async move {
            if seen.rpc().is_empty() {
                return empty(202);
            }
            let (response, stream) = events();
            let note = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": 7, "progress":  1.50}});
            stream.send(event(&note)).unwrap();
            let question = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
            stream.send(event(&question)).unwrap();
            asks.send((seen, stream)).unwrap();
            response
        }
    });
    let server = server.await;
    let mut there = connected(server.config("/mcp")).await;
    let call = there.link.request(outgoing(5, "tools/call", &json!({})));
    let call = tokio::spawn(call);
    let (seen, stream) = timeout(PATIENCE, asked.recv()).await.unwrap().unwrap();

    let first = timeout(PATIENCE, there.incoming.recv())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(first.related, Some(RequestId::from_number(5)));
    let ServerMessage::Notification { method, params } = first.message else {
        panic!("{first:?}")
    };
    assert_eq!(method, "notifications/progress");
    // As it was written; in which order that was is up to who wrote it.
    let written = json!({"progressToken": 7, "progress": 1.50}).to_string();
    assert_eq!(params.unwrap().as_str(), written);
    let second = timeout(PATIENCE, there.incoming.recv())
        .await
        .unwrap()
        .unwrap();
    let ServerMessage::Request { id, method, params } = second.message else {
        panic!("{second:?}")
    };
    assert_eq!((&*method, params.is_none()), ("roots/list", true));
    let roots = RawJson::of(&json!({"roots": []})).unwrap();
    let answered = there.link.respond(id, Ok(roots));
    timeout(PATIENCE, answered).await.unwrap().unwrap();
    let answered = server.saw(|seen| seen.body["id"] == "q").await;
    let expected = json!({"jsonrpc": "2.0", "id": "q", "result": {"roots": []}});
    assert_eq!(answered.body, expected);

    stream
        .send(event(&seen.result(&json!({"done": true}))))
        .unwrap();
    let answer = timeout(PATIENCE, call)
        .await
        .unwrap()
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(answer.as_str(), r#"{"done":true}"#);
}

#[tokio::test]
async fn connections_are_used_again_after_an_event_stream() {
    let server = Scripted::new(|seen| async move {
        let (response, stream) = events();
        stream.send(event(&seen.result(&json!({})))).unwrap();
        response
    });
    let server = server.await;
    let there = connected(server.config("/mcp")).await;
    for id in 0..200 {
        result(&*there.link, id, "ping", &json!({})).await;
    }
    let connections = server.connections.load(Ordering::SeqCst);
    assert!(connections <= 20, "{connections} connections for 200 calls");
}

/// A stream that ends before its answer, and what the server says to whoever comes back.
async fn broken(
    first: &'static str,
    comes_back: fn(&Seen, &Value) -> axum::response::Response,
) -> Scripted {
    let open = Arc::new(Mutex::new(Value::Null));
    Scripted::new(move |seen: Seen| {
        let open = Arc::clone(&open);
        async move {
            match (seen.method.as_str(), seen.header("last-event-id")) {
                ("GET", Some(_)) => comes_back(&seen, &*open.lock().await),
                ("GET", None) => empty(405),
                _ if seen.rpc() == "initialize" => json_of(200, &seen.result(&json!({}))),
                _ => {
                    *open.lock().await = seen.result(&json!({"came": "back"}));
                    said(first)
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_stream_that_ends_before_its_answer_is_opened_again_behind_its_last_event() {
    let server = broken("id: e-1\nretry: 20\ndata:\n\n", |seen, answer| {
        assert_eq!(seen.header("last-event-id"), Some("e-1"));
        assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"));
        said(&event(answer))
    });
    let server = server.await;
    let there = connected(server.config("/mcp")).await;
    let revision = Revision::V2025_11_25;
    drop(there.link.agreed(Agreed { revision }));
    let got = result(&*there.link, 1, "tools/call", &json!({})).await;
    assert_eq!(got["came"], "back");
}

#[tokio::test]
async fn stream_that_ends_at_once_is_opened_again_after_a_pause() {
    const PAUSE: Duration = Duration::from_millis(100);
    let returns = Arc::new(AtomicUsize::new(0));
    let server = Scripted::new(move |seen: Seen| {
        let returns = Arc::clone(&returns);
        async move {
            let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"came": "back"}});
            match (seen.method.as_str(), seen.header("last-event-id")) {
                ("GET", Some(_)) if returns.fetch_add(1, Ordering::SeqCst) == 2 => {
                    said(&event(&answer))
                }
                ("GET", None) => empty(405),
                _ if seen.rpc() == "initialize" => json_of(200, &seen.result(&json!({}))),
                _ => said("id: 1\nretry: 0\ndata:\n\n"),
            }
        }
    });
    let server = server.await;
    let there = connected(server.config("/mcp")).await;
    let revision = Revision::V2025_11_25;
    drop(there.link.agreed(Agreed { revision }));
    let begun = Instant::now();
    let got = result(&*there.link, 1, "tools/call", &json!({})).await;
    assert_eq!(got["came"], "back");
    assert!(begun.elapsed() >= 3 * PAUSE);
}

#[tokio::test]
async fn a_stream_that_cannot_be_opened_again_is_broken() {
    for (first, revision, returns) in [
        // Nothing to go on from.
        ("retry: 20\ndata:\n\n", Revision::V2025_11_25, false),
        // An era without resumption.
        ("id: 1\nretry: 20\ndata:\n\n", Revision::V2026_07_28, false),
        // A server that does not know how.
        ("id: 1\nretry: 20\ndata:\n\n", Revision::V2025_11_25, true),
    ] {
        let server = broken(first, |_, _| empty(405)).await;
        let there = connected(server.config("/mcp")).await;
        drop(there.link.agreed(Agreed { revision }));
        let error = ask(&*there.link, 1, "tools/call", &json!({}))
            .await
            .unwrap_err();
        let ClientError::Http(failure) = &error else {
            panic!("{error:?}")
        };
        assert_eq!((failure.status, failure.sent), (0, true));
        assert!(failure.excerpt.contains("before the answer"), "{failure}");
        let returned = server
            .seen()
            .iter()
            .any(|seen| seen.header("last-event-id").is_some());
        assert_eq!(returned, returns);
    }
}

#[tokio::test]
async fn what_a_server_says_by_itself_is_heard() {
    let server = Scripted::new(|seen| async move {
        match seen.method {
            Method::GET if seen.header("last-event-id").is_none() => {
                let note = |name: &str| json!({"jsonrpc": "2.0", "method": name});
                let text = format!(
                    ": hello\n\nid: 1\nretry: 10\n{}data: nonsense\n\nevent: other\ndata: {{}}\n\n{}",
                    event(&note("notifications/one")),
                    event(&json!([
                        note("notifications/two"),
                        note("notifications/three")
                    ])),
                );
                said(&text)
            }
            Method::GET => {
                let (response, stream) = events();
                let note = json!({"jsonrpc": "2.0", "method": "notifications/four"});
                stream.send(event(&note)).unwrap();
                tokio::spawn(async move { stream.closed().await });
                response
            }
            _ => json_of(200, &seen.result(&json!({}))),
        }
    });
    let server = server.await;
    let mut there = connected(server.config("/mcp")).await;
    let revision = Revision::V2025_03_26;
    there.link.agreed(Agreed { revision }).await;
    for expected in ["one", "two", "three", "four"] {
        let heard = timeout(PATIENCE, there.incoming.recv())
            .await
            .unwrap()
            .unwrap();
        let ServerMessage::Notification { method, .. } = heard.message else {
            panic!("{heard:?}")
        };
        assert_eq!(method, format!("notifications/{expected}"));
        assert_eq!(heard.related, None);
    }
}

/// Without ids of events, nobody knows what was said between the two streams.
#[tokio::test]
async fn stream_that_is_opened_again_without_an_id_reports_missed_notifications() {
    let is_first = Arc::new(AtomicBool::new(true));
    let server = Scripted::new(move |seen: Seen| {
        let is_first = Arc::clone(&is_first);
        async move {
            match seen.method {
                Method::GET if is_first.swap(false, Ordering::SeqCst) => {
                    let note = json!({"jsonrpc": "2.0", "method": "notifications/one"});
                    said(&format!("retry: 10\n{}", event(&note)))
                }
                Method::GET => {
                    let (response, stream) = events();
                    tokio::spawn(async move { stream.closed().await });
                    response
                }
                _ => json_of(200, &seen.result(&json!({}))),
            }
        }
    });
    let server = server.await;
    let mut there = connected(server.config("/mcp")).await;
    let revision = Revision::V2025_11_25;
    there.link.agreed(Agreed { revision }).await;
    let mut heard = async || {
        let heard = timeout(PATIENCE, there.incoming.recv()).await;
        heard
            .expect("it is heard")
            .expect("the link goes on")
            .message
    };
    let first = heard().await;
    assert!(matches!(first, ServerMessage::Notification { .. }));
    assert!(matches!(heard().await, ServerMessage::Missed));
}

/// A server drops what it asks while it cannot be heard, so nobody may call before that.
#[tokio::test]
async fn a_session_waits_until_its_server_can_be_heard() {
    let lets = Arc::new(Semaphore::new(0));
    let opens = Arc::clone(&lets);
    let server = Scripted::new(move |seen: Seen| {
        let opens = Arc::clone(&opens);
        async move {
            if seen.method != Method::GET {
                return json_of(200, &seen.result(&json!({})));
            }
            opens.acquire().await.unwrap().forget();
            let (response, stream) = events();
            tokio::spawn(async move { stream.closed().await });
            response
        }
    });
    let server = server.await;
    let there = connected(server.config("/mcp")).await;
    let revision = Revision::V2025_11_25;
    let mut listening = there.link.agreed(Agreed { revision });
    server.saw(|seen| seen.method == Method::GET).await;
    assert_eq!((&mut listening).now_or_never(), None);
    lets.add_permits(1);
    timeout(PATIENCE, listening).await.unwrap();
}

/// A server of 2024-11-05: a stream, and a place to post to that answers on it.
async fn old_server() -> Scripted {
    let open = Arc::new(Mutex::new(None::<mpsc::UnboundedSender<String>>));
    Scripted::new(move |seen: Seen| {
        let open = Arc::clone(&open);
        async move {
            match (seen.method.as_str(), &*seen.path) {
                ("GET", "/sse") => {
                    let (response, stream) = events();
                    stream
                        .send("event: endpoint\ndata: /messages?id=1\n\n".into())
                        .unwrap();
                    *open.lock().await = Some(stream);
                    response
                }
                ("POST", "/messages") => {
                    let open = open.lock().await;
                    let stream = open.as_ref().unwrap();
                    if seen.rpc() == "tell" {
                        let note = json!({"jsonrpc": "2.0", "method": "notifications/told"});
                        stream.send(event(&note)).unwrap();
                    }
                    if seen.rpc() != "never" && !seen.body["id"].is_null() {
                        let answer = seen.result(&json!({"asked": seen.rpc()}));
                        stream.send(event(&answer)).unwrap();
                    }
                    empty(202)
                }
                ("POST", "/hang-up") => {
                    open.lock().await.take();
                    empty(200)
                }
                _ => empty(404),
            }
        }
    })
    .await
}

async fn old_pair(flavour: Flavour) {
    let server = old_server().await;
    let mut config: HttpConfig = server.config("/sse");
    config.flavour = flavour;
    let mut there = connected(config).await;
    let got = result(&*there.link, 1, "initialize", &super::greeting()).await;
    assert_eq!(got["asked"], "initialize");
    let revision = Revision::V2024_11_05;
    drop(there.link.agreed(Agreed { revision }));
    there
        .link
        .notify("notifications/initialized", None)
        .await
        .unwrap();
    let got = result(&*there.link, 2, "tell", &json!({})).await;
    assert_eq!(got["asked"], "tell");
    assert!(there.incoming.recv().await.is_some());
    let posted = server.saw(|seen| seen.rpc() == "tell").await;
    assert_eq!(&*posted.path, "/messages");

    // The end of the stream is that of the connection.
    let call = tokio::spawn(there.link.request(outgoing(3, "never", &json!({}))));
    server.saw(|seen| seen.rpc() == "never").await;
    let url = format!("http://{}/hang-up", server.address);
    let hung_up = connected(HttpConfig::new("other", url.parse().unwrap())).await;
    let told = hung_up.link.notify("hang-up", None).await;
    told.unwrap();
    let error = timeout(PATIENCE, call).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Closed), "{error:?}");
    assert!(there.incoming.recv().await.is_none());
}

#[tokio::test]
async fn the_old_pair_is_spoken_where_it_is_asked_for() {
    old_pair(Flavour::Sse).await;
}

#[tokio::test]
async fn the_old_pair_is_found_where_the_newer_transport_is_not_known() {
    old_pair(Flavour::Auto).await;
}

#[tokio::test]
async fn a_place_to_post_to_of_another_origin_is_refused() {
    let server =
        Scripted::new(|_| async { said("event: endpoint\ndata: http://127.0.0.2:1/steal\n\n") });
    let server = server.await;
    let mut config = server.config("/sse");
    config.flavour = Flavour::Sse;
    let connector = orchestra_mcp::client::http::HttpConnector::new(config).unwrap();
    let opened = orchestra_mcp::client::Connector::connect(&connector).await;
    let error = opened.map(drop).unwrap_err();
    assert!(error.to_string().contains("another origin"), "{error}");
}
