//! How an engine is started by a program that needs one.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use orchestra_place::{Leader, PlaceError};
use orchestra_process::{Detached, Process};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    endpoint::{Endpoint, Foreign},
    place::Place,
};

/// How long an engine may take from its start until it is told of. It takes some milliseconds, and
/// seconds where the board is rebuilt; nobody waits for it.
const START: Duration = Duration::from_secs(20);

/// How often its place is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long an engine that is ended may take before it is killed.
pub(crate) const ENDING: Duration = Duration::from_secs(3);

/// Why no engine was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// Its place or log cannot be used.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The system cannot start it.
    #[error("{} cannot be started", path.display())]
    Spawn {
        /// Which program.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It has ended again.
    #[error("ended ({status}); its output is in {}", log.display())]
    Ended {
        /// How.
        status: ExitStatus,
        /// The file of its messages.
        log: PathBuf,
    },
    /// It serves others than us.
    #[error("that was started cannot be used")]
    Foreign(#[source] Foreign),
    /// It runs, and does not say where it listens.
    #[error("was started and did not report its address within {} seconds", START.as_secs())]
    Silent,
}

/// An engine that this program has started.
#[derive(Debug, Clone)]
pub(crate) struct Started {
    pub(crate) process: Process,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl Started {
    /// Starts an engine, which ends with its clients. Somebody sees to it that it leaves no trace when
    /// it ends before us.
    pub(crate) fn start(
        program: &Path,
        workspace: &Path,
        place: &Place,
    ) -> Result<Self, StartError> {
        let words = [
            OsStr::new("--attended"),
            OsStr::new("--workspace"),
            workspace.as_os_str(),
        ];
        let started = Detached::start(program, words, workspace, place.log()?);
        let mut engine = started.map_err(|source| StartError::Spawn {
            path: program.to_owned(),
            source,
        })?;
        let process = engine.process();
        let (sender, ended) = watch::channel(None);
        tokio::spawn(async move {
            if let Ok(status) = engine.wait().await {
                sender.send_replace(Some(status));
            }
        });
        Ok(Self { process, ended })
    }

    /// Waits until an engine is told of in the place: this one, or another that was quicker. One that
    /// never gets there, or is not for us, is ended.
    pub(crate) async fn until_told(
        &self,
        place: &Place,
        workspace: &Path,
    ) -> Result<(), StartError> {
        let begin = Instant::now();
        loop {
            if let Leader::Published(endpoint) = place.leader()? {
                return self.check(&endpoint, workspace).await;
            }
            let status = *self.ended.borrow();
            match status {
                // Another has the place, and says soon where it listens.
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    let log = place.log_path();
                    return Err(StartError::Ended { status, log });
                }
                None => {}
            }
            if begin.elapsed() > START {
                self.process.end(ENDING).await;
                return Err(StartError::Silent);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Refuses an engine that we cannot use, as another program of its name may be; ours ends then.
    async fn check(&self, told: &Endpoint, workspace: &Path) -> Result<(), StartError> {
        let checked = told.check(workspace);
        if checked.is_err() && told.pid == self.process.id() {
            self.process.end(ENDING).await;
        }
        checked.map_err(StartError::Foreign)
    }

    /// Whether it runs.
    pub(crate) fn runs(&self) -> bool {
        self.ended.borrow().is_none()
    }
}
