//! How an engine is started by a program that needs one.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use orchestra_process::{Detached, Process};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    endpoint::{Endpoint, Foreign},
    place::{Look, Place, PlaceError},
};

/// The engine under a name of its own.
const ENGINE: &str = "orchestra-engine";

/// How long an engine may take from its start until it is told of. It takes some milliseconds, and
/// seconds where the board is rebuilt; nobody waits for it.
const START: Duration = Duration::from_secs(20);

/// How often its place is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long an engine that is ended may take before it is killed.
pub(crate) const ENDING: Duration = Duration::from_secs(3);

/// A program that is an engine when it is called with these words first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    path: PathBuf,
    words: Vec<OsString>,
}

#[cfg(test)]
impl Program {
    /// A program that is an engine.
    pub(crate) const fn of(path: PathBuf) -> Self {
        Self {
            path,
            words: Vec::new(),
        }
    }
}

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
    #[error("ended ({status}); .projects/.run/engine.log has what it said")]
    Ended {
        /// How.
        status: ExitStatus,
    },
    /// It serves others than us.
    #[error("that was started is not used")]
    Foreign(#[source] Foreign),
    /// It runs, and does not say where it listens.
    #[error("was started and did not say where it listens within {} seconds", START.as_secs())]
    Silent,
}

/// The programs that may be the engine, in the order in which they are tried: the one beside this
/// program, the first on the search path, and this program itself.
pub(crate) fn programs(this: &Path, search_path: Option<&OsStr>) -> Vec<Program> {
    let beside = this.parent().map(|directory| directory.join(ENGINE));
    // What a path that is not absolute leads to depends on where we stand: perhaps a checkout.
    let on_path = search_path.into_iter().flat_map(std::env::split_paths);
    let on_path = on_path
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(ENGINE));
    let on_path = on_path.into_iter().find(|path| is_program(path));
    let mut found: Vec<PathBuf> = beside.into_iter().filter(|path| is_program(path)).collect();
    found.extend(on_path);
    found.dedup();
    let mut programs: Vec<Program> = found
        .into_iter()
        .map(|path| Program {
            path,
            words: Vec::new(),
        })
        .collect();
    programs.push(Program {
        path: this.to_owned(),
        words: vec!["engine".into()],
    });
    programs
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
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
        program: &Program,
        workspace: &Path,
        place: &Place,
    ) -> Result<Self, StartError> {
        let words = program.words.iter().map(OsString::as_os_str);
        let ours = [
            OsStr::new("--attended"),
            OsStr::new("--workspace"),
            workspace.as_os_str(),
        ];
        let words = words.chain(ours);
        let started = Detached::start(&program.path, words, workspace, place.log()?);
        let mut engine = started.map_err(|source| StartError::Spawn {
            path: program.path.clone(),
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
            if let Look::Told(endpoint) = place.look()? {
                return self.check(&endpoint, workspace).await;
            }
            let status = *self.ended.borrow();
            match status {
                // Another has the place, and says soon where it listens.
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(StartError::Ended { status }),
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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn the_engine_is_beside_the_program_or_on_the_path_or_the_program_itself() {
        let root = tempfile::tempdir().unwrap();
        let directory = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let (ours, first, second) = (directory("ours"), directory("first"), directory("second"));
        let program = |directory: &Path, mode: u32| {
            let path = directory.join(ENGINE);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let this = ours.join("orchestra");
        let path = std::env::join_paths([Path::new("."), &first, &second]).unwrap();
        let found = || {
            let programs = programs(&this, Some(&path));
            let last = programs.last().unwrap();
            assert_eq!((last.path.as_path(), last.words.len()), (this.as_path(), 1));
            programs[..programs.len() - 1]
                .iter()
                .map(|program| program.path.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(found(), Vec::<PathBuf>::new());
        // It cannot be run.
        program(&first, 0o644);
        let on_path = program(&second, 0o755);
        assert_eq!(found(), std::slice::from_ref(&on_path));
        let beside = program(&ours, 0o755);
        assert_eq!(found(), [beside, on_path]);
    }
}
