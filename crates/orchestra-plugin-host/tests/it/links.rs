//! What is said to connected plugins from elsewhere: events, and that what they offer has changed.

use futures_util::FutureExt as _;
use orchestra_mcp::client::{Connector as _, LINK_QUEUE, ServerMessage};
use orchestra_plugin::{
    envelope::{Request, RequestKind},
    generated::Publish,
    ids::PluginId,
};
use orchestra_plugin_host::{events::Deliver as _, link::Links};
use prost::Message as _;
use serde_json::json;
use tokio::time::timeout;

use crate::rig::{PATIENCE, Rig, ask, client, until};

fn event(event_type: &str) -> Request {
    let event = Publish {
        topic: "news".to_owned(),
        event_type: event_type.to_owned(),
        ..Publish::default()
    };
    Request::raw("", RequestKind::Publish, event.encode_to_vec().into())
}

fn id(plugin: &str) -> PluginId {
    plugin.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_reaches_a_plugin_that_is_connected_or_about_to_be() {
    let (rig, links) = (Rig::new("ok"), Links::new());
    let plugin = id("fake.plugin");
    let connector = rig.connector().with_links(links.clone());
    let mut connecting = connector.connect();
    // It has begun to start it.
    assert!((&mut connecting).now_or_never().is_none());
    assert!(links.settled(&plugin).now_or_never().is_none());
    let waiting = tokio::spawn(links.deliver(&plugin, event("early")));
    let connected = connecting.await.unwrap();
    timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    links.settled(&plugin).now_or_never().unwrap();
    assert!(links.until_gone(&plugin).now_or_never().is_none());
    links.deliver(&plugin, event("later")).await.unwrap();
    let noted = rig.noted();
    let events: Vec<_> = noted
        .iter()
        .filter(|line| line.starts_with("event"))
        .collect();
    assert_eq!(events, ["event early", "event later"]);
    connected.link.close().await;
    rig.all_gone().await;
    timeout(PATIENCE, links.until_gone(&plugin)).await.unwrap();
    links.settled(&plugin).now_or_never().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_plugin_that_nobody_starts() {
    let (rig, links) = (Rig::new("ok"), Links::new());
    let plugin = id("fake.plugin");
    let alone = links.deliver(&plugin, event("unheard"));
    let told = timeout(PATIENCE, alone).await.unwrap().unwrap_err();
    assert_eq!(told, "it is not connected");
    assert!(!links.reaches(&plugin));
    // One whose start is given up is waited for no more.
    let connector = rig.connector().with_links(links.clone());
    let mut connecting = connector.connect();
    assert!((&mut connecting).now_or_never().is_none());
    assert!(links.reaches(&plugin));
    let waiting = tokio::spawn(links.deliver(&plugin, event("unheard")));
    drop(connecting);
    let told = timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert_eq!(told.unwrap_err(), "it is not connected");
    assert!(!links.reaches(&plugin));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_refused_is_not_delivered() {
    let (rig, links) = (Rig::new("deaf"), Links::new());
    let connector = rig.connector().with_links(links.clone());
    let connected = connector.connect().await.unwrap();
    let refused = links.deliver(&id("fake.plugin"), event("unheard")).await;
    let told = refused.unwrap_err();
    assert!(told.contains("unrecognized request type"), "{told}");
    connected.link.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_among_them_while_it_is_connected() {
    let (rig, links) = (Rig::new("ok"), Links::new());
    let plugin = id("fake.plugin");
    assert!(!links.changed(&plugin));
    let connector = rig.connector().with_links(links.clone());
    let mut first = connector.connect().await.unwrap();
    assert!(links.changed(&plugin));
    assert!(!links.changed(&id("another")));
    for wanted in ["tools", "prompts", "resources"] {
        let told = timeout(PATIENCE, first.incoming.recv()).await.unwrap();
        let ServerMessage::Notification { method, .. } = told.unwrap().message else {
            panic!("it asks");
        };
        assert_eq!(method, format!("notifications/{wanted}/list_changed"));
    }
    rig.kill_last();
    until("it is out", || !links.changed(&plugin)).await;
    // The end of an older connection leaves a later one in.
    let second = connector.connect().await.unwrap();
    first.link.close().await;
    drop(first);
    assert!(links.changed(&plugin));
    second.link.close().await;
    until("it is out", || !links.changed(&plugin)).await;
    rig.all_gone().await;
}

/// Whoever does not listen for a while learns that something was missed.
#[tokio::test(flavor = "multi_thread")]
async fn change_that_finds_no_room_is_reported_as_missed() {
    let (rig, links) = (Rig::new("ok"), Links::new());
    let connector = rig.connector().with_links(links.clone());
    let mut connected = connector.connect().await.unwrap();
    (0..LINK_QUEUE).for_each(|_| assert!(links.changed(&id("fake.plugin"))));
    let mut next = async || {
        let told = timeout(PATIENCE, connected.incoming.recv()).await.unwrap();
        match told.unwrap().message {
            ServerMessage::Notification { method, .. } => method,
            ServerMessage::Missed => "missed".to_owned(),
            other => panic!("{other:?}"),
        }
    };
    for _ in 0..LINK_QUEUE {
        assert_ne!(next().await, "missed");
    }
    assert_eq!(next().await, "missed");
    // And again.
    assert!(links.changed(&id("fake.plugin")));
    assert_eq!(next().await, "notifications/tools/list_changed");
    connected.link.close().await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_told_that_a_list_has_changed() {
    use orchestra_hub::ListKind;
    use orchestra_mcp::client::ClientEvent;

    let (rig, links) = (Rig::new("ok"), Links::new());
    let connector = rig.connector().with_links(links.clone());
    let client = client(std::sync::Arc::new(connector));
    let mut events = client.take_events().unwrap();
    ask(&client, "tools/list", json!({})).await.unwrap();
    assert!(links.changed(&id("fake.plugin")));
    let is_it = |event| matches!(event, ClientEvent::ListChanged(ListKind::Tools));
    let told = async { while !is_it(events.recv().await.unwrap()) {} };
    timeout(PATIENCE, told).await.unwrap();
    client.close().await;
    rig.all_gone().await;
}
