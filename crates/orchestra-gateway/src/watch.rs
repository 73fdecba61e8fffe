//! Tells when servers are added, changed or removed while we run.
//!
//! Every file and directory that may hold servers is watched, also those that are not there yet, what
//! the user decides of them, and the files that servers name. What belongs together is taken together:
//! files are read again when they were left alone for half a second. A decision of the user is a change of one file,
//! which is complete when it appears, so that it is read at once.

mod arm;

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};

use crate::{
    approval::{DecisionFile, Decisions, DecisionsError},
    discovery::{Found, LastRead, Places},
    expand::Scope,
};
use arm::Armed;

/// How long files must be left alone before they are read again.
const QUIET: Duration = Duration::from_millis(500);

/// How long is waited at most for that.
const MAX_QUIET: Duration = Duration::from_secs(5);

/// How often is looked where the system does not tell of changes.
const SWEEP: Duration = Duration::from_secs(5);

/// Looks after the servers that there are. Dropping it ends that.
#[derive(Debug)]
pub struct Watching {
    found: watch::Receiver<Arc<Found>>,
    told: Told,
    task: JoinHandle<()>,
}

/// Wakes the task that reads files again.
#[derive(Debug, Clone, Default)]
struct Told {
    again: Arc<Notify>,
    /// The user decided something since the last look.
    is_decided: Arc<AtomicBool>,
}

impl Told {
    /// Reports a change.
    fn change(&self) {
        self.again.notify_one();
    }

    /// Reports a decision of the user.
    fn decision(&self) {
        self.is_decided.store(true, Ordering::Release);
        self.again.notify_one();
    }

    /// Waits until nothing was reported for a while, but not after a decision.
    async fn quiet(&self) {
        let end = Instant::now() + MAX_QUIET;
        while !self.is_decided.swap(false, Ordering::AcqRel) {
            tokio::select! {
                told = timeout(QUIET, self.again.notified()) => if told.is_err() { return },
                () = sleep_until(end) => return,
            }
        }
    }
}

/// Why servers were not looked for.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// What the user decided cannot be read; without it nothing is started.
    #[error("cannot read the approvals of servers")]
    Decisions(#[from] DecisionsError),
}

impl Watching {
    /// Looks for servers, and watches for changes as soon as `begun` turns true: what changed since
    /// the first look is found then. Must run inside a runtime; reads files before it returns.
    ///
    /// # Errors
    /// When what the user decided cannot be read.
    pub fn start(
        places: Places,
        scope: Scope,
        decisions: DecisionFile,
        begun: watch::Receiver<bool>,
    ) -> Result<Self, WatchError> {
        let told = Told::default();
        let mut looker = Looker {
            known: decisions.read()?,
            named: BTreeSet::new(),
            last: LastRead::default(),
            places,
            scope,
            decisions,
            armed: None,
        };
        let (sender, found) = watch::channel(Arc::new(looker.look()));
        let task = tokio::spawn(run(looker, told.clone(), begun, sender));
        Ok(Self { found, told, task })
    }

    /// What was found last. Changes when something else is.
    #[must_use]
    pub fn found(&self) -> watch::Receiver<Arc<Found>> {
        self.found.clone()
    }

    /// Has files read again soon, whatever the system tells.
    pub fn look_again(&self) {
        self.told.change();
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads the files.
struct Looker {
    places: Places,
    scope: Scope,
    decisions: DecisionFile,
    known: Decisions,
    /// The files that servers named the last time.
    named: BTreeSet<PathBuf>,
    last: LastRead,
    /// `None` until the watching begins.
    armed: Option<Armed>,
}

impl Looker {
    /// Watches what there is to be watched now.
    fn arm(&mut self) {
        let Some(armed) = &mut self.armed else {
            return;
        };
        let mut paths: Vec<Arc<Path>> = self
            .places
            .files()
            .into_iter()
            .map(|file| file.path)
            .collect();
        let directories = self.places.directories().into_iter();
        paths.extend(directories.map(Arc::from));
        paths.push(self.decisions.path().into());
        paths.extend(self.named.iter().map(|path| Arc::from(path.as_path())));
        armed.arm(&paths);
    }

    fn look(&mut self) -> Found {
        match self.decisions.read() {
            Ok(decisions) => self.known = decisions,
            Err(error) => {
                tracing::warn!(%error, "cannot read the approvals of servers; the previous ones still apply");
            }
        }
        let found = self.find();
        let named = found.servers.iter().flat_map(|server| &server.files);
        let named: BTreeSet<PathBuf> = named.cloned().collect();
        if named == self.named {
            return found;
        }
        self.named = named;
        self.arm();
        // One of them may have changed before it was watched.
        self.find()
    }

    fn find(&mut self) -> Found {
        let Self {
            scope, known, last, ..
        } = self;
        self.places.find_again(scope, known, last)
    }
}

async fn run(
    looker: Looker,
    told: Told,
    mut begun: watch::Receiver<bool>,
    sender: watch::Sender<Arc<Found>>,
) {
    let mut looker = looker;
    if begun.wait_for(|begun| *begun).await.is_err() {
        // The program ended before.
        return;
    }
    loop {
        match looker.armed.as_ref().map(Armed::is_told) {
            // Looks once more when it watches: what changed since the first look is found.
            None => {}
            Some(true) => {
                told.again.notified().await;
                told.quiet().await;
            }
            Some(false) => {
                // A change that nobody tells of is found by looking.
                let _ = timeout(SWEEP, told.again.notified()).await;
                told.quiet().await;
            }
        }
        let told = told.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let decisions = looker.decisions.path();
            looker
                .armed
                .get_or_insert_with(|| Armed::new(told, &decisions));
            looker.arm();
            let found = looker.look();
            (looker, found)
        });
        let Ok((back, found)) = looked.await else {
            return;
        };
        looker = back;
        sender.send_if_modified(|known| {
            let is_other = !found.changes_since(known).is_empty()
                || found.diagnostics != known.diagnostics
                || found.shadowed != known.shadowed
                || found.files != known.files
                || found.plugins_files != known.plugins_files;
            if is_other {
                *known = Arc::new(found);
            }
            is_other
        });
    }
}

/// That the system does not tell of changes is no failure.
fn complain(error: &notify::Error) {
    tracing::warn!(
        error = %io::Error::other(error.to_string()),
        "cannot watch the configuration files of servers; checking them every {SWEEP:?}"
    );
}
