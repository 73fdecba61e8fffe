//! Each bad server over stdio beside a good one behind one gateway: the good one is not disturbed,
//! calls of the bad one are told what happened, it comes back where it can, and no process is left.

use std::time::{Duration, Instant};

use orchestra_gateway::config::ServerConfig;
use orchestra_hub::{HubNotice, ListKind, LogLevel};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    log::Lines,
    rig::{PATIENCE, Rig, child, gone, is_soak, say, span},
};

/// A server `bad` with these arguments, whose calls may take a few seconds: longer than a busy
/// machine takes to answer.
fn bad(words: &[&str]) -> ServerConfig {
    let mut config = child("bad", "faulty", words);
    config.timeout = Duration::from_secs(3);
    config
}

/// Plays a fault, again and again where there is time, while somebody calls a good server. The
/// fault answers what it has seen, for people.
async fn beside(kind: &str, bad: ServerConfig, fault: impl AsyncFn(&Rig) -> String) {
    let rig = Rig::with(&[child("good", "faulty", &[]), bad]).await;
    let (witness, begun) = (rig.witness("good"), Instant::now());
    let mut rounds = 0;
    let mut processes = Vec::new();
    let seen = loop {
        processes.extend(rig.process("bad"));
        let seen = fault(&rig).await;
        rounds += 1;
        if begun.elapsed() > span() {
            break seen;
        }
    };
    let witnessed = witness.end().await;
    rig.close(&processes).await;
    say(&format!("{kind}, {rounds} times: {seen}; {witnessed}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage() {
    beside("garbage", bad(&[]), async |rig| {
        rig.call("bad__garbage", json!({"count": 2_000})).await.ok();
        rig.is_well("bad").await;
        "2000 lines".to_owned()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_on_standard_output() {
    beside("logs on stdout", bad(&["--logs"]), async |rig| {
        for _ in 0..100 {
            rig.is_well("bad").await;
        }
        rig.call("bad__logs", json!({"count": 1_000})).await.ok();
        "100 calls with a line before each answer, 1000 lines before one".to_owned()
    })
    .await;
}

/// It is not held either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_100_mib() {
    let mut config = bad(&[]);
    config.timeout = Duration::from_secs(30);
    beside("lines of 100 MiB", config, async |rig| {
        let before = most_memory();
        for at in ["head", "tail"] {
            let huge = json!({"bytes": 100 << 20, "id": at});
            let told = rig.call("bad__huge", huge).await;
            let words = ["invalid JSON-RPC response", "are permitted", "may have run"];
            told.failed("invalid_message", true, &words);
            rig.is_well("bad").await;
        }
        // The system counts in steps, and may tell a little less than before.
        let more = most_memory().saturating_sub(before);
        assert!(more < 80 << 10, "{more} KiB");
        format!("2 of them, {more} KiB more memory")
    })
    .await;
}

/// The most that this process has held, in KiB.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_with_wrong_ids() {
    beside("wrong ids", bad(&[]), async |rig| {
        let told = rig.call("bad__wrong_id", json!({})).await;
        told.failed("timeout", true, &["no answer within 3.0 s", "may have run"]);
        rig.is_well("bad").await;
        // A number that comes back as text is the same id.
        rig.call("bad__string_id", json!({})).await.ok();
        "1 call given up after its time".to_owned()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_come_twice() {
    beside("duplicate ids", bad(&[]), async |rig| {
        for n in 0..50 {
            rig.call("bad__duplicate", json!({})).await.ok();
            let text = format!("text {n}");
            let answer = rig.call("bad__echo", json!({"text": text})).await;
            assert_eq!(answer.ok(), text);
        }
        "50 of them, each call got its own".to_owned()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_asked_for() {
    beside("answers nobody asked for", bad(&[]), async |rig| {
        rig.call("bad__unasked", json!({"count": 5_000})).await.ok();
        rig.is_well("bad").await;
        "5000 of them".to_owned()
    })
    .await;
}

/// After so many calls in a row that were not answered, its process is another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_never_answered() {
    let mut config = bad(&[]);
    config.health.max_timeouts = 2;
    beside("never answers", config, async |rig| {
        rig.is_well("bad").await;
        let before = rig.process("bad");
        for _ in 0..2 {
            let told = rig.call("bad__silence", json!({})).await;
            told.failed("timeout", true, &["no answer within 3.0 s", "Try again"]);
        }
        rig.until(|| rig.process("bad").is_some_and(|id| Some(id) != before))
            .await;
        rig.is_well("bad").await;
        "2 calls given up, then another process".to_owned()
    })
    .await;
}

/// Not even what it offers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_answers_nothing_at_all() {
    beside("answers nothing at all", bad(&["--silent"]), async |rig| {
        let told = rig.call("bad__echo", json!({"text": "x"})).await;
        let words = ["cannot be listed", "The call did not run.", "Try again"];
        told.failed("unreachable", false, &words);
        let tools = rig.tools();
        let of = |server: &str| tools.iter().filter(|tool| tool.starts_with(server)).count();
        assert!(of("good__") > 30 && of("bad__") == 0, "{tools:?}");
        assert!(!rig.report("bad").is_known, "nobody knows its tools");
        "a call told why".to_owned()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_after_the_deadline() {
    beside("answers after the deadline", bad(&[]), async |rig| {
        let late = Instant::now() + Duration::from_secs(4);
        let told = rig.call("bad__delay", json!({"ms": 3_500})).await;
        told.failed("timeout", true, &["no answer within 3.0 s"]);
        let mut calls = 0;
        while Instant::now() < late {
            let text = format!("text {calls}");
            let answer = rig.call("bad__echo", json!({"text": text})).await;
            assert_eq!(answer.ok(), text);
            calls += 1;
        }
        format!("{calls} calls around the late answer got their own")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_closes_its_input() {
    beside("closes stdin early", bad(&["--ignore-end"]), async |rig| {
        rig.is_well("bad").await;
        let before = rig.process("bad");
        // It answers this one, and perhaps the next, which it has begun to read.
        rig.call("bad__close_stdin", json!({})).await;
        let mut failures = 0;
        while failures == 0 && rig.process("bad") == before {
            let told = rig.call("bad__echo", json!({"text": "x"})).await;
            if told.is_error {
                let words = ["transport: ", "The call may have run"];
                assert!(
                    words.iter().all(|word| told.text.contains(word)),
                    "{told:?}"
                );
                failures += 1;
            }
        }
        let more = rig.recovers("bad").await;
        rig.until(|| rig.process("bad").is_some_and(|id| Some(id) != before))
            .await;
        format!("{} calls told of it, then another process", failures + more)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ignores_sigterm() {
    let config = bad(&["--ignore-term", "--ignore-end"]);
    beside("ignores SIGTERM", config, async |rig| {
        rig.is_well("bad").await;
        let before = rig.process("bad").unwrap();
        let begun = Instant::now();
        assert!(rig.gateway.restart("bad"));
        gone(before).await;
        let took = begun.elapsed();
        rig.recovers("bad").await;
        format!("killed after {took:?}")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forks_children() {
    beside("forks children", bad(&[]), async |rig| {
        let mut children: Vec<u32> = Vec::new();
        for alone in [false, true, false] {
            let alone = alone && cfg!(target_os = "linux");
            let id = rig.call("bad__fork", json!({"alone": alone})).await.ok();
            children.push(id.parse().unwrap());
        }
        assert!(rig.gateway.restart("bad"));
        for id in &children {
            gone(*id).await;
        }
        rig.recovers("bad").await;
        // These end with the gateway, as the end of the test sees.
        rig.call("bad__fork", json!({"alone": cfg!(target_os = "linux")}))
            .await
            .ok();
        format!("{} children ended with it", children.len())
    })
    .await;
}

/// Every second, or as often as there is time for here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_that_change_all_the_time() {
    let (every, span) = match is_soak() {
        true => ("1000", Duration::from_secs(10)),
        false => ("20", Duration::from_secs(1)),
    };
    let config = bad(&["--change-every", every]);
    beside("changes its tools", config, async |rig| {
        rig.recovers("bad").await;
        let attachment = rig.attach();
        let mut notices = attachment.take_notices().unwrap();
        let (begun, mut changes) = (Instant::now(), 0);
        while begun.elapsed() < span {
            let notice = timeout(PATIENCE, notices.next()).await;
            let notice = notice.expect("tools change");
            if matches!(notice, Some(HubNotice::CatalogChanged { tools: true, .. })) {
                changes += 1;
                let tools = rig.tools();
                let of = |server: &str| tools.iter().filter(|of| of.starts_with(server)).count();
                assert_eq!(
                    (of("good__"), of("bad__")),
                    (34, 34),
                    "nobody's are missing"
                );
                rig.is_well("bad").await;
            }
        }
        let most = 3 + begun.elapsed().as_millis() / 200;
        assert!(changes <= most as usize, "{changes} and at most {most}");
        format!("{changes} changes told in {:?}", begun.elapsed())
    })
    .await;
}

/// In one thread, so that the log of this test is its own.
#[tokio::test]
async fn schemas_that_lie() {
    let lines = Lines::default();
    let _guard = lines.listen();
    beside("lies about schemas", bad(&["--lies"]), async |rig| {
        rig.recovers("bad").await;
        let listed = rig.list(ListKind::Tools);
        let tools: Vec<&str> = listed
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        for tool in &listed {
            assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        }
        // One of each name, and none that no client takes.
        assert_eq!(tools.iter().filter(|tool| **tool == "bad__echo").count(), 1);
        // Nothing is hidden.
        let reports = rig.hub.peers().into_iter();
        let reasons: Vec<_> = reports.filter_map(|(_, report)| report.reason).collect();
        assert!(
            !reasons.iter().any(|why| why.contains("hidden")),
            "{reasons:?}"
        );
        let mut calls = 0;
        for tool in tools.iter().filter(|tool| tool.starts_with("bad__lie")) {
            // What it wants cannot be held against anything; it is for its server to refuse.
            rig.call(tool, json!({"a": []})).await.ok();
            rig.call(tool, json!({})).await.ok();
            calls += 2;
        }
        assert!(calls >= 8, "{tools:?}");
        let told = lines.take();
        let of = |what: &str| told.iter().filter(|line| line.contains(what)).count();
        let lies = of("the tool's results do not match its outputSchema");
        assert!(lies <= 2 && of("omitted definitions") <= 1, "{told:?}");
        format!("{calls} calls of tools that lie, {} lines told", told.len())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_notifications_a_second() {
    let config = bad(&["--notifications", "1000"]);
    beside("1000 notifications a second", config, async |rig| {
        let attachment = rig.attach();
        attachment.set_log_level(Some(LogLevel::Debug));
        let mut notices = attachment.take_notices().unwrap();
        let (begun, mut heard) = (Instant::now(), 0_u32);
        let span = Duration::from_secs(2);
        while begun.elapsed() < span {
            for _ in 0..20 {
                rig.is_well("bad").await;
            }
            while let Ok(notice) = timeout(Duration::from_millis(5), notices.next()).await {
                heard += u32::from(matches!(notice, Some(HubNotice::Log { .. })));
            }
        }
        let most = 300 + 110 * begun.elapsed().as_secs() as u32;
        assert!((1..=most).contains(&heard), "{heard} of at most {most}");
        format!("{heard} of them passed on in {:?}", begun.elapsed())
    })
    .await;
}
