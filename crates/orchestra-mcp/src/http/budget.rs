//! Bounds the replies that wait for clients that do not read them, of all clients together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use orchestra_wire::{ErrorCode, Rope, RpcError, write};
use tokio::sync::Notify;

use super::{RepliesWait, batch};
use crate::post::line;

/// What is shorter is bounded by how many there can be: connections, sessions and their streams.
pub(super) const SHORT: usize = 4 * 1024;

/// Counts the bytes of replies for as long as anybody holds them. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    held: AtomicUsize,
    most: usize,
    /// Rings when there is room again.
    room: Notify,
}

/// So many bytes that count until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    length: usize,
    counter: Arc<Counter>,
}

/// A reply that is counted.
struct Counted {
    message: Bytes,
    _held: Held,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Counter {
            held: AtomicUsize::new(0),
            most,
            room: Notify::new(),
        }))
    }

    /// Counts an answer. One that there is no room for becomes an error that says so; one is always
    /// taken when nothing else is held.
    pub(crate) fn hold(&self, answer: Bytes) -> Bytes {
        match self.try_hold(answer) {
            Ok(answer) => answer,
            Err(answer) => busy(&answer),
        }
    }

    /// As [`hold`](Self::hold), or gives the answer back.
    pub(crate) fn try_hold(&self, answer: Bytes) -> Result<Bytes, Bytes> {
        if answer.len() < SHORT {
            return Ok(answer);
        }
        let (held, before) = self.add(answer.len());
        if before > 0 && before + answer.len() > self.0.most {
            return Err(answer);
        }
        Ok(counted(answer, held))
    }

    /// Counts a message that nobody waits for, however short it is: there may be many.
    pub(crate) fn count(&self, message: Bytes) -> Bytes {
        let held = self.reserve(message.len());
        counted(message, held)
    }

    /// Counts so many bytes.
    pub(crate) fn reserve(&self, length: usize) -> Held {
        self.add(length).0
    }

    /// Also answers what was held before.
    fn add(&self, length: usize) -> (Held, usize) {
        let before = self.0.held.fetch_add(length, Ordering::Relaxed);
        let counter = Arc::clone(&self.0);
        (Held { length, counter }, before)
    }

    /// Whether an answer of so many bytes would be taken.
    pub(crate) fn has_room(&self, length: usize) -> bool {
        let held = self.0.held.load(Ordering::Relaxed);
        held == 0 || held + length <= self.0.most
    }

    /// Whether there is no room for one more.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.is_spent()
    }

    /// Whether more than half is held, so that a large reply may find no room.
    pub(super) fn is_half_spent(&self) -> bool {
        self.0.held.load(Ordering::Relaxed) > self.0.most / 2
    }

    /// Completes when there is room.
    pub(crate) async fn room(&self) {
        loop {
            let mut room = std::pin::pin!(self.0.room.notified());
            // Enlisted before it is looked, so that nothing falls between the two.
            room.as_mut().enable();
            if !self.is_spent() {
                return;
            }
            room.await;
        }
    }
}

impl Counter {
    fn is_spent(&self) -> bool {
        self.held.load(Ordering::SeqCst) > self.most
    }
}

fn counted(message: Bytes, held: Held) -> Bytes {
    Bytes::from_owner(Counted {
        message,
        _held: held,
    })
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let before = self.counter.held.fetch_sub(self.length, Ordering::SeqCst);
        if before > self.counter.most && !self.counter.is_spent() {
            self.counter.room.notify_waiters();
        }
    }
}

/// The error for each request that an answer answers.
fn busy(answer: &[u8]) -> Bytes {
    let error = RpcError::new(ErrorCode::INTERNAL_ERROR, RepliesWait.to_string());
    let mut out = Rope::new();
    if let Some((request, _)) = write::answered(answer) {
        write::error(&mut out, Some(&request), &error);
        return line(out);
    }
    let requests = batch::answered(answer);
    for (at, request) in requests.iter().enumerate() {
        out.push_byte(if at == 0 { b'[' } else { b',' });
        write::error(&mut out, Some(request), &error);
    }
    match requests.is_empty() {
        true => write::error(&mut out, None, &error),
        false => out.push_byte(b']'),
    }
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

    #[test]
    fn a_batch_that_there_is_no_room_for_is_refused_one_by_one() {
        let budget = Budget::new(1);
        let batch = Bytes::from([b"[", &answer(SHORT)[..], b",", &answer(1), b"]"].concat());
        let held = budget.hold(batch.clone());
        assert_eq!(held, batch);
        let refused = budget.hold(batch.clone());
        assert_eq!(batch::answered(&refused).len(), 2);
        assert!(refused.len() < SHORT && refused.starts_with(b"[") && refused.ends_with(b"]"));
        assert_eq!(budget.try_hold(batch.clone()), Err(batch));
    }

    #[tokio::test]
    async fn what_waits_for_room_goes_on_when_there_is_some() {
        let budget = Budget::new(10);
        let [first, second] = [budget.reserve(9), budget.reserve(9)];
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.unwrap();
        drop(second);
        let short = budget.count(Bytes::from_static(b"short"));
        assert_eq!(budget.0.held.load(Ordering::Relaxed), short.len());
    }
}
