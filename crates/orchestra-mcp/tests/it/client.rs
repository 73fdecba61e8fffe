//! The client against servers that a test plays, without any transport: greeting, calls, questions,
//! restarts, retries, subscriptions.

mod away;
mod faults;
mod forgotten;
mod given_up;
mod greeting;
mod matrix;
mod over_http;
mod played;
mod questions;
mod roots;
mod unnamed_call;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use orchestra_hub::{Cx, ListKind};
use orchestra_mcp::client::{
    Client, ClientConfig, ClientError, ClientEvent, ClientEvents, Reply, ServerCall, ToolCheck,
    TransportType,
};
use orchestra_wire::RawJson;
use serde_json::{Value, json};
use tokio::time::Instant;

use played::{Handle, Played, Said};

/// A configuration whose times a test can await.
fn config() -> ClientConfig {
    ClientConfig {
        name: "played".to_owned(),
        call_timeout: Duration::from_secs(5),
        answer_timeout: Duration::from_secs(60),
        ..ClientConfig::default()
    }
}

fn client_of(played: &Arc<Played>, config: ClientConfig) -> Client {
    Client::new(Arc::new(Handle(Arc::clone(played))), config)
}

fn raw(value: &Value) -> RawJson {
    RawJson::of(value).unwrap()
}

fn tool(name: &str) -> ServerCall {
    let params = json!({"name": name, "arguments": {}});
    ServerCall::new("tools/call", Some(raw(&params)), Cx::default())
}

fn safe(name: &str) -> ServerCall {
    ServerCall {
        safe: true,
        ..tool(name)
    }
}

/// The same call, after its tool is compared with the list of its connection.
fn checked(call: ServerCall) -> ServerCall {
    ServerCall {
        name: Some("t".to_owned()),
        check: Some(ToolCheck::new(|_| true)),
        ..call
    }
}

/// The next event of a kind.
async fn told(events: &mut ClientEvents, is_meant: impl Fn(&ClientEvent) -> bool) -> ClientEvent {
    let told = async {
        loop {
            let event = events.recv().await.expect("the client is there");
            if is_meant(&event) {
                return event;
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(600), told).await;
    waited.expect("it is told")
}

async fn result(client: &Client, call: ServerCall) -> Value {
    match client.call(call).await.unwrap() {
        Reply::Result(result) => result.parse().unwrap(),
        Reply::InputRequired(input) => panic!("asks: {input:?}"),
    }
}

/// Seed 002: `Invoke` sends a request and brings its result; `Metadata` says how it went.
#[tokio::test]
async fn a_method_is_invoked_and_the_metadata_says_so() {
    let played = Played::session(|call| Said::result(json!({"echo": call.params})));
    let client = client_of(&played, config());
    let before = client.metadata();
    assert_eq!((before.protocol_version, before.is_connected), ("", false));
    assert_eq!(before.latency, Duration::ZERO);
    let params = raw(&json!({"repo": "owner/repo"}));
    let call = ServerCall::new("commits.list", Some(params), Cx::default());
    let answer = result(&client, call).await;
    assert_eq!(answer, json!({"echo": {"repo": "owner/repo"}}));
    let after = client.metadata();
    assert_eq!(after.transport, TransportType::Stdio);
    assert_eq!(after.transport.as_str(), "stdio");
    assert_eq!(after.protocol_version, "2025-11-25");
    assert!(after.is_connected && after.latency > Duration::ZERO);
    client.health_check().await.unwrap();
    assert_eq!(played.count("ping"), 1);
    assert_eq!(played.count("initialize"), 1);
}

#[tokio::test]
async fn a_thousand_calls_at_once_each_get_their_own_answer() {
    let played = Played::session(|call| {
        let number = call.params["arguments"]["n"].as_u64().unwrap();
        Said::after(Duration::from_millis(number % 7), json!({ "n": number }))
    });
    let client = client_of(&played, config());
    let calls = (0..1_000u64).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            let params = raw(&json!({"name": "t", "arguments": {"n": n}}));
            let call = ServerCall::new("tools/call", Some(params), Cx::default());
            assert_eq!(result(&client, call).await, json!({ "n": n }));
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    let stats = client.stats();
    assert_eq!((stats.answered, stats.in_flight), (1_000, 0));
}

#[tokio::test]
async fn a_list_ends_at_the_last_cursor_at_an_empty_one_and_at_one_that_came_before() {
    let played = Played::session(|call| match call.params["cursor"].as_str() {
        None => Said::result(json!({"tools": [{"name": "a", "x": 1}], "nextCursor": "2"})),
        Some("2") => Said::result(json!({"tools": [{"name": "b"}], "nextCursor": "3"})),
        Some("3") => Said::result(json!({"tools": []})),
        Some(_) => unreachable!(),
    });
    let client = client_of(&played, config());
    let tools = client.list(ListKind::Tools).await.unwrap();
    let tools: Vec<&str> = tools.iter().map(RawJson::as_str).collect();
    assert_eq!(tools, [r#"{"name":"a","x":1}"#, r#"{"name":"b"}"#]);
    // What is not offered is not asked for.
    assert!(client.list(ListKind::Prompts).await.unwrap().is_empty());
    assert_eq!(played.count("prompts/list"), 0);

    // Revisions before 2026-07-28 do not say whether a last page has a cursor.
    for cursor in [json!("again"), json!(""), json!(null), json!(0), json!([])] {
        let page = json!({"tools": [{"name": "a"}], "nextCursor": cursor});
        let round = Played::session(move |_| Said::result(page.clone()));
        let client = client_of(&round, config());
        let tools = client.list(ListKind::Tools).await.unwrap();
        assert_eq!(tools.len(), 1, "{cursor}");
    }
}

#[tokio::test]
async fn changes_and_unknown_notifications_are_told() {
    let played = Played::session(|_| Said::result(json!({"tools": []})));
    let client = client_of(&played, config());
    let mut events = client.take_events().unwrap();
    assert!(client.take_events().is_none());
    client.start();
    assert!(matches!(events.recv().await, Some(ClientEvent::Started)));
    played.say("notifications/tools/list_changed", json!({}));
    played.say("notifications/tools/list_changed", json!({}));
    played.say("notifications/x/strange", json!({"a": [1]}));
    played.say(
        "notifications/message",
        json!({"level": "info", "data": {"b": 2}}),
    );
    played.say("notifications/resources/updated", json!({"uri": "a:b"}));
    let changed = events.recv().await;
    assert!(matches!(
        changed,
        Some(ClientEvent::ListChanged(ListKind::Tools))
    ));
    let Some(ClientEvent::Other {
        method,
        params,
        client: None,
    }) = events.recv().await
    else {
        panic!("the strange one is not told");
    };
    assert_eq!(method, "notifications/x/strange");
    assert_eq!(params.unwrap().as_str(), r#"{"a":[1]}"#);
    let logged = events.recv().await;
    assert!(matches!(logged, Some(ClientEvent::Log { data, .. }) if data.as_str() == r#"{"b":2}"#));
    let updated = events.recv().await;
    assert!(matches!(updated, Some(ClientEvent::ResourceUpdated(uri)) if uri == "a:b"));
    client.list(ListKind::Tools).await.unwrap();
    played.say("notifications/tools/list_changed", json!({}));
    let changed = events.recv().await;
    assert!(matches!(
        changed,
        Some(ClientEvent::ListChanged(ListKind::Tools))
    ));
}

#[tokio::test]
async fn what_is_watched_is_watched_again_after_a_restart() {
    let played = Played::session(|_| Said::result(json!({})));
    let client = client_of(&played, config());
    client.watch("a:1");
    client.start();
    played.until("resources/subscribe", 1).await;
    client.watch("a:2");
    played.until("resources/subscribe", 2).await;
    client.unwatch("a:1");
    played.until("resources/unsubscribe", 1).await;
    client.restart();
    played.until("resources/subscribe", 3).await;
    let last = played.last("resources/subscribe");
    assert_eq!(last["uri"], "a:2");
}

#[tokio::test(start_paused = true)]
async fn a_stateless_server_is_listened_to_on_one_stream() {
    let played = Played::stateless(|call| match call.method.as_str() {
        "subscriptions/listen" => {
            let id: Value = serde_json::from_str(call.id.as_json()).unwrap();
            let begun = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id}});
            call.link
                .say("notifications/subscriptions/acknowledged", begun, None);
            Said::never()
        }
        _ => Said::result(json!({"resultType": "complete"})),
    });
    let client = client_of(&played, config());
    client.start();
    played.until("subscriptions/listen", 1).await;
    client.watch("a:1");
    played.until("subscriptions/listen", 2).await;
    let wanted = &played.last("subscriptions/listen")["notifications"];
    assert_eq!(wanted["resourceSubscriptions"], json!(["a:1"]));
    assert_eq!(wanted["toolsListChanged"], true);
    // The stream before is given up.
    played.until("notifications/cancelled", 1).await;
}

/// A server that is slow to acknowledge a stream may be slow to listen as well.
#[tokio::test(start_paused = true)]
async fn late_acknowledgement_of_a_stream_announces_the_fetched_lists_again() {
    let stream = Arc::<Mutex<Value>>::default();
    let opened = Arc::clone(&stream);
    let played = Played::stateless(move |call| match call.method.as_str() {
        "subscriptions/listen" => {
            *opened.lock().unwrap() = serde_json::from_str(call.id.as_json()).unwrap();
            Said::never()
        }
        _ => Said::result(json!({"resultType": "complete", "tools": []})),
    });
    let client = client_of(&played, config());
    let mut events = client.take_events().unwrap();
    client.list(ListKind::Tools).await.unwrap();
    let is_change = |event: &ClientEvent| matches!(event, ClientEvent::ListChanged(_));
    // The stream is assumed to have begun.
    told(&mut events, is_change).await;
    let id = stream.lock().unwrap().take();
    let begun = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id}});
    played.say("notifications/subscriptions/acknowledged", begun);
    told(&mut events, is_change).await;
}

#[tokio::test]
async fn resource_is_announced_as_changed_when_its_subscription_begins() {
    let played = Played::session(|_| Said::result(json!({})));
    let client = client_of(&played, config());
    let mut events = client.take_events().unwrap();
    client.watch("a:1");
    client.start();
    let is_update = |event: &ClientEvent| matches!(event, ClientEvent::ResourceUpdated(_));
    for _ in 0..2 {
        let updated = told(&mut events, is_update).await;
        assert!(matches!(updated, ClientEvent::ResourceUpdated(uri) if uri == "a:1"));
        client.restart();
    }
}

#[tokio::test]
async fn refused_subscription_is_repeated_when_resources_change() {
    let asked = AtomicUsize::new(0);
    let played = Played::session(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Said::error(-32002, "no such resource"),
        _ => Said::result(json!({})),
    });
    let client = client_of(&played, config());
    let mut events = client.take_events().unwrap();
    client.watch("a:1");
    client.start();
    played.until("resources/subscribe", 1).await;
    played.say("notifications/resources/list_changed", json!({}));
    let is_update = |event: &ClientEvent| matches!(event, ClientEvent::ResourceUpdated(_));
    told(&mut events, is_update).await;
    assert_eq!(played.count("resources/subscribe"), 2);
}

#[tokio::test]
async fn missed_notifications_announce_fetched_lists_and_watched_resources_as_changed() {
    let played = Played::session(|_| Said::result(json!({"tools": []})));
    let client = client_of(&played, config());
    let mut events = client.take_events().unwrap();
    client.list(ListKind::Tools).await.unwrap();
    client.watch("a:1");
    let is_update = |event: &ClientEvent| matches!(event, ClientEvent::ResourceUpdated(_));
    told(&mut events, is_update).await;
    played.lose();
    let is_change = |event: &ClientEvent| matches!(event, ClientEvent::ListChanged(_));
    told(&mut events, is_change).await;
    told(&mut events, is_update).await;
}

#[tokio::test]
async fn long_log_message_is_shortened() {
    let played = Played::session(|_| Said::never());
    let client = client_of(&played, config());
    let mut events = client.take_events().unwrap();
    client.start();
    played.until("notifications/initialized", 1).await;
    for data in [json!("é".repeat(100_000)), json!(vec!["é"; 100_000])] {
        played.say(
            "notifications/message",
            json!({"level": "error", "data": data}),
        );
        let is_log = |event: &ClientEvent| matches!(event, ClientEvent::Log { .. });
        let ClientEvent::Log { data, .. } = told(&mut events, is_log).await else {
            unreachable!()
        };
        let text: String = data.parse().unwrap();
        assert!(text.len() < 70_000 && text.ends_with(" bytes)"), "{text}");
    }
}

/// Each may take the whole of its grace.
#[tokio::test(start_paused = true)]
async fn the_processes_of_a_pool_end_at_the_same_time() {
    let grace = Duration::from_secs(5);
    let played = Played::session(|_| Said::never());
    played.end_within(grace);
    let pooled = ClientConfig {
        pool: 4,
        outstanding: 1,
        ..config()
    };
    let client = client_of(&played, pooled);
    for calls in 1..=4 {
        let client = client.clone();
        tokio::spawn(async move { client.call(tool("t")).await });
        played.until("tools/call", calls).await;
    }
    assert_eq!(played.starts(), 4);
    let began = Instant::now();
    client.close().await;
    assert!((grace..grace * 2).contains(&began.elapsed()));
}

#[tokio::test]
async fn a_closed_client_is_closed_for_good() {
    let played = Played::session(|_| Said::never());
    let client = client_of(&played, config());
    let open = tokio::spawn({
        let client = client.clone();
        async move { client.call(tool("t")).await }
    });
    played.until("tools/call", 1).await;
    client.close().await;
    client.close().await;
    assert!(matches!(open.await.unwrap(), Err(ClientError::Closed)));
    assert!(matches!(
        client.call(tool("t")).await,
        Err(ClientError::Closed)
    ));
    assert!(!client.metadata().is_connected);
}
