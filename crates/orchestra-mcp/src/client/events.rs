//! Events that a client reports to its owner. The queue is bounded, and no change of a list is lost.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU64, Ordering},
};

use orchestra_hub::{ListKind, LogLevel};
use orchestra_wire::RawJson;
use tokio::sync::mpsc;

use super::{ClientEvent, link::has_room};

/// Events that wait.
const QUEUE: usize = 1_024;

/// Places that chatter leaves free for changes.
const KEPT: usize = 256;

/// Where events go. Clones go to the same place.
#[derive(Debug, Clone)]
pub(super) struct Events {
    sender: mpsc::Sender<ClientEvent>,
    shared: Arc<Shared>,
}

/// Events of a client, in order.
#[derive(Debug)]
pub struct ClientEvents {
    receiver: mpsc::Receiver<ClientEvent>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Lists whose change waits in the queue.
    waiting: Kinds,
    dropped: AtomicU64,
}

/// A set of kinds of lists.
#[derive(Debug, Default)]
pub(super) struct Kinds(AtomicU8);

impl Kinds {
    /// Adds a kind; returns whether it is new.
    pub(super) fn add(&self, kind: ListKind) -> bool {
        self.0.fetch_or(bit(kind), Ordering::AcqRel) & bit(kind) == 0
    }

    fn remove(&self, kind: ListKind) {
        self.0.fetch_and(!bit(kind), Ordering::AcqRel);
    }

    /// Returns the kinds at this moment.
    pub(super) fn all(&self) -> impl Iterator<Item = ListKind> + use<> {
        let bits = self.0.load(Ordering::Acquire);
        let is_in = move |kind: &ListKind| bits & bit(*kind) != 0;
        ListKind::ALL.into_iter().filter(is_in)
    }
}

impl ClientEvents {
    /// Waits for the next event; `None` when the client is gone. May be cancelled without losing one.
    pub async fn recv(&mut self) -> Option<ClientEvent> {
        let event = self.receiver.recv().await?;
        if let ClientEvent::ListChanged(kind) = &event {
            // The caller has not fetched the list yet, so that it sees every change until now.
            self.shared.waiting.remove(*kind);
        }
        Some(event)
    }
}

impl Events {
    pub(super) fn new() -> (Self, ClientEvents) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let shared = Arc::<Shared>::default();
        let events = ClientEvents {
            receiver,
            shared: Arc::clone(&shared),
        };
        (Self { sender, shared }, events)
    }

    /// The server was started. What it was like before is not asked about any more.
    pub(super) fn started(&self) {
        self.tell(ClientEvent::Started);
    }

    /// Reports that a list differs. One event waits in the queue, however often the list changes.
    pub(super) fn list_changed(&self, kind: ListKind) {
        if self.shared.waiting.add(kind) {
            self.tell(ClientEvent::ListChanged(kind));
        }
    }

    pub(super) fn updated(&self, uri: String) {
        let bytes = uri.len();
        self.chatter(ClientEvent::ResourceUpdated(uri), bytes);
    }

    pub(super) fn log(&self, level: LogLevel, logger: Option<String>, data: RawJson) {
        let bytes = logger.as_ref().map_or(0, String::len) + data.as_bytes().len();
        let log = ClientEvent::Log {
            level,
            logger,
            data,
        };
        self.chatter(log, bytes);
    }

    pub(super) fn other(&self, method: &str, params: Option<RawJson>, client: Option<u64>) {
        let method = method.to_owned();
        let bytes = params.as_ref().map_or(method.len(), |params| {
            method.len() + params.as_bytes().len()
        });
        let other = ClientEvent::Other {
            method,
            params,
            client,
        };
        self.chatter(other, bytes);
    }

    /// How many events were dropped because nobody took them.
    pub(super) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    fn chatter(&self, event: ClientEvent, bytes: usize) {
        let free = self.sender.capacity();
        if free <= KEPT || !has_room(bytes, QUEUE - free) {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.tell(event);
    }

    fn tell(&self, event: ClientEvent) {
        if self.sender.try_send(event).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

const fn bit(kind: ListKind) -> u8 {
    match kind {
        ListKind::Tools => 1,
        ListKind::Prompts => 2,
        ListKind::Resources => 4,
        ListKind::Templates => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn change_waits_once_until_it_is_taken_and_chatter_leaves_room() {
        let (events, mut receiver) = Events::new();
        for _ in 0..10_000 {
            events.updated("a:b".to_owned());
        }
        assert!(events.dropped() > 0);
        for _ in 0..2 {
            events.list_changed(ListKind::Tools);
            events.list_changed(ListKind::Tools);
            events.started();
            let mut changes = 0;
            loop {
                match receiver.recv().await {
                    Some(ClientEvent::Started) => break,
                    Some(ClientEvent::ListChanged(_)) => changes += 1,
                    Some(_) => {}
                    None => panic!("the client is there"),
                }
            }
            assert_eq!(changes, 1);
        }
    }

    #[tokio::test]
    async fn long_events_wait_up_to_a_number() {
        let (events, mut receiver) = Events::new();
        for _ in 0..100 {
            events.updated("x".repeat(1024 * 1024));
        }
        events.updated("a:b".to_owned());
        let dropped = usize::try_from(events.dropped()).unwrap();
        assert!((80..100).contains(&dropped), "{dropped}");
        for _ in dropped..100 {
            receiver.recv().await.unwrap();
        }
        let last = receiver.recv().await;
        assert!(matches!(last, Some(ClientEvent::ResourceUpdated(uri)) if uri == "a:b"));
    }
}
