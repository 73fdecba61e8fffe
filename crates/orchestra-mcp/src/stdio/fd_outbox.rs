//! Everything that goes out over one descriptor, in order, whoever sends it.
//!
//! Whoever comes first writes, the others leave their messages with it. A task never blocks here:
//! it writes only what the descriptor takes at once, the rest goes to a blocking thread.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, IoSlice, Write},
    pin::{Pin, pin},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use orchestra_wire::{RequestId, Rope};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{runtime::Handle, sync::Notify, time::timeout};

use super::{Flag, wait_after};
use crate::{report::Emit, session::Outbox};

/// Messages that may wait before the reader stops reading, in bytes.
const QUEUE_BYTES: usize = 4 * 1024 * 1024;

/// Messages that nobody waits for are dropped, or wait with the hub, when more than this waits, in
/// bytes.
const EMIT_BYTES: usize = 1024 * 1024;

/// A pipe that polls as writable takes at least this much without blocking (`PIPE_BUF`).
const ATOMIC_BYTES: usize = 4_096;

/// Buffers given to one vectored write.
const SLICES: usize = 64;

pub(super) struct FdOutbox {
    output: File,
    state: Mutex<State>,
    drained: Condvar,
    /// As `drained`, for tasks.
    taken: Notify,
    broken: Flag,
    runtime: Handle,
    this: Weak<Self>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Rope>,
    bytes: usize,
    /// Someone writes, and will look into the queue before it stops.
    writing: bool,
    /// Threads that wait for `drained`. Without one, no wake-up is needed, which is a system call.
    waiting: usize,
}

impl FdOutbox {
    pub(super) fn new(output: File, runtime: Handle) -> Arc<Self> {
        let state = Mutex::default();
        let (drained, taken, broken) = (Condvar::new(), Notify::new(), Flag::default());
        Arc::new_cyclic(|this| Self {
            output,
            state,
            drained,
            taken,
            broken,
            runtime,
            this: Weak::clone(this),
        })
    }

    /// Writes `message` and empties it. May block; for the reading thread.
    pub(super) fn write(&self, message: &mut Rope) {
        let mut state = self.state();
        if state.writing {
            if !message.is_empty() {
                state.push(std::mem::take(message));
            }
            let full = |state: &mut State| state.bytes > QUEUE_BYTES && state.writing;
            state.waiting += 1;
            let waited = self.drained.wait_while(state, full);
            waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
            return;
        }
        if message.is_empty() && state.queue.is_empty() {
            return;
        }
        state.writing = true;
        if state.queue.is_empty() {
            drop(state);
            self.put(message);
            message.clear();
            state = self.state();
        } else if !message.is_empty() {
            state.push(std::mem::take(message));
        }
        self.drain(state);
    }

    /// Completes when the output cannot be written to any more.
    pub(super) async fn broken(&self) {
        self.broken.raised().await;
    }

    /// Waits until everything has left, for at most `time`.
    pub(super) async fn flush(self: &Arc<Self>, time: Duration) {
        let outbox = Arc::clone(self);
        let drained = self.runtime.spawn_blocking(move || {
            let mut state = outbox.state();
            if state.writing {
                let writing = |state: &mut State| state.writing;
                state.waiting += 1;
                let waited = outbox.drained.wait_timeout_while(state, time, writing);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                state.waiting -= 1;
            }
            if !state.writing {
                state.writing = true;
                outbox.drain(state);
            }
        });
        if timeout(time, drained).await.is_err() {
            tracing::warn!("the client did not read its last messages");
        }
    }

    /// Writes the queue until it is empty; the caller has set `writing`.
    fn drain<'s>(&'s self, mut state: MutexGuard<'s, State>) {
        while let Some(message) = state.pop() {
            drop(state);
            self.taken.notify_waiters();
            self.put(&message);
            state = self.state();
            self.wake(&state);
        }
        state.writing = false;
        self.wake(&state);
    }

    /// Wakes the threads that wait for `drained`.
    fn wake(&self, state: &State) {
        if state.waiting > 0 {
            self.drained.notify_all();
        }
    }

    /// Writes what can be written at once; hands the rest to a thread.
    fn drain_or_hand_over(self: &Arc<Self>) {
        let mut state = self.state();
        if state.writing || state.queue.is_empty() {
            return;
        }
        state.writing = true;
        while state
            .queue
            .front()
            .is_some_and(|message| message.len() <= ATOMIC_BYTES)
            && self.takes_at_once()
        {
            let Some(message) = state.pop() else { break };
            drop(state);
            self.taken.notify_waiters();
            self.put(&message);
            state = self.state();
        }
        if state.queue.is_empty() {
            state.writing = false;
            self.wake(&state);
            return;
        }
        drop(state);
        let outbox = Arc::clone(self);
        // Not awaited: it ends when the queue is empty or the output is closed.
        drop(self.runtime.spawn_blocking(move || {
            let state = outbox.state();
            outbox.drain(state);
        }));
    }

    fn takes_at_once(&self) -> bool {
        let mut polled = [PollFd::new(&self.output, PollFlags::OUT)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    fn put(&self, message: &Rope) {
        if self.broken.is_raised() {
            return;
        }
        if let Err(error) = write_all(&self.output, message) {
            if error.kind() != io::ErrorKind::BrokenPipe {
                tracing::warn!(%error, "cannot write to standard output");
            }
            self.broken.raise();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, message: Rope) {
        self.bytes += message.len();
        self.queue.push_back(message);
    }

    fn pop(&mut self) -> Option<Rope> {
        let message = self.queue.pop_front()?;
        self.bytes -= message.len();
        Some(message)
    }
}

fn write_all(mut output: &File, message: &Rope) -> io::Result<()> {
    let mut pieces = message.pieces().peekable();
    // The common case: one piece.
    if let Some(mut only) = pieces.next_if(|_| true)
        && pieces.peek().is_none()
    {
        while !only.is_empty() {
            match output.write(only) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => only = &only[written..],
                Err(error) => wait_after(error, output, PollFlags::OUT)?,
            }
        }
        return Ok(());
    }
    let pieces: Vec<&[u8]> = message.pieces().collect();
    for pieces in pieces.chunks(SLICES) {
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            match output.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) => wait_after(error, output, PollFlags::OUT)?,
            }
        }
    }
    Ok(())
}

impl Emit for FdOutbox {
    fn emit(&self, _request: Option<&RequestId>, message: Rope) {
        if self.state().bytes > EMIT_BYTES {
            tracing::debug!("dropped a notification: the client does not read its messages");
            return;
        }
        self.send(message);
    }
}

impl Outbox for FdOutbox {
    fn send(&self, message: Rope) {
        self.enqueue(message);
        if let Some(this) = self.this.upgrade() {
            this.drain_or_hand_over();
        }
    }

    fn enqueue(&self, message: Rope) {
        if !message.is_empty() {
            self.state().push(message);
        }
    }

    fn ready(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            loop {
                let mut taken = pin!(self.taken.notified());
                // Enlisted before the bytes are read, so that nothing falls between the two.
                taken.as_mut().enable();
                if self.state().bytes <= EMIT_BYTES {
                    return;
                }
                taken.await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        os::{fd::OwnedFd, unix::net::UnixStream},
    };

    use super::*;

    #[tokio::test]
    async fn what_nobody_waits_for_waits_until_the_client_reads() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let outbox = FdOutbox::new(File::from(OwnedFd::from(ours)), Handle::current());
        let mut message = Rope::new();
        message.push(&[b'x'; 64 * 1024]);
        let bytes = 64 * message.len();
        for _ in 0..64 {
            outbox.send(message.clone());
        }
        let mut ready = pin!(outbox.ready());
        let waker = std::task::Waker::noop();
        let mut context = std::task::Context::from_waker(waker);
        assert!(ready.as_mut().poll(&mut context).is_pending());
        theirs
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let reader = std::thread::spawn(move || {
            theirs.read_exact(&mut vec![0; bytes]).unwrap();
        });
        ready.await;
        outbox.flush(Duration::from_secs(30)).await;
        reader.join().unwrap();
    }

    #[tokio::test]
    async fn thread_with_a_full_queue_goes_on_after_the_client_has_read() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let outbox = FdOutbox::new(File::from(OwnedFd::from(ours)), Handle::current());
        let mut message = Rope::new();
        message.push(&vec![b'x'; QUEUE_BYTES]);
        let bytes = 3 * message.len();
        outbox.send(message.clone());
        outbox.send(message.clone());
        let waiting = {
            let outbox = Arc::clone(&outbox);
            std::thread::spawn(move || outbox.write(&mut message))
        };
        while outbox.state().waiting == 0 {
            tokio::task::yield_now().await;
        }
        // Nothing but `drained` ends the wait of this thread.
        theirs.read_exact(&mut vec![0; bytes]).unwrap();
        waiting.join().unwrap();
        assert_eq!(outbox.state().waiting, 0);
    }

    #[tokio::test]
    async fn an_output_that_does_not_block_is_waited_for() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let outbox = FdOutbox::new(File::from(OwnedFd::from(ours)), Handle::current());
        let one = vec![b'x'; 2 * 1024 * 1024];
        let (mut whole, mut pieces) = (Rope::new(), Rope::new());
        whole.push(&one);
        for piece in one.chunks(100_000) {
            pieces.push_body(piece.to_vec().into());
        }
        let writer = {
            let outbox = Arc::clone(&outbox);
            std::thread::spawn(move || {
                outbox.write(&mut whole);
                outbox.write(&mut pieces);
            })
        };
        theirs
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut read = vec![0; 2 * one.len()];
        theirs.read_exact(&mut read).unwrap();
        writer.join().unwrap();
        assert_eq!(read, one.repeat(2));
        assert!(!outbox.broken.is_raised());
    }
}
