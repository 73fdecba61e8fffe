//! The link over lines, in memory.

use std::{io::Write as _, sync::Arc, time::Duration};

use orchestra_mcp::client::{
    ClientError, Connected, LINK_QUEUE, LinesConfig, LinesLink, Link, Outgoing, ServerMessage,
};
use orchestra_wire::{ErrorCode, RawJson, RequestId, RpcError};
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf,
        duplex, split,
    },
    net::UnixStream,
    time::{Instant, timeout},
};

const PATIENCE: Duration = Duration::from_secs(30);

struct Ends {
    link: Arc<LinesLink>,
    connected: Connected,
    reads: BufReader<ReadHalf<DuplexStream>>,
    writes: WriteHalf<DuplexStream>,
}

/// A link and its other end, between which so many bytes fit.
fn ends(bytes: usize) -> Ends {
    let (ours, theirs) = duplex(bytes);
    let (read, write) = split(ours);
    let config = LinesConfig {
        name: "memory".to_owned(),
        max_message_bytes: 1 << 20,
        max_junk_lines: 20,
    };
    let (link, connected) = LinesLink::over(read, write, config);
    let (reads, writes) = split(theirs);
    let reads = BufReader::new(reads);
    Ends {
        link,
        connected,
        reads,
        writes,
    }
}

impl Ends {
    async fn read(&mut self) -> Value {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.reads.read_line(&mut line)).await;
        read.expect("a line comes").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn say(&mut self, text: &str) {
        let line = format!("{text}\n");
        self.writes.write_all(line.as_bytes()).await.unwrap();
    }
}

fn request(id: &str, params: &Value) -> Outgoing {
    Outgoing {
        along: Default::default(),
        departure: None,
        id: RequestId::from_raw(serde_json::from_str(id).unwrap()).unwrap(),
        method: "test/this".to_owned(),
        params: Some(RawJson::of(params).unwrap()),
        name: None,
        headers: Vec::new(),
    }
}

#[tokio::test]
async fn ids_of_every_form_are_matched_exactly() {
    let mut ends = ends(1 << 16);
    let ids = ["1", "\"1\"", "\"a\\u0062\"", "99999999999999999999999999"];
    let calls = ids.map(|id| tokio::spawn(ends.link.request(request(id, &json!({})))));
    for _ in ids {
        let sent = ends.read().await;
        assert_eq!(sent["method"], "test/this");
    }
    for id in ids.iter().rev() {
        ends.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{id}}}"#))
            .await;
    }
    for (id, call) in ids.iter().zip(calls) {
        let result = call.await.unwrap().unwrap().unwrap();
        assert_eq!(result.as_str(), *id);
    }
}

#[tokio::test]
async fn last_of_repeated_keys_of_an_answer_counts() {
    let mut ends = ends(1 << 16);
    for answer in [
        r#"{"jsonrpc":"2.0","id":3,"id":3,"result":{}}"#,
        r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":3,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":[],"result":{}}"#,
    ] {
        let call = tokio::spawn(ends.link.request(request("3", &json!({}))));
        ends.read().await;
        ends.say(answer).await;
        let result = timeout(PATIENCE, call).await.expect("an answer").unwrap();
        assert_eq!(result.unwrap().unwrap().as_str(), "{}", "{answer}");
    }
}

#[tokio::test]
async fn error_without_an_id_answers_the_sole_request() {
    let mut ends = ends(1 << 16);
    for id in [r#""id":null,"#, "", r#""id":[3],"#] {
        let call = tokio::spawn(ends.link.request(request("3", &json!({}))));
        ends.read().await;
        let error = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-1,"message":"m"}}}}"#);
        ends.say(&error).await;
        let answer = timeout(PATIENCE, call).await.expect("an answer").unwrap();
        assert_eq!(answer.unwrap().unwrap_err().message, "m");
    }
    // It may be about the notification, or about either request.
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}"#;
    ends.link.notify("test/notice", None).await.unwrap();
    ends.read().await;
    for ids in [&["4"][..], &["5", "6"]] {
        let calls: Vec<_> = { ids.iter() }
            .map(|id| tokio::spawn(ends.link.request(request(id, &json!({})))))
            .collect();
        for _ in ids {
            ends.read().await;
        }
        ends.say(error).await;
        for id in ids {
            ends.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
                .await;
        }
        for call in calls {
            call.await.unwrap().unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn late_error_about_a_message_without_an_answer_fails_no_later_request() {
    let mut ends = ends(1 << 16);
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}"#;
    for message in ["notification", "response", "refusal"] {
        let earlier = tokio::spawn(ends.link.request(request("1", &json!({}))));
        ends.read().await;
        match message {
            "notification" => ends.link.notify("test/notice", None).await.unwrap(),
            "response" => {
                let id = request("7", &json!({})).id;
                let answer = RpcError::new(ErrorCode::INTERNAL_ERROR, "m");
                ends.link.respond(id, Err(answer)).await.unwrap();
            }
            _ => ends.say(r#"{"jsonrpc":"2.0","id":7,"method":7}"#).await,
        }
        ends.read().await;
        ends.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
        earlier.await.unwrap().unwrap().unwrap();
        let later = tokio::spawn(ends.link.request(request("2", &json!({}))));
        ends.read().await;
        ends.say(error).await;
        ends.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        let answer = later.await.unwrap().unwrap();
        assert!(answer.is_ok(), "{message}: {answer:?}");
    }
}

#[tokio::test]
async fn error_without_an_id_after_a_result_of_ours_fails_the_only_request() {
    let mut ends = ends(1 << 16);
    let result = RawJson::of(&json!({})).unwrap();
    let id = request("7", &json!({})).id;
    ends.link.respond(id, Ok(result)).await.unwrap();
    ends.read().await;
    let waiting = tokio::spawn(ends.link.request(request("1", &json!({}))));
    ends.read().await;
    ends.say(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#)
        .await;
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!(answer.unwrap_err().code, ErrorCode(-32_700));
}

/// A stream that takes little at a time loses nothing, mixes nothing, and makes callers wait.
#[tokio::test]
async fn a_server_that_reads_slowly_makes_callers_wait_and_loses_nothing() {
    let mut ends = ends(1_000);
    let text = "x".repeat(100_000);
    let calls: Vec<_> = (1..=100)
        .map(|id| {
            let params = json!({"number": id, "text": text});
            tokio::spawn(ends.link.request(request(&id.to_string(), &params)))
        })
        .collect();
    let mut seen = Vec::new();
    for _ in 1..=100 {
        let sent = ends.read().await;
        assert_eq!(sent["params"]["text"], text);
        seen.push(sent["id"].as_u64().unwrap());
    }
    // Those that found no room come when there is some, in whichever order.
    seen.sort_unstable();
    assert_eq!(seen, (1..=100).collect::<Vec<_>>());
    for id in 1..=100 {
        ends.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
            .await;
    }
    for call in calls {
        call.await.unwrap().unwrap().unwrap();
    }
}

/// Whoever waits for room, without waiting for an answer, does not wait for ever.
#[tokio::test]
async fn the_end_of_the_stream_ends_those_who_wait_for_room() {
    let ends = ends(100);
    let params = RawJson::of(&"x".repeat(3 << 20)).unwrap();
    let waiting: Vec<_> = (0..4)
        .map(|_| tokio::spawn(ends.link.notify("x", Some(params.clone()))))
        .collect();
    tokio::task::yield_now().await;
    drop((ends.reads, ends.writes));
    let mut refused = 0;
    for waiting in waiting {
        let told = timeout(PATIENCE, waiting).await.expect("it ends").unwrap();
        refused += usize::from(told.is_err());
    }
    assert!(refused > 0);
}

#[tokio::test]
async fn requests_of_the_server_are_told_answered_and_bounded() {
    let mut ends = ends(1 << 20);
    ends.say(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list","params":{"a":[1, 2]}}"#)
        .await;
    let heard = ends.connected.incoming.recv().await.unwrap();
    let ServerMessage::Request { id, method, params } = heard.message else {
        panic!("a request")
    };
    assert_eq!((id.as_json(), method.as_str()), ("\"r\"", "roots/list"));
    assert_eq!(params.unwrap().as_str(), r#"{"a":[1, 2]}"#);
    let answer = Ok(RawJson::of(&json!({"roots": []})).unwrap());
    ends.link.respond(id, answer).await.unwrap();
    let expected = json!({"jsonrpc": "2.0", "id": "r", "result": {"roots": []}});
    assert_eq!(ends.read().await, expected);
    for id in 0..=LINK_QUEUE {
        ends.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#))
            .await;
    }
    let refused = ends.read().await;
    assert_eq!(refused["id"], LINK_QUEUE);
    assert_eq!(refused["error"]["code"], -32603);
    // A request that is none is refused too.
    ends.say(r#"{"id":5,"method":"ping"}"#).await;
    assert_eq!(ends.read().await["error"]["code"], -32600);
}

#[tokio::test]
async fn notifications_that_find_no_room_are_reported_as_missed() {
    let mut ends = ends(1 << 20);
    for _ in 0..LINK_QUEUE + 5 {
        ends.say(r#"{"jsonrpc":"2.0","method":"x"}"#).await;
    }
    // What came before it was read.
    ends.say(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .await;
    assert_eq!(ends.read().await["error"]["code"], -32603);
    let incoming = &mut ends.connected.incoming;
    for _ in 0..LINK_QUEUE {
        let heard = incoming.recv().await.unwrap().message;
        assert!(matches!(heard, ServerMessage::Notification { .. }));
    }
    let missed = incoming.recv().await.unwrap().message;
    assert!(matches!(missed, ServerMessage::Missed));
}

#[tokio::test]
async fn twenty_lines_in_a_row_that_are_no_messages_are_trouble() {
    let mut ends = ends(1 << 20);
    let counters = ends.link.counters();
    for number in 1..=40 {
        ends.say(&format!("\u{1b}[1m listening on {number}")).await;
        let end = Instant::now() + PATIENCE;
        while counters.junk() < number {
            assert!(Instant::now() < end, "it is counted");
            tokio::task::yield_now().await;
        }
        let trouble = ends.link.trouble();
        assert_eq!(trouble.is_some(), number >= 20);
        if let Some(trouble) = trouble {
            assert!(
                trouble.ends_with(&format!(" [1m listening on {number}")),
                "{trouble}"
            );
        }
    }
    ends.say(r#"{"jsonrpc":"2.0","method":"x"}"#).await;
    ends.connected.incoming.recv().await.unwrap();
    assert_eq!(ends.link.trouble(), None, "it has come to itself");
}

#[tokio::test]
async fn the_end_of_the_stream_and_closing_end_all_calls() {
    let mut at_end = ends(1 << 16);
    let call = tokio::spawn(at_end.link.request(request("1", &json!({}))));
    at_end.read().await;
    let Ends {
        link,
        reads,
        writes,
        mut connected,
    } = at_end;
    drop((reads, writes));
    assert!(matches!(call.await.unwrap(), Err(ClientError::Closed)));
    assert!(matches!(link.ended().await, ClientError::Closed));
    assert!(connected.incoming.recv().await.is_none());
    let mut closed = ends(1 << 16);
    let call = tokio::spawn(closed.link.request(request("1", &json!({}))));
    closed.read().await;
    closed.link.close().await;
    assert!(matches!(call.await.unwrap(), Err(ClientError::Closed)));
    let mut rest = Vec::new();
    closed.writes.shutdown().await.unwrap();
    closed.reads.read_to_end(&mut rest).await.unwrap();
    let notify = closed.link.notify("x", None).await;
    assert!(matches!(notify, Err(ClientError::Closed)));
}

#[tokio::test]
async fn answer_that_cannot_be_parsed_fails_its_call_at_once() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep = deep.as_bytes();
    for (result, fault) in [
        (&[b"{\"a\":", deep, b"}"].concat()[..], "nested too deep"),
        (b"{\"a\":NaN}", "expected value"),
        (b"{\"a\":\"\xff\"}", "not UTF-8"),
        (b"{\"a\":1", "EOF"),
    ] {
        let mut ends = ends(1 << 16);
        let call = tokio::spawn(ends.link.request(request("1", &json!({}))));
        let other = tokio::spawn(ends.link.request(request("2", &json!({}))));
        ends.read().await;
        ends.read().await;
        // Without an id it fails no call.
        let head = b"{\"jsonrpc\":\"2.0\",";
        let lines = [head, &b"\"result\":"[..], result, b"}\n", head];
        let line = [&lines.concat()[..], b"\"id\":1,\"result\":", result, b"}\n"].concat();
        ends.writes.write_all(&line).await.unwrap();
        let answer = timeout(PATIENCE, call).await.expect("it fails at once");
        let Err(ClientError::InvalidMessage { what }) = answer.unwrap() else {
            panic!("no answer");
        };
        assert!(what.contains(fault), "{what}");
        assert_eq!(ends.link.counters().junk(), 1);
        ends.say(r#"{"jsonrpc":"2.0","id":2,"result":7}"#).await;
        let answer = other.await.unwrap().unwrap().unwrap();
        assert_eq!(answer.as_str(), "7");
    }
}

#[tokio::test]
async fn tools_beside_one_that_is_nested_too_deep_are_listed() {
    let mut ends = ends(1 << 16);
    let call = tokio::spawn(ends.link.request(request("1", &json!({}))));
    ends.read().await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    ends.say(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"a","inputSchema":{{"a":{deep}}}}},{{"name":"b"}}]}}}}"#
    ))
    .await;
    let answer = call.await.unwrap().unwrap().unwrap();
    assert_eq!(
        answer.as_str(),
        r#"{"tools":[{"name":"a","inputSchema":null},{"name":"b"}]}"#
    );
}

#[tokio::test]
async fn server_that_floods_short_lines_does_not_hold_up_other_tasks() {
    const ROUNDS: usize = 100;
    let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (read, write) = UnixStream::from_std(ours).unwrap().into_split();
    let config = LinesConfig {
        name: "flood".to_owned(),
        max_message_bytes: 1 << 20,
        max_junk_lines: 20,
    };
    let (link, connected) = LinesLink::over(read, write, config);
    let flood = tokio::task::spawn_blocking(move || {
        let lines = "x\n".repeat(32 * 1024);
        while theirs.write_all(lines.as_bytes()).is_ok() {}
    });
    let counters = link.counters();
    timeout(PATIENCE, async {
        while counters.junk() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the flood begins");
    let before = counters.junk();
    for _ in 0..ROUNDS {
        tokio::task::yield_now().await;
    }
    let read = counters.junk() - before;
    assert!(read < ROUNDS as u64 * 1_000, "{read} lines");
    timeout(PATIENCE, link.close()).await.unwrap();
    drop((link, connected));
    timeout(PATIENCE, flood).await.unwrap().unwrap();
}
