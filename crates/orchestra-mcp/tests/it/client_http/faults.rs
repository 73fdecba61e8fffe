//! Servers that fail, break off, flood or say nothing.

use std::{io::Write, sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use orchestra_mcp::client::{ClientError, HttpFailure, MAX_MESSAGE_BYTES, Sent};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
    time::timeout,
};

use super::scripted::{
    Scripted, ask, connected, empty, events, json_of, outgoing, result, said, with,
};
use crate::http::PATIENCE;

fn http(error: &ClientError) -> Arc<HttpFailure> {
    match error {
        ClientError::Http(failure) => Arc::clone(failure),
        other => panic!("{other:?}"),
    }
}

fn invalid(error: &ClientError) -> &str {
    match error {
        ClientError::InvalidMessage { what } => what,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn statuses_are_told_with_the_wait_that_they_name() {
    let server = Scripted::new(|seen| async move {
        match seen.rpc() {
            "503" => with(503, &[("retry-after", "7")], "down for repairs"),
            "429" => with(429, &[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], ""),
            "500" => empty(500),
            _ => with(418, &[], "<html>\n  <b>teapot</b>"),
        }
    });
    let server = server.await;
    let there = connected(server.config("/mcp")).await;
    let failed = async |method: &str| {
        let error = ask(&*there.link, 1, method, &json!({})).await.unwrap_err();
        (http(&error), error.is_retryable())
    };
    let (failure, retryable) = failed("503").await;
    assert_eq!((failure.status, failure.sent, retryable), (503, true, true));
    assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(failure.excerpt, "down for repairs");
    let (failure, retryable) = failed("429").await;
    assert_eq!(
        (failure.retry_after, retryable),
        (Some(Duration::ZERO), true)
    );
    let (failure, retryable) = failed("500").await;
    assert_eq!(
        (failure.status, failure.retry_after, retryable),
        (500, None, true)
    );
    let (failure, retryable) = failed("418").await;
    assert_eq!(
        (&*failure.excerpt, retryable),
        ("an HTML page: teapot", false)
    );
}

#[tokio::test]
async fn nobody_there_is_told_apart_from_a_connection_that_breaks() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let breaks = tokio::spawn(async move {
        // Once before a response, once in the middle of one, and then nobody is there.
        for said in [
            "",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{",
        ] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = [0; 4096];
            assert!(stream.read(&mut read).await.unwrap() > 0);
            stream.write_all(said.as_bytes()).await.unwrap();
            reset(stream);
        }
    });
    let url = format!("http://{address}/").parse().unwrap();
    let there = connected(orchestra_mcp::client::http::HttpConfig::new("there", url)).await;
    for _ in 0..2 {
        let error = ask(&*there.link, 1, "ping", &json!({})).await.unwrap_err();
        let failure = http(&error);
        assert_eq!((failure.status, failure.sent), (0, true), "{failure}");
        assert!(!failure.excerpt.contains("http://"), "{failure}");
    }
    breaks.await.unwrap();
    let error = ask(&*there.link, 1, "ping", &json!({})).await.unwrap_err();
    assert!(
        matches!(error, ClientError::Unreachable { .. }),
        "{error:?}"
    );
    assert_eq!(error.sent(), Sent::No);
}

/// Ends a connection by a reset.
fn reset(stream: tokio::net::TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}

#[tokio::test]
async fn a_body_without_end_is_given_up_at_the_bound() {
    let server = Scripted::new(|seen| async move {
        let filling = || {
            let piece = bytes::Bytes::from(vec![b'x'; 1 << 20]);
            futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone()))
        };
        let kind = match seen.rpc() {
            "json" | "long" => "application/json",
            _ => "text/event-stream",
        };
        let response = Response::builder().header("content-type", kind);
        match seen.rpc() {
            // 100 MiB that are announced.
            "long" => response
                .header("content-length", (100 << 20).to_string())
                .body(Body::from_stream(futures_util::StreamExt::take(
                    filling(),
                    100,
                )))
                .unwrap(),
            _ => response.body(Body::from_stream(filling())).unwrap(),
        }
    });
    let server = server.await;
    let there = connected(server.config("/mcp")).await;
    for method in ["json", "events", "long"] {
        let error = ask(&*there.link, 1, method, &json!({})).await.unwrap_err();
        let what = invalid(&error);
        let bound = format!("larger than {MAX_MESSAGE_BYTES} bytes");
        assert!(what.contains(&bound), "{what}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_or_stops_is_given_up() {
    let (keep, mut kept) = mpsc::unbounded_channel();
    let server = Scripted::new(move |seen| {
        let keep = keep.clone();
        async move {
            match seen.rpc() {
                "silent" => std::future::pending().await,
                _ => {
                    let (response, stream) = events();
                    stream.send(": working\n\n".into()).unwrap();
                    keep.send(stream).unwrap();
                    response
                }
            }
        }
    });
    let server = server.await;
    let mut config = server.config("/mcp");
    // Longer than a busy machine takes to greet.
    config.timeouts.first_byte = Duration::from_secs(2);
    config.timeouts.idle_stream = Duration::from_secs(2);
    let there = connected(config).await;
    for method in ["silent", "stops"] {
        let error = ask(&*there.link, 1, method, &json!({})).await.unwrap_err();
        assert!(matches!(error, ClientError::Timeout { .. }), "{error:?}");
    }
    // The stream was let go.
    let stream = kept.recv().await.unwrap();
    timeout(PATIENCE, stream.closed()).await.unwrap();
}

#[tokio::test]
async fn a_call_that_is_given_up_closes_its_stream() {
    let (keep, mut kept) = mpsc::unbounded_channel();
    let server = Scripted::new(move |_| {
        let keep = keep.clone();
        async move {
            let (response, stream) = events();
            keep.send(stream).unwrap();
            response
        }
    });
    let server = server.await;
    let there = connected(server.config("/mcp")).await;
    let call = tokio::spawn(there.link.request(outgoing(1, "tools/call", &json!({}))));
    let stream = timeout(PATIENCE, kept.recv()).await.unwrap().unwrap();
    call.abort();
    timeout(PATIENCE, stream.closed()).await.unwrap();

    // So does the end of the connection, which its calls are told.
    let call = tokio::spawn(there.link.request(outgoing(2, "tools/call", &json!({}))));
    let stream = timeout(PATIENCE, kept.recv()).await.unwrap().unwrap();
    timeout(PATIENCE, there.link.close()).await.unwrap();
    let error = timeout(PATIENCE, call).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Closed));
    timeout(PATIENCE, stream.closed()).await.unwrap();
}

#[tokio::test]
async fn an_answer_of_a_strange_form_is_understood() {
    let server = Scripted::new(|seen| async move {
        let id = seen.body["id"].clone();
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": 1}).to_string();
        let plain = [("content-type", "text/plain")];
        match seen.rpc() {
            "plain" => with(200, &plain, &answer),
            "untyped" => with(200, &[], &format!("\r\n{answer}\r\n")),
            "marked" => with(
                200,
                &[("content-type", "Application/JSON")],
                &format!("\u{feff}{answer}"),
            ),
            "other" => with(200, &[("content-type", "application/json-rpc")], &answer),
            "events" => with(
                200,
                &plain,
                &format!("event: message\r\ndata:{answer}\r\n\r\n"),
            ),
            // The blank line behind the last event is missing.
            "cut" => with(
                200,
                &[("content-type", "text/event-stream")],
                &format!("data: {answer}"),
            ),
            "text_id" => json_of(200, &json!({"jsonrpc": "2.0", "id": "1", "result": 1})),
            "float_id" => with(
                200,
                &[("content-type", "application/json")],
                r#"{"jsonrpc":"2.0","id":1.0,"result":1,"error":null}"#,
            ),
            _ => json_of(
                200,
                &json!({"jsonrpc": "2.0", "id": id, "error": "it broke"}),
            ),
        }
    });
    let server = server.await;
    let there = connected(server.config("/mcp")).await;
    for method in [
        "plain", "untyped", "marked", "other", "events", "cut", "text_id", "float_id",
    ] {
        assert_eq!(
            result(&*there.link, 1, method, &json!({})).await,
            json!(1),
            "{method}"
        );
    }
    let error = ask(&*there.link, 1, "error", &json!({})).await.unwrap();
    assert_eq!(error.unwrap_err().message, "it broke");
}

/// Compresses a text as a server does, in more than one piece.
fn compressed(coding: &str, text: &str) -> Vec<u8> {
    let (first, rest) = text.split_at(text.len() / 2);
    let level = flate2::Compression::best();
    let written = |writer: &mut dyn Write, text: &str| writer.write_all(text.as_bytes()).unwrap();
    match coding {
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), level);
            written(&mut encoder, text);
            encoder.finish().unwrap()
        }
        "raw" => {
            let mut encoder = DeflateEncoder::new(Vec::new(), level);
            written(&mut encoder, text);
            encoder.finish().unwrap()
        }
        _ => {
            let mut all = Vec::new();
            for part in [first, rest] {
                let mut encoder = GzEncoder::new(all, level);
                written(&mut encoder, part);
                all = encoder.finish().unwrap();
            }
            all
        }
    }
}

#[tokio::test]
async fn response_compressed_against_the_request_is_read() {
    let server = Scripted::new(|seen| async move {
        assert_eq!(seen.header("accept-encoding"), Some("identity"));
        let id = seen.body["id"].clone();
        let long = "x".repeat(100_000);
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": long}).to_string();
        let (coding, form) = seen.rpc().split_once('/').unwrap();
        let (kind, text) = match form {
            "json" => ("application/json", answer),
            _ => ("text/event-stream", format!("data: {answer}\n\n")),
        };
        let name = coding.replace("raw", "deflate");
        let mut body = compressed(coding, &text);
        if form == "cut" {
            body.truncate(body.len() / 2);
        }
        let mut response = with(
            200,
            &[("content-type", kind), ("content-encoding", &name)],
            "",
        );
        *response.body_mut() = Body::from(body);
        response
    });
    let server = server.await;
    let mut config = server.config("/mcp");
    config.max_message_bytes = 200_000;
    let there = connected(config).await;
    for method in [
        "gzip/json",
        "x-gzip/json",
        "GZIP/json",
        "deflate/json",
        "raw/json",
        "gzip/events",
        "deflate/events",
    ] {
        let got = result(&*there.link, 1, method, &json!({})).await;
        assert_eq!(got.as_str().map(str::len), Some(100_000), "{method}");
    }
    let cut = ask(&*there.link, 1, "gzip/cut", &json!({})).await;
    http(&cut.unwrap_err());
    let unknown = ask(&*there.link, 1, "br/json", &json!({})).await;
    let error = unknown.unwrap_err();
    assert!(invalid(&error).contains("coding \"br\""), "{error:?}");
}

#[tokio::test]
async fn response_with_many_codings_is_refused() {
    let server = Scripted::new(|seen| async move {
        let (status, count) = seen.rpc().split_once('/').unwrap();
        let coding = vec!["gzip"; count.parse().unwrap()].join(",");
        let headers = [
            ("content-type", "application/json"),
            ("content-encoding", &*coding),
        ];
        let mut response = with(status.parse().unwrap(), &headers, "");
        let text = seen.result(&json!({})).to_string();
        let once = compressed("gzip", &text);
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&once).unwrap();
        *response.body_mut() = Body::from(encoder.finish().unwrap());
        response
    });
    let server = server.await;
    let there = connected(server.config("/mcp")).await;
    result(&*there.link, 1, "200/2", &json!({})).await;
    for method in ["200/3", "200/10000"] {
        let error = ask(&*there.link, 1, method, &json!({})).await.unwrap_err();
        let what = invalid(&error);
        assert!(what.contains("more than 2 content codings"), "{what}");
    }
    let error = ask(&*there.link, 1, "503/10000", &json!({})).await;
    assert_eq!(http(&error.unwrap_err()).status, 503);
}

#[tokio::test]
async fn compressed_response_is_read_up_to_the_bound() {
    let server = Scripted::new(|_| async move {
        let mut response = with(
            200,
            &[
                ("content-type", "application/json"),
                ("content-encoding", "gzip"),
            ],
            "",
        );
        *response.body_mut() = Body::from(compressed("gzip", &" ".repeat(50_000_000)));
        response
    });
    let server = server.await;
    let mut config = server.config("/mcp");
    config.max_message_bytes = 100_000;
    let there = connected(config).await;
    let error = ask(&*there.link, 1, "a", &json!({})).await.unwrap_err();
    assert!(invalid(&error).contains("larger than"), "{error:?}");
}

#[tokio::test]
async fn what_is_no_response_is_said_to_be_none() {
    let server = Scripted::new(|seen| async move {
        let id = seen.body["id"].clone();
        match seen.rpc() {
            "text" => with(200, &[("content-type", "text/plain")], "hello"),
            "nothing" => empty(202),
            "empty" => with(200, &[("content-type", "application/json")], ""),
            "garbage" => with(200, &[("content-type", "application/json")], "{\"a\":"),
            "deep" => {
                let body = "[".repeat(200) + &"]".repeat(200);
                let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{body}}}"#);
                with(200, &[("content-type", "application/json")], &body)
            }
            "both" => json_of(
                200,
                &json!({"jsonrpc": "2.0", "id": id, "result": 1, "error": {"code": 1}}),
            ),
            "wrong" => json_of(200, &json!({"jsonrpc": "2.0", "id": "wrong", "result": 1})),
            "null" => json_of(200, &json!({"jsonrpc": "2.0", "id": id, "result": null})),
            // Garbage before an answer is left out.
            _ => {
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": 1});
                said(&format!(
                    "data: garbage\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":2}}\n\ndata: {answer}\n\n"
                ))
            }
        }
    });
    let server = server.await;
    let there = connected(server.config("/mcp")).await;
    for (method, told) in [
        ("text", "without JSON or events: hello"),
        ("nothing", "HTTP status 202"),
        ("empty", "an empty body"),
        ("garbage", "not a single JSON value: {\"a\":"),
        ("deep", "nested too deep"),
        ("both", "neither a request nor a response"),
        ("wrong", "no response to the request 1"),
    ] {
        let error = ask(&*there.link, 1, method, &json!({})).await.unwrap_err();
        assert!(invalid(&error).contains(told), "{method}: {error:?}");
    }
    assert_eq!(
        result(&*there.link, 1, "null", &json!({})).await,
        json!(null)
    );
    assert_eq!(result(&*there.link, 1, "good", &json!({})).await, json!(1));
}
