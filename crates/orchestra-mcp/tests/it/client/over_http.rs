//! The client against servers over real HTTP that fail, refuse and forget for a while.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::response::Response;
use orchestra_hub::ListKind;
use orchestra_mcp::client::{
    Backoff, Client, ClientConfig, ClientError, Growth, Retry, Sent, http::HttpConnector,
};
use serde_json::{Value, json};

use super::{config, result, safe, tool};
use crate::client_http::scripted::{Scripted, Seen, empty, json_of, with};

/// A client that does not pause for long.
fn client_of(server: &Scripted) -> Client {
    let config = ClientConfig {
        retry: Retry {
            attempts: 3,
            backoff: Backoff {
                first: Duration::from_millis(5),
                growth: Growth::Constant,
                cap: Duration::from_millis(5),
                jitter: 0.0,
            },
            unsafe_calls: false,
        },
        ..config()
    };
    let connector = HttpConnector::new(server.config("/mcp")).unwrap();
    Client::new(Arc::new(connector), config)
}

/// What a server of the session era answers to everything but calls.
fn greeting(seen: &Seen) -> Response {
    match seen.rpc() {
        "initialize" => json_of(
            200,
            &seen.result(&json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
            })),
        ),
        "server/discover" => empty(400),
        "" => empty(405),
        _ => empty(202),
    }
}

/// A server whose calls are answered by these, one after the other, and then well.
async fn that_answers(answers: Vec<fn(&Seen) -> Response>) -> Scripted {
    let calls = Arc::<AtomicUsize>::default();
    Scripted::new(move |seen| {
        let (calls, answers) = (Arc::clone(&calls), answers.clone());
        async move {
            if seen.rpc() != "tools/call" {
                return greeting(&seen);
            }
            let call = calls.fetch_add(1, Ordering::SeqCst);
            match answers.get(call) {
                Some(answer) => answer(&seen),
                None => json_of(200, &seen.result(&json!({"call": call}))),
            }
        }
    })
    .await
}

/// A server whose first list of tools is answered so.
async fn that_lists(first: fn(&Seen) -> Response) -> Scripted {
    let lists = Arc::<AtomicUsize>::default();
    Scripted::new(move |seen| {
        let lists = Arc::clone(&lists);
        async move {
            if seen.rpc() != "tools/list" {
                return greeting(&seen);
            }
            if lists.fetch_add(1, Ordering::SeqCst) == 0 {
                return first(&seen);
            }
            let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
            json_of(200, &seen.result(&json!({"tools": [tool]})))
        }
    })
    .await
}

fn calls(server: &Scripted) -> usize {
    let seen = server.seen().into_iter();
    seen.filter(|seen| seen.rpc() == "tools/call").count()
}

#[tokio::test]
async fn what_fails_for_a_while_is_answered_where_it_may_run_twice() {
    let refusals: [fn(&Seen) -> Response; 4] = [
        |_| empty(503),
        |_| empty(500),
        |_| with(429, &[("retry-after", "0")], ""),
        // A moment that has passed, as servers of old write it.
        |_| {
            with(
                503,
                &[("retry-after", "Sunday, 06-Nov-94 08:49:37 GMT")],
                "",
            )
        },
    ];
    for refusal in refusals {
        let server = that_answers(vec![refusal]).await;
        let client = client_of(&server);
        assert_eq!(result(&client, safe("t")).await["call"], 1);
        // What may not run twice is not repeated, and its caller is told that it may have run.
        let server = that_answers(vec![refusal]).await;
        let client = client_of(&server);
        let error = client.call(tool("t")).await.unwrap_err();
        assert!(matches!(error, ClientError::Http(_)), "{error:?}");
        assert_eq!((error.sent(), calls(&server)), (Sent::Maybe, 1));
        assert_eq!(result(&client, tool("t")).await["call"], 1);
    }
}

#[tokio::test]
async fn server_that_refuses_the_notification_after_the_greeting_is_called_all_the_same() {
    for status in [400, 405, 500, 501] {
        let server = Scripted::new(move |seen| async move {
            match seen.rpc() {
                "notifications/initialized" => empty(status),
                "tools/call" => json_of(200, &seen.result(&json!({"is": "called"}))),
                _ => greeting(&seen),
            }
        })
        .await;
        let client = client_of(&server);
        let result = result(&client, tool("t")).await;
        assert_eq!(result["is"], "called", "{status}");
    }
}

#[tokio::test]
async fn list_that_fails_for_a_moment_is_fetched_again() {
    let refusals: [fn(&Seen) -> Response; 5] = [
        |_| empty(502),
        |_| empty(503),
        |_| empty(504),
        |_| with(429, &[("retry-after", "0")], ""),
        |seen| {
            let error = json!({"code": -32603, "message": "not yet"});
            json_of(
                200,
                &json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}),
            )
        },
    ];
    let lists = |server: &Scripted| {
        let seen = server.seen().into_iter();
        seen.filter(|seen| seen.rpc() == "tools/list").count()
    };
    for refusal in refusals {
        let server = that_lists(refusal).await;
        let client = client_of(&server);
        let within = Duration::from_secs(10);
        let tools = client.list_within(ListKind::Tools, within).await.unwrap();
        assert_eq!((tools.len(), lists(&server)), (1, 2));
    }
    // A later time than that until which the caller waits, and an answer that stays the same.
    let refusals: [fn(&Seen) -> Response; 2] = [
        |_| with(429, &[("retry-after", "60")], ""),
        |seen| {
            let error = json!({"code": -32602, "message": "bad"});
            json_of(
                200,
                &json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}),
            )
        },
    ];
    for refusal in refusals {
        let server = that_lists(refusal).await;
        let client = client_of(&server);
        let within = Duration::from_secs(10);
        let listed = client.list_within(ListKind::Tools, within).await;
        assert!(listed.is_err(), "{listed:?}");
        assert_eq!(lists(&server), 1);
    }
}

#[tokio::test]
async fn a_session_that_is_forgotten_is_begun_anew_and_its_call_is_made_again() {
    let sessions = Arc::<AtomicUsize>::default();
    let server = Scripted::new(move |seen| {
        let sessions = Arc::clone(&sessions);
        async move {
            match (seen.rpc(), seen.header("mcp-session-id")) {
                ("initialize", _) => {
                    let session = format!("s-{}", sessions.fetch_add(1, Ordering::SeqCst));
                    let answer = greeting(&seen);
                    let mut answer = answer;
                    let headers = answer.headers_mut();
                    headers.insert("mcp-session-id", session.parse().unwrap());
                    answer
                }
                ("tools/call", Some("s-0")) if seen.body["params"]["name"] == "late" => {
                    json_of(404, &json!({"error": "no such session"}))
                }
                ("tools/call", session) => {
                    let session: Value = session.into();
                    json_of(200, &seen.result(&json!({ "session": session })))
                }
                _ => greeting(&seen),
            }
        }
    });
    let server = server.await;
    let client = client_of(&server);
    assert_eq!(result(&client, tool("t")).await["session"], "s-0");
    // It did not run, so that it is harmless to make it again, whatever it does.
    assert_eq!(result(&client, tool("late")).await["session"], "s-1");
    assert_eq!(calls(&server), 3);
    let initialized = |seen: &Seen| seen.rpc() == "notifications/initialized";
    assert_eq!(
        server
            .seen()
            .iter()
            .filter(|seen| initialized(seen))
            .count(),
        2
    );
}
