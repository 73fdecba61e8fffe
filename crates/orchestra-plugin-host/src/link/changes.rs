//! Word that the lists of a peer have changed, which is never lost: whoever listens would go on with
//! the lists of before.

use orchestra_mcp::client::{Incoming, ServerMessage};
use tokio::sync::mpsc;

/// What a peer says when it offers something else than before.
pub(super) const CHANGES: [&str; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

/// Changes that wait for room.
#[derive(Debug, Default)]
pub(super) struct Changes {
    waiting: Vec<&'static str>,
    /// Somebody tells them when there is room.
    is_seen_to: bool,
}

/// The change that something tells of, if it is one.
pub(super) fn of(incoming: &Incoming) -> Option<&'static str> {
    let ServerMessage::Notification { method, .. } = &incoming.message else {
        return None;
    };
    CHANGES.into_iter().find(|change| change == method)
}

impl Changes {
    /// Tells a change now, or has it wait.
    pub(super) fn tell(&mut self, change: &'static str, to: &mpsc::Sender<Incoming>) {
        let waits = self.waiting.contains(&change);
        if !waits && to.try_send(incoming(change)).is_err() {
            self.waiting.push(change);
        }
    }

    /// Whether something waits that nobody sees to yet; whoever asks sees to it.
    pub(super) fn begins_to_wait(&mut self) -> bool {
        !self.waiting.is_empty() && !std::mem::replace(&mut self.is_seen_to, true)
    }

    /// The next that waits. Nobody sees to any more when there is none.
    pub(super) fn next(&mut self) -> Option<Incoming> {
        let next = self.waiting.pop();
        self.is_seen_to = next.is_some();
        next.map(incoming)
    }
}

fn incoming(change: &str) -> Incoming {
    Incoming {
        message: ServerMessage::Notification {
            method: change.to_owned(),
            params: None,
        },
        related: None,
    }
}
