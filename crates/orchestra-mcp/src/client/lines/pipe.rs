//! What goes out over one stream, in order, whoever sends it.
//!
//! Whoever comes first writes, in place, as much as the stream takes at once; the others leave
//! their messages with it. Only when the stream takes no more does a task of its own go on. Where
//! much is said at the same time, this task writes all of it, when whoever else is about to say
//! something has said it: each write wakes the server, which costs more than what is written.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use orchestra_wire::Rope;
use tokio::{io::AsyncWrite, sync::Notify, task::yield_now, time::timeout};

/// Messages that may wait, in bytes; past this callers wait. One larger message may go alone.
const QUEUE_BYTES: usize = 4 * 1024 * 1024;

/// Buffers given to one vectored write.
const SLICES: usize = 64;

/// How long the last messages may take to leave.
const LAST: Duration = Duration::from_millis(250);

pub(super) type Output = Box<dyn AsyncWrite + Send + Unpin>;

pub(super) struct Pipe {
    queue: Mutex<Queue>,
    writing: Mutex<Writing>,
    /// There is something to write for the task.
    left: Notify,
    /// There is room, or nothing is left.
    room: Notify,
    /// The stream has broken.
    pub(super) broken: Notify,
}

#[derive(Default)]
struct Queue {
    messages: Rope,
    /// Someone writes, and will look here before it stops.
    is_written: bool,
    is_broken: bool,
}

/// Held only by whoever has set `is_written`, or ends the stream.
struct Writing {
    output: Option<Output>,
    now: Rope,
    written: usize,
}

/// When a message leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// As soon as the stream takes it.
    AtOnce,
    /// With what others are about to say.
    Together,
}

/// Nothing goes out any more.
#[derive(Debug)]
pub(super) struct Broken;

impl Pipe {
    pub(super) fn new(output: Output) -> Self {
        Self {
            queue: Mutex::default(),
            writing: Mutex::new(Writing {
                output: Some(output),
                now: Rope::new(),
                written: 0,
            }),
            left: Notify::new(),
            room: Notify::new(),
            broken: Notify::new(),
        }
    }

    /// Sends a message when there is room; it is on its way when this was polled once and there was.
    pub(super) async fn send(&self, mut message: Rope, pace: Pace) -> Result<(), Broken> {
        loop {
            let room = self.room.notified();
            match self.try_send(message, pace)? {
                None => return Ok(()),
                Some(back) => message = back,
            }
            room.await;
        }
    }

    /// Sends a message if there is room, else gives it back.
    pub(super) fn try_send(&self, message: Rope, pace: Pace) -> Result<Option<Rope>, Broken> {
        {
            let mut queue = self.queue();
            if queue.is_broken {
                return Err(Broken);
            }
            let waiting = queue.messages.len();
            if waiting > 0 && waiting + message.len() > QUEUE_BYTES {
                return Ok(Some(message));
            }
            queue.messages.append(message);
            queue.messages.push_byte(b'\n');
            if std::mem::replace(&mut queue.is_written, true) {
                return Ok(None);
            }
        }
        let at_once = || self.drain(&mut Context::from_waker(Waker::noop()));
        if pace == Pace::Together || at_once().is_pending() {
            self.left.notify_one();
        }
        Ok(None)
    }

    /// Writes what was left for it, for as long as it is polled.
    pub(super) async fn run(&self) {
        loop {
            self.left.notified().await;
            // Those that can go on now come first.
            yield_now().await;
            std::future::poll_fn(|context| self.drain(context)).await;
        }
    }

    /// Lets the last messages leave, and ends the stream.
    pub(super) async fn finish(&self) {
        let all_left = async {
            loop {
                let room = self.room.notified();
                {
                    let queue = self.queue();
                    if queue.is_broken || !queue.is_written {
                        return;
                    }
                }
                room.await;
            }
        };
        if timeout(LAST, all_left).await.is_err() {
            tracing::debug!("the server did not read its last messages");
        }
        self.end();
    }

    /// Nothing goes out any more.
    pub(super) fn end(&self) {
        self.queue().is_broken = true;
        self.writing().output = None;
        self.room.notify_waiters();
    }

    /// Writes until nothing is left, or the stream takes no more.
    fn drain(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut writing = self.writing();
        loop {
            let done = match writing.put(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(done) => done,
            };
            let mut queue = self.queue();
            if let Err(error) = done {
                tracing::debug!(%error, "cannot write to the server");
                queue.is_broken = true;
                queue.messages.clear();
                self.broken.notify_one();
            }
            let is_empty = queue.messages.is_empty();
            if is_empty {
                queue.is_written = false;
            } else {
                writing.written = 0;
                let Writing { now, .. } = &mut *writing;
                now.clear();
                std::mem::swap(now, &mut queue.messages);
            }
            drop(queue);
            self.room.notify_waiters();
            if is_empty {
                return Poll::Ready(());
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writing {
    /// Writes the rest of what is to be written now.
    fn put(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(output) = &mut self.output else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let mut output = Pin::new(output);
        while self.written < self.now.len() {
            let mut skip = self.written;
            let mut slices = Vec::new();
            for piece in self.now.pieces() {
                if skip >= piece.len() {
                    skip -= piece.len();
                    continue;
                }
                slices.push(IoSlice::new(&piece[skip..]));
                skip = 0;
                if slices.len() == SLICES {
                    break;
                }
            }
            let written = match slices.as_slice() {
                [only] => ready!(output.as_mut().poll_write(context, only))?,
                several => ready!(output.as_mut().poll_write_vectored(context, several))?,
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        output.poll_flush(context)
    }
}
