//! Servers of others with every fault, as real processes: what each costs, and that nothing is
//! left of them.

use std::{collections::HashSet, path::PathBuf, sync::Arc, time::Duration};

use orchestra_mcp::client::{
    Answer, ChildConfig, ChildConnector, ClientError, Connected, Crash, Incoming, Launcher,
    LinesLink, Link, Outgoing, ServerMessage,
};
use orchestra_wire::{RawJson, RequestId};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long is waited for what is not to come.
const A_WHILE: Duration = Duration::from_millis(150);

pub(crate) fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples").join(name)
}

/// The fixture `faulty`, which guards itself.
pub(crate) fn config(words: &[&str]) -> ChildConfig {
    let path = example("faulty");
    ChildConfig {
        args: words.iter().map(Into::into).collect(),
        launcher: Some(Launcher::new(&path, ["__child"])),
        ..ChildConfig::new("faulty", path)
    }
}

pub(crate) struct Server {
    pub(crate) link: Arc<LinesLink>,
    connected: Connected,
}

impl Server {
    pub(crate) async fn start(words: &[&str]) -> Self {
        Self::of(config(words)).await
    }

    pub(crate) async fn of(config: ChildConfig) -> Self {
        let (link, connected) = ChildConnector::new(config).start().await.unwrap();
        Self { link, connected }
    }

    /// Calls a tool, under an id of its own.
    pub(crate) async fn call(&self, id: u64, tool: &str, arguments: Value) -> Outcome {
        let call = self.link.request(call(id, tool, &arguments));
        timeout(PATIENCE, call).await.expect("it is answered")
    }

    /// The same, when nothing is to come of it.
    async fn call_in_vain(&self, id: u64, tool: &str, arguments: Value) {
        let call = self.link.request(call(id, tool, &arguments));
        assert!(timeout(A_WHILE, call).await.is_err(), "{tool} is answered");
    }

    async fn is_well(&self) {
        let text = self.call(77, "echo", json!({"text": "well"})).await;
        assert_eq!(text_of(text), "well");
    }

    fn id(&self) -> u32 {
        self.link.process_id().unwrap()
    }

    async fn heard(&mut self) -> Incoming {
        let heard = timeout(PATIENCE, self.connected.incoming.recv()).await;
        heard.expect("it says something").expect("it goes on")
    }

    async fn close(self) {
        timeout(PATIENCE, self.link.close()).await.expect("it ends");
        assert!(is_gone(self.id()), "a process is left");
    }
}

pub(crate) type Outcome = Result<Answer, ClientError>;

fn call(id: u64, tool: &str, arguments: &Value) -> Outgoing {
    let params = json!({"name": tool, "arguments": arguments});
    Outgoing {
        along: Default::default(),
        departure: None,
        id: RequestId::from_number(id),
        method: "tools/call".to_owned(),
        params: Some(RawJson::of(&params).unwrap()),
        name: None,
        headers: Vec::new(),
    }
}

#[track_caller]
pub(crate) fn text_of(outcome: Outcome) -> String {
    let result: Value = outcome.unwrap().unwrap().parse().unwrap();
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[track_caller]
fn crash_of(outcome: Outcome) -> Arc<Crash> {
    match outcome {
        Err(ClientError::Crashed(crash)) => crash,
        other => panic!("no crash: {other:?}"),
    }
}

#[track_caller]
fn invalid(outcome: Outcome) -> String {
    match outcome {
        Err(ClientError::InvalidMessage { what }) => what,
        other => panic!("valid: {other:?}"),
    }
}

/// Whether a process is no more, but for its end that somebody may still want to know.
pub(crate) fn is_gone(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
    let process = Pid::from_raw(id.cast_signed()).unwrap();
    test_kill_process(process).is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
}

pub(crate) async fn gone(id: u32) {
    let end = Instant::now() + PATIENCE;
    while !is_gone(id) {
        assert!(Instant::now() < end, "{id} is left");
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn what_is_printed_beside_the_protocol_harms_no_call() {
    let mut server = Server::start(&["--logs"]).await;
    for (id, fault) in (1..).zip(["garbage", "logs", "partial", "nothing", "unasked", "notify"]) {
        let outcome = server.call_or_none(id, fault).await;
        assert_eq!(outcome.is_some(), fault != "nothing", "{fault}");
        server.is_well().await;
    }
    let counters = server.link.counters();
    assert!(counters.junk() >= 2 + 10, "{counters:?}");
    assert_eq!(counters.unknown_ids(), 1);
    let ServerMessage::Notification { method, .. } = server.heard().await.message else {
        panic!("a notification comes before the answer")
    };
    assert_eq!(method, "notifications/message");
    server.close().await;
}

impl Server {
    async fn call_or_none(&self, id: u64, tool: &str) -> Option<Outcome> {
        let call = self.link.request(call(id, tool, &json!({})));
        match tool {
            "nothing" => timeout(A_WHILE, call).await.ok(),
            _ => Some(timeout(PATIENCE, call).await.expect("it is answered")),
        }
    }
}

/// Exchanges messages with the server until a condition holds.
async fn until(server: &Server, what: &str, is_so: impl Fn() -> bool) {
    let late = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < late, "{what} does not come");
        server.is_well().await;
    }
}

#[tokio::test]
async fn answers_go_to_whom_they_are_for() {
    let server = Server::start(&[]).await;
    let counters = server.link.counters();
    server
        .call(1, "duplicate", json!({}))
        .await
        .unwrap()
        .unwrap();
    until(&server, "the second of two answers", || {
        counters.unknown_ids() == 1
    })
    .await;
    // Nothing else here is called "2".
    let text = server.call(2, "string_id", json!({})).await;
    text.unwrap().unwrap();
    assert_eq!(counters.unknown_ids(), 1);
    server.call_in_vain(3, "wrong_id", json!({})).await;
    assert_eq!(counters.unknown_ids(), 2);
    assert_eq!(counters.junk(), 1, "a result without an id is none");
    server.call_in_vain(4, "delay", json!({"ms": 300})).await;
    until(&server, "the late answer", || counters.unknown_ids() == 3).await;
    server.call_in_vain(5, "silence", json!({})).await;
    server.is_well().await;
    server.close().await;
}

#[tokio::test]
async fn answers_that_are_no_answers_are_told_to_their_caller() {
    let server = Server::start(&[]).await;
    for (id, fault) in (1..).zip(["both", "neither"]) {
        let what = invalid(server.call(id, fault, json!({})).await);
        assert!(what.contains(&format!("\"id\":{id}")), "{what}");
    }
    // The version is all that is missing.
    server.call(3, "bare", json!({})).await.unwrap().unwrap();
    let null = server.call(4, "null", json!({})).await.unwrap().unwrap();
    assert_eq!(null.as_str(), "null");
    let none = server.call(5, "no such tool", json!({})).await.unwrap();
    assert_eq!(none.unwrap_err().code.0, -32602);
    server.close().await;
}

#[tokio::test]
async fn a_batch_of_answers_is_taken_in_each_revision() {
    use orchestra_mcp::client::Agreed;
    use orchestra_wire::Revision;
    let server = Server::start(&[]).await;
    server.call(1, "batch", json!({})).await.unwrap().unwrap();
    for (id, revision) in (2..).zip([Revision::V2025_03_26, Revision::V2025_06_18]) {
        drop(server.link.agreed(Agreed { revision }));
        server.call(id, "batch", json!({})).await.unwrap().unwrap();
    }
    server.close().await;
}

#[tokio::test]
async fn a_crash_at_any_byte_of_an_answer_is_a_crash() {
    let reply = r#"{"id":1,"jsonrpc":"2.0","result":{"content":[]}}"#;
    let mut crashes = JoinSet::new();
    for byte in (0..reply.len())
        .step_by(3)
        .chain([reply.len() - 1, reply.len()])
    {
        crashes.spawn(async move {
            let server = Server::start(&[]).await;
            let outcome = server.call(1, "crash_at", json!({"byte": byte})).await;
            if byte == reply.len() {
                // Only the line end was missing.
                assert_eq!(outcome.unwrap().unwrap().as_str(), r#"{"content":[]}"#);
            } else {
                assert_eq!(crash_of(outcome).exit, Some(70), "{byte}");
            }
            gone(server.id()).await;
        });
    }
    crashes.join_all().await;
    let server = Server::start(&["--crash-at", "5"]).await;
    assert_eq!(
        crash_of(server.call(1, "echo", json!({})).await).exit,
        Some(70)
    );
    assert_eq!(
        crash_of(server.call(2, "echo", json!({})).await).exit,
        Some(70)
    );
}

#[tokio::test]
async fn a_crash_is_told_to_all_with_code_or_signal_and_last_words() {
    let server = Server::start(&[]).await;
    let waiting = server.link.request(call(1, "silence", &json!({})));
    let waiting = tokio::spawn(waiting);
    server.is_well().await;
    let crash = json!({"code": 3, "words": "the disk is full"});
    let crash = crash_of(server.call(2, "crash", crash).await);
    assert_eq!((crash.exit, crash.signal), (Some(3), None));
    assert_eq!(crash.stderr_tail, "the disk is full\n");
    assert_eq!(crash_of(waiting.await.unwrap()).exit, Some(3));
    assert!(matches!(server.link.ended().await, ClientError::Crashed(_)));
    server.close().await;
    let server = Server::start(&[]).await;
    let crash = crash_of(server.call(1, "crash", json!({"signal": 9})).await);
    assert_eq!((crash.exit, crash.signal), (None, Some(9)));
    server.close().await;
}

#[tokio::test]
async fn a_flood_on_stderr_is_read_and_its_end_kept() {
    let server = Server::start(&[]).await;
    let flood = json!({"bytes": 8 << 20});
    server.call(1, "stderr", flood).await.unwrap().unwrap();
    let crash = json!({"code": 3, "words": "last words"});
    let crash = crash_of(server.call(2, "crash", crash).await);
    assert!(crash.stderr_tail.ends_with("eee\nlast words\n"));
    assert_eq!(crash.stderr_tail.len(), 64 * 1024);
    server.close().await;
}

/// Neither is held.
#[tokio::test]
async fn a_line_of_100_mib_is_skipped_and_its_caller_told() {
    let mut config = config(&[]);
    config.max_message_bytes = 1 << 20;
    let server = Server::of(config).await;
    for (id, at) in [(1, "head"), (2, "tail")] {
        let huge = json!({"bytes": 100 << 20, "id": at});
        let what = invalid(server.call(id, "huge", huge).await);
        assert!(what.starts_with("the answer has 1048576"), "{what}");
        assert!(what.contains("and 1048576 are permitted"), "{what}");
    }
    let nowhere = json!({"bytes": 2 << 20, "id": "middle"});
    server.call_in_vain(3, "huge", nowhere).await;
    server.is_well().await;
    assert_eq!(server.link.counters().too_long(), 3);
    let fits = json!({"bytes": 900 << 10, "id": "middle"});
    let result = server.call(4, "huge", fits).await.unwrap().unwrap();
    assert!(result.as_bytes().len() > 900 << 10);
    server.close().await;
}

#[tokio::test]
async fn a_server_that_closes_its_streams_is_closed() {
    for fault in ["close_stdout", "close_stdin"] {
        let server = Server::start(&["--ignore-end"]).await;
        let waiting = server.link.request(call(1, "silence", &json!({})));
        let waiting = tokio::spawn(waiting);
        let answered = server.link.request(call(2, fault, &json!({})));
        let _ = timeout(A_WHILE, answered).await;
        // Reading has begun before the input was closed, and takes one more.
        let last = server.link.request(call(9, "echo", &json!({})));
        let _ = timeout(A_WHILE, last).await;
        for id in 3..5 {
            let outcome = timeout(PATIENCE, server.link.request(call(id, "echo", &json!({}))));
            let outcome = outcome.await.expect("it is answered");
            assert!(
                matches!(outcome, Err(ClientError::Closed)),
                "{fault}: {outcome:?}"
            );
        }
        assert!(matches!(waiting.await.unwrap(), Err(ClientError::Closed)));
        server.close().await;
    }
}

#[tokio::test]
async fn a_server_is_asked_to_end_then_told_then_killed() {
    // Servers that ignore a request to end get a short grace time, the others more time than any test
    // waits.
    let (short, long) = (Duration::from_millis(200), 2 * PATIENCE);
    for (words, graces) in [
        (&[][..], (long, long)),
        (&["--ignore-end"], (short, long)),
        (&["--ignore-end", "--ignore-term"], (short, short)),
    ] {
        let mut config = config(words);
        (config.grace_stdin, config.grace_term) = graces;
        let server = Server::of(config).await;
        server.is_well().await;
        let waiting = tokio::spawn(server.link.request(call(1, "silence", &json!({}))));
        tokio::task::yield_now().await;
        let started = Instant::now();
        let (link, id) = (Arc::clone(&server.link), server.id());
        timeout(PATIENCE, link.close()).await.unwrap();
        let took = started.elapsed();
        let least: Duration = [graces.0, graces.1]
            .into_iter()
            .filter(|grace| *grace == short)
            .sum();
        assert!(took >= least, "{words:?}: {took:?}");
        assert!(is_gone(id));
        assert!(matches!(waiting.await.unwrap(), Err(ClientError::Closed)));
        link.close().await;
        let after = server.call(2, "echo", json!({})).await;
        assert!(matches!(after, Err(ClientError::Closed)));
    }
}

#[tokio::test]
async fn what_a_server_has_started_ends_with_it() {
    for (drops, alone) in [(true, true), (true, false), (false, true), (false, false)] {
        if alone && !cfg!(target_os = "linux") {
            continue;
        }
        let server = Server::start(&[]).await;
        let grandchild = text_of(server.call(1, "fork", json!({"alone": alone})).await);
        let grandchild = grandchild.parse().unwrap();
        assert!(!is_gone(grandchild));
        let id = server.id();
        match drops {
            true => drop(server),
            false => server.close().await,
        }
        gone(id).await;
        gone(grandchild).await;
    }
}

#[tokio::test]
async fn a_thousand_calls_at_once_get_their_own_answers() {
    let server = Server::start(&["--notifications", "1000"]).await;
    let mut calls = JoinSet::new();
    for id in 0..1_000 {
        let delay = id % 7 == 0;
        let arguments = match delay {
            true => json!({"ms": (id * 7) % 40}),
            false => json!({"text": format!("text {id}")}),
        };
        let tool = if delay { "delay" } else { "echo" };
        let answer = server.link.request(call(id, tool, &arguments));
        calls.spawn(async move {
            let text = text_of(timeout(PATIENCE, answer).await.unwrap());
            let expected = if delay {
                "delay".to_owned()
            } else {
                format!("text {id}")
            };
            assert_eq!(text, expected);
            id
        });
    }
    let answered: HashSet<u64> = calls.join_all().await.into_iter().collect();
    assert_eq!(answered.len(), 1_000);
    server.close().await;
}

/// Who listens too slowly misses something; calls do not.
#[tokio::test]
async fn more_notifications_than_are_listened_to_are_dropped_and_counted() {
    let mut server = Server::start(&[]).await;
    let flood = json!({"count": 3_000});
    server.call(1, "notify", flood).await.unwrap().unwrap();
    assert_eq!(server.link.counters().dropped(), 3_000 - 1_024);
    for _ in 0..1_024 {
        server.heard().await;
    }
    server.is_well().await;
    server.close().await;
}

#[tokio::test]
async fn calls_that_race_with_giving_up_a_crash_and_the_end_all_end() {
    for round in 0..20 {
        let server = Server::start(&[]).await;
        let mut calls = JoinSet::new();
        for id in 0..50 {
            let tool = if id == 25 && round % 2 == 0 {
                "crash"
            } else {
                "echo"
            };
            let answer = server.link.request(call(id, tool, &json!({"text": "x"})));
            let patience = match id % 3 {
                0 => Duration::from_micros(100 * (id + round)),
                _ => PATIENCE,
            };
            calls.spawn(async move { (patience == PATIENCE, timeout(patience, answer).await) });
        }
        if round % 2 == 1 {
            server.link.close().await;
        }
        for (waits, outcome) in calls.join_all().await {
            assert!(!waits || outcome.is_ok(), "a call has not ended");
        }
        let id = server.id();
        drop(server);
        gone(id).await;
    }
}
