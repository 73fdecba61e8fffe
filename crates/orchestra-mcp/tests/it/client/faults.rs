//! Servers that crash, hang, refuse: what is tried again, what is told, and when it is left alone.

use std::{sync::Arc, time::Duration};

use orchestra_hub::{LogLevel, ProgressListener, ProgressSink};
use orchestra_mcp::client::{
    Client, ClientConfig, ClientError, ClientStatus, HttpFailure, Reply, Sent, ServerCall,
    TransportType,
    tap::{Tap, TapConfig, TapConnector, TapFile},
};
use orchestra_wire::RawJson;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    checked, client_of, config,
    played::{Greets, Handle, Played, Said},
    result, safe, tool,
};

/// Progress that a client reported.
#[derive(Default)]
struct Reports(std::sync::Mutex<Vec<f64>>);

impl ProgressListener for Reports {
    fn progress(&self, progress: f64, _: Option<f64>, _: Option<&str>) {
        self.0.lock().unwrap().push(progress);
    }
    fn log(&self, _: LogLevel, _: Option<&str>, _: &RawJson) {}
}

fn down() -> ClientError {
    ClientError::Unreachable {
        what: "no such program".to_owned(),
    }
}

fn status_of(status: u16, retry_after: Option<u64>) -> Said {
    Said::Fail(ClientError::Http(Arc::new(HttpFailure {
        status,
        retry_after: retry_after.map(Duration::from_secs),
        sent: true,
        ..HttpFailure::default()
    })))
}

/// The kill: whoever called in vain is told, whoever may call again does not notice.
#[tokio::test]
async fn a_crash_is_told_to_calls_that_may_have_run_and_invisible_to_those_that_may_run_twice() {
    let played = Played::session(|asked| match asked.start {
        1 if asked.params["name"] == "die" => Said::Crash,
        1 if asked.params["name"] == "wait" => Said::never(),
        start => Said::result(json!({ "start": start })),
    });
    let client = client_of(&played, config());
    assert_eq!(result(&client, tool("t")).await["start"], 1);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { result(&client, safe("wait")).await }
    });
    played.until("tools/call", 2).await;
    let error = client.call(tool("die")).await.unwrap_err();
    assert_eq!(error.to_string(), "transport: stdio process crashed");
    assert_eq!(error.sent(), Sent::Maybe);
    assert!(error.explain().contains("signal 9") && error.explain().contains("ouch"));
    assert_eq!(waiting.await.unwrap()["start"], 2);
    // A run that was good is followed by the next at once.
    assert_eq!(result(&client, tool("t")).await["start"], 2);
    assert_eq!(client.stats().restarts, 1);
    assert!(client.stats().last_error.is_some());
}

/// 1 s, 2, 4, 8, each ±20 %, then it is left alone for 60.
#[tokio::test(start_paused = true)]
async fn starts_that_do_not_help_are_spaced_and_then_left_alone() {
    let played = Played::session(|_| Said::result(json!({})));
    played.fail_to_start(Some(down()));
    let client = client_of(&played, config());
    let mut status = client.status();
    client.start();
    let offline = |status: &ClientStatus| matches!(status, ClientStatus::Offline { .. });
    status.wait_for(offline).await.unwrap();
    let at = played.started_at();
    let pauses: Vec<f64> = at
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_secs_f64())
        .collect();
    assert_eq!(pauses.len(), 4);
    for (pause, middle) in pauses.iter().zip([1.0, 2.0, 4.0, 8.0]) {
        assert!(
            (middle * 0.79..=middle * 1.21).contains(pause),
            "{pauses:?}"
        );
    }
    let stats = client.stats();
    assert_eq!((stats.failed_starts, stats.restarts), (5, 0));
    assert!(stats.failing.unwrap().contains("no such program"));
    // Calls are told at once, and by whom.
    let began = tokio::time::Instant::now();
    let error = client.call(safe("t")).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::CircuitOpen { .. }),
        "{error:?}"
    );
    assert!(error.explain().contains("no such program"));
    assert_eq!((error.sent(), began.elapsed()), (Sent::No, Duration::ZERO));
    // The next try is in the background, and heals it.
    played.fail_to_start(None);
    status
        .wait_for(|status| matches!(status, ClientStatus::Ready))
        .await
        .unwrap();
    assert_eq!(client.stats().failing, None);
    let healed = *played.started_at().last().unwrap() - *at.last().unwrap();
    assert!((60..63).contains(&healed.as_secs()), "{healed:?}");
    result(&client, tool("t")).await;
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_start_within_their_deadline_and_no_longer() {
    let played = Played::session(|_| Said::result(json!({})));
    played.fail_to_start(Some(down()));
    let client = client_of(&played, config());
    let waiting = |mut call: ServerCall, seconds| {
        let client = client.clone();
        call.cx.deadline = Some(std::time::Instant::now() + Duration::from_secs(seconds));
        async move { client.call(call).await }
    };
    // Paused time: deadlines are given in real time, which stands still as well.
    let error = waiting(safe("t"), 0).await.unwrap_err();
    assert_eq!(error.sent(), Sent::No);
    // One that may not be made again is told of the start that failed.
    let error = waiting(tool("t"), 600).await.unwrap_err();
    assert_eq!(error.sent(), Sent::No);
    assert!(
        error.explain().contains("no such program"),
        "{}",
        error.explain()
    );
    played.fail_to_start(None);
    waiting(safe("t"), 600).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_start_that_hangs_is_given_up() {
    let played = Played::new(Greets::Not, TransportType::Stdio, |_| Said::never());
    let client = client_of(&played, config());
    let mut status = client.status();
    client.start();
    let given_up = |status: &ClientStatus| matches!(status, ClientStatus::Restarting { reason, .. } if matches!(**reason, ClientError::Timeout { .. }));
    status.wait_for(given_up).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_is_cancelled_and_the_server_is_asked_whether_it_is_well() {
    let played = Played::session(|asked| match asked.params["name"].as_str() {
        Some("slow") => Said::never(),
        _ => Said::result(json!({})),
    });
    let client = client_of(&played, config());
    result(&client, tool("t")).await;
    let error = client.call(tool("slow")).await.unwrap_err();
    assert_eq!(error.to_string(), "transport: invocation timeout");
    assert!(error.explain().contains("5.0 s"), "{}", error.explain());
    played.until("notifications/cancelled", 1).await;
    played.until("ping", 1).await;
    // It is well, so it is kept; after three in a row it is not.
    assert_eq!(played.starts(), 1);
    client.call(tool("slow")).await.unwrap_err();
    client.call(tool("slow")).await.unwrap_err();
    result(&client, tool("t")).await;
    assert_eq!(played.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn reports_keep_a_call_alive_but_not_beyond_its_deadline() {
    let played = Played::session(|asked| {
        let (link, token) = (
            Arc::clone(&asked.link),
            asked.params["_meta"]["progressToken"].clone(),
        );
        tokio::spawn(async move {
            for step in 1..=8 {
                tokio::time::sleep(Duration::from_secs(3)).await;
                link.say(
                    "notifications/progress",
                    json!({"progressToken": token, "progress": step}),
                    None,
                );
            }
        });
        Said::after(Duration::from_secs(25), json!({"done": true}))
    });
    let client = client_of(&played, config());
    let heard = Arc::new(Reports::default());
    let mut call = tool("t");
    call.cx.progress = ProgressSink::new(heard.clone());
    assert_eq!(result(&client, call).await["done"], true);
    assert_eq!(heard.0.lock().unwrap().len(), 8);
}

#[tokio::test]
async fn reports_right_before_the_answer_arrive_in_order_through_a_tap() {
    let played = Played::session(|asked| {
        let token = &asked.params["_meta"]["progressToken"];
        for step in 1..=3 {
            let params = json!({"progressToken": token, "progress": step});
            asked.link.say("notifications/progress", params, None);
        }
        // No other task runs between the reports and the answer.
        Said::When(watch::channel(true).1, json!({"done": true}))
    });
    let directory = tempfile::tempdir().unwrap();
    let file = TapFile::at(directory.path().join("tap.jsonl"));
    let tap = Tap::open(TapConfig {
        file: Some(file),
        trace: None,
        ..TapConfig::default()
    });
    let connector = Arc::new(Handle(Arc::clone(&played)));
    let tapped = TapConnector::new(connector, tap.unwrap(), "played");
    let client = Client::new(Arc::new(tapped), config());
    let reports = Arc::new(Reports::default());
    let mut call = tool("t");
    call.cx.progress = ProgressSink::new(reports.clone());
    assert_eq!(result(&client, call).await["done"], true);
    assert_eq!(*reports.0.lock().unwrap(), [1.0, 2.0, 3.0]);
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_server() {
    let played = Played::session(|_| Said::never());
    let client = client_of(&played, config());
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call(tool("t")).await }
    });
    played.until("tools/call", 1).await;
    call.abort();
    played.until("notifications/cancelled", 1).await;
    assert!(played.last("notifications/cancelled")["requestId"].is_u64());
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(client.stats().in_flight, 0);
}

/// `TestHTTPRetry`: which failures of HTTP are tried again, for whom, and how often.
#[tokio::test(start_paused = true)]
async fn test_http_retry_failures_are_tried_again_where_that_is_harmless() {
    let unsent = || Said::Fail(ClientError::Http(Arc::new(HttpFailure::default())));
    type Fault = Box<dyn Fn() -> Said + Send + Sync>;
    let cases: Vec<(&str, Fault, bool, usize)> = vec![
        ("503", Box::new(|| status_of(503, None)), true, 2),
        ("503", Box::new(|| status_of(503, None)), false, 1),
        ("429", Box::new(|| status_of(429, Some(2))), true, 2),
        ("429", Box::new(|| status_of(429, Some(2))), false, 1),
        ("500", Box::new(|| status_of(500, None)), true, 2),
        ("500", Box::new(|| status_of(500, None)), false, 1),
        ("404", Box::new(|| status_of(404, None)), true, 1),
        ("unsent", Box::new(unsent), false, 2),
    ];
    for (name, fault, is_safe, calls) in cases {
        let played = Played::new(Greets::Session, TransportType::Http, move |_| fault());
        let mut config = config();
        config.retry.attempts = 2;
        let client = client_of(&played, config);
        let call = if is_safe { safe("t") } else { tool("t") };
        let began = tokio::time::Instant::now();
        client.call(call).await.unwrap_err();
        assert_eq!(played.count("tools/call"), calls, "{name} {is_safe}");
        if name == "429" && is_safe {
            assert!(began.elapsed() >= Duration::from_secs(2));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unsafe_call_that_did_not_run_is_repeated_when_that_is_configured() {
    let played = Played::new(Greets::Session, TransportType::Http, |_| {
        status_of(503, Some(1))
    });
    let mut config = config();
    config.retry.unsafe_calls = true;
    let client = client_of(&played, config);
    client.call(tool("t")).await.unwrap_err();
    assert_eq!(played.count("tools/call"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_call_after_call_is_left_alone_and_tried_again() {
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let played = Played::new(Greets::Session, TransportType::Http, {
        let broken = Arc::clone(&broken);
        move |_| match broken.load(std::sync::atomic::Ordering::Relaxed) {
            true => status_of(502, None),
            false => Said::result(json!({})),
        }
    });
    let client = client_of(&played, config());
    for _ in 0..5 {
        let error = client.call(tool("t")).await.unwrap_err();
        assert!(matches!(error, ClientError::Http(_)));
    }
    let error = client.call(tool("t")).await.unwrap_err();
    assert!(matches!(error, ClientError::CircuitOpen { .. }));
    assert_eq!(played.count("tools/call"), 5);
    // Whoever asks how it is hears of it, and of each change.
    let now = tokio::time::Instant::now();
    let mut status = client.status();
    let mut next = async |wanted: fn(&ClientStatus) -> bool| {
        let came = tokio::time::timeout(Duration::from_secs(600), status.wait_for(wanted)).await;
        came.expect("it comes to that").unwrap().clone()
    };
    let offline = next(|status| matches!(status, ClientStatus::Offline { .. })).await;
    let ClientStatus::Offline { next_at, reason } = offline else {
        panic!("{offline:?}")
    };
    assert!(
        (59..=60).contains(&(next_at - now).as_secs()),
        "{next_at:?}"
    );
    assert!(matches!(&*reason, ClientError::Http(failure) if failure.status == 502));
    broken.store(false, std::sync::atomic::Ordering::Relaxed);
    let tried = next(|status| !matches!(status, ClientStatus::Offline { .. })).await;
    assert!(
        matches!(&tried, ClientStatus::Degraded(why) if why.contains("one call at a time")),
        "{tried:?}"
    );
    assert!((60..63).contains(&now.elapsed().as_secs()));
    result(&client, tool("t")).await;
    result(&client, tool("t")).await;
    next(|status| matches!(status, ClientStatus::Ready)).await;
}

#[tokio::test]
async fn errors_that_a_server_answers_are_answers_and_open_no_circuit() {
    let played = Played::session(|_| Said::error(-32603, "the tool broke"));
    let client = client_of(&played, config());
    for _ in 0..20 {
        let error = client.call(tool("t")).await.unwrap_err();
        assert!(matches!(&error, ClientError::Rpc(error) if error.message == "the tool broke"));
    }
    assert_eq!((client.stats().refused, played.starts()), (20, 1));
}

#[tokio::test]
async fn answers_that_cannot_be_read_open_no_circuit() {
    for transport in [TransportType::Stdio, TransportType::Http] {
        let played = Played::new(Greets::Session, transport, |asked| {
            match asked.params["name"] == "odd" {
                true => Said::Fail(ClientError::InvalidMessage {
                    what: "the answer cannot be read".to_owned(),
                }),
                false => Said::result(json!({})),
            }
        });
        let client = client_of(&played, config());
        for _ in 0..2 * config().circuit.failures {
            let error = client.call(tool("odd")).await.unwrap_err();
            assert_eq!(error.code(), "invalid_message");
        }
        result(&client, tool("t")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_server_is_stopped_and_started_when_it_is_needed() {
    let played = Played::session(|asked| Said::result(json!({ "start": asked.start })));
    let config = ClientConfig {
        idle_stop: Some(Duration::from_secs(90)),
        ..config()
    };
    let client = client_of(&played, config);
    result(&client, tool("t")).await;
    let mut status = client.status();
    status
        .wait_for(|status| matches!(status, ClientStatus::Ready))
        .await
        .unwrap();
    status
        .wait_for(|status| matches!(status, ClientStatus::Idle))
        .await
        .unwrap();
    assert_eq!(result(&client, tool("t")).await["start"], 2);
}

#[tokio::test(start_paused = true)]
async fn who_must_sign_in_is_not_tried_again_until_somebody_did() {
    let played = Played::session(|_| Said::result(json!({})));
    played.fail_to_start(Some(ClientError::NeedsAuth {
        what: "run the login".to_owned(),
    }));
    let client = client_of(&played, config());
    let error = client.call(tool("t")).await.unwrap_err();
    assert!(error.explain().contains("run the login"));
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(played.starts(), 1);
    played.fail_to_start(None);
    client.restart();
    let call: ServerCall = tool("t");
    let mut status = client.status();
    status
        .wait_for(|status| matches!(status, ClientStatus::Ready))
        .await
        .unwrap();
    let _: Value = result(&client, call).await;
}

/// Whoever wants a server anew takes nothing from those who have called it.
#[tokio::test(start_paused = true)]
async fn calls_that_run_are_finished_before_a_restart() {
    let played = Played::session(|asked| {
        let pause = match asked.params["name"].as_str() {
            Some("slow") => Duration::from_secs(4),
            _ => Duration::ZERO,
        };
        Said::after(pause, json!({ "start": asked.start }))
    });
    let client = client_of(&played, config());
    let slow = tokio::spawn({
        let client = client.clone();
        async move { client.call(tool("slow")).await }
    });
    played.until("tools/call", 1).await;
    client.restart();
    // Once is enough, however often it is said.
    client.restart();
    let mut status = client.status();
    let has_begun = |status: &ClientStatus| !matches!(status, ClientStatus::Ready);
    status.wait_for(has_begun).await.unwrap();
    let came_later = result(&client, tool("t")).await;
    let slow = slow.await.unwrap().expect("it is finished first");
    let Reply::Result(slow) = slow else {
        panic!("it asks nothing")
    };
    assert_eq!(slow.parse::<Value>().unwrap()["start"], 1);
    assert_eq!((&came_later["start"], played.starts()), (&json!(2), 2));
}

#[tokio::test(start_paused = true)]
async fn calls_that_never_end_hold_a_restart_up_for_a_while_only() {
    let played = Played::session(|asked| match asked.start {
        1 if asked.params["name"] == "never" => Said::never(),
        start => Said::result(json!({ "start": start })),
    });
    let client = client_of(&played, config());
    let never = tokio::spawn({
        let client = client.clone();
        async move { client.call(tool("never")).await }
    });
    played.until("tools/call", 1).await;
    client.restart();
    let error = never.await.unwrap().expect_err("it never ends");
    assert_eq!(error.sent(), Sent::Maybe);
    assert_eq!(result(&client, tool("t")).await["start"], 2);
}

#[tokio::test(start_paused = true)]
async fn circuit_counts_calls_however_often_each_was_tried() {
    let played = Played::new(Greets::Session, TransportType::Http, |_| {
        status_of(502, None)
    });
    let client = client_of(&played, config());
    let (failures, attempts) = (config().circuit.failures, config().retry.attempts);
    for call in 1..=failures {
        let error = client.call(safe("t")).await.unwrap_err();
        assert!(matches!(error, ClientError::Http(_)), "{call}: {error:?}");
        let tried = usize::try_from(call * attempts).unwrap();
        assert_eq!(played.count("tools/call"), tried);
    }
    let error = client.call(safe("t")).await.unwrap_err();
    assert!(
        matches!(error, ClientError::CircuitOpen { .. }),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn failed_lists_of_tools_before_calls_open_the_circuit() {
    let played = Played::new(
        Greets::Session,
        TransportType::Http,
        |asked| match &*asked.method {
            "tools/list" => status_of(500, None),
            _ => Said::result(json!({})),
        },
    );
    let client = client_of(&played, config());
    let (failures, attempts) = (config().circuit.failures, config().retry.attempts);
    for call in 1..=failures {
        let error = client.call(checked(tool("t"))).await.unwrap_err();
        assert!(matches!(&error, ClientError::Unlisted { .. }), "{error:?}");
        let listed = usize::try_from(call * attempts).unwrap();
        assert_eq!(played.count("tools/list"), listed);
    }
    let error = client.call(checked(tool("t"))).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::CircuitOpen { .. }),
        "{error:?}"
    );
    assert!(error.explain().contains("HTTP status 500"), "{error:?}");
    assert!(client.stats().last_error.is_some());
    assert_eq!(played.count("tools/call"), 0);
}

#[tokio::test(start_paused = true)]
async fn call_whose_list_of_tools_meets_a_crash_is_repeated_without_a_pause() {
    let played = Played::session(|asked| match (&*asked.method, asked.start) {
        ("tools/list", 1) => Said::Crash,
        ("tools/list", _) => Said::result(json!({"tools": []})),
        (_, start) => Said::result(json!({ "start": start })),
    });
    let client = client_of(&played, config());
    result(&client, tool("t")).await;
    let begun = tokio::time::Instant::now();
    assert_eq!(result(&client, checked(safe("t"))).await["start"], 2);
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(500), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn server_that_wants_fewer_calls_is_not_left_alone_and_not_said_to_fail() {
    let played = Played::new(Greets::Session, TransportType::Http, |_| {
        status_of(429, Some(1))
    });
    let client = client_of(&played, config());
    for _ in 0..20 {
        let error = client.call(tool("t")).await.unwrap_err();
        assert!(matches!(error, ClientError::Http(_)), "{error:?}");
    }
    let stats = client.stats();
    assert_eq!(stats.failed, 0);
    assert!(stats.error_rate < 0.01, "{}", stats.error_rate);
}
