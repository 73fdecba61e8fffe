//! Events from plugin to plugin.

use bytes::Bytes;
use orchestra_plugin::{
    envelope::{Request, RequestKind},
    field,
    generated::{HealthRequest, HealthResult, PluginManifest, Publish, Subscribe, Unsubscribe},
    ids::PluginId,
    quic::Limits,
};
use orchestra_plugin_host::{
    events::{EventCounts, EventLimits},
    face::FaceOptions,
};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    face_rig::{PATIENCE, Peer, Rig, structure},
    rig::until,
};

fn needs_events(topics: &[&str]) -> PluginManifest {
    PluginManifest {
        needs_events: topics.iter().map(|&topic| topic.into()).collect(),
        ..PluginManifest::default()
    }
}

fn subscribe(id: &str, topic: &str) -> Subscribe {
    Subscribe {
        subscription_id: id.into(),
        topic: topic.into(),
        ..Subscribe::default()
    }
}

fn event(topic: &str, event_type: &str) -> Publish {
    Publish {
        topic: topic.into(),
        event_type: event_type.into(),
        payload: structure(&json!({"colour": "red"})),
        source_plugin: "somebody.else".into(),
    }
}

fn id(plugin: &str) -> PluginId {
    plugin.parse().unwrap()
}

async fn publish(peer: &Peer, event: &Publish) {
    assert_eq!(peer.ask(event).await.encode(), Bytes::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_go_to_those_who_need_them() {
    let mut rig = Rig::new();
    let _needing = rig.plugin("a.needing", needs_events(&["news"])).await;
    let asking = rig.plugin("b.asking", needs_events(&["*"])).await;
    let publisher = rig.plugin("c.publisher", PluginManifest::default()).await;
    let red = Subscribe {
        filters: [("colour".to_owned(), "red".to_owned())].into(),
        ..subscribe("red", "news")
    };
    let blue = Subscribe {
        filters: [("colour".to_owned(), "blue".to_owned())].into(),
        ..subscribe("blue", "other")
    };
    for wanted in [&red, &blue, &subscribe("all", "news")] {
        asking.ask(wanted).await;
    }
    publish(&publisher, &event("other", "none")).await;
    // What this version does not know of an event is delivered as well.
    let mut bytes = prost::Message::encode_to_vec(&event("news", "first"));
    field::put_text(&mut bytes, 999, "unknown");
    let request = Request::raw("", RequestKind::Publish, bytes.into());
    publisher.raw(request.encode()).await;
    publish(&publisher, &event("news", "second")).await;
    let mut heard = Vec::new();
    for _ in 0..4 {
        let (plugin, request) = rig.event().await;
        let told: Publish = request.message().unwrap();
        assert_eq!(
            told.source_plugin, "c.publisher",
            "it is who its certificate says"
        );
        let is_first = told.event_type == "first";
        let has_unknown = request.payload().windows(7).any(|part| part == b"unknown");
        assert_eq!(has_unknown, is_first);
        heard.push((plugin, told.event_type));
    }
    for plugin in ["a.needing", "b.asking"] {
        let of = heard.iter().filter(|(to, _)| *to == id(plugin));
        let types: Vec<&str> = of.map(|(_, kind)| &**kind).collect();
        assert_eq!(types, ["first", "second"], "{plugin}");
    }
    for wanted in ["red", "all"] {
        let unwanted = Unsubscribe {
            subscription_id: wanted.into(),
        };
        assert_eq!(asking.ask(&unwanted).await.kind(), None);
    }
    publish(&publisher, &event("news", "third")).await;
    assert_eq!(rig.event().await.0, id("a.needing"));
    assert!(rig.delivered.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_cannot_be_told_of_events_may_not_subscribe() {
    let rig = Rig::new();
    let alone = rig.plugin("alone", needs_events(&["*"])).await;
    let (code, message) = alone.fails(&subscribe("s", "news")).await;
    assert_eq!(code, "not_reachable");
    assert!(message.contains("plugins.yaml"), "{message}");
    assert_eq!(rig.face.events().subscriptions(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_end_with_their_connection() {
    let mut rig = Rig::new();
    let first = rig
        .plugin("a.plugin", needs_events(&["news", "more"]))
        .await;
    let events = rig.face.events().clone();
    first.ask(&subscribe("1", "more")).await;
    assert_eq!(events.subscriptions(), 3);
    // A second connection of the plugin keeps what its manifest asks for.
    let second = rig.peer("a.plugin-client");
    let _: HealthResult = second.get(&HealthRequest::default()).await;
    drop(first);
    until("the subscription ended", || events.subscriptions() == 2).await;
    let publisher = rig.plugin("c.publisher", PluginManifest::default()).await;
    publish(&publisher, &event("news", "x")).await;
    assert_eq!(rig.event().await.0, id("a.plugin"));
    drop(second);
    until("all have ended", || events.subscriptions() == 0).await;
    publish(&publisher, &event("news", "y")).await;
    // It has to register again, and is told again from then on.
    let third = rig.peer("a.plugin-client");
    let _: HealthResult = third.get(&HealthRequest::default()).await;
    assert_eq!(events.subscriptions(), 0);
    let _registered = rig
        .plugin("a.plugin", needs_events(&["news", "more"]))
        .await;
    assert_eq!(events.subscriptions(), 2);
    publish(&publisher, &event("news", "z")).await;
    let (_, request) = rig.event().await;
    assert_eq!(request.message::<Publish>().unwrap().event_type, "z");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_slow_harms_nobody_else() {
    let limits = EventLimits {
        waiting: 4,
        ..EventLimits::default()
    };
    let mut rig = Rig::with(FaceOptions::default(), limits, Limits::default());
    let _slow = rig.plugin("a.slow", needs_events(&["news"])).await;
    let _quick = rig.plugin("b.quick", needs_events(&["news"])).await;
    let publisher = rig.plugin("c.publisher", PluginManifest::default()).await;
    *rig.delivery.stuck.lock().unwrap() = Some(id("a.slow"));
    for number in 0..20 {
        publish(&publisher, &event("news", &number.to_string())).await;
        let (plugin, request) = rig.event().await;
        assert_eq!(plugin, id("b.quick"));
        assert_eq!(
            request.message::<Publish>().unwrap().event_type,
            number.to_string()
        );
    }
    let events = rig.face.events().clone();
    until("all are counted", || events.counts().delivered == 20).await;
    let counts = events.counts();
    // One is on its way, and four wait.
    assert_eq!(
        counts,
        EventCounts {
            published: 20,
            delivered: 20,
            failed: 0,
            dropped: 15
        }
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_subscriptions_are_bounded() {
    let limits = EventLimits {
        of_connection: 2_000,
        ..EventLimits::default()
    };
    let mut rig = Rig::with(FaceOptions::default(), limits, Limits::default());
    let greedy = rig.plugin("a.greedy", needs_events(&["*"])).await;
    let mut refused = 0;
    for number in 0..10_000 {
        let answer = greedy.ask(&subscribe(&number.to_string(), "news")).await;
        refused += usize::from(
            answer
                .message::<orchestra_plugin::generated::ToolResponse>()
                .is_ok(),
        );
    }
    let events = rig.face.events().clone();
    assert_eq!((events.subscriptions(), refused), (2_000, 8_000));
    let publisher = rig.plugin("c.publisher", PluginManifest::default()).await;
    let began = Instant::now();
    publish(&publisher, &event("news", "x")).await;
    assert_eq!(rig.event().await.0, id("a.greedy"));
    assert!(rig.delivered.try_recv().is_err(), "it is told once");
    assert!(began.elapsed() < PATIENCE);
    drop(greedy);
    until("all have ended", || events.subscriptions() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_registers_again_keeps_what_waits_for_it() {
    let mut rig = Rig::new();
    let hearing = rig.plugin("a.hearing", needs_events(&["news"])).await;
    let publisher = rig.plugin("c.publisher", PluginManifest::default()).await;
    // Nothing is delivered for now.
    let gate = &rig.delivery.gate;
    gate.forget_permits(gate.available_permits());
    for number in 0..3 {
        publish(&publisher, &event("news", &number.to_string())).await;
    }
    let again = PluginManifest {
        id: "a.hearing".into(),
        provides_tools: vec!["new".into()],
        ..needs_events(&["news"])
    };
    let _: orchestra_plugin::generated::RegistrationResult = hearing.get(&again).await;
    rig.delivery.gate.add_permits(3);
    for number in 0..3 {
        let (_, request) = rig.event().await;
        assert_eq!(
            request.message::<Publish>().unwrap().event_type,
            number.to_string()
        );
    }
}
