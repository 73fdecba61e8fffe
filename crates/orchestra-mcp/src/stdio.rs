//! MCP over standard input and output.
//!
//! A blocking thread reads and runs what answers at once; see `session.rs`. It
//! writes once per batch of input, tasks write when they finish. Standard output belongs to the
//! protocol alone: it is moved to a private descriptor, and descriptor 1 is pointed at standard
//! error, so that no stray print can corrupt the stream. Standard input is moved likewise, so that
//! no child process can eat from it.

mod fd_outbox;
mod guard;

use std::{
    fs::File,
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use orchestra_wire::{LineDecoder, Rope};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    select,
    signal::unix::{SignalKind, signal},
    sync::{Notify, mpsc, watch},
    task::AbortHandle,
};

use crate::{
    connection::Lifetime,
    report::Emit,
    server::{HEAVY_CALLS, Server},
    session::Session,
};
use fd_outbox::FdOutbox;

/// One read takes at most this much, which is what a pipe holds.
const CHUNK_BYTES: usize = 64 * 1024;

/// Replies of one batch of input are written when they exceed this.
const BATCH_BYTES: usize = 64 * 1024;

/// Stack of the reading thread, which runs quick tools in place.
const READER_STACK: usize = 1024 * 1024;

/// How long the last bytes may take to leave.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// Why serving has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The input ended.
    Input,
    /// The output was closed by its reader.
    Output,
    /// SIGINT or SIGTERM.
    Signal,
    /// Whoever serves has stopped it.
    Stopped,
}

/// Why serving is not possible.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// No runtime could be started.
    #[error("cannot start the async runtime")]
    Runtime(#[source] io::Error),
    /// Standard input or output could not be taken over.
    #[error("cannot take over standard input and output")]
    Guard(#[source] io::Error),
    /// Signals could not be watched.
    #[error("cannot watch for signals")]
    Signals(#[source] io::Error),
    /// The reading thread could not be started.
    #[error("cannot start the reading thread")]
    Reader(#[source] io::Error),
}

/// Blocking threads beside those of calls that compute: for writing replies.
const SPARE_THREADS: usize = 4;

/// A runtime that fits a server over stdio: one thread, and small blocking threads.
///
/// # Errors
/// When the operating system refuses.
pub fn runtime() -> Result<Runtime, StdioError> {
    Builder::new_current_thread()
        .enable_all()
        .thread_stack_size(1024 * 1024)
        .max_blocking_threads(HEAVY_CALLS + SPARE_THREADS)
        .build()
        .map_err(StdioError::Runtime)
}

/// Serves over this process's standard input and output until the input ends, the output is
/// closed or a signal comes. Then calls in flight may finish within the grace time, and what was
/// answered is flushed. The caller should exit soon after, as the reading thread may still be
/// blocked in a read; it ends with the process.
///
/// # Errors
/// When the process's descriptors, signals or threads cannot be had.
pub async fn serve(server: &Server) -> Result<End, StdioError> {
    let (_never, stop) = watch::channel(false);
    serve_until(server, stop).await
}

/// As [`serve`], until `stop` turns true as well.
///
/// # Errors
/// As [`serve`].
pub async fn serve_until(
    server: &Server,
    mut stopped: watch::Receiver<bool>,
) -> Result<End, StdioError> {
    let (input, output) = guard::take_over().map_err(StdioError::Guard)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StdioError::Signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(StdioError::Signals)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(StdioError::Signals)?;
    let runtime = Handle::current();
    let outbox = FdOutbox::new(output, runtime.clone());
    let emit: Arc<dyn Emit> = outbox.clone();
    let session = Session::new(
        server,
        "stdio",
        outbox.clone(),
        emit,
        Lifetime::Stream,
        runtime.clone(),
    );
    let attendant = AbortOnDrop(runtime.spawn(session.clone().attend()).abort_handle());
    // Whoever could ask for a task is gone with the streams.
    let (serving, tasks_stop) = watch::channel(false);
    session.until(tasks_stop);
    let stop = Arc::new(AtomicBool::new(false));
    let (ended, mut end_of_input) = mpsc::channel(1);
    let reader = Reader {
        input,
        session: Arc::clone(&session),
        outbox: Arc::clone(&outbox),
        stop: Arc::clone(&stop),
        line_bytes: server.0.limits.line_bytes,
        runtime,
    };
    thread::Builder::new()
        .name("stdio-reader".into())
        .stack_size(READER_STACK)
        .spawn(move || {
            reader.run();
            // Nobody listens any more when a signal was first.
            let _ = ended.blocking_send(());
        })
        .map_err(StdioError::Reader)?;
    let end = select! {
        _ = end_of_input.recv() => End::Input,
        () = outbox.broken() => End::Output,
        _ = interrupt.recv() => End::Signal,
        _ = terminate.recv() => End::Signal,
        _ = hang_up.recv() => End::Signal,
        _ = stopped.wait_for(|stopped| *stopped) => End::Stopped,
    };
    stop.store(true, Ordering::Release);
    let grace = if end == End::Output {
        Duration::ZERO
    } else {
        server.0.limits.grace
    };
    session.wind_up(grace).await;
    drop(serving);
    drop(attendant);
    outbox.flush(FLUSH_TIME).await;
    Ok(end)
}

/// What the reading thread has.
struct Reader {
    input: File,
    session: Arc<Session>,
    outbox: Arc<FdOutbox>,
    stop: Arc<AtomicBool>,
    line_bytes: usize,
    runtime: Handle,
}

impl Reader {
    fn run(mut self) {
        let _context = self.runtime.enter();
        let mut decoder = LineDecoder::new(self.line_bytes);
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut out = Rope::new();
        loop {
            let length = match self.input.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) => match wait_after(error, &self.input, PollFlags::IN) {
                    Ok(()) => continue,
                    Err(error) => {
                        tracing::warn!(%error, "cannot read standard input");
                        break;
                    }
                },
            };
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let mut input = &chunk[..length];
            let mut feeder = self.session.begin();
            while let Some(frame) = decoder.next(&mut input) {
                feeder.feed(&frame, &mut out);
                if out.len() > BATCH_BYTES {
                    self.outbox.write(&mut out);
                }
            }
            feeder.end(&mut out);
            self.outbox.write(&mut out);
        }
        if let Some(frame) = decoder.finish() {
            let mut feeder = self.session.begin();
            feeder.feed(&frame, &mut out);
            feeder.end(&mut out);
            self.outbox.write(&mut out);
        }
    }
}

/// Waits after a read or write that may succeed when it is tried again. A descriptor may be set not
/// to block by whoever shares it, who must not find that changed.
///
/// # Errors
/// The same error, when it is not of that kind.
fn wait_after(error: io::Error, file: &File, wanted: PollFlags) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        io::ErrorKind::WouldBlock => match poll(&mut [PollFd::new(file, wanted)], None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        },
        _ => Err(error),
    }
}

/// Ends a task with its owner.
pub(crate) struct AbortOnDrop(pub(crate) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A condition that is waited for by tasks and set from threads.
#[derive(Debug, Default)]
pub(crate) struct Flag {
    set: AtomicBool,
    changed: Notify,
}

impl Flag {
    pub(crate) fn raise(&self) {
        self.set.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    pub(crate) async fn raised(&self) {
        let mut waiter = std::pin::pin!(self.changed.notified());
        waiter.as_mut().enable();
        if !self.is_raised() {
            waiter.await;
        }
    }
}
