//! What a plugin may do is changed while it is connected, and it need not register again for that.

use std::sync::Arc;

use orchestra_plugin::generated::{PluginManifest, Publish, Subscribe};
use orchestra_plugin_host::face::{Allowed, Permissions};
use serde_json::json;

use crate::{
    face::call,
    face_rig::{Peer, Rig},
};

async fn may_call(plugin: &Peer, tool: &str) -> bool {
    let answer = plugin.ask(&call(tool, json!({}))).await;
    let answer: orchestra_plugin::generated::ToolResponse = answer.message().unwrap();
    assert_ne!(answer.error_code, "not_registered");
    answer.success
}

async fn publish(plugin: &Peer, topic: &str) {
    let event = Publish {
        topic: topic.into(),
        ..Publish::default()
    };
    plugin.ask(&event).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_held_to_what_its_operator_permits_now() {
    let mut rig = Rig::new();
    let permit = |rig: &Rig, tools: &[&str], events: &[&str]| {
        *rig.operator.permitted.lock().unwrap() = Permissions {
            tools: Allowed::listed(tools.iter().copied()),
            events: Allowed::listed(events.iter().copied()),
            ..Permissions::all()
        };
        rig.face.review(&"some.plugin".parse().unwrap());
    };
    permit(&rig, &["echo"], &["news", "more"]);
    let needs = PluginManifest {
        needs_tools: vec!["echo".into(), "who".into()],
        needs_events: vec!["*".into(), "news".into()],
        ..PluginManifest::default()
    };
    let plugin = rig.plugin("some.plugin", needs).await;
    let more = Subscribe {
        subscription_id: "1".into(),
        topic: "more".into(),
        ..Subscribe::default()
    };
    plugin.ask(&more).await;
    let events = rig.face.events().clone();
    assert_eq!(events.subscriptions(), 2);
    assert!(may_call(&plugin, "echo").await && !may_call(&plugin, "who").await);
    permit(&rig, &["*"], &["news"]);
    assert!(may_call(&plugin, "echo").await && may_call(&plugin, "who").await);
    assert!(
        !may_call(&plugin, "steps").await,
        "its manifest does not name it"
    );
    // It hears of nothing that it may not, also where it has subscribed before.
    assert_eq!(events.subscriptions(), 1);
    publish(&plugin, "more").await;
    publish(&plugin, "news").await;
    let (_, told) = rig.event().await;
    assert_eq!(told.message::<Publish>().unwrap().topic, "news");
    permit(&rig, &["who"], &[]);
    assert!(!may_call(&plugin, "echo").await && may_call(&plugin, "who").await);
    assert_eq!(events.subscriptions(), 0);
}

/// Nobody is made known who is not.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_not_registered_is_not_registered_by_a_review() {
    let rig = Rig::new();
    let peer = rig.peer("some.plugin-client");
    let _ = peer
        .ask(&orchestra_plugin::generated::HealthRequest::default())
        .await;
    rig.face.review(&"some.plugin".parse().unwrap());
    let (code, _) = peer.fails(&call("echo", json!({}))).await;
    assert_eq!(code, "not_registered");
}

/// What was permitted when it began to register is not what is permitted when it has.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_changed_while_a_plugin_registers_holds_once_it_has() {
    let rig = Rig::new();
    let (face, operator) = (rig.face.clone(), Arc::downgrade(&rig.operator));
    *rig.operator.meanwhile.lock().unwrap() = Some(Box::new(move || {
        let operator = operator.upgrade().unwrap();
        operator.permitted.lock().unwrap().tools = Allowed::listed(["who"]);
        face.review(&"some.plugin".parse().unwrap());
    }));
    let needs = PluginManifest {
        needs_tools: vec!["echo".into(), "who".into()],
        ..PluginManifest::default()
    };
    let plugin = rig.plugin("some.plugin", needs).await;
    assert!(!may_call(&plugin, "echo").await && may_call(&plugin, "who").await);
}
