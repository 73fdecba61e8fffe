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
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

use super::cx::Cx;
use crate::{
    frame::MAX_FRAME_BYTES,
    generated::Publish,
    quic::BoxFuture,
    structs::{self, StructError, Style},
};

/// Events that wait for one who listens; more are refused.
const QUEUE: usize = 256;

/// What they may have together as they came: two of the largest.
const QUEUE_BYTES: usize = 2 * MAX_FRAME_BYTES;

/// Why an event is refused.
pub(super) fn behind(topic: &str) -> String {
    format!(
        "the plugin is behind: {QUEUE} events of {topic:?}, or {} MiB of them, wait already, and \
         this one is dropped",
        QUEUE_BYTES / 1024 / 1024
    )
}

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

/// Events that wait for one who listens, in the order in which they came.
#[derive(Debug)]
pub(super) struct Queue {
    events: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
}

/// An event that waits, and the room that it takes up meanwhile.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) event: Event,
    _room: OwnedSemaphorePermit,
}

impl Queue {
    /// An empty one.
    pub(super) fn new() -> (Self, mpsc::Receiver<Waiting>) {
        let (events, waiting) = mpsc::channel(QUEUE);
        let room = Arc::new(Semaphore::new(QUEUE_BYTES));
        (Self { events, room }, waiting)
    }

    /// Puts an event that came as so many bytes behind the others; false when there is no room.
    pub(super) fn put(&self, event: &Event, bytes: usize) -> bool {
        let Ok(bytes) = u32::try_from(bytes) else {
            return false;
        };
        let Ok(room) = self.room.clone().try_acquire_many_owned(bytes) else {
            return false;
        };
        let waiting = Waiting {
            event: event.clone(),
            _room: room,
        };
        self.events.try_send(waiting).is_ok()
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
    queue: Queue,
    dropped: u64,
}

/// A subscription that was made while the plugin runs. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription {
    pub(super) id: String,
    topics: Arc<Topics>,
    events: mpsc::Receiver<Waiting>,
}

impl Subscription {
    /// The next event. Events that came while 256 others waited, or 32 MiB of them, are dropped: the
    /// orchestrator is told so, and counts them.
    pub async fn next(&mut self) -> Event {
        match self.events.recv().await {
            Some(waiting) => waiting.event,
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
        let (queue, events) = Queue::new();
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

    /// Gives an event that came as so many bytes to those who listen since the plugin runs; false
    /// when one of them has too much before it already.
    pub(super) fn deliver(&self, event: &Event, bytes: usize) -> bool {
        let mut is_taken = true;
        for (id, listener) in self.lock().iter_mut() {
            let wanted = listener.topic == event.topic && matches(&listener.filters, event);
            if wanted && !listener.queue.put(event, bytes) {
                is_taken = false;
                listener.dropped += 1;
                tracing::warn!(id, dropped = listener.dropped, "an event was dropped");
            }
        }
        is_taken
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
