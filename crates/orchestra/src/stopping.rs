//! How the program stops: the signals that it stops at, and how its time is divided.
//!
//! All of it together takes no longer than [`WHOLE`], whatever others do. Whoever does not want to
//! wait sends a second signal, at which the program ends where it stands: its children end with it,
//! and what was committed is in the database.
//!
//! What comes within [`ECHO`] of the first is no second one: `timeout` signals a program and its group,
//! and a terminal's ctrl-c also comes from the wrapper between, so that one wish arrives twice.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{runtime::Runtime, sync::watch, time::Instant};

use crate::{
    exit::{self, Failure},
    serving,
};

/// How long stopping may take, from the signal to the end of the program.
pub(crate) const WHOLE: Duration = Duration::from_secs(10);

/// For how long after the first signal another one is the same.
const ECHO: Duration = Duration::from_secs(1);

/// How long of that calls may go on that came over HTTP or stdio.
pub(crate) const CALLS: Duration = Duration::from_secs(4);

/// What is left of it when the servers of others have ended: for calls that came over QUIC, and for
/// the readable files.
pub(crate) const AFTER_SERVERS: Duration = Duration::from_millis(1_500);

/// What is left of it when nobody is let in any more: for the readable files.
pub(crate) const FILES: Duration = Duration::from_secs(1);

/// SIGINT, SIGTERM and SIGHUP, or ctrl-c.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    first: watch::Receiver<Option<Instant>>,
    /// How many see to it that what they do is not cut off.
    held: Arc<AtomicUsize>,
}

/// As long as it is there, no second signal ends the program.
#[derive(Debug)]
pub(crate) struct Held(Arc<AtomicUsize>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Signals {
    /// Listens from now on. A second SIGINT or SIGTERM, other than an echo of the first, ends the program
    /// at once. Must run inside a runtime.
    ///
    /// # Errors
    /// When the system does not report signals.
    pub(crate) fn listen() -> io::Result<Self> {
        Self::listen_with(std::future::pending())
    }

    /// As [`listen`](Self::listen), for a command that a person operates at this terminal: that the terminal hangs up is
    /// a signal, whether or not the system sends one.
    ///
    /// # Errors
    /// When the system does not report signals.
    pub(crate) fn at_terminal(terminal: impl Terminal) -> io::Result<Self> {
        Self::listen_with(hung_up(terminal))
    }

    #[cfg_attr(
        not(unix),
        expect(unused_variables, reason = "a console does not hang up")
    )]
    fn listen_with(
        terminal_hangs_up: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, receiver) = watch::channel(None);
        let held = Arc::new(AtomicUsize::new(0));
        let ends = Second::after(&held);
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            // The terminal is gone: nobody could stop it any more.
            let mut hang_up = signal(SignalKind::hangup())?;
            tokio::spawn(async move {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hang_up.recv() => {}
                    () = terminal_hangs_up => {}
                }
                let first = Instant::now();
                sender.send_replace(Some(first));
                // A terminal that goes says so to everybody in it, and so does the shell.
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    if ends.is_meant(first) {
                        exit::at_once();
                    }
                }
            });
        }
        #[cfg(not(unix))]
        tokio::spawn(async move {
            let mut first = Instant::now();
            if tokio::signal::ctrl_c().await.is_ok() {
                first = Instant::now();
                sender.send_replace(Some(first));
            }
            while tokio::signal::ctrl_c().await.is_ok() {
                if ends.is_meant(first) {
                    exit::at_once();
                }
            }
        });
        let first = receiver;
        Ok(Self { first, held })
    }

    /// Sees to it that no second signal cuts off what is done as long as the answer is there. Only for
    /// what has a deadline of its own.
    pub(crate) fn hold(&self) -> Held {
        self.held.fetch_add(1, Ordering::SeqCst);
        Held(Arc::clone(&self.held))
    }

    /// Waits for the first. May be cancelled.
    pub(crate) async fn first(&self) {
        // An error means that nobody can tell of one any more, which ends it as well.
        let _ = self.first.clone().wait_for(Option::is_some).await;
    }

    /// Whether there was one.
    pub(crate) fn have_come(&self) -> bool {
        self.first.borrow().is_some()
    }

    /// Until when everything has ended. Where there was no signal, calls have had their time by now.
    pub(crate) fn deadline(&self) -> Instant {
        match *self.first.borrow() {
            Some(first) => first + WHOLE,
            None => Instant::now() + WHOLE.saturating_sub(CALLS),
        }
    }
}

/// Runs the work of a command until its end or the first signal. A signal drops the work, and programs that it started
/// are ended. Creates the runtime of the work.
///
/// # Errors
/// Those of the work, and a failure that names the signal.
pub(crate) fn until_signal<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime = serving::runtime()?;
    let done = runtime.block_on(async {
        let signals = Signals::listen()?;
        tokio::select! {
            biased;
            done = work => done,
            () = signals.first() => Err(anyhow::Error::msg("stopped by a signal").into()),
        }
    });
    // What blocks a thread is not waited for any longer.
    runtime.shutdown_timeout(FILES);
    done
}

/// A standard stream that may be a terminal.
#[cfg(unix)]
pub(crate) trait Terminal: io::IsTerminal + std::os::fd::AsFd + 'static {}

#[cfg(unix)]
impl<T: io::IsTerminal + std::os::fd::AsFd + 'static> Terminal for T {}

/// A standard stream that may be a terminal.
#[cfg(not(unix))]
pub(crate) trait Terminal: io::IsTerminal + 'static {}

#[cfg(not(unix))]
impl<T: io::IsTerminal + 'static> Terminal for T {}

/// Ends a command that blocks its thread at the first signal. Work that it asks for is dropped with the programs that it
/// started, and the command ends shortly after, wherever it is.
#[derive(Debug)]
pub(crate) struct Ending {
    signals: Signals,
    listening: Runtime,
}

impl Ending {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system does not report signals, or no runtime can be created.
    pub(crate) fn listen() -> io::Result<Self> {
        let listening = serving::runtime()?;
        let signals = listening.block_on(async { Signals::listen() })?;
        let first = signals.clone();
        listening.spawn(async move {
            first.first().await;
            tokio::time::sleep(FILES).await;
            exit::stopped();
        });
        Ok(Self { signals, listening })
    }

    /// Runs work until its end or the first signal, in a runtime of its own.
    ///
    /// # Errors
    /// When there was a signal, or no runtime can be created.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        let runtime = serving::runtime()?;
        let done: Result<T, Failure> = runtime.block_on(async {
            tokio::select! {
                biased;
                done = work => Ok(done),
                () = self.signals.first() => Err(anyhow::Error::msg("stopped by a signal").into()),
            }
        });
        match done {
            // Nothing that still computes is waited for.
            Ok(_) => runtime.shutdown_background(),
            Err(_) => runtime.shutdown_timeout(FILES),
        }
        done
    }

    /// Ends the listening. Signals have no effect from then on.
    pub(crate) fn close(self) {
        self.listening.shutdown_background();
    }
}

/// Waits until a terminal hangs up; forever where it is none. The system sends SIGHUP only to the session whose
/// terminal it is, and a read reports it only while nothing else reads.
#[cfg(unix)]
pub(crate) fn hung_up(terminal: impl Terminal) -> impl Future<Output = ()> + Send + 'static {
    use rustix::event::{PollFd, PollFlags, poll};
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let descriptor = terminal.as_fd().try_clone_to_owned().ok();
    if let Some(descriptor) = descriptor.filter(|_| terminal.is_terminal()) {
        // It waits in the system, and ends with the program.
        std::thread::spawn(move || {
            let mut watched = [PollFd::new(&descriptor, PollFlags::empty())];
            loop {
                match poll(&mut watched, None) {
                    Ok(_)
                        if watched[0]
                            .revents()
                            .intersects(PollFlags::HUP | PollFlags::ERR) =>
                    {
                        // Nobody may wait for it any more.
                        let _ = sender.send(());
                        return;
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    // This terminal cannot be watched.
                    Ok(_) | Err(_) => return,
                }
            }
        });
    }
    async move {
        if receiver.await.is_err() {
            std::future::pending().await
        }
    }
}

/// A console does not hang up.
#[cfg(not(unix))]
pub(crate) fn hung_up(_terminal: impl Terminal) -> impl Future<Output = ()> + Send + 'static {
    std::future::pending()
}

/// Whether a signal after the first ends the program.
struct Second(Arc<AtomicUsize>);

impl Second {
    fn after(held: &Arc<AtomicUsize>) -> Self {
        Self(Arc::clone(held))
    }

    fn is_meant(&self, first: Instant) -> bool {
        first.elapsed() >= ECHO && self.0.load(Ordering::SeqCst) == 0
    }
}
