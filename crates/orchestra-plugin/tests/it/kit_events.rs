//! The author's kit: events are taken at once, handled in their order, and none is lost unsaid.

use orchestra_plugin::generated::{Publish, ShutdownRequest, ShutdownResult, ToolResponse};
use serde::Serialize;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    kit::{encoded, kind},
    kit_rig::{Sample, command_of},
    quic_rig::{Authority, PATIENCE},
};

/// Events of a topic that may wait, beside the one that is handled.
const QUEUE: usize = 256;

fn event(topic: &str, n: impl Serialize) -> Publish {
    Publish {
        topic: topic.to_owned(),
        payload: Some(encoded(&json!({ "n": n }))),
        ..Publish::default()
    }
}

/// Waits until so many events were heard.
async fn heard(hearer: &Sample, count: usize) -> Vec<String> {
    let heard = async {
        loop {
            let text = hearer.text("heard", "{}").await;
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if lines.len() >= count {
                return lines;
            }
        }
    };
    timeout(PATIENCE, heard).await.unwrap()
}

#[tokio::test]
async fn events_are_taken_at_once_and_handled_in_their_order() {
    let authority = Authority::new();
    let hearer = Sample::start(&authority, command_of(&authority, "hearer")).await;
    // The first is being handled, and whoever published it is answered all the same.
    assert_eq!(kind(&hearer.ask(&event("slow", 0)).await), None);
    let mut taken = 1;
    let refused: ToolResponse = loop {
        let answer = hearer.ask(&event("slow", taken)).await;
        match kind(&answer) {
            None => taken += 1,
            Some(_) => break answer.message().unwrap(),
        }
    };
    assert!((QUEUE..=QUEUE + 1).contains(&taken), "{taken}");
    assert_eq!(refused.error_code, "busy");
    assert_eq!(
        refused.error_message,
        "the plugin is behind: 256 events of \"slow\", or 32 MiB of them, wait already, and this \
         one is dropped"
    );
    // Another topic does not wait behind it, nor does a function that panics end anything.
    assert_eq!(kind(&hearer.ask(&event("bad", 0)).await), None);
    assert_eq!(kind(&hearer.ask(&event("bad", 1)).await), None);
    assert_eq!(kind(&hearer.ask(&event("quick", 0)).await), None);
    assert_eq!(heard(&hearer, 1).await, ["quick 0"]);
    hearer.text("release", r#"{"count":1000}"#).await;
    let mut lines = heard(&hearer, 1 + taken).await;
    assert_eq!(kind(&hearer.ask(&event("slow", taken)).await), None);
    lines = heard(&hearer, lines.len() + 1).await;
    let wanted = (0..=taken).map(|n| format!("slow {n}"));
    assert_eq!(lines[1..], wanted.collect::<Vec<_>>());
}

#[tokio::test]
async fn few_large_events_are_as_much_as_many_small_ones() {
    let authority = Authority::new();
    let hearer = Sample::start(&authority, command_of(&authority, "hearer")).await;
    let large = event("slow", "x".repeat(12 * 1024 * 1024));
    let mut taken = 0;
    while kind(&hearer.ask(&large).await).is_none() {
        taken += 1;
    }
    // One is handled, and no more than 32 MiB wait.
    assert!((2..=3).contains(&taken), "{taken}");
    assert_eq!(kind(&hearer.ask(&event("quick", 0)).await), None);
}

#[tokio::test]
async fn what_waits_is_handled_before_the_end_as_far_as_there_is_time() {
    let authority = Authority::new();
    let home = tempfile::tempdir().unwrap();
    let ended = home.path().join("ended");
    let start = async || {
        let mut hooked = command_of(&authority, "hearer");
        hooked.arg(format!("--end-file={}", ended.display()));
        Sample::start(&authority, hooked).await
    };
    let mut hearer = start().await;
    hearer.text("release", r#"{"count":50}"#).await;
    for n in 0..50 {
        hearer.ask(&event("slow", n)).await;
    }
    let stopped = hearer
        .ask(&ShutdownRequest {
            timeout_seconds: 60,
        })
        .await;
    assert!(stopped.message::<ShutdownResult>().unwrap().clean);
    assert_eq!(hearer.code().await, Some(0));
    let lines = std::fs::read_to_string(&ended).unwrap();
    let wanted: Vec<String> = (0..50).map(|n| format!("slow {n}")).collect();
    assert_eq!(lines.lines().collect::<Vec<_>>(), wanted);

    // One that has no end is told to stop, and those behind it are given up.
    let mut hearer = start().await;
    for n in 0..3 {
        hearer.ask(&event("slow", n)).await;
    }
    let stopped = hearer.ask(&ShutdownRequest { timeout_seconds: 2 }).await;
    assert!(!stopped.message::<ShutdownResult>().unwrap().clean);
    assert_eq!(hearer.code().await, Some(0));
    assert_eq!(std::fs::read_to_string(&ended).unwrap(), "");
}
