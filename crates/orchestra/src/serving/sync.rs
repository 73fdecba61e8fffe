//! Background exchange of the board with the remote of `[sync]`, by one process of a workspace at a time.
//!
//! The name of a remote stands for the address in the configuration of the repository, which can come from an archive. The
//! user agrees to it by a first `orchestra sync`, or by trusting the directory of the workspace.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use orchestra_fs::Lock;
use orchestra_mcp::{PartLook, ServerPart, ServerStatus};
use orchestra_runner::git::shown_remote;
use orchestra_store::{Home, Store};
use tokio::{
    runtime::Handle,
    sync::watch,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep, timeout_at},
};

use super::Serving;
use crate::{
    config::Config,
    exit::Failure,
    output,
    sync::{Attempt, Exchange, Work},
    workspace::run_directory,
};

/// Lock in the run directory, held by the process that exchanges the board.
const LOCK: &str = "sync.lock";

/// Time between two attempts to take the lock.
const LOCK_RETRY: Duration = Duration::from_secs(5);

/// Longest time until a success of `orchestra sync` ends the pause after failures.
const LOOK: Duration = Duration::from_secs(60);

/// The background exchange of a process.
pub(super) struct Background {
    remote: String,
    status: Arc<Mutex<ServerStatus>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Serving {
    /// Commits the board, and exchanges it in the background, if configured, from the start of the background work on.
    /// Must run inside the runtime.
    pub(crate) fn start_sync(&mut self) {
        self.start_commits();
        let sync = &self.config.sync;
        sync.overreach().for_each(output::complain);
        let (Some(remote), Some(store)) = (sync.remote(), &self.store) else {
            return;
        };
        if store.read_only().is_some() {
            return;
        }
        let (stop, stopped) = watch::channel(false);
        let status = match Attempt::last(&self.config, Work::Exchange).error() {
            Some(error) => ServerStatus::Error(error.to_owned()),
            None => ServerStatus::Available,
        };
        let status = Arc::new(Mutex::new(status));
        let worker = Worker {
            config: self.config.clone(),
            store: store.clone(),
            status: Arc::clone(&status),
            stopped,
        };
        let begun = self.begun();
        self.sync = Some(Background {
            remote: shown_remote(remote),
            status,
            stop,
            task: tokio::spawn(async move {
                begun.await;
                worker.run().await;
            }),
        });
    }

    /// State of the background exchange, if it is configured.
    pub(super) fn sync_part(&self) -> Option<PartLook> {
        let sync = self.sync.as_ref()?;
        let (endpoint, status) = (sync.remote.clone(), Arc::clone(&sync.status));
        Some(PartLook::new(move || ServerPart {
            name: "sync",
            endpoint: endpoint.clone(),
            status: status
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            reason: None,
        }))
    }
}

impl Background {
    /// Ends an exchange that is under way, and waits for that until the deadline. The next exchange continues it.
    pub(super) async fn end(self, deadline: Instant) {
        self.stop.send_replace(true);
        let abort = self.task.abort_handle();
        if timeout_at(deadline, self.task).await.is_err() {
            abort.abort();
        }
    }
}

struct Worker {
    config: Config,
    store: Store,
    status: Arc<Mutex<ServerStatus>>,
    stopped: watch::Receiver<bool>,
}

impl Worker {
    /// Exchanges the board at each interval while no other process does, until it is stopped.
    async fn run(self) {
        let mut lock = None;
        loop {
            lock = lock.or_else(|| self.lock());
            let pause = match &lock {
                None => LOCK_RETRY,
                Some(_) => {
                    let interval = self.config.sync.interval();
                    let last = Attempt::last(&self.config, Work::Exchange);
                    let pause = last.pause(interval);
                    if pause.is_zero() {
                        self.exchange(&last).await.pause(interval)
                    } else {
                        pause
                    }
                }
            };
            let mut stopped = self.stopped.clone();
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return,
                () = sleep(pause.min(LOOK)) => {}
            }
        }
    }

    /// Takes the lock of the workspace; `None` while another process has it.
    fn lock(&self) -> Option<Lock> {
        let take = || -> anyhow::Result<Option<Lock>> {
            let path: PathBuf = run_directory(&self.config)?.make()?.path().join(LOCK);
            Ok(Lock::attempt(&path)?)
        };
        take().unwrap_or_else(|error| {
            tracing::debug!("the board is not exchanged in the background: {error:#}");
            None
        })
    }

    /// Exchanges the board once. A failure is logged, unless the last attempt failed for the same reason.
    async fn exchange(&self, last: &Attempt) -> Attempt {
        let (config, store) = (self.config.clone(), self.store.clone());
        let (mut stopped, runtime) = (self.stopped.clone(), Handle::current());
        // A merge of large boards takes seconds of computation. It must not delay calls.
        let exchanged = spawn_blocking(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped.wait_for(|stopped| *stopped) => Ok(None),
                    exchanged = exchange(&config, &store) => exchanged.map(Some),
                }
            })
        });
        let (outcome, success) = match exchanged.await {
            Ok(Ok(Some(status))) => (Ok(()), status),
            Ok(Ok(None)) => return last.clone(),
            Ok(Err(failure)) => (
                Err(output::in_a_line(&failure.text())),
                ServerStatus::Available,
            ),
            Err(error) => (Err(error.to_string()), ServerStatus::Available),
        };
        let attempt = last.next(outcome);
        let status = match (attempt.error(), last.error()) {
            (None, before) => {
                if before.is_some() && success == ServerStatus::Connected {
                    tracing::info!("the board is exchanged again");
                }
                success
            }
            (Some(error), before) => {
                if before != Some(error) {
                    tracing::warn!("the board is not exchanged with other clones: {error}");
                }
                ServerStatus::Error(error.to_owned())
            }
        };
        attempt.record(&self.config, Work::Exchange);
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
        attempt
    }
}

/// Exchanges the board and returns the status of success: not connected where the remote is meant for all workspaces,
/// and this one does not have it.
async fn exchange(config: &Config, store: &Store) -> Result<ServerStatus, Failure> {
    let name = config.sync.remote().unwrap_or_default();
    let is_for_all = config.sync.is_for_all(&config.workspace);
    if is_for_all && matches!(config.home(), Ok(Home::Checkout)) {
        return Ok(ServerStatus::Available);
    }
    let exchange = Exchange::open(&config.workspace).await?;
    if is_for_all && exchange.lacks(name).await? {
        return Ok(ServerStatus::Available);
    }
    let is_trusted = config.trusted_by().is_some();
    let last = store.last_exchange().map_err(anyhow::Error::from)?;
    if last.is_none() && !is_trusted {
        return Err(Failure::refused(
            "this board was never exchanged: run `orchestra sync` once, or list the workspace in trusted_directories",
        ));
    }
    let remote = Some(name.to_owned());
    let remote = exchange.remote(remote, config.sync.branch()).await?;
    let remote = match is_trusted {
        true => remote,
        false => remote.in_background(),
    };
    exchange.run_in(config, store, &remote).await?;
    Ok(ServerStatus::Connected)
}
