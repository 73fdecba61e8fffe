//! Deadlines, limits, permission, panics, what is counted and recorded.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use orchestra_hub::{
    Audit, AuditConfig, CallEnd, CancelSource, HubConfig, NamePattern, Permission, ProviderError,
    Toolset,
};
use serde_json::json;

use crate::provider::{call, call_of, caller, hub, hub_with, provider, tools};

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_quick_call_is_answered_by_its_first_poll() {
    let hub = hub(&[&provider("p", tools(&["a"]))]);
    let attachment = hub.attach(caller(), Toolset::All);
    let mut call = attachment.call(call_of("a", &json!({"x": 1})));
    assert!(poll_once(&mut call).is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline() {
    let config = HubConfig {
        deadline: Duration::from_secs(60),
        ..HubConfig::default()
    };
    let hub = hub_with(config, &[&provider("p", tools(&["never"]))]);
    assert!(matches!(
        call(&hub, "never").await,
        Err(ProviderError::DeadlineExceeded)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_waits_for_has_a_deadline_of_its_own() {
    let config = HubConfig {
        deadline: Duration::from_secs(60),
        long_deadline: Duration::from_secs(600),
        ..HubConfig::default()
    };
    let hub = hub_with(config, &[&provider("p", tools(&["never"]))]);
    let attachment = hub.attach(caller(), Toolset::All);
    let mut request = call_of("never", &json!({}));
    request.cx.long = true;
    let began = tokio::time::Instant::now();
    let ended = attachment.call(request).await;
    assert!(matches!(ended, Err(ProviderError::DeadlineExceeded)));
    assert_eq!(began.elapsed().as_secs(), 600);
}

#[tokio::test]
async fn a_cancelled_call_ends() {
    let hub = hub(&[&provider("p", tools(&["never", "a"]))]);
    let attachment = hub.attach(caller(), Toolset::All);
    let source = CancelSource::new();
    let mut request = call_of("never", &json!({}));
    request.cx.cancel = source.signal();
    let running = tokio::spawn(attachment.call(request));
    source.cancel();
    assert!(matches!(
        running.await.unwrap(),
        Err(ProviderError::Cancelled)
    ));
    // One that was cancelled before it began does not begin.
    let mut request = call_of("a", &json!({}));
    request.cx.cancel = source.signal();
    assert!(matches!(
        attachment.call(request).await,
        Err(ProviderError::Cancelled)
    ));
}

#[tokio::test]
async fn calls_over_a_limit_wait_for_their_turn() {
    for (calls_per_caller, calls_per_provider) in [(1, 100), (100, 1)] {
        let config = HubConfig {
            calls_per_caller,
            calls_per_provider,
            ..HubConfig::default()
        };
        let p = provider("p", tools(&["wait", "a"]));
        let hub = hub_with(config, &[&p]);
        let attachment = hub.attach(caller(), Toolset::All);
        let mut first = attachment.call(call_of("wait", &json!({})));
        assert!(poll_once(&mut first).is_pending());
        let mut second = attachment.call(call_of("a", &json!({})));
        assert!(poll_once(&mut second).is_pending());
        assert_eq!(hub.metrics().waiting, 2);
        p.gate.notify_one();
        assert!(first.await.is_ok());
        assert!(second.await.is_ok());
        assert_eq!(hub.metrics().waiting, 0);
    }
}

#[tokio::test]
async fn a_panic_ends_one_call() {
    let hub = hub(&[&provider("p", tools(&["panic", "a"]))]);
    assert!(matches!(
        call(&hub, "panic").await,
        Err(ProviderError::Unreachable(_))
    ));
    assert!(call(&hub, "a").await.is_ok());
    let ends = hub.metrics().ends;
    assert!(ends.contains(&(CallEnd::Panicked, 1)) && ends.contains(&(CallEnd::Answered, 1)));
    let report = &hub.tool_metrics()[1];
    assert_eq!(
        (report.name.as_str(), report.calls, report.failures),
        ("panic", 1, 1)
    );
}

#[tokio::test]
async fn what_the_rules_forbid_is_neither_listed_nor_called() {
    let permission = Permission::new([], [NamePattern::new("delete_*")]);
    let config = HubConfig {
        permission,
        ..HubConfig::default()
    };
    let hub = hub_with(config, &[&provider("p", tools(&["get_x", "delete_x"]))]);
    assert_eq!(hub.tools(&Toolset::All).len(), 1);
    let error = call(&hub, "delete_x").await.unwrap_err();
    assert_eq!(error.to_string(), "tool delete_x is not permitted here");
}

#[tokio::test]
async fn calls_are_recorded_without_their_arguments() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let config = AuditConfig::new(&path);
    let audit = Some(Audit::open(config).unwrap());
    let hub = hub_with(
        HubConfig {
            audit,
            ..HubConfig::default()
        },
        &[&provider("p", tools(&["a"]))],
    );
    let attachment = hub.attach(caller(), Toolset::All);
    attachment
        .call(call_of("a", &json!({"password": "hunter2"})))
        .await
        .unwrap();
    assert!(attachment.call(call_of("nope", &json!({}))).await.is_err());
    drop(attachment.call(call_of("a", &json!({}))));
    attachment.refused("prompt", "p", Some("a plugin".into()));
    drop(attachment);
    drop(hub);
    // The provider's follower lets go of the hub as soon as it runs.
    let records = loop {
        let text = std::fs::read_to_string(&path).unwrap();
        if text.lines().count() == 4 {
            break text;
        }
        tokio::task::yield_now().await;
    };
    assert!(!records.contains("hunter2"), "{records}");
    let outcomes: Vec<serde_json::Value> = records
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["answered", "unknown", "cancelled", "denied"]);
    assert!(records.contains("\"client\":\"a plugin\""), "{records}");
    assert!(records.contains("\"provider\":\"p\"") && records.contains("\"client\":\"tester\""));
}

#[tokio::test]
async fn the_hub_lives_no_longer_than_its_owners() {
    let p = provider("p", tools(&["a"]));
    let hub = hub(&[&p]);
    drop(hub);
    while Arc::strong_count(&p) > 1 {
        tokio::task::yield_now().await;
    }
}
