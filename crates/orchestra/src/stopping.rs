//! How the program stops: the signals that it stops at, and how its time is divided.
//!
//! All of it together takes no longer than [`WHOLE`], whatever others do. Whoever does not want to
//! wait sends a second signal, at which the program ends where it stands: its children end with it,
//! and what was committed is in the database.

use std::{io, time::Duration};

use tokio::{sync::watch, time::Instant};

use crate::exit;

/// How long stopping may take, from the signal to the end of the program.
pub(crate) const WHOLE: Duration = Duration::from_secs(10);

/// How long of that calls may go on that came over HTTP or stdio.
pub(crate) const CALLS: Duration = Duration::from_secs(4);

/// What is left of it when the servers of others have ended: for calls that came over QUIC, and for
/// the readable files.
pub(crate) const AFTER_SERVERS: Duration = Duration::from_millis(1_500);

/// What is left of it when nobody is let in any more: for the readable files.
pub(crate) const FILES: Duration = Duration::from_secs(1);

/// SIGINT, SIGTERM and SIGHUP, or ctrl-c.
#[derive(Debug, Clone)]
pub(crate) struct Signals(watch::Receiver<Option<Instant>>);

impl Signals {
    /// Listens from now on. The second SIGINT or SIGTERM ends the program at once. Must run inside
    /// a runtime.
    ///
    /// # Errors
    /// When the system does not tell of signals.
    pub(crate) fn listen() -> io::Result<Self> {
        let (sender, receiver) = watch::channel(None);
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
                }
                sender.send_replace(Some(Instant::now()));
                // A terminal that goes says so to everybody in it, and so does the shell.
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                exit::at_once();
            });
        }
        #[cfg(not(unix))]
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                sender.send_replace(Some(Instant::now()));
            }
            if tokio::signal::ctrl_c().await.is_ok() {
                exit::at_once();
            }
        });
        Ok(Self(receiver))
    }

    /// Waits for the first. May be cancelled.
    pub(crate) async fn first(&self) {
        // An error means that nobody can tell of one any more, which ends it as well.
        let _ = self.0.clone().wait_for(Option::is_some).await;
    }

    /// Whether there was one.
    pub(crate) fn have_come(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Until when everything has ended. Where there was no signal, calls have had their time by now.
    pub(crate) fn deadline(&self) -> Instant {
        match *self.0.borrow() {
            Some(first) => first + WHOLE,
            None => Instant::now() + WHOLE.saturating_sub(CALLS),
        }
    }
}
