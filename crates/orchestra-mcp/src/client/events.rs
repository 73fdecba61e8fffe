//! What a client tells its owner: bounded, and nothing that matters is lost.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU64, Ordering},
};

use orchestra_hub::{ListKind, LogLevel};
use orchestra_wire::RawJson;
use tokio::sync::mpsc;

use super::ClientEvent;

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

#[derive(Debug, Default)]
struct Shared {
    /// The lists whose change was told and that were not fetched since, a bit each.
    told: AtomicU8,
    dropped: AtomicU64,
}

impl Events {
    pub(super) fn new() -> (Self, mpsc::Receiver<ClientEvent>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let shared = Arc::default();
        (Self { sender, shared }, receiver)
    }

    /// The server was started. What it was like before is not asked about any more.
    pub(super) fn started(&self) {
        self.tell(ClientEvent::Started);
    }

    /// A list differs. It is told once until it is fetched.
    pub(super) fn list_changed(&self, kind: ListKind) {
        let bit = bit(kind);
        if self.shared.told.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.tell(ClientEvent::ListChanged(kind));
        }
    }

    /// A list is about to be fetched: from now on a change is told again.
    pub(super) fn fetching(&self, kind: ListKind) {
        self.shared.told.fetch_and(!bit(kind), Ordering::AcqRel);
    }

    pub(super) fn updated(&self, uri: String) {
        self.chatter(ClientEvent::ResourceUpdated(uri));
    }

    pub(super) fn log(&self, level: LogLevel, logger: Option<String>, data: RawJson) {
        self.chatter(ClientEvent::Log {
            level,
            logger,
            data,
        });
    }

    pub(super) fn other(&self, method: &str, params: Option<RawJson>) {
        let method = method.to_owned();
        self.chatter(ClientEvent::Other { method, params });
    }

    /// How many events were dropped because nobody took them.
    pub(super) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    fn chatter(&self, event: ClientEvent) {
        if self.sender.capacity() <= KEPT {
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

    #[test]
    fn a_change_is_told_once_until_its_list_is_fetched_and_chatter_leaves_room() {
        let (events, mut receiver) = Events::new();
        for _ in 0..10_000 {
            events.updated("a:b".to_owned());
        }
        assert!(events.dropped() > 0);
        events.list_changed(ListKind::Tools);
        events.list_changed(ListKind::Tools);
        let mut changes = 0;
        while let Ok(event) = receiver.try_recv() {
            changes += u32::from(matches!(event, ClientEvent::ListChanged(_)));
        }
        assert_eq!(changes, 1);
        events.fetching(ListKind::Tools);
        events.list_changed(ListKind::Tools);
        assert!(receiver.try_recv().is_ok());
    }
}
