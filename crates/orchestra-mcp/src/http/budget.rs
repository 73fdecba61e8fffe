//! Bounds the replies that wait for clients that do not read them, of all clients together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use orchestra_wire::{ErrorCode, RequestId, Rope, RpcError, write};

use crate::post::line;

/// What is shorter is bounded by how many there can be: connections, sessions and their streams.
pub(super) const SHORT: usize = 4 * 1024;

/// Counts the bytes of replies for as long as anybody holds them. Clones count together.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    held: AtomicUsize,
    most: usize,
}

/// A reply that is counted.
struct Counted {
    message: Bytes,
    counter: Arc<Counter>,
}

impl Budget {
    pub(super) fn new(most: usize) -> Self {
        let held = AtomicUsize::new(0);
        Self(Arc::new(Counter { held, most }))
    }

    /// Counts a message. An answer that there is no room for becomes an error that says so; one is
    /// always taken when nothing else is held.
    pub(super) fn hold(&self, message: Bytes) -> Bytes {
        let length = message.len();
        if length < SHORT {
            return message;
        }
        let before = self.0.held.fetch_add(length, Ordering::Relaxed);
        let counted = Counted {
            counter: Arc::clone(&self.0),
            message,
        };
        let is_room = before == 0 || before + length <= self.0.most;
        match write::answered(&counted.message) {
            Some((request, _)) if !is_room => busy(&request),
            _ => Bytes::from_owner(counted),
        }
    }

    /// Whether there is no room for one more.
    pub(super) fn is_spent(&self) -> bool {
        self.0.held.load(Ordering::Relaxed) > self.0.most
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let length = self.message.len();
        self.counter.held.fetch_sub(length, Ordering::Relaxed);
    }
}

fn busy(request: &RequestId) -> Bytes {
    let text = "busy: too many replies wait to be read by their clients; try again later";
    let error = RpcError::new(ErrorCode::INTERNAL_ERROR, text);
    let mut out = Rope::new();
    write::error(&mut out, Some(request), &error);
    line(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(length: usize) -> Bytes {
        let text = "x".repeat(length);
        Bytes::from(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"{text}\"}}"
        ))
    }

    fn is_busy(reply: &Bytes) -> bool {
        let code = write::answered(reply).and_then(|(_, code)| code);
        code == Some(ErrorCode::INTERNAL_ERROR)
    }

    #[test]
    fn what_is_held_is_bounded_until_it_is_let_go() {
        let budget = Budget::new(3 * SHORT);
        let first = budget.hold(answer(SHORT));
        assert_eq!(first, answer(SHORT));
        let copy = first.slice(1..);
        assert!(is_busy(&budget.hold(answer(2 * SHORT))));
        let second = budget.hold(answer(SHORT));
        assert!(!is_busy(&second), "a refusal holds nothing");
        drop(first);
        assert!(is_busy(&budget.hold(answer(SHORT))), "a part holds all");
        assert!(!is_busy(&budget.hold(answer(1))));
        drop((copy, second));
        let huge = budget.hold(answer(9 * SHORT));
        assert!(!is_busy(&huge) && budget.is_spent());
        drop(huge);
        assert_eq!(budget.0.held.load(Ordering::Relaxed), 0);
    }
}
