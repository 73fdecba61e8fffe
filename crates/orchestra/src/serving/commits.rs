//! Commits of the board while it is served: at most one a minute by all programs of the workspace, and one at the end.
//!
//! Only a board that was exchanged is committed. Otherwise `git log --all` would show commits, and `git push --mirror` would
//! publish memories, of a user who never ran `orchestra sync`. A board without changes costs a read of the database.

use std::time::Duration;

use orchestra_store::{Home, Store};
use tokio::{
    runtime::Handle,
    sync::watch,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::Serving;
use crate::{
    config::Config,
    exit::Failure,
    output,
    sync::{Attempt, Exchange, Work},
};

/// Shortest time between two commits, but for that of a session that ends.
const INTERVAL: Duration = Duration::from_secs(60);

/// Longest time of the commit at the end.
const AT_END: Duration = Duration::from_secs(2);

/// The commits of a process.
pub(super) struct Commits {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Serving {
    /// Commits the board from the start of the background work on, where all checkouts share a board that can be written.
    /// Must run inside the runtime.
    pub(super) fn start_commits(&mut self) {
        let Some(store) = &self.store else { return };
        let is_shared = matches!(self.config.home(), Ok(Home::Shared(_)));
        if store.read_only().is_some() || !is_shared {
            return;
        }
        let (stop, stopped) = watch::channel(false);
        let committer = Committer {
            config: self.config.clone(),
            store: store.clone(),
        };
        let begun = self.begun();
        self.commits = Some(Commits {
            stop,
            task: tokio::spawn(async move {
                let mut ended = stopped.clone();
                let repeat = async {
                    begun.await;
                    repeat(|| committer.commit(&stopped)).await;
                };
                tokio::select! {
                    _ = ended.wait_for(|ended| *ended) => {}
                    () = repeat => {}
                }
                committer.commit_at_end().await;
            }),
        });
    }
}

impl Commits {
    /// Commits the board for the last time, and waits for that until the deadline.
    pub(super) async fn end(self, deadline: Instant) {
        self.stop.send_replace(true);
        let abort = self.task.abort_handle();
        if timeout_at(deadline, self.task).await.is_err() {
            abort.abort();
        }
    }
}

/// Repeats an attempt after each interval, or after the longer pause that the last one returned, without end.
async fn repeat<F: Future<Output = Duration>>(mut attempt: impl FnMut() -> F) {
    let mut pause = INTERVAL;
    loop {
        sleep(pause).await;
        pause = attempt().await.max(INTERVAL);
    }
}

struct Committer {
    config: Config,
    store: Store,
}

impl Committer {
    /// Commits the board, unless it is stopped. Returns the time until the next commit is due.
    async fn commit(&self, stopped: &watch::Receiver<bool>) -> Duration {
        let last = Attempt::last(&self.config, Work::Commit);
        let pause = last.pause(INTERVAL);
        if !pause.is_zero() || !self.has_changes() {
            return pause;
        }
        let (config, store) = (self.config.clone(), self.store.clone());
        let (mut stopped, runtime) = (stopped.clone(), Handle::current());
        // To render a large board takes a while. It must not delay calls.
        let committed = spawn_blocking(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped.wait_for(|stopped| *stopped) => None,
                    committed = commit(&config, &store, INTERVAL) => Some(committed),
                }
            })
        });
        match committed.await {
            Ok(Some(committed)) => self.record(&last, committed).pause(INTERVAL),
            Ok(None) | Err(_) => Duration::ZERO,
        }
    }

    /// Commits the board at the end of the session, within a bounded time. The next program commits what is missing then.
    async fn commit_at_end(&self) {
        if !self.has_changes() {
            return;
        }
        let last = Attempt::last(&self.config, Work::Commit);
        let (config, store) = (self.config.clone(), self.store.clone());
        let runtime = Handle::current();
        let committed = spawn_blocking(move || {
            let commit = commit(&config, &store, Duration::ZERO);
            runtime.block_on(async { timeout(AT_END, commit).await })
        });
        if let Ok(Ok(committed)) = committed.await {
            self.record(&last, committed);
        }
    }

    /// Returns whether the board was exchanged, and has changed since its last commit.
    fn has_changes(&self) -> bool {
        let last = self.store.last_exchange().ok().flatten();
        last.is_some_and(|last| !last.is_current)
    }

    /// Records an attempt for the other programs. A failure needs no repair: the next exchange commits the board.
    fn record(&self, last: &Attempt, committed: Result<(), Failure>) -> Attempt {
        let committed = committed.map_err(|failure| output::in_a_line(&failure.text()));
        let attempt = last.next(committed);
        if let Some(error) = attempt.error() {
            tracing::debug!("the board is not committed: {error}");
        }
        attempt.record(&self.config, Work::Commit);
        attempt
    }
}

async fn commit(config: &Config, store: &Store, interval: Duration) -> Result<(), Failure> {
    let exchange = Exchange::open(&config.workspace).await?;
    exchange.commit_changes(config, store, interval).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn attempts_are_a_minute_or_a_longer_pause_apart() {
        let begun = Instant::now();
        let mut times = Vec::new();
        let attempts = repeat(|| {
            times.push(begun.elapsed().as_secs());
            let pause = if times.len() == 2 { 150 } else { 1 };
            async move { Duration::from_secs(pause) }
        });
        assert!(timeout(Duration::from_secs(400), attempts).await.is_err());
        assert_eq!(times, [60, 120, 270, 330, 390]);
    }
}
