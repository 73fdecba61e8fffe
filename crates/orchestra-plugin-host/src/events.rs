//! What plugins tell each other: topics, subscriptions of connections, and their queues.
//!
//! A subscription belongs to the connection that it came over and ends with it; those that a
//! manifest asks for by `needs_events` last as long as its plugin is connected. An event goes once
//! to each plugin that wants it, whatever the number of its subscriptions, as a `publish` request to
//! the plugin's own server; the plugin tells its parts by topic.
//!
//! Each plugin has a queue, which is delivered one by one: what it gets is in the order of
//! publication, and a slow plugin delays nobody else. What cannot be delivered is given up. When
//! more waits than [`EventLimits`] say, the oldest events are dropped and counted: whoever falls
//! behind sees how things are now rather than how they were.

mod broker;

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use orchestra_plugin::{
    envelope::{Request, RequestKind},
    generated::{Publish, Subscribe},
    ids::PluginId,
    quic::ConnectionId,
};
use prost::Message as _;
use tokio::{task::JoinSet, time::timeout};

use broker::{Broker, Owner};
pub use broker::{EventCounts, EventError, EventLimits};

/// How long one delivery may take, to a plugin that is ready.
const DELIVERY_TIME: Duration = Duration::from_secs(10);

/// Brings events to plugins.
pub trait Deliver: Send + Sync + 'static {
    /// Sends `event`, a `publish` request that has no id yet, to the server of `plugin`, and waits
    /// until it has taken it. Dropping the future gives it up.
    ///
    /// # Errors
    /// Why it has not, in words for the log.
    fn deliver(&self, plugin: &PluginId, event: Request) -> BoxFuture<'static, Result<(), String>>;

    /// Waits until it is known whether `plugin` can be told now: one that is being started is not ready
    /// yet, and its start has an end of its own, which the time for a delivery does not count. Whoever
    /// is there or not there is known at once.
    fn settled(&self, plugin: &PluginId) -> BoxFuture<'static, ()> {
        let _ = plugin;
        Box::pin(std::future::ready(()))
    }

    /// Whether events can be brought to `plugin`, now or as soon as it has started. It must be quick.
    fn reaches(&self, plugin: &PluginId) -> bool {
        let _ = plugin;
        true
    }
}

/// The events of one orchestrator. Clones are the same. When the last one is dropped, deliveries
/// end.
#[derive(Clone)]
pub struct Events(Arc<Inner>);

struct Inner {
    deliver: Arc<dyn Deliver>,
    broker: Mutex<Broker>,
    deliveries: Mutex<JoinSet<()>>,
}

impl Events {
    /// Nobody has subscribed yet.
    #[must_use]
    pub fn new(deliver: Arc<dyn Deliver>, limits: EventLimits) -> Self {
        Self(Arc::new(Inner {
            deliver,
            broker: Mutex::new(Broker::new(limits)),
            deliveries: Mutex::default(),
        }))
    }

    /// Publishes an event of this program. It must run inside a tokio runtime, unless nobody wants
    /// it.
    ///
    /// # Errors
    /// When it has no topic, or one that is too long.
    pub fn tell(&self, event: &Publish) -> Result<(), EventError> {
        self.publish(event, event.encode_to_vec().into())
    }

    /// What became of events so far.
    #[must_use]
    pub fn counts(&self) -> EventCounts {
        self.0.broker().counts()
    }

    /// How many subscriptions there are.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.0.broker().subscriptions()
    }

    /// Whether events reach a plugin at all.
    pub(crate) fn reaches(&self, plugin: &PluginId) -> bool {
        self.0.deliver.reaches(plugin)
    }

    pub(crate) fn subscribe(
        &self,
        connection: ConnectionId,
        plugin: &PluginId,
        wanted: Subscribe,
    ) -> Result<(), EventError> {
        let owner = Owner::Connection(connection);
        self.0.broker().subscribe(owner, plugin, wanted)
    }

    /// Ends a subscription.
    pub(crate) fn unsubscribe(&self, connection: ConnectionId, id: &str) {
        let owner = Owner::Connection(connection);
        self.0.broker().unsubscribe(&owner, id);
    }

    /// Ends the subscriptions of a connection.
    pub(crate) fn disconnected(&self, connection: ConnectionId) {
        self.0.broker().end(&Owner::Connection(connection));
    }

    /// Subscribes a plugin to what its manifest asks for, and to nothing else that it did.
    pub(crate) fn need(&self, plugin: &PluginId, topics: &[String]) {
        let owner = Owner::Manifest(plugin.clone());
        if !topics.is_empty() && !self.reaches(plugin) {
            tracing::warn!(%plugin, "the plugin subscribes to events but has no server to receive them");
        }
        let mut broker = self.0.broker();
        broker.end(&owner);
        for topic in topics {
            let wanted = Subscribe {
                subscription_id: topic.clone(),
                topic: topic.clone(),
                ..Subscribe::default()
            };
            if let Err(error) = broker.subscribe(owner.clone(), plugin, wanted) {
                tracing::warn!(%plugin, %error, "cannot subscribe a plugin to its events");
            }
        }
    }

    /// Ends the subscriptions of a plugin to topics that it may not hear of any more.
    pub(crate) fn keep(&self, plugin: &PluginId, is_allowed: impl Fn(&str) -> bool) {
        self.0.broker().keep(plugin, is_allowed);
    }

    /// Publishes an event; `payload` is the same as bytes, with whatever else was in them.
    pub(crate) fn publish(&self, event: &Publish, payload: Bytes) -> Result<(), EventError> {
        let unserved = self.0.broker().publish(event, &payload)?;
        let mut deliveries = self.0.deliveries();
        while deliveries.try_join_next().is_some() {}
        for plugin in unserved {
            deliveries.spawn(serve(Arc::downgrade(&self.0), plugin));
        }
        Ok(())
    }
}

impl Inner {
    fn broker(&self) -> MutexGuard<'_, Broker> {
        self.broker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliveries(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.deliveries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Delivers what waits for a plugin, one by one.
async fn serve(events: Weak<Inner>, plugin: PluginId) {
    loop {
        let Some(deliver) = events.upgrade().map(|inner| Arc::clone(&inner.deliver)) else {
            return;
        };
        let settled = async { deliver.settled(&plugin).await };
        if AssertUnwindSafe(settled).catch_unwind().await.is_err() {
            tracing::error!(%plugin, "the readiness check of a plugin panicked");
        }
        let Some(inner) = events.upgrade() else {
            return;
        };
        let Some(payload) = inner.broker().next(&plugin) else {
            return;
        };
        drop(inner);
        let event = Request::raw("", RequestKind::Publish, payload);
        let delivering = async { deliver.deliver(&plugin, event).await };
        let delivering = AssertUnwindSafe(delivering).catch_unwind();
        let problem = match timeout(DELIVERY_TIME, delivering).await {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(problem))) => Some(problem),
            Ok(Err(_)) => Some("what delivers events panicked".to_owned()),
            Err(_) => Some("it was not accepted in time".to_owned()),
        };
        if let Some(problem) = &problem {
            tracing::debug!(%plugin, %problem, "cannot deliver an event");
        }
        if let Some(inner) = events.upgrade() {
            inner.broker().count(problem.is_none());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{sync::mpsc, time::sleep};

    use super::*;

    /// Brings events to a plugin that takes a while to start.
    struct Starting {
        start: Duration,
        told: mpsc::UnboundedSender<PluginId>,
    }

    impl Deliver for Starting {
        fn deliver(&self, plugin: &PluginId, _: Request) -> BoxFuture<'static, Result<(), String>> {
            let told = self.told.send(plugin.clone());
            Box::pin(std::future::ready(told.map_err(|error| error.to_string())))
        }

        fn settled(&self, _: &PluginId) -> BoxFuture<'static, ()> {
            Box::pin(sleep(self.start))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_that_a_start_takes_is_not_that_of_a_delivery() {
        let (told, mut hears) = mpsc::unbounded_channel();
        let start = DELIVERY_TIME * 3;
        let events = Events::new(Arc::new(Starting { start, told }), EventLimits::default());
        let plugin: PluginId = "a.plugin".parse().unwrap();
        events.need(&plugin, &["news".to_owned()]);
        let event = Publish {
            topic: "news".to_owned(),
            ..Publish::default()
        };
        events.tell(&event).unwrap();
        assert_eq!(hears.recv().await, Some(plugin));
        assert_eq!(events.counts().failed, 0);
    }
}
