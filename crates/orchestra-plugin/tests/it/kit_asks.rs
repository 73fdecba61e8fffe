//! The author's kit: what a plugin asks of others, it says beforehand, and it is told at once when it
//! may not.

use orchestra_plugin::{
    envelope::RequestKind,
    generated::{
        PluginManifest, StorageDeleteRequest, StorageListRequest, StorageReadRequest,
        StorageWriteRequest, ToolRequest,
    },
    quic::Endpoint,
};
use tokio::time::timeout;

use crate::{
    kit_rig::{Fake, Manners, Sample, command_of},
    quic_rig::{Authority, PATIENCE},
};

async fn asker(authority: &Authority) -> (Fake, Sample) {
    let manners = Manners {
        revision: 1,
        refusal: None,
        ..Manners::default()
    };
    let fake = Fake::start(authority, Endpoint::LOOPBACK, manners);
    let mut calling = command_of(authority, "asker");
    calling.arg(format!("--orchestrator-addr={}", fake.address));
    let asker = Sample::start(authority, calling).await;
    (fake, asker)
}

#[tokio::test]
async fn what_is_needed_is_said_and_asked_for_by_its_name() {
    let authority = Authority::new();
    let (mut fake, asker) = asker(&authority).await;
    let (_, registered) = fake.hear(RequestKind::Register).await;
    let manifest: PluginManifest = registered.message().unwrap();
    assert_eq!(manifest.needs_ai, ["openai"]);
    assert_eq!(manifest.needs_storage, ["memory"]);
    assert_eq!(manifest.needs_events, ["news.*", "weather"]);

    let said = asker
        .text("ask", r#"{"provider":"openai","tool":"greet"}"#)
        .await;
    assert_eq!(said, "hello");
    let (_, called) = fake.hear(RequestKind::ToolCall).await;
    let called: ToolRequest = called.message().unwrap();
    assert_eq!(called.provider, "openai");

    let said = asker.text("pass_through", r#"{"storage":"memory"}"#).await;
    assert_eq!(said, r#"memory: 1 Some(b"text") 0 true"#);
    let (_, asked) = fake.hear(RequestKind::StorageWrite).await;
    let write: StorageWriteRequest = asked.message().unwrap();
    let (_, asked) = fake.hear(RequestKind::StorageRead).await;
    let read: StorageReadRequest = asked.message().unwrap();
    let (_, asked) = fake.hear(RequestKind::StorageList).await;
    let list: StorageListRequest = asked.message().unwrap();
    let (_, asked) = fake.hear(RequestKind::StorageDelete).await;
    let delete: StorageDeleteRequest = asked.message().unwrap();
    for kind in [
        write.storage_type,
        read.storage_type,
        list.storage_type,
        delete.storage_type,
    ] {
        assert_eq!(kind, "memory");
    }
}

#[tokio::test]
async fn a_subscription_that_is_refused_is_told_at_once() {
    let authority = Authority::new();
    let (mut fake, asker) = asker(&authority).await;
    fake.hear(RequestKind::Register).await;
    let refused = asker.call("listen", r#"{"topic":"secret"}"#);
    let refused = timeout(PATIENCE, refused).await.unwrap();
    assert!(!refused.success);
    assert_eq!(
        refused.error_message,
        "name it in needs_events (not_permitted)"
    );
    // It is not asked for again, nor does it keep others from theirs.
    let (_, first) = fake.hear(RequestKind::Subscribe).await;
    let listening = asker.call("listen", r#"{"topic":"news.late"}"#);
    let heard = async {
        let (_, second) = fake.hear(RequestKind::Subscribe).await;
        assert_ne!(second.payload(), first.payload());
        fake
    };
    tokio::select! {
        told = listening => panic!("{told:?}"),
        heard = timeout(PATIENCE, heard) => drop(heard.unwrap()),
    }
}
