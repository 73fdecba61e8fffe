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
    sync::{Attempt, CommitOutcome, Exchange, Work},
};

/// Shortest time between two commits, but for that of a session that ends.
const INTERVAL: Duration = Duration::from_secs(60);

/// Longest time of the commit at the end.
const AT_END: Duration = Duration::from_secs(2);

/// Reason why no commit is possible.
const NEEDS_EXCHANGE: &str =
    "the reference of the board is gone or was moved: `orchestra sync` is needed";

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
                    loop {
                        sleep(INTERVAL).await;
                        committer.commit(&stopped).await;
                    }
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

struct Committer {
    config: Config,
    store: Store,
}

impl Committer {
    /// Commits the board if that is due, unless it is stopped.
    async fn commit(&self, stopped: &watch::Receiver<bool>) {
        let last = Attempt::last(&self.config, Work::Commit);
        if !last.pause(INTERVAL).is_zero() || !self.has_changes() {
            return;
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
        if let Ok(Some(committed)) = committed.await {
            self.record(&last, committed);
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
    fn record(&self, last: &Attempt, committed: Result<CommitOutcome, Failure>) {
        let attempt = match committed {
            Ok(CommitOutcome::Done) => last.next(Ok(())),
            Ok(CommitOutcome::NotDue) => return,
            Ok(CommitOutcome::NeedsExchange) => Attempt::impossible(NEEDS_EXCHANGE),
            Err(failure) => last.next(Err(output::in_a_line(&failure.text()))),
        };
        if let Some(error) = attempt.error() {
            tracing::debug!("the board is not committed: {error}");
        }
        attempt.record(&self.config, Work::Commit);
    }
}

async fn commit(
    config: &Config,
    store: &Store,
    interval: Duration,
) -> Result<CommitOutcome, Failure> {
    let exchange = Exchange::open(&config.workspace).await?;
    exchange.commit_changes(config, store, interval).await
}
