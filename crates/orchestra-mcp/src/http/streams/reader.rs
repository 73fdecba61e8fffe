//! Reads one stream, one reader at a time.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Notify;

use super::{Streams, stream::Stream};

/// Reads a stream; there is one reader at a time. Dropping it leaves what it did not read.
#[derive(Debug)]
pub(in crate::http) struct StreamReader {
    pub(super) streams: Arc<Streams>,
    pub(super) key: u64,
    pub(super) number: u64,
    /// The next event to read.
    pub(super) next: u64,
}

/// What a stream begins with.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::http) enum Beginning {
    /// One event that is all of it.
    Whole(Bytes),
    /// An event that others may follow.
    Part,
    /// None, and none will come.
    Nothing,
}

/// What a reader finds.
#[derive(Debug)]
enum Next {
    /// An event and its number.
    Event(u64, Bytes),
    /// Nothing yet; there may be when this rings.
    Wait(Arc<Notify>),
    /// The stream is over, or somebody else reads it.
    End,
}

impl StreamReader {
    /// Waits for the next event and reads it; `None` at the end. May be cancelled, which reads
    /// nothing.
    pub(in crate::http) async fn wait(&mut self) -> Option<(u64, Bytes)> {
        self.until(Self::take).await
    }

    /// Waits for the next event and leaves it to be read. May be cancelled.
    pub(in crate::http) async fn begins(&mut self) -> Beginning {
        let Some((number, message)) = self.until(Self::look).await else {
            return Beginning::Nothing;
        };
        let is_all = self.of_stream(|stream| stream.is_over && stream.last() == number);
        match is_all {
            Some(true) => Beginning::Whole(message),
            _ => Beginning::Part,
        }
    }

    /// Whether the event that was read last ends the stream.
    pub(in crate::http) fn is_at_end(&self) -> bool {
        self.of_stream(|stream| stream.is_over && self.next > stream.last())
            .unwrap_or(true)
    }

    /// The stream's key.
    pub(in crate::http) const fn key(&self) -> u64 {
        self.key
    }

    /// The number of the event that was read last.
    pub(in crate::http) const fn place(&self) -> u64 {
        self.next - 1
    }

    /// Whether the session is over, and its streams with it.
    pub(in crate::http) fn is_closed(&self) -> bool {
        self.streams.lock().is_closed
    }

    /// Forgets the stream, for what was read is all of it and can be sent in one piece.
    pub(in crate::http) fn forget(self) {
        self.streams.lock().streams.remove(&self.key);
    }

    async fn until(&mut self, mut look: impl FnMut(&mut Self) -> Next) -> Option<(u64, Bytes)> {
        loop {
            match look(self) {
                Next::Event(number, event) => return Some((number, event)),
                Next::End => return None,
                Next::Wait(filled) => {
                    let mut filled = std::pin::pin!(filled.notified());
                    // Enlisted before it is looked again, so that nothing falls between the two.
                    filled.as_mut().enable();
                    match look(self) {
                        Next::Event(number, event) => return Some((number, event)),
                        Next::End => return None,
                        Next::Wait(_) => filled.await,
                    }
                }
            }
        }
    }

    /// The next event, which stays to be read.
    fn look(&mut self) -> Next {
        let state = self.streams.lock();
        let stream = state.streams.get(&self.key);
        look_at(stream, self.number, &mut self.next)
    }

    /// The next event.
    fn take(&mut self) -> Next {
        let mut state = self.streams.lock();
        let mut stream = state.streams.get_mut(&self.key);
        let next = look_at(stream.as_deref(), self.number, &mut self.next);
        if let (Next::Event(number, _), Some(stream)) = (&next, &mut stream) {
            self.next = number + 1;
            stream.mark_read(*number);
        }
        next
    }

    fn of_stream<T>(&self, tell: impl FnOnce(&Stream) -> T) -> Option<T> {
        self.streams.lock().streams.get(&self.key).map(tell)
    }
}

/// What reader `number`, whose next event is `next`, finds.
fn look_at(stream: Option<&Stream>, number: u64, next: &mut u64) -> Next {
    let Some(stream) = stream.filter(|stream| stream.reader == number) else {
        return Next::End;
    };
    // What was forgotten meanwhile is lost.
    *next = (*next).max(stream.first());
    match stream.event(*next) {
        Some(event) => Next::Event(*next, event.clone()),
        None if stream.is_over => Next::End,
        None => Next::Wait(stream.filled()),
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.streams.lock();
        if let Some(stream) = state.streams.get_mut(&self.key)
            && stream.reader == self.number
        {
            stream.is_read = false;
        }
        state.forget_old();
    }
}
