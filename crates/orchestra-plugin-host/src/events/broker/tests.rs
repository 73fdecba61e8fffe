//! The broker without anything around it.

use orchestra_plugin::structs::{Numbers, encode};

use super::*;

fn plugin(id: &str) -> PluginId {
    id.parse().unwrap()
}

fn subscribe(id: &str, topic: &str, filters: &[(&str, &str)]) -> Subscribe {
    let filters = filters.iter().map(|(k, v)| ((*k).into(), (*v).into()));
    Subscribe {
        subscription_id: id.into(),
        topic: topic.into(),
        filters: filters.collect(),
    }
}

fn event(topic: &str, payload: Option<&str>) -> Publish {
    Publish {
        topic: topic.into(),
        payload: payload.map(|json| encode(json.as_bytes(), Numbers::Nearest).unwrap()),
        ..Publish::default()
    }
}

fn owner() -> Owner {
    Owner::Connection(ConnectionId::unique())
}

/// Publishes a text and answers who must be served now.
fn publish(broker: &mut Broker, topic: &str, text: &str) -> Vec<PluginId> {
    let payload = Bytes::copy_from_slice(text.as_bytes());
    broker.publish(&event(topic, None), &payload).unwrap()
}

fn waiting(broker: &mut Broker, id: &str) -> Vec<String> {
    let taken = std::iter::from_fn(|| broker.next(&plugin(id)));
    taken
        .map(|event| String::from_utf8(event.to_vec()).unwrap())
        .collect()
}

#[test]
fn filters_match_strings_that_are_equal() {
    let filters = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    for (payload, fitting) in [
        (Some(r#"{"k":"v","other":1}"#), true),
        (Some(r#"{"k":"w"}"#), false),
        (Some(r#"{"k":1}"#), false),
        (Some("{}"), false),
        (None, false),
    ] {
        let event = event("t", payload);
        assert_eq!(
            fits(&filters, event.payload.as_deref()),
            fitting,
            "{payload:?}"
        );
        assert!(fits(&BTreeMap::new(), event.payload.as_deref()));
    }
}

#[test]
fn a_plugin_gets_an_event_once_and_in_order() {
    let (mut broker, owner) = (Broker::default(), owner());
    for id in ["1", "2"] {
        broker
            .subscribe(owner.clone(), &plugin("a"), subscribe(id, "t", &[]))
            .unwrap();
    }
    assert_eq!(publish(&mut broker, "t", "first"), [plugin("a")]);
    assert!(
        publish(&mut broker, "t", "second").is_empty(),
        "it is served"
    );
    assert!(publish(&mut broker, "tt", "another").is_empty());
    assert_eq!(waiting(&mut broker, "a"), ["first", "second"]);
    assert_eq!(publish(&mut broker, "t", "third"), [plugin("a")]);
}

#[test]
fn subscriptions_end_with_their_owner() {
    let (mut broker, first, second) = (Broker::default(), owner(), owner());
    for owner in [&first, &second] {
        broker
            .subscribe(owner.clone(), &plugin("a"), subscribe("1", "t", &[]))
            .unwrap();
    }
    broker.end(&first);
    assert_eq!(publish(&mut broker, "t", "x").len(), 1);
    broker.end(&second);
    assert!(
        waiting(&mut broker, "a").is_empty(),
        "nobody wants it any more"
    );
    assert!(publish(&mut broker, "t", "x").is_empty());
    assert_eq!(broker.subscriptions(), 0);
    assert!(broker.topics.is_empty() && broker.owned.is_empty() && broker.subscribers.is_empty());
}

#[test]
fn the_oldest_are_dropped_and_counted() {
    let limits = EventLimits {
        waiting: 3,
        waiting_bytes: 10,
        ..EventLimits::default()
    };
    let mut broker = Broker::new(limits);
    broker
        .subscribe(owner(), &plugin("a"), subscribe("1", "t", &[]))
        .unwrap();
    for text in ["1", "2", "3", "4", "5"] {
        publish(&mut broker, "t", text);
    }
    assert_eq!(broker.counts().dropped, 2);
    assert_eq!(waiting(&mut broker, "a"), ["3", "4", "5"]);
    for text in ["123456", "78901", "a longer one than all"] {
        publish(&mut broker, "t", text);
    }
    assert_eq!(waiting(&mut broker, "a"), ["a longer one than all"]);
    assert_eq!(broker.counts().dropped, 4);
}

#[test]
fn subscriptions_are_bounded() {
    let limits = EventLimits {
        of_connection: 2,
        all: 3,
        ..EventLimits::default()
    };
    let (mut broker, first) = (Broker::new(limits), owner());
    let mut add = |owner: &Owner, id: &str| {
        broker.subscribe(owner.clone(), &plugin("a"), subscribe(id, "t", &[]))
    };
    assert_eq!(add(&first, "1"), Ok(()));
    assert_eq!(add(&first, "2"), Ok(()));
    assert_eq!(add(&first, "3"), Err(EventError::TooMany(2)));
    assert_eq!(add(&first, "2"), Ok(()), "it is replaced");
    assert_eq!(add(&owner(), "1"), Ok(()));
    assert_eq!(add(&owner(), "1"), Err(EventError::TooMany(3)));
    assert_eq!(add(&owner(), &"x".repeat(257)), Err(EventError::TooLong));
}
