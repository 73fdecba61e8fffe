//! Leader election of the engines of a workspace. The engine that leads serves the programs of the workspace, which
//! find it by its endpoint file.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use orchestra_fs::{Access, Error};
use orchestra_place::{Election, Leader, Leadership, PlaceError, RunDirectory};
use orchestra_process::{Process, ProcessRecord};

use super::endpoint::Endpoint;

/// Endpoint file in the run directory.
const ENDPOINT: &str = "engine.json";

/// Election of the engine. Its lock file names the process that leads.
const ELECTION: Election = Election::new("engine.lock", ENDPOINT);

/// Output of engines that programs have started.
const LOG: &str = "engine.log";

/// Size at which the log is emptied, in bytes.
const MAX_LOG_BYTES: u64 = 256 * 1024;

/// The files of the engine of a workspace.
#[derive(Debug)]
pub struct Place {
    run: RunDirectory,
}

impl Place {
    /// The files in the run directory of a workspace.
    #[must_use]
    pub const fn new(run: RunDirectory) -> Self {
        Self { run }
    }

    /// Path of the endpoint file.
    #[must_use]
    pub fn endpoint_path(&self) -> PathBuf {
        self.run.path().join(ENDPOINT)
    }

    /// Path of the output of an engine that a program has started.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.run.path().join(LOG)
    }

    /// Returns the engine that leads.
    ///
    /// # Errors
    /// When its files cannot be read, or are not of this user alone.
    pub fn leader(&self) -> Result<Leader<Endpoint>, PlaceError> {
        self.run.leader(ELECTION)
    }

    /// Returns the process that leads without an endpoint file; `None` where that is not known.
    pub(crate) fn silent(&self) -> Option<Process> {
        let run = self.run.open().ok()??;
        let is_silent = matches!(self.leader(), Ok(Leader::Silent));
        if !is_silent || fs::symlink_metadata(self.endpoint_path()).is_ok() {
            return None;
        }
        ELECTION.identity::<ProcessRecord>(&run).ok()??.find()
    }

    /// Makes this process the leader; `None` while another process leads.
    ///
    /// # Errors
    /// When the files cannot be created, or are not of this user alone.
    pub fn lead(&self) -> Result<Option<Leadership>, PlaceError> {
        let run = self.run.make()?;
        RunDirectory::check(&run)?;
        let Some(mut leadership) = ELECTION.lead(&run)? else {
            return Ok(None);
        };
        leadership.identify(&ProcessRecord::this())?;
        Ok(Some(leadership))
    }

    /// Opens the log for an engine that is started now.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn log(&self) -> Result<File, PlaceError> {
        RunDirectory::check(&self.run.make()?)?;
        let path = self.log_path();
        let log = orchestra_fs::append(&path, Access::Private)?;
        if log.metadata().is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
            let emptied = log.set_len(0);
            emptied.map_err(|error| Error::system("shorten", &path, error))?;
        }
        Ok(log)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt as _, symlink},
        path::Path,
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
    fn one_engine_leads_until_its_end_and_is_found() {
        let workspace = tempfile::tempdir().unwrap();
        let place = place(workspace.path());
        assert!(matches!(place.leader(), Ok(Leader::None)));
        let first = place.lead().unwrap().unwrap();
        assert!(matches!(place.leader(), Ok(Leader::Silent)));
        first.publish(&endpoint(workspace.path())).unwrap();
        assert!(matches!(place.leader(), Ok(Leader::Published(_))));
        assert!(place.lead().unwrap().is_none());
        // As when it is killed.
        drop(first);
        assert!(matches!(place.leader(), Ok(Leader::None)));
        let _second = place.lead().unwrap().unwrap();
        assert!(matches!(place.leader(), Ok(Leader::Silent)));
    }

    #[test]
    fn files_that_other_users_can_write_or_that_are_links_are_refused() {
        let workspace = tempfile::tempdir().unwrap();
        let place = place(workspace.path());
        let leadership = place.lead().unwrap().unwrap();
        leadership.publish(&endpoint(workspace.path())).unwrap();
        let file = place.endpoint_path();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        mode(&file, 0o620);
        assert!(matches!(place.leader(), Err(PlaceError::File(error)) if error.path() == file));
        mode(&file, 0o600);
        mode(place.run.path(), 0o755);
        assert!(matches!(place.leader(), Err(PlaceError::NotPrivate(_))));
        mode(place.run.path(), 0o700);
        let elsewhere = place.run.path().join("elsewhere");
        fs::rename(&file, &elsewhere).unwrap();
        symlink(&elsewhere, &file).unwrap();
        assert!(matches!(place.leader(), Err(PlaceError::File(_))));
    }

    #[test]
    fn run_directory_that_is_a_link_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = root.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let place = place(root.path());
        let run = place.run.path().to_owned();
        fs::create_dir_all(run.parent().unwrap()).unwrap();
        symlink(&elsewhere, &run).unwrap();
        let is_refused = |error: PlaceError| matches!(error, PlaceError::Unusable { .. });
        assert!(is_refused(place.log().unwrap_err()));
        assert!(is_refused(place.leader().unwrap_err()));
        assert!(is_refused(place.lead().unwrap_err()));
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn silent_leader_is_identified_until_it_publishes_its_endpoint() {
        let workspace = tempfile::tempdir().unwrap();
        let place = place(workspace.path());
        assert_eq!(place.silent(), None);
        let leadership = place.lead().unwrap().unwrap();
        assert_eq!(place.silent(), Some(Process::this()));
        leadership.publish(&endpoint(workspace.path())).unwrap();
        assert_eq!(place.silent(), None);
        leadership.withdraw().unwrap();
        assert_eq!(place.silent(), Some(Process::this()));
        drop(leadership);
        assert_eq!(place.silent(), None);
    }
}
