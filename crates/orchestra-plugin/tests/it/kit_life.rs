//! The author's kit: how a plugin calls back, and how it ends.

use std::process::Stdio;

use orchestra_plugin::{
    envelope::{Request, RequestKind},
    generated::{
        HealthRequest, HealthResult, Publish, ShutdownRequest, ShutdownResult, Subscribe,
        ToolRequest,
    },
    quic::Endpoint,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    time::timeout,
};

use crate::{
    kit::encoded,
    kit_rig::{Fake, Manners, SAMPLE, Sample, command, program, tool_request},
    quic_rig::{Authority, PATIENCE, soon},
};

// The way back.

#[tokio::test]
async fn the_orchestrator_is_called_back_and_regained() {
    let authority = Authority::new();
    let manners = Manners {
        revision: 1,
        ..Manners::default()
    };
    let mut fake = Fake::start(&authority, Endpoint::LOOPBACK, manners.clone());
    let address = fake.address;
    let mut calling = command(&authority);
    calling.arg(format!("--orchestrator-addr={address}"));
    let sample = Sample::start(&authority, calling).await;
    fake.hear(RequestKind::Register).await;
    let text = sample
        .text("call", r#"{"tool":"greet","arguments":{"name":"Ada"}}"#)
        .await;
    assert_eq!(text, "hello");
    let (_, call) = fake.hear(RequestKind::ToolCall).await;
    let call: ToolRequest = call.message().unwrap();
    assert_eq!(call.caller_plugin, SAMPLE);
    assert_eq!(
        serde_json::from_slice::<Value>(&call.mcp_params).unwrap(),
        json!({"name": "greet", "arguments": {"name": "Ada"}})
    );
    let missing = sample.call("call", r#"{"tool":"nope"}"#).await;
    assert_eq!(
        missing.error_message,
        "no plugin provides it (tool_not_found)"
    );
    sample
        .text("publish", r#"{"topic":"sample.said","payload":{"n":1}}"#)
        .await;
    let (_, published) = fake.hear(RequestKind::Publish).await;
    let published: Publish = published.message().unwrap();
    assert_eq!(
        (published.topic.as_str(), published.source_plugin.as_str()),
        ("sample.said", SAMPLE)
    );

    let listening = sample.text("listen", r#"{"topic":"late"}"#);
    let regained = async {
        let (_, subscribed) = fake.hear(RequestKind::Subscribe).await;
        let first: Subscribe = subscribed.message().unwrap();
        fake.vanish().await;
        let mut fake = Fake::start(&authority, address, manners);
        fake.hear(RequestKind::Register).await;
        let (_, subscribed) = fake.hear(RequestKind::Subscribe).await;
        let second: Subscribe = subscribed.message().unwrap();
        assert_eq!(second, first);
        let event = Publish {
            topic: "late".to_owned(),
            payload: Some(encoded(&json!({"n": 2}))),
            ..Publish::default()
        };
        sample.ask(&event).await;
        fake
    };
    let (heard, mut fake) = tokio::join!(listening, regained);
    assert_eq!(heard, r#"{"n":2}"#);
    fake.hear(RequestKind::Unsubscribe).await;
}

#[tokio::test]
async fn a_plugin_that_finds_the_orchestrator_busy_registers_again() {
    let authority = Authority::new();
    let manners = Manners {
        revision: 1,
        busy: 2,
        ..Manners::default()
    };
    let mut fake = Fake::start(&authority, Endpoint::LOOPBACK, manners);
    let mut calling = command(&authority);
    calling.arg(format!("--orchestrator-addr={}", fake.address));
    let sample = Sample::start(&authority, calling).await;
    for _ in 0..3 {
        fake.hear(RequestKind::Register).await;
    }
    let text = sample.text("call", r#"{"tool":"greet"}"#).await;
    assert_eq!(text, "hello");
}

#[tokio::test]
async fn an_old_orchestrator_is_not_asked_for_subscriptions() {
    let authority = Authority::new();
    let fake = Fake::start(&authority, Endpoint::LOOPBACK, Manners::default());
    let mut calling = command(&authority);
    calling.arg(format!("--orchestrator-addr={}", fake.address));
    let sample = Sample::start(&authority, calling).await;
    let refused = sample.call("listen", r#"{"topic":"t"}"#).await;
    assert_eq!(
        refused.error_message,
        "the orchestrator does not support subscriptions"
    );
}

// How a plugin ends.

#[tokio::test]
async fn a_refused_plugin_ends_with_1() {
    let authority = Authority::new();
    let manners = Manners {
        revision: 1,
        refusal: Some("not wanted"),
        ..Manners::default()
    };
    let fake = Fake::start(&authority, Endpoint::LOOPBACK, manners);
    let mut calling = command(&authority);
    calling.arg(format!("--orchestrator-addr={}", fake.address));
    let mut sample = Sample::start(&authority, calling).await;
    assert_eq!(sample.code().await, Some(1));
    let said = sample.stderr.next_line().await.unwrap().unwrap();
    assert_eq!(said, "the orchestrator has refused the plugin: not wanted");
}

#[tokio::test]
async fn weakness_9_a_plugin_ends_when_the_orchestrator_stays_away() {
    let authority = Authority::new();
    let mut fake = Fake::start(&authority, Endpoint::LOOPBACK, Manners::default());
    let mut calling = command(&authority);
    calling
        .arg(format!("--orchestrator-addr={}", fake.address))
        .env("SAMPLE_PATIENCE_MS", "500");
    let mut sample = Sample::start(&authority, calling).await;
    fake.hear(RequestKind::Register).await;
    // It is answered once the plugin knows that it has registered.
    sample.call("listen", r#"{"topic":"t"}"#).await;
    fake.vanish().await;
    assert_eq!(sample.code().await, Some(1));
    let said = sample.stderr.next_line().await.unwrap().unwrap();
    assert!(
        said.starts_with("the orchestrator has been away for 0.5 s"),
        "{said}"
    );
}

#[tokio::test]
async fn weakness_9_a_plugin_ends_when_stdin_does() {
    let authority = Authority::new();
    let mut piped = command(&authority);
    piped.stdin(Stdio::piped());
    let mut sample = Sample::start(&authority, piped).await;
    sample.text("pid", "{}").await;
    drop(sample.child.stdin.take());
    assert_eq!(sample.code().await, Some(0));
}

#[tokio::test]
async fn weakness_9_a_plugin_ends_when_its_parent_does() {
    let authority = Authority::new();
    // A shell that stays its parent, and says its number first.
    let mut parent = tokio::process::Command::new("/bin/sh");
    parent
        .arg("-c")
        .arg("echo $$ >&2; \"$0\" \"$1\" & wait")
        .arg(program())
        .arg(format!("--certs-dir={}", authority.dir.path().display()))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut parent = parent.spawn().unwrap();
    let mut lines = BufReader::new(parent.stderr.take().unwrap()).lines();
    let mut ready = false;
    while !ready {
        let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
        ready = line.unwrap().starts_with("READY ");
    }
    parent.kill().await.unwrap();
    // The plugin holds the other end of stderr until it ends.
    let ended = async { while let Ok(Some(_)) = lines.next_line().await {} };
    timeout(PATIENCE, ended).await.unwrap();
}

#[tokio::test]
async fn signals_run_the_hook_and_end_with_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let authority = Authority::new();
        let home = tempfile::tempdir().unwrap();
        let ended = home.path().join("ended");
        let mut hooked = command(&authority);
        hooked.arg(format!("--end-file={}", ended.display()));
        let mut sample = Sample::start(&authority, hooked).await;
        let pid = i32::try_from(sample.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        assert_eq!(sample.code().await, Some(0), "{signal:?}");
        assert!(ended.exists());
    }
}

#[tokio::test]
async fn a_shutdown_waits_for_calls_and_stops_those_that_take_too_long() {
    let authority = Authority::new();
    let mut sample = Sample::alone(&authority).await;
    let waiting = sample.text("sleep", r#"{"milliseconds":1000}"#);
    let endless = sample.call("sleep", r#"{"milliseconds":3600000}"#);
    let asked = async {
        let sleeping = async {
            loop {
                let health = sample.ask(&HealthRequest::default()).await;
                let health: HealthResult = health.message().unwrap();
                if health.details["in_flight"] == "2" {
                    break;
                }
            }
        };
        timeout(PATIENCE, sleeping).await.unwrap();
        sample.ask(&ShutdownRequest { timeout_seconds: 4 }).await
    };
    let (slept, woken, stopped) = tokio::join!(waiting, endless, asked);
    assert_eq!(slept, "slept");
    assert_eq!(woken.error_code, "cancelled");
    let stopped: ShutdownResult = stopped.message().unwrap();
    assert!(stopped.clean);
    assert_eq!(sample.code().await, Some(0));
}

#[tokio::test]
async fn a_plugin_may_die_at_any_moment() {
    let authority = Authority::new();
    let mut sample = Sample::alone(&authority).await;
    let request = Request::new("r", &tool_request("die", "{}")).encode();
    // Its caller knows by the end of the process, long before the network does.
    let call = sample.caller.call(request, soon());
    let died = async {
        let status = sample.child.wait().await.unwrap();
        sample.caller.hang_up();
        status
    };
    let (answer, status) = timeout(PATIENCE, async { tokio::join!(call, died) })
        .await
        .unwrap();
    assert!(answer.unwrap_err().may_have_run());
    assert_eq!(status.code(), Some(7));
}
