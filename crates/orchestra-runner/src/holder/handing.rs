//! How a holder leaves its place to a program that it starts.
//!
//! The program is started first, while this process still holds: where that fails nothing is lost. It
//! begins as a follower; once it is connected this process leaves, and whoever of the followers is quickest
//! holds next.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use orchestra_fs::Access;
use orchestra_process::Detached;
use tokio::time::timeout;

use super::server::Server;

/// How long the program may take until it is connected.
const COMING: Duration = Duration::from_secs(10);
/// What a program says that was started so.
const LOG: &str = "runner.log";
/// What programs of the past have said is forgotten when it is longer.
const MAX_LOG: u64 = 256 * 1024;

/// A program that takes a place: it opens a [`super::Seat`] of its own, and leaves the session first.
#[derive(Debug, Clone)]
pub struct HandOver {
    /// Its file.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it starts.
    pub directory: PathBuf,
}

/// Why the place was not handed over. This process holds on.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// What it says can be kept nowhere.
    #[error("cannot open {}", .path.display())]
    Log {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The system cannot start it.
    #[error("{} cannot be started", .path.display())]
    Start {
        /// Which program.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It has ended again.
    #[error("the background runner ended ({status}); its output is in {}", .log.display())]
    Ended {
        /// How.
        status: ExitStatus,
        /// Where it said why.
        log: PathBuf,
    },
    /// It came, and nobody holds the place that was left to it.
    #[error("the background runner cannot run the plans; its output is in {}", .log.display())]
    Unheld {
        /// Where it said why.
        log: PathBuf,
    },
    /// It takes longer than there is time.
    #[error("the background runner did not start in time, so it does not run the plans")]
    Late,
    /// It runs, and does not come.
    #[error("the background runner did not start within {} seconds", COMING.as_secs())]
    Silent,
}

/// Starts the program and waits until it, or another, follows.
pub(super) async fn start(
    to: &HandOver,
    server: &Server,
    root: &Path,
) -> Result<(), HandOverError> {
    let path = root.join(LOG);
    let log = open_log(&path).map_err(|source| HandOverError::Log {
        path: path.clone(),
        source,
    })?;
    let started = Detached::start(&to.program, &to.arguments, &to.directory, log);
    let mut program = started.map_err(|source| HandOverError::Start {
        path: to.program.clone(),
        source,
    })?;
    let pid = program.process().id();
    let outcome = tokio::select! {
        came = timeout(COMING, server.until_there(pid)) => came.map_err(|_| HandOverError::Silent),
        status = program.wait() => Err(match status {
            Ok(status) => HandOverError::Ended { status, log: path },
            Err(source) => HandOverError::Start { path: to.program.clone(), source },
        }),
    };
    if matches!(outcome, Err(HandOverError::Silent)) {
        program.process().end(Duration::from_secs(1)).await;
    }
    // Whoever started it hears of its end, as long as this process is there.
    tokio::spawn(async move { program.wait().await });
    outcome
}

/// Why the place is nobody's after a program has come to take it.
pub(super) fn unheld(root: &Path) -> HandOverError {
    HandOverError::Unheld {
        log: root.join(LOG),
    }
}

/// Removes what programs have said that were started so, where they have said nothing. Whoever holds does so:
/// nobody else starts one meanwhile.
pub(super) fn forget_empty_log(root: &Path) {
    let path = root.join(LOG);
    if std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() == 0) {
        // It would only lie there.
        let _ = orchestra_fs::remove(&path);
    }
}

fn open_log(path: &Path) -> io::Result<std::fs::File> {
    let log = orchestra_fs::append(path, Access::Private)?;
    if log.metadata()?.len() > MAX_LOG {
        log.set_len(0)?;
    }
    Ok(log)
}
