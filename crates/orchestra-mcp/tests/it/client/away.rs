//! Servers on the network that were well and are away: how often they are asked, who waits for them,
//! and that what is known at them is kept.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use orchestra_mcp::client::{
    Client, ClientConfig, ClientError, ClientStatus, HttpFailure, ProtocolChoice, Sent,
    TransportType,
};
use orchestra_wire::Era;
use serde_json::json;
use tokio::time::Instant;

use super::{
    client_of, config,
    played::{Greets, Played, Said},
    result, safe, tool,
};

/// A server over HTTP that can be away.
struct There {
    played: Arc<Played>,
    is_away: Arc<AtomicBool>,
}

impl There {
    fn new(away: fn() -> ClientError) -> Self {
        let is_away = Arc::new(AtomicBool::new(false));
        let played = Played::new(Greets::Not, TransportType::Http, {
            let is_away = Arc::clone(&is_away);
            move |asked| match asked.method.as_str() {
                _ if is_away.load(Ordering::SeqCst) => Said::Fail(away()),
                "initialize" => Said::result(json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "there", "version": "1"},
                })),
                _ => Said::result(json!({ "start": asked.start })),
            }
        });
        Self { played, is_away }
    }

    fn leave(&self) {
        self.is_away.store(true, Ordering::SeqCst);
        self.played.fail_to_start(Some(refused()));
    }

    fn come_back(&self) {
        self.is_away.store(false, Ordering::SeqCst);
        self.played.fail_to_start(None);
    }

    /// How often it was asked whether it is there.
    fn attempts(&self) -> usize {
        let starts = usize::try_from(self.played.starts()).unwrap();
        self.played.count("ping") + starts
    }

    async fn well(&self) -> Client {
        self.well_as(config()).await
    }

    async fn well_as(&self, mut config: ClientConfig) -> Client {
        config.protocol = ProtocolChoice::Era(Era::Session);
        let client = client_of(&self.played, config);
        assert_eq!(result(&client, tool("t")).await["start"], 1);
        client
    }
}

fn refused() -> ClientError {
    ClientError::Unreachable {
        what: "connection refused".to_owned(),
    }
}

fn bad_gateway() -> ClientError {
    ClientError::Http(Arc::new(HttpFailure {
        status: 502,
        sent: true,
        ..HttpFailure::default()
    }))
}

fn internal_error() -> ClientError {
    ClientError::Http(Arc::new(HttpFailure {
        status: 500,
        sent: true,
        ..HttpFailure::default()
    }))
}

fn forgotten() -> ClientError {
    ClientError::Http(Arc::new(HttpFailure {
        status: 404,
        ..HttpFailure::default()
    }))
}

fn broken() -> ClientError {
    ClientError::Http(Arc::new(HttpFailure {
        sent: true,
        ..HttpFailure::default()
    }))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_away_for_a_moment_is_used_again_at_once_and_knows_its_session() {
    for away in [refused, bad_gateway, broken] {
        let there = There::new(away);
        let client = there.well().await;
        there.leave();
        // What may run twice waits; a hundred calls that fail together are no reason to give up.
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { result(&client, safe("t")).await })
            })
            .collect();
        let mut status = client.status();
        let waits = |status: &ClientStatus| matches!(status, ClientStatus::Restarting { .. });
        status.wait_for(waits).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        // What may run once is told soon, and that it did not run.
        let error = client.call(tool("t")).await.unwrap_err();
        assert_eq!((error.sent(), error.code()), (Sent::No, "unreachable"));
        assert!(
            matches!(
                error,
                ClientError::NotYet {
                    next_at: Some(_),
                    ..
                }
            ),
            "{error:?}"
        );
        there.come_back();
        let back = Instant::now();
        for waited in waiting {
            assert_eq!(waited.await.unwrap()["start"], 1, "the session goes on");
        }
        let waited = back.elapsed();
        assert!(waited <= Duration::from_millis(1_200), "{waited:?}");
        assert_eq!(result(&client, tool("t")).await["start"], 1);
        assert_eq!(there.played.count("initialize"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_good_is_not_hammered_and_comes_back_with_a_call() {
    let there = There::new(refused);
    let client = there.well().await;
    there.leave();
    let began = Instant::now();
    client.call(tool("t")).await.unwrap_err();
    let mut status = client.status();
    let offline = |status: &ClientStatus| matches!(status, ClientStatus::Offline { .. });
    status.wait_for(offline).await.unwrap();
    let minute = began.elapsed().as_secs();
    assert!((60..70).contains(&minute), "{minute} s");
    let asked = there.attempts();
    assert!((50..85).contains(&asked), "{asked} in the first minute");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let later = there.attempts() - asked;
    assert!((9..=11).contains(&later), "{later} in ten more minutes");
    // However many call, it is asked once in half a second.
    let asked = there.attempts();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        let calls = (0..20).map(|_| client.call(safe("t")));
        for told in futures_util::future::join_all(calls).await {
            let error = told.unwrap_err();
            assert_eq!((error.sent(), error.code()), (Sent::No, "circuit_open"));
        }
    }
    let calls = there.attempts() - asked;
    assert!(
        (8..=11).contains(&calls),
        "{calls} in five seconds of calls"
    );
    // Nobody waits for the minute to pass when it is there again.
    there.come_back();
    let back = Instant::now();
    result(&client, tool("t")).await;
    assert!(
        back.elapsed() <= Duration::from_millis(600),
        "{:?}",
        back.elapsed()
    );
}

/// What was before an idle server is needed that is not there.
#[derive(Debug, Clone, Copy)]
enum History {
    Nothing,
    /// Away for a second; it knew its session.
    Away,
    /// Away for so long that it was started anew.
    AwayForLong,
}

/// Plays what was before, and more than a minute of good calls behind it.
async fn play(history: History, there: &There, client: &Client) {
    let away = match history {
        History::Nothing => return,
        History::Away => Duration::from_secs(1),
        History::AwayForLong => Duration::from_secs(90),
    };
    there.leave();
    let mut status = client.status();
    client.call(tool("t")).await.unwrap_err();
    status
        .wait_for(|status| !matches!(status, ClientStatus::Ready))
        .await
        .unwrap();
    tokio::time::sleep(away).await;
    there.come_back();
    for _ in 0..100 {
        result(client, safe("t")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Waits until nobody needs it any more.
async fn is_stopped(client: &Client) {
    let mut status = client.status();
    for wanted in [ClientStatus::Ready, ClientStatus::Idle] {
        let is_so = |status: &ClientStatus| {
            std::mem::discriminant(status) == std::mem::discriminant(&wanted)
        };
        status.wait_for(is_so).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_is_over_does_not_shorten_the_patience_with_the_next() {
    for history in [History::Nothing, History::Away, History::AwayForLong] {
        let there = There::new(refused);
        let client = there
            .well_as(ClientConfig {
                idle_stop: Some(Duration::from_secs(5)),
                ..config()
            })
            .await;
        play(history, &there, &client).await;
        is_stopped(&client).await;
        // Starts fail, and it is left alone after as many of them as for any server.
        there.leave();
        let (before, began) = (there.played.starts(), Instant::now());
        let error = client.call(safe("t")).await.unwrap_err();
        assert_eq!(error.code(), "circuit_open", "{history:?}");
        let starts = there.played.starts() - before;
        assert_eq!(starts, config().circuit.failures, "{history:?}");
        let waited = began.elapsed();
        assert!(waited > Duration::from_secs(10), "{history:?}: {waited:?}");
        // Whoever calls is answered when it comes back before that.
        there.come_back();
        result(&client, tool("t")).await;
        is_stopped(&client).await;
        there.leave();
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { result(&client, safe("t")).await }
        });
        let third =
            |status: &ClientStatus| matches!(status, ClientStatus::Restarting { attempt: 3, .. });
        client.status().wait_for(third).await.unwrap();
        there.come_back();
        waiting.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn exchanges_that_break_together_ask_once_whether_anybody_is_there() {
    const ROUND: Duration = Duration::from_millis(800);
    let answers: [fn() -> Said; 3] = [
        || Said::after(ROUND, json!({})),
        || Said::FailAfter(ROUND, forgotten()),
        || Said::FailAfter(ROUND, refused()),
    ];
    for answer in answers {
        let played = Played::new(Greets::Not, TransportType::Http, move |asked| {
            match asked.method.as_str() {
                "ping" => answer(),
                "initialize" => Said::result(json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "there", "version": "1"},
                })),
                _ if asked.params["name"] == "breaks" => Said::Fail(broken()),
                _ => Said::result(json!({})),
            }
        });
        let mut config = config();
        config.protocol = ProtocolChoice::Era(Era::Session);
        let client = client_of(&played, config);
        result(&client, tool("t")).await;
        let began = Instant::now();
        let calls = (0..20).map(|_| client.call(tool("breaks")));
        for told in futures_util::future::join_all(calls).await {
            assert_eq!(told.unwrap_err().sent(), Sent::Maybe);
        }
        assert_eq!(began.elapsed(), ROUND);
        // When nobody is there, the same moment begins to ask until somebody is.
        assert!(played.count("ping") <= 2, "{}", played.count("ping"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_goes_away_does_not_take_the_question_along() {
    let played = Played::new(Greets::Not, TransportType::Http, |asked| {
        match asked.method.as_str() {
            "ping" => Said::after(Duration::from_millis(800), json!({})),
            "initialize" => Said::result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "there", "version": "1"},
            })),
            _ => Said::Fail(broken()),
        }
    });
    let mut config = config();
    config.protocol = ProtocolChoice::Era(Era::Session);
    let client = client_of(&played, config);
    client
        .reach(Instant::now() + Duration::from_secs(5))
        .await
        .unwrap();
    let mut calls: Vec<_> = (0..5)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.call(tool("breaks")).await })
        })
        .collect();
    played.until("tools/call", 5).await;
    played.until("ping", 1).await;
    calls.remove(0).abort();
    for call in calls {
        call.await.unwrap().unwrap_err();
    }
    assert_eq!(played.count("ping"), 2);
}

/// While a server that was left alone is tried, one call at a time may pass.
#[tokio::test(start_paused = true)]
async fn a_caller_who_goes_away_while_the_server_is_looked_for_gives_back_its_turn() {
    let played = Played::new(Greets::Not, TransportType::Http, |asked| {
        match (asked.method.as_str(), asked.params["name"].as_str()) {
            ("ping", _) => Said::never(),
            ("initialize", _) => Said::result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "there", "version": "1"},
            })),
            (_, Some("breaks")) => Said::Fail(broken()),
            (_, Some("fails")) => Said::Fail(internal_error()),
            _ => Said::result(json!({})),
        }
    });
    let mut config = config();
    config.protocol = ProtocolChoice::Era(Era::Session);
    let (failures, pause) = (config.circuit.failures, config.circuit.pause);
    let client = client_of(&played, config);
    for _ in 0..failures {
        client.call(tool("fails")).await.unwrap_err();
    }
    let error = client.call(tool("t")).await.unwrap_err();
    assert_eq!(error.code(), "circuit_open");
    tokio::time::sleep(pause).await;
    let tried = tokio::spawn({
        let client = client.clone();
        async move { client.call(tool("breaks")).await }
    });
    played.until("ping", 1).await;
    tried.abort();
    assert!(tried.await.unwrap_err().is_cancelled());
    result(&client, tool("t")).await;
}
