//! Subscriptions and what callers are told.

use std::{sync::Arc, time::Duration};

use orchestra_hub::{
    Attachment, Catalog, ClientCatalog, HubNotice, ListKind, LogLevel, Notice, SubscribeError,
    Toolset,
};
use orchestra_wire::{RawJson, Revision};

use crate::provider::{caller, hub, provider, resources, tools};

#[tokio::test]
async fn the_first_and_the_last_subscriber_reach_the_provider() {
    let p = provider("p", resources());
    let hub = hub(&[&p]);
    let one = hub.attach(caller(), Toolset::All);
    let two = hub.attach(caller(), Toolset::All);
    one.subscribe("test://one").unwrap();
    one.subscribe("test://one").unwrap();
    two.subscribe("test://one").unwrap();
    one.unsubscribe("test://one");
    one.unsubscribe("test://one");
    assert_eq!(*p.watched.lock().unwrap(), ["+test://one"]);
    drop(two);
    assert_eq!(*p.watched.lock().unwrap(), ["+test://one", "-test://one"]);
    // A provider that panics harms nobody.
    one.subscribe("test://many/panic").unwrap();
    one.subscribe("test://one").unwrap();
}

#[tokio::test]
async fn a_resource_of_nobody_cannot_be_watched() {
    let hub = hub(&[&provider("p", tools(&["a"])), &provider("q", tools(&["b"]))]);
    let error = hub
        .attach(caller(), Toolset::All)
        .subscribe("test://one")
        .unwrap_err();
    assert_eq!(error, SubscribeError::Unknown("test://one".into()));
}

#[tokio::test]
async fn only_what_is_offered_can_be_watched() {
    let p = provider("p", resources());
    let attachment = hub(&[&p]).attach(caller(), Toolset::All);
    for uri in ["nonsense", "test://many/1/2", "test://many/refused"] {
        let error = attachment.subscribe(uri).unwrap_err();
        assert_eq!(error, SubscribeError::Unknown(uri.into()));
    }
    let long = format!("test://many/{}", "x".repeat(3_000));
    assert_eq!(attachment.subscribe(&long), Err(SubscribeError::TooLong));
    attachment.subscribe("test://many/1").unwrap();
    assert_eq!(*p.watched.lock().unwrap(), ["+test://many/1"]);
}

#[tokio::test]
async fn updates_reach_those_who_watch_and_logs_reach_all() {
    let p = provider("p", resources());
    let hub = hub(&[&p]);
    let watching = hub.attach(caller(), Toolset::All);
    let other = hub.attach(caller(), Toolset::All);
    watching.subscribe("test://many/1").unwrap();
    let mut heard = watching.take_notices().unwrap();
    assert!(watching.take_notices().is_none());
    let mut other = other.take_notices().unwrap();
    p.notices
        .send(Notice::ResourceUpdated("test://one".into()))
        .await
        .unwrap();
    p.notices
        .send(Notice::ResourceUpdated("test://many/1".into()))
        .await
        .unwrap();
    let data = RawJson::empty_object();
    let log = Notice::Log {
        level: LogLevel::Info,
        logger: None,
        data,
    };
    p.notices.send(log).await.unwrap();
    let Some(HubNotice::ResourceUpdated(uri)) = heard.next().await else {
        panic!("an update")
    };
    assert_eq!(&*uri, "test://many/1");
    assert!(matches!(heard.next().await, Some(HubNotice::Log { .. })));
    assert!(matches!(other.next().await, Some(HubNotice::Log { .. })));
}

#[tokio::test]
async fn a_changed_catalog_is_told_and_says_what_changed() {
    let p = provider("p", tools(&["a"]));
    let hub = hub(&[&p]);
    let attachment = hub.attach(caller(), Toolset::All);
    let mut heard = attachment.take_notices().unwrap();
    // Published again, but the same.
    p.catalog.send_replace(Arc::new(tools(&["a"])));
    assert_eq!(hub.tools(&Toolset::All).len(), 1);
    p.catalog.send_replace(Arc::new(tools(&["a", "b"])));
    let Some(HubNotice::CatalogChanged {
        tools,
        prompts,
        resources,
    }) = heard.next().await
    else {
        panic!("a change")
    };
    assert_eq!((tools, prompts, resources), (true, false, false));
}

#[tokio::test]
async fn a_caller_that_does_not_listen_is_told_that_it_missed_something() {
    let p = provider("p", resources());
    let hub = hub(&[&p]);
    let attachment = hub.attach(caller(), Toolset::All);
    attachment.subscribe("test://one").unwrap();
    for _ in 0..900 {
        p.notices
            .send(Notice::ResourceUpdated("test://one".into()))
            .await
            .unwrap();
    }
    while p.notices.capacity() < p.notices.max_capacity() {
        tokio::task::yield_now().await;
    }
    let mut heard = attachment.take_notices().unwrap();
    let mut updates = 0;
    while let Some(HubNotice::ResourceUpdated(_)) = heard.next().await {
        updates += 1;
    }
    // What ended the loop was the word that some are missing.
    assert!((1..900).contains(&updates), "{updates}");
}

#[tokio::test]
async fn long_log_messages_wait_for_a_caller_up_to_a_number_of_bytes() {
    const MANY: usize = 100;
    let p = provider("p", resources());
    let hub = hub(&[&p]);
    let attachment = hub.attach(caller(), Toolset::All);
    attachment.subscribe("test://one").unwrap();
    let data = RawJson::of(&"x".repeat(64 * 1024)).unwrap();
    for _ in 0..MANY {
        let log = Notice::Log {
            level: LogLevel::Error,
            logger: None,
            data: data.clone(),
        };
        p.notices.send(log).await.unwrap();
    }
    let update = Notice::ResourceUpdated("test://one".into());
    p.notices.send(update).await.unwrap();
    while p.notices.capacity() < p.notices.max_capacity() {
        tokio::task::yield_now().await;
    }
    let mut heard = attachment.take_notices().unwrap();
    let (mut logs, mut updates) = (0, 0);
    loop {
        match heard.next().await.unwrap() {
            HubNotice::Log { .. } => logs += 1,
            HubNotice::ResourceUpdated(_) => updates += 1,
            HubNotice::Lagged => break,
            other => panic!("{other:?}"),
        }
    }
    assert!((1..MANY / 4).contains(&logs), "{logs}");
    assert_eq!(updates, 1);
    // There is room again, also for a message that is larger than all that may wait.
    let data = RawJson::of(&"x".repeat(2 * 1024 * 1024)).unwrap();
    let log = Notice::Log {
        level: LogLevel::Error,
        logger: None,
        data,
    };
    p.notices.send(log).await.unwrap();
    assert!(matches!(heard.next().await, Some(HubNotice::Log { .. })));
}

#[tokio::test]
async fn a_provider_that_leaves_while_it_is_asked_does_not_bar_the_next() {
    let (p, next) = (provider("p", resources()), provider("p", resources()));
    let hub = hub(&[&p]);
    let early = hub.attach(caller(), Toolset::All);
    *p.leaves.lock().unwrap() = Some(hub.clone());
    early.subscribe("test://one").unwrap();
    hub.register(next.clone()).unwrap();
    let late = hub.attach(caller(), Toolset::All);
    late.subscribe("test://one").unwrap();
    assert_eq!(*next.watched.lock().unwrap(), ["+test://one"]);
    drop((early, late));
    assert_eq!(
        *next.watched.lock().unwrap(),
        ["+test://one", "-test://one"]
    );
}

#[tokio::test]
async fn a_provider_that_blocks_while_it_is_watched_stops_nobody_else() {
    let (p, q) = (provider("p", resources()), provider("q", tools(&["a"])));
    let hub = hub(&[&p, &q]);
    let (one, two) = (
        hub.attach(caller(), Toolset::All),
        hub.attach(caller(), Toolset::All),
    );
    two.subscribe("test://one").unwrap();
    let held = p.held.lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| one.subscribe("test://many/block"));
        while p.watched.lock().unwrap().len() < 2 {
            std::thread::yield_now();
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        scope.spawn(move || {
            two.subscribe("test://one").unwrap();
            let another = hub.attach(caller(), Toolset::All);
            drop(another);
            sender.send(()).unwrap();
            // Waits for its turn at the provider, behind the other one.
            drop(two);
        });
        let went_on = receiver.recv_timeout(Duration::from_secs(60));
        drop(held);
        went_on.expect("others go on");
    });
    assert_eq!(
        *p.watched.lock().unwrap(),
        ["+test://one", "+test://many/block", "-test://one"]
    );
}

#[tokio::test]
async fn client_alone_sees_its_catalog_and_is_notified_of_changes() {
    let p = provider("p", tools(&["a"]));
    let hub = hub(&[&p]);
    let own = hub.attach(caller(), Toolset::All);
    let other = hub.attach(caller(), Toolset::All);
    let listed = |attachment: &Attachment| {
        let list = attachment.list(ListKind::Tools, Revision::NEWEST);
        let text = String::from_utf8(list.page(0, usize::MAX).0.to_vec()).unwrap();
        ["a", "b", "c"].map(|name| text.contains(&format!("\"name\":\"{name}\"")))
    };
    let mut heard = [&own, &other].map(|attachment| attachment.take_notices().unwrap());
    let with_own = |usual: &[&str], names: &[&str]| {
        let catalog = ClientCatalog {
            clients: vec![own.number()],
            catalog: Arc::new(tools(names)),
        };
        p.catalog.send_replace(Arc::new(Catalog {
            of_clients: vec![catalog],
            ..tools(usual)
        }));
    };
    with_own(&["a"], &["b"]);
    assert_eq!(listed(&own), [false, true, false]);
    assert_eq!(listed(&other), [true, false, false]);
    let is_tools = |notice| matches!(notice, Some(HubNotice::CatalogChanged { tools: true, .. }));
    assert!(is_tools(heard[0].next().await));
    // Only the other client hears of the next change.
    with_own(&["a", "c"], &["b"]);
    assert_eq!(listed(&other), [true, false, true]);
    assert!(is_tools(heard[1].next().await));
    p.catalog.send_replace(Arc::new(tools(&["a", "c"])));
    assert_eq!(listed(&own), [true, false, true]);
    assert!(is_tools(heard[0].next().await));
    drop((own, other));
    assert!(heard[0].next().await.is_none() && heard[1].next().await.is_none());
}
