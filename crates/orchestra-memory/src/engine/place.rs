//! The files of an engine in the run directory of its workspace: where it listens, and a lock that it holds for as
//! long as it lives.

use std::{
    fs::{self, File},
    io::{self, Seek as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use orchestra_fs::{Access, Lock};
use orchestra_place::RunDirectory;
use orchestra_process::Process;

use super::endpoint::{Endpoint, Holder};

/// The file that says where the engine is.
const ENDPOINT: &str = "engine.json";
/// The file whose lock the engine holds, and which says what process that is.
const LOCK: &str = "engine.lock";
/// What an engine says that a program has started.
const LOG: &str = "engine.log";

/// The file is a few hundred bytes, most of them the path of the workspace.
const MAX_BYTES: u64 = 64 * 1024;

/// A few numbers.
const MAX_LOCK_BYTES: u64 = 1024;

/// What engines of the past have said is forgotten when it is longer.
const MAX_LOG_BYTES: u64 = 256 * 1024;

/// Who looks at the place holds its lock for a moment as well: so long it is tried again, and so often.
const GLANCES: Duration = Duration::from_secs(2);
const GLANCE: Duration = Duration::from_millis(1);

/// Trouble with the place.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The run directory cannot be used.
    #[error(transparent)]
    Directory(#[from] orchestra_place::PlaceError),
    /// A file cannot be opened, locked or replaced.
    #[error(transparent)]
    File(#[from] orchestra_fs::Error),
    /// An open file cannot be used.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// What a look at the place shows.
#[derive(Debug)]
pub enum Look {
    /// Nobody has it.
    Free,
    /// An engine has it, and does not say where it listens, yet or any more.
    Silent,
    /// An engine has it, and listens there.
    Told(Box<Endpoint>),
}

/// The files of the engine of a workspace.
#[derive(Debug)]
pub struct Place {
    run: RunDirectory,
    lock: Option<Lock>,
}

impl Place {
    /// The files in the run directory of a workspace.
    #[must_use]
    pub const fn new(run: RunDirectory) -> Self {
        Self { run, lock: None }
    }

    /// Path of the file that says where the engine is.
    #[must_use]
    pub fn endpoint_path(&self) -> PathBuf {
        self.path(ENDPOINT)
    }

    /// Path of the file with what an engine says that a program has started.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.path(LOG)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.run.path().join(name)
    }

    /// Looks who has it.
    ///
    /// # Errors
    /// When its files cannot be read, or are not of this user alone.
    pub fn look(&self) -> Result<Look, PlaceError> {
        let Some(run) = self.run.open()? else {
            return Ok(Look::Free);
        };
        if !orchestra_fs::is_locked(&self.path(LOCK))? {
            return Ok(Look::Free);
        }
        RunDirectory::check(&run)?;
        let text = run.read_own(ENDPOINT, MAX_BYTES)?;
        let endpoint = text.and_then(|text| serde_json::from_slice(&text).ok());
        Ok(endpoint.map_or(Look::Silent, |endpoint| Look::Told(Box::new(endpoint))))
    }

    /// The process that has the place and tells nobody where it listens; `None` where that is not known.
    pub(crate) fn silent(&self) -> Option<Process> {
        let run = self.run.open().ok()??;
        let is_held = orchestra_fs::is_locked(&self.path(LOCK)).ok()?;
        let is_told = fs::symlink_metadata(self.endpoint_path()).is_ok();
        if !is_held || is_told || !run.is_private() {
            return None;
        }
        let text = run.read_own(LOCK, MAX_LOCK_BYTES).ok()??;
        serde_json::from_slice::<Holder>(&text).ok()?.process()
    }

    /// Makes the run directory, where no link leads elsewhere and nobody else can write.
    fn make_directory(&self) -> Result<(), PlaceError> {
        Ok(RunDirectory::check(&self.run.make()?)?)
    }

    /// Takes the place for this process, until it ends; false when another has it.
    ///
    /// # Errors
    /// When its files cannot be made, or are not of this user alone.
    pub fn take(&mut self) -> Result<bool, PlaceError> {
        self.make_directory()?;
        let path = self.path(LOCK);
        let begin = Instant::now();
        let mut lock = loop {
            if let Some(lock) = Lock::attempt(&path)? {
                break lock;
            }
            match self.look()? {
                // Somebody only looked at it.
                Look::Free if begin.elapsed() < GLANCES => thread::sleep(GLANCE),
                Look::Free | Look::Silent | Look::Told(_) => return Ok(false),
            }
        };
        // What an engine that was killed left behind.
        self.remove()?;
        say(lock.file_mut(), &Holder::this()).map_err(failed("write", &path))?;
        self.lock = Some(lock);
        Ok(true)
    }

    /// Tells programs of this user where the engine is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn publish(&self, endpoint: &Endpoint) -> Result<(), PlaceError> {
        let path = self.endpoint_path();
        let text =
            serde_json::to_vec(endpoint).map_err(|error| failed("write", &path)(error.into()))?;
        Ok(orchestra_fs::write(&path, &text, Access::Private)?)
    }

    /// Whether the place is still this process's: its files were neither removed nor replaced.
    pub(crate) fn is_ours(&self) -> bool {
        self.lock.as_ref().is_some_and(Lock::is_current)
    }

    /// Tells nobody any more. The lock is held on, until this process ends.
    pub(crate) fn withdraw(&self) {
        // What lies at a place that was lost is another's.
        if self.is_ours()
            && let Err(error) = self.remove()
        {
            tracing::warn!(%error, "cannot remove the engine's endpoint file");
        }
    }

    fn remove(&self) -> Result<(), PlaceError> {
        orchestra_fs::remove(&self.endpoint_path())?;
        Ok(())
    }

    /// The file that an engine talks to which is started now.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn log(&self) -> Result<File, PlaceError> {
        self.make_directory()?;
        let path = self.log_path();
        let log = orchestra_fs::append(&path, Access::Private)?;
        if log.metadata().is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
            log.set_len(0).map_err(failed("shorten", &path))?;
        }
        Ok(log)
    }
}

fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> PlaceError {
    let path = path.to_owned();
    move |source| PlaceError::Io {
        action,
        path: path.clone(),
        source,
    }
}

/// Writes into the file of the lock whose it is.
fn say(file: &mut File, holder: &Holder) -> io::Result<()> {
    let text = serde_json::to_vec(holder)?;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&text)
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt as _, symlink},
        sync::atomic::{AtomicBool, Ordering},
    };

    use orchestra_place::Choice;

    use super::*;

    /// The files of the engine of a workspace whose state is beside it.
    fn place(workspace: &Path) -> Place {
        let state = workspace.join("state");
        let place = orchestra_place::Place::find(workspace, Some(&state), Choice::State);
        Place::new(RunDirectory::new(place.unwrap()))
    }

    fn endpoint(workspace: &Path) -> Endpoint {
        Endpoint::new(workspace, "127.0.0.1:1".parse().unwrap(), None)
    }

    #[test]
    fn one_has_it_until_its_end_and_what_it_left_is_not_believed() {
        let workspace = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (place(workspace.path()), place(workspace.path()));
        assert!(matches!(second.look(), Ok(Look::Free)));
        assert!(first.take().unwrap());
        assert!(matches!(second.look(), Ok(Look::Silent)));
        first.publish(&endpoint(workspace.path())).unwrap();
        assert!(matches!(second.look(), Ok(Look::Told(_))));
        assert!(!second.take().unwrap());
        // As when it is killed.
        drop(first);
        assert!(matches!(second.look(), Ok(Look::Free)));
        assert!(second.take().unwrap());
        assert!(matches!(second.look(), Ok(Look::Silent)));
    }

    #[test]
    fn files_that_other_users_can_write_or_that_are_links_are_refused() {
        let workspace = tempfile::tempdir().unwrap();
        let mut place = place(workspace.path());
        assert!(place.take().unwrap());
        place.publish(&endpoint(workspace.path())).unwrap();
        let file = place.endpoint_path();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        mode(&file, 0o620);
        assert!(matches!(place.look(), Err(PlaceError::File(error)) if error.path() == file));
        mode(&file, 0o600);
        mode(place.run.path(), 0o755);
        assert!(matches!(place.look(), Err(PlaceError::Directory(_))));
        mode(place.run.path(), 0o700);
        let elsewhere = place.run.path().join("elsewhere");
        fs::rename(&file, &elsewhere).unwrap();
        symlink(&elsewhere, &file).unwrap();
        assert!(matches!(place.look(), Err(PlaceError::File(_))));
    }

    #[test]
    fn a_place_that_was_lost_is_left_to_its_new_owner() {
        let workspace = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (place(workspace.path()), place(workspace.path()));
        assert!(first.take().unwrap() && first.is_ours());
        fs::remove_dir_all(first.run.path()).unwrap();
        assert!(!first.is_ours());
        assert!(second.take().unwrap() && second.is_ours() && !first.is_ours());
        second.publish(&endpoint(workspace.path())).unwrap();
        first.withdraw();
        assert!(matches!(first.look(), Ok(Look::Told(_))));
    }

    #[test]
    fn who_only_looks_keeps_nobody_from_the_place() {
        let workspace = tempfile::tempdir().unwrap();
        let is_over = AtomicBool::new(false);
        let look = || {
            let place = place(workspace.path());
            while !is_over.load(Ordering::Relaxed) {
                let _ = place.look();
            }
        };
        thread::scope(|scope| {
            scope.spawn(look);
            scope.spawn(look);
            let taken = (0..200).filter(|_| place(workspace.path()).take().unwrap());
            let taken = taken.count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(taken, 200);
        });
    }

    #[test]
    fn run_directory_that_is_a_link_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = root.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let mut place = place(root.path());
        let run = place.run.path().to_owned();
        fs::create_dir_all(run.parent().unwrap()).unwrap();
        symlink(&elsewhere, &run).unwrap();
        let is_refused = |error: PlaceError| matches!(error, PlaceError::Directory(_));
        assert!(is_refused(place.log().unwrap_err()));
        assert!(is_refused(place.look().unwrap_err()));
        assert!(is_refused(place.take().unwrap_err()));
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn who_has_the_place_and_is_silent_is_known_until_it_is_told_of() {
        let workspace = tempfile::tempdir().unwrap();
        let (mut first, second) = (place(workspace.path()), place(workspace.path()));
        assert_eq!(second.silent(), None);
        assert!(first.take().unwrap());
        assert_eq!(second.silent(), Some(Process::this()));
        first.publish(&endpoint(workspace.path())).unwrap();
        assert_eq!(second.silent(), None);
        first.withdraw();
        assert_eq!(second.silent(), Some(Process::this()));
        drop(first);
        assert_eq!(second.silent(), None);
    }
}
