//! Who wants which events, and which of them wait for whom. Pure: nothing waits here.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use orchestra_plugin::{
    generated::{Publish, Subscribe},
    ids::PluginId,
    quic::ConnectionId,
    structs::{self, Member},
};

/// The longest id and topic, and the bytes of all filters of a subscription.
const MAX_NAME_BYTES: usize = 256;
const MAX_FILTER_BYTES: usize = 4 * 1024;

/// How much there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLimits {
    /// Subscriptions of one connection.
    pub of_connection: usize,
    /// Subscriptions of all.
    pub all: usize,
    /// Events that wait for one plugin.
    pub waiting: usize,
    /// Their bytes. One is always taken, however large.
    pub waiting_bytes: usize,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self {
            of_connection: 1_024,
            all: 16 * 1_024,
            waiting: 1_024,
            waiting_bytes: 32 * 1024 * 1024,
        }
    }
}

/// What became of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Events that were published.
    pub published: u64,
    /// Deliveries that were taken.
    pub delivered: u64,
    /// Deliveries that were tried and failed.
    pub failed: u64,
    /// Deliveries that were given up because too many waited.
    pub dropped: u64,
}

/// Why events are not taken, or not wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// A name or the filters are too long.
    #[error(
        "the topic, the subscription_id or the filters are too long; the limit is {MAX_NAME_BYTES} bytes for a topic \
         or subscription_id, and {MAX_FILTER_BYTES} bytes for all filters together"
    )]
    TooLong,
    /// There is no topic.
    #[error("an event needs a topic")]
    NoTopic,
    /// There are too many subscriptions.
    #[error("too many subscriptions: at most {0}; unsubscribe from some")]
    TooMany(usize),
}

impl EventError {
    /// The kind of the failure, as peers are told.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLong | Self::NoTopic => "invalid_request",
            Self::TooMany(_) => "busy",
        }
    }
}

/// Whose a subscription is: it ends with its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Connection(ConnectionId),
    /// What a plugin's manifest says that it needs.
    Manifest(PluginId),
}

/// All subscriptions and what waits.
#[derive(Debug, Default)]
pub(super) struct Broker {
    limits: EventLimits,
    topics: HashMap<String, HashMap<Key, Subscription>>,
    /// The topic of each subscription.
    owned: HashMap<Owner, HashMap<String, String>>,
    count: usize,
    subscribers: HashMap<PluginId, Subscriber>,
    counts: EventCounts,
}

type Key = (Owner, String);

#[derive(Debug)]
struct Subscription {
    plugin: PluginId,
    filters: BTreeMap<String, String>,
}

/// A plugin with subscriptions, or with events that wait.
#[derive(Debug, Default)]
struct Subscriber {
    subscriptions: usize,
    waiting: VecDeque<Bytes>,
    bytes: usize,
    /// Somebody takes what waits.
    is_served: bool,
    dropped: u64,
}

impl Broker {
    pub(super) fn new(limits: EventLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Adds a subscription; one of the same owner and id is replaced.
    pub(super) fn subscribe(
        &mut self,
        owner: Owner,
        plugin: &PluginId,
        wanted: Subscribe,
    ) -> Result<(), EventError> {
        let Subscribe {
            subscription_id: id,
            topic,
            filters,
        } = wanted;
        if topic.is_empty() {
            return Err(EventError::NoTopic);
        }
        let bytes = filters.iter().map(|(key, value)| key.len() + value.len());
        let is_long = id.len() > MAX_NAME_BYTES || topic.len() > MAX_NAME_BYTES;
        if is_long || bytes.sum::<usize>() > MAX_FILTER_BYTES {
            return Err(EventError::TooLong);
        }
        self.unsubscribe(&owner, &id);
        let EventLimits {
            of_connection, all, ..
        } = self.limits;
        if self
            .owned
            .get(&owner)
            .is_some_and(|owned| owned.len() >= of_connection)
        {
            return Err(EventError::TooMany(of_connection));
        }
        if self.count >= all {
            return Err(EventError::TooMany(all));
        }
        self.count += 1;
        let subscriber = self.subscribers.entry(plugin.clone()).or_default();
        subscriber.subscriptions += 1;
        let owned = self.owned.entry(owner.clone()).or_default();
        owned.insert(id.clone(), topic.clone());
        let plugin = plugin.clone();
        let subscription = Subscription { plugin, filters };
        let topic = self.topics.entry(topic).or_default();
        topic.insert((owner, id), subscription);
        Ok(())
    }

    pub(super) fn unsubscribe(&mut self, owner: &Owner, id: &str) {
        let Some(owned) = self.owned.get_mut(owner) else {
            return;
        };
        let Some(topic) = owned.remove(id) else {
            return;
        };
        if owned.is_empty() {
            self.owned.remove(owner);
        }
        self.remove(topic, (owner.clone(), id.to_owned()));
    }

    /// Ends all subscriptions of an owner.
    pub(super) fn end(&mut self, owner: &Owner) {
        for (id, topic) in self.owned.remove(owner).unwrap_or_default() {
            self.remove(topic, (owner.clone(), id));
        }
    }

    /// Ends the subscriptions of a plugin, whoever their owner is, but for topics that are allowed.
    pub(super) fn keep(&mut self, plugin: &PluginId, is_allowed: impl Fn(&str) -> bool) {
        let topics = self.topics.iter().filter(|(topic, _)| !is_allowed(topic));
        let of_all = topics.flat_map(|(_, subscriptions)| subscriptions);
        let of_plugin = of_all.filter(|(_, subscription)| subscription.plugin == *plugin);
        let ended: Vec<Key> = of_plugin.map(|(key, _)| key.clone()).collect();
        for (owner, id) in ended {
            self.unsubscribe(&owner, &id);
        }
    }

    fn remove(&mut self, topic: String, key: Key) {
        let Some(subscriptions) = self.topics.get_mut(&topic) else {
            return;
        };
        let Some(removed) = subscriptions.remove(&key) else {
            return;
        };
        if subscriptions.is_empty() {
            self.topics.remove(&topic);
        }
        self.count -= 1;
        if let Some(subscriber) = self.subscribers.get_mut(&removed.plugin) {
            subscriber.subscriptions -= 1;
            if subscriber.subscriptions == 0 {
                subscriber.waiting.clear();
                subscriber.bytes = 0;
                if !subscriber.is_served {
                    self.subscribers.remove(&removed.plugin);
                }
            }
        }
    }

    /// Puts an event into the queue of each plugin that wants it, once, and answers whom nobody
    /// serves yet. `payload` is the whole event. Where too much waits, the oldest is dropped.
    pub(super) fn publish(
        &mut self,
        event: &Publish,
        payload: &Bytes,
    ) -> Result<Vec<PluginId>, EventError> {
        if event.topic.is_empty() {
            return Err(EventError::NoTopic);
        }
        if event.topic.len() > MAX_NAME_BYTES {
            return Err(EventError::TooLong);
        }
        self.counts.published += 1;
        let mut wanting = std::collections::BTreeSet::new();
        for subscription in self
            .topics
            .get(&event.topic)
            .into_iter()
            .flat_map(HashMap::values)
        {
            let is_new = !wanting.contains(&subscription.plugin);
            if is_new && fits(&subscription.filters, event.payload.as_deref()) {
                wanting.insert(subscription.plugin.clone());
            }
        }
        let mut unserved = Vec::new();
        for plugin in wanting {
            let Some(subscriber) = self.subscribers.get_mut(&plugin) else {
                continue;
            };
            self.counts.dropped += subscriber.push(payload.clone(), &self.limits, &plugin);
            if !std::mem::replace(&mut subscriber.is_served, true) {
                unserved.push(plugin);
            }
        }
        Ok(unserved)
    }

    /// The next event for a plugin; `None` ends its service.
    pub(super) fn next(&mut self, plugin: &PluginId) -> Option<Bytes> {
        let subscriber = self.subscribers.get_mut(plugin)?;
        if let Some(event) = subscriber.waiting.pop_front() {
            subscriber.bytes -= event.len();
            return Some(event);
        }
        subscriber.is_served = false;
        if subscriber.subscriptions == 0 {
            self.subscribers.remove(plugin);
        }
        None
    }

    pub(super) fn count(&mut self, taken: bool) {
        match taken {
            true => self.counts.delivered += 1,
            false => self.counts.failed += 1,
        }
    }

    pub(super) const fn counts(&self) -> EventCounts {
        self.counts
    }

    pub(super) const fn subscriptions(&self) -> usize {
        self.count
    }
}

impl Subscriber {
    /// Answers how many were dropped for it.
    fn push(&mut self, event: Bytes, limits: &EventLimits, plugin: &PluginId) -> u64 {
        let mut dropped = 0;
        self.bytes += event.len();
        self.waiting.push_back(event);
        while self.waiting.len() > 1
            && (self.waiting.len() > limits.waiting || self.bytes > limits.waiting_bytes)
        {
            let oldest = self.waiting.pop_front();
            self.bytes -= oldest.map_or(0, |event| event.len());
            dropped += 1;
        }
        if dropped > 0 {
            self.dropped += dropped;
            // Not once for each.
            if self.dropped == dropped || self.dropped.is_power_of_two() {
                let dropped = self.dropped;
                tracing::warn!(%plugin, dropped, "dropped events: the plugin reads them too slowly");
            }
        }
        dropped
    }
}

/// Whether the payload has each filter's member, as a string that is equal.
fn fits(filters: &BTreeMap<String, String>, payload: Option<&[u8]>) -> bool {
    filters.iter().all(|(key, wanted)| {
        let member = payload.and_then(|payload| structs::member(payload, key).ok()?);
        matches!(member, Some(Member::Text(text)) if text == wanted)
    })
}

#[cfg(test)]
mod tests;
