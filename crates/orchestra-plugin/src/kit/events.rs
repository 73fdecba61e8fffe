//! Events: who in this plugin wants to hear of what.
//!
//! An event comes as a `publish` request without the subscription that it belongs to, so it is
//! matched once more here: by its topic, and by the filters of who listens.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use tokio::sync::{Notify, mpsc};

use super::cx::Cx;
use crate::{
    generated::Publish,
    quic::BoxFuture,
    structs::{self, StructError, Style},
};

/// Events that wait for who listens; more are dropped, and the number of them is told.
const QUEUE: usize = 256;

pub(super) type Function = dyn Fn(Event, Cx) -> BoxFuture<'static, ()> + Send + Sync;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What it is about.
    pub topic: String,
    /// What kind of event it is.
    pub kind: String,
    /// What happened: an object, or null when nothing was said.
    pub payload: Value,
    /// The id of the plugin that published it.
    pub source: String,
}

impl Event {
    pub(super) fn of(published: Publish) -> Result<Self, StructError> {
        let payload = match &published.payload {
            Some(payload) => {
                let json = structs::decode(payload, Style::Plain)?;
                serde_json::from_str(&json).map_err(|_| StructError::TooDeep)?
            }
            None => Value::Null,
        };
        Ok(Self {
            topic: published.topic,
            kind: published.event_type,
            payload,
            source: published.source_plugin,
        })
    }
}

/// Members of the payload and what they must be, as texts.
pub type Filters = BTreeMap<String, String>;

/// Who listens.
#[derive(Default)]
pub(super) struct Topics {
    /// Those that were there from the start.
    pub(super) fixed: Vec<(String, Arc<Function>)>,
    wanted: Mutex<BTreeMap<String, Listener>>,
    /// Told when `wanted` has changed.
    pub(super) changed: Notify,
}

impl fmt::Debug for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topics").finish_non_exhaustive()
    }
}

struct Listener {
    topic: String,
    filters: Filters,
    queue: mpsc::Sender<Event>,
    dropped: u64,
}

/// A subscription that was made while the plugin runs. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription {
    pub(super) id: String,
    topics: Arc<Topics>,
    events: mpsc::Receiver<Event>,
}

impl Subscription {
    /// The next event. Events that came while 256 others waited are dropped.
    pub async fn next(&mut self) -> Event {
        match self.events.recv().await {
            Some(event) => event,
            // The sender is held as long as this is.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.topics.lock().remove(&self.id);
        self.topics.changed.notify_one();
    }
}

impl Topics {
    /// Begins to listen.
    pub(super) fn listen(
        self: &Arc<Self>,
        id: String,
        topic: String,
        filters: Filters,
    ) -> Subscription {
        let (queue, events) = mpsc::channel(QUEUE);
        let listener = Listener {
            topic,
            filters,
            queue,
            dropped: 0,
        };
        self.lock().insert(id.clone(), listener);
        self.changed.notify_one();
        Subscription {
            id,
            topics: self.clone(),
            events,
        }
    }

    /// The subscriptions that the orchestrator should know, by their id.
    pub(super) fn wanted(&self) -> BTreeMap<String, (String, Filters)> {
        let wanted = self.lock();
        wanted
            .iter()
            .map(|(id, one)| (id.clone(), (one.topic.clone(), one.filters.clone())))
            .collect()
    }

    /// Gives an event to those who listen since the plugin runs, and returns the functions for it.
    pub(super) fn deliver(&self, event: &Event) -> Vec<Arc<Function>> {
        for (id, listener) in self.lock().iter_mut() {
            let wanted = listener.topic == event.topic && matches(&listener.filters, event);
            if wanted && listener.queue.try_send(event.clone()).is_err() {
                listener.dropped += 1;
                tracing::warn!(id, dropped = listener.dropped, "an event was dropped");
            }
        }
        let fixed = self.fixed.iter().filter(|(topic, _)| *topic == event.topic);
        fixed.map(|(_, function)| function.clone()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Listener>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn matches(filters: &Filters, event: &Event) -> bool {
    // An orchestrator that knows filters has applied them, so nothing to look at is a match.
    event.payload.is_null()
        || filters
            .iter()
            .all(|(key, value)| event.payload.get(key).and_then(Value::as_str) == Some(value))
}
