//! The place in a workspace where its engine is told of: a file, and a lock that the engine holds for
//! as long as it lives.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use orchestra_fs::{Access, Directory, Lock};
use orchestra_process::Process;

use super::endpoint::{Endpoint, Holder};

/// Where the board is, and in it what programs that run leave for each other.
const PROJECTS: &str = ".projects";
const RUN: &str = ".run";

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
    /// A file or directory cannot be used.
    #[error("cannot {action} .projects/.run/{name}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On which file; the directory where it is empty.
        name: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// What is made there would be made elsewhere.
    #[error("{0} is a link or a file; replace it by a directory")]
    NotADirectory(&'static str),
    /// Others could have written what stands there.
    #[error("{name} is not yours alone, so that no engine is believed that it tells of; {hint}", name = shown(.name))]
    NotOurs {
        /// Which file; the directory where it is empty.
        name: &'static str,
        /// What to do.
        hint: &'static str,
    },
}

fn shown(name: &str) -> String {
    let directory = ".projects/.run";
    match name {
        "" => directory.to_owned(),
        name => format!("{directory}/{name}"),
    }
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

/// The place in a workspace.
#[derive(Debug)]
pub struct Place {
    projects: PathBuf,
    directory: PathBuf,
    lock: Option<Lock>,
}

impl Place {
    /// The place in `workspace`.
    #[must_use]
    pub fn new(workspace: &Path) -> Self {
        let projects = workspace.join(PROJECTS);
        Self {
            directory: projects.join(RUN),
            projects,
            lock: None,
        }
    }

    /// Looks who has it.
    ///
    /// # Errors
    /// When its files cannot be read, or are not of this user alone.
    pub fn look(&self) -> Result<Look, PlaceError> {
        self.check_links()?;
        let is_held = orchestra_fs::is_locked(&self.directory.join(LOCK));
        if !is_held.map_err(failed_by("lock", LOCK))? {
            return Ok(Look::Free);
        }
        self.check_directory()?;
        Ok(self
            .told()?
            .map_or(Look::Silent, |told| Look::Told(Box::new(told))))
    }

    /// The process that has the place and tells nobody where it listens; `None` where that is not known.
    pub(crate) fn silent(&self) -> Option<Process> {
        let path = self.directory.join(LOCK);
        let lock = orchestra_fs::open(&path).ok()??;
        let is_held = matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock));
        let is_told = fs::symlink_metadata(self.directory.join(ENDPOINT)).is_ok();
        if !is_held || is_told || !is_ours_alone(&lock.metadata().ok()?) {
            return None;
        }
        let mut text = Vec::new();
        lock.take(MAX_LOCK_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice::<Holder>(&text).ok()?.process()
    }

    /// What the file says; nothing while it is not there or not whole.
    fn told(&self) -> Result<Option<Endpoint>, PlaceError> {
        let file = orchestra_fs::open(&self.directory.join(ENDPOINT));
        let Some(file) = file.map_err(failed_by("open", ENDPOINT))? else {
            return Ok(None);
        };
        let metadata = file.metadata().map_err(failed("look at", ENDPOINT))?;
        if !is_ours_alone(&metadata) {
            return Err(PlaceError::NotOurs {
                name: ENDPOINT,
                hint: "remove it, and stop the engine that wrote it",
            });
        }
        let mut text = Vec::new();
        file.take(MAX_BYTES)
            .read_to_end(&mut text)
            .map_err(failed("read", ENDPOINT))?;
        Ok(serde_json::from_slice(&text).ok())
    }

    fn check_directory(&self) -> Result<(), PlaceError> {
        let found = fs::symlink_metadata(&self.directory).map_err(failed("look at", ""))?;
        if found.is_dir() && is_ours_alone(&found) {
            return Ok(());
        }
        Err(PlaceError::NotOurs {
            name: "",
            hint: "`chmod 700` it where it is yours",
        })
    }

    /// Refuses to go through what is no directory, where it is there.
    fn check_links(&self) -> Result<(), PlaceError> {
        for (path, name) in [
            (&self.projects, PROJECTS),
            (&self.directory, ".projects/.run"),
        ] {
            match fs::symlink_metadata(path) {
                Ok(found) if !found.is_dir() => return Err(PlaceError::NotADirectory(name)),
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("look at", "")(error));
                }
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Makes the directory, where nothing leads elsewhere and nobody else can write.
    fn make_directory(&self) -> Result<(), PlaceError> {
        self.check_links()?;
        let workspace = self.projects.parent().unwrap_or(Path::new("."));
        // The board is for whoever may read the workspace; what runs is its user's alone.
        let made = Directory::open(workspace)
            .and_then(|workspace| workspace.make_below(PROJECTS.as_ref(), Access::Shared))
            .and_then(|projects| projects.make_below(RUN.as_ref(), Access::Private));
        made.map_err(failed_by("create", ""))?;
        self.check_directory()
    }

    /// Takes the place for this process, until it ends; false when another has it.
    ///
    /// # Errors
    /// When its files cannot be made, or are not of this user alone.
    pub fn take(&mut self) -> Result<bool, PlaceError> {
        self.make_directory()?;
        let path = self.directory.join(LOCK);
        let begin = Instant::now();
        let mut lock = loop {
            if let Some(lock) = Lock::attempt(&path).map_err(failed_by("lock", LOCK))? {
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
        say(lock.file_mut(), &Holder::this()).map_err(failed("write", LOCK))?;
        self.lock = Some(lock);
        Ok(true)
    }

    /// Tells programs of this user where the engine is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn publish(&self, endpoint: &Endpoint) -> Result<(), PlaceError> {
        let text = serde_json::to_vec(endpoint)
            .map_err(|error| failed("write", ENDPOINT)(error.into()))?;
        let path = self.directory.join(ENDPOINT);
        orchestra_fs::write(&path, &text, Access::Private).map_err(failed_by("write", ENDPOINT))
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
            tracing::warn!(%error, "the file of the engine stays behind");
        }
    }

    fn remove(&self) -> Result<(), PlaceError> {
        let removed = orchestra_fs::remove(&self.directory.join(ENDPOINT));
        removed.map(drop).map_err(failed_by("remove", ENDPOINT))
    }

    /// The file that an engine talks to which is started now.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn log(&self) -> Result<File, PlaceError> {
        self.make_directory()?;
        let log = orchestra_fs::append(&self.directory.join(LOG), Access::Private);
        let log = log.map_err(failed_by("open", LOG))?;
        if log.metadata().is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
            log.set_len(0).map_err(failed("shorten", LOG))?;
        }
        Ok(log)
    }
}

fn failed(action: &'static str, name: &'static str) -> impl Fn(io::Error) -> PlaceError {
    move |source| PlaceError::Io {
        action,
        name,
        source,
    }
}

fn failed_by(
    action: &'static str,
    name: &'static str,
) -> impl Fn(orchestra_fs::Error) -> PlaceError {
    move |error| failed(action, name)(error.into_cause())
}

/// Writes into the file of the lock whose it is.
fn say(file: &mut File, holder: &Holder) -> io::Result<()> {
    let text = serde_json::to_vec(holder)?;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&text)
}

fn is_ours_alone(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::PermissionsExt as _,
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;

    fn endpoint(workspace: &Path) -> Endpoint {
        Endpoint::new(workspace, "127.0.0.1:1".parse().unwrap(), None)
    }

    #[test]
    fn one_has_it_until_its_end_and_what_it_left_is_not_believed() {
        let workspace = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (Place::new(workspace.path()), Place::new(workspace.path()));
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
    fn what_others_can_read_or_lead_elsewhere_is_not_believed() {
        let workspace = tempfile::tempdir().unwrap();
        let mut place = Place::new(workspace.path());
        assert!(place.take().unwrap());
        place.publish(&endpoint(workspace.path())).unwrap();
        let file = place.directory.join(ENDPOINT);
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        mode(&file, 0o644);
        assert!(matches!(
            place.look(),
            Err(PlaceError::NotOurs { name: ENDPOINT, .. })
        ));
        mode(&file, 0o600);
        mode(&place.directory, 0o755);
        assert!(matches!(
            place.look(),
            Err(PlaceError::NotOurs { name: "", .. })
        ));
        mode(&place.directory, 0o700);
        let elsewhere = place.directory.join("elsewhere");
        fs::rename(&file, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert!(matches!(place.look(), Err(PlaceError::Io { .. })));
    }

    #[test]
    fn a_place_that_was_lost_is_left_to_its_new_owner() {
        let workspace = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (Place::new(workspace.path()), Place::new(workspace.path()));
        assert!(first.take().unwrap() && first.is_ours());
        fs::remove_dir_all(workspace.path().join(".projects")).unwrap();
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
            let place = Place::new(workspace.path());
            while !is_over.load(Ordering::Relaxed) {
                let _ = place.look();
            }
        };
        thread::scope(|scope| {
            scope.spawn(look);
            scope.spawn(look);
            let taken = (0..200).filter(|_| Place::new(workspace.path()).take().unwrap());
            let taken = taken.count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(taken, 200);
        });
    }

    #[test]
    fn nothing_is_made_where_a_link_leads() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = root.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let (whole, run) = (root.path().join("whole"), root.path().join("run"));
        fs::create_dir(&whole).unwrap();
        fs::create_dir_all(run.join(PROJECTS)).unwrap();
        let link = |path: PathBuf| std::os::unix::fs::symlink(&elsewhere, path).unwrap();
        link(whole.join(PROJECTS));
        link(run.join(PROJECTS).join(RUN));
        for workspace in [&whole, &run] {
            let mut place = Place::new(workspace);
            let is_refused = |error: PlaceError| matches!(error, PlaceError::NotADirectory(_));
            assert!(is_refused(place.log().unwrap_err()));
            assert!(is_refused(place.look().unwrap_err()));
            assert!(is_refused(place.take().unwrap_err()));
        }
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn what_is_made_is_for_others_as_the_board_is_and_what_runs_for_its_user() {
        let root = tempfile::tempdir().unwrap();
        // As permissions are given to what is made here.
        fs::create_dir(root.path().join("usual")).unwrap();
        let workspace = root.path().join("workspace");
        fs::create_dir(&workspace).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert!(Place::new(&workspace).take().unwrap());
        let projects = workspace.join(PROJECTS);
        assert_eq!(mode(&projects), mode(&root.path().join("usual")));
        assert_eq!(mode(&projects.join(RUN)), 0o700);
    }

    #[test]
    fn who_has_the_place_and_is_silent_is_known_until_it_is_told_of() {
        let workspace = tempfile::tempdir().unwrap();
        let (mut first, second) = (Place::new(workspace.path()), Place::new(workspace.path()));
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
