//! Where a workspace is served: written to a file for other programs, and held by a lock so that
//! a second `up` finds the first.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    files::{FileError, Mode, Root},
    http::MCP_PATH,
    workspace::{self, PROJECTS, RUN},
};

/// How long a first `up` that has its lock may take to say where it listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a workspace is served.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Endpoint {
    /// Version of the program.
    pub(super) version: String,
    /// Its process.
    pub(super) pid: u32,
    /// The base of its HTTP addresses.
    pub(super) http: String,
    /// Where it serves MCP.
    pub(super) mcp: String,
}

impl Endpoint {
    /// This process, which is reached at `base`.
    pub(super) fn new(base: &str) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            mcp: format!("{base}{MCP_PATH}"),
            http: base.to_owned(),
        }
    }
}

/// The place in a workspace where its endpoint is told.
#[derive(Debug)]
pub(super) struct Place {
    root: Root,
    lock: Option<File>,
}

impl Place {
    /// The place in `workspace`.
    pub(super) fn new(workspace: &Path) -> Self {
        Self {
            root: Root::new(workspace),
            lock: None,
        }
    }

    /// The endpoint of another process that serves this workspace now. One that has only just
    /// started is waited for.
    ///
    /// # Errors
    /// When the files of the place cannot be used, or the other process does not say where it
    /// listens.
    pub(super) fn running(&self) -> anyhow::Result<Option<Endpoint>> {
        let start = Instant::now();
        loop {
            let lock = match File::open(self.root.path().join(lock_path())) {
                Ok(lock) => lock,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(failed("open", lock_path(), error).into()),
            };
            match lock.try_lock_shared() {
                Ok(()) => return Ok(None),
                Err(TryLockError::Error(error)) => {
                    return Err(failed("lock", lock_path(), error).into());
                }
                Err(TryLockError::WouldBlock) => {}
            }
            if let Some(text) = self.root.read(&endpoint_path())?
                && let Ok(endpoint) = serde_json::from_str(&text)
            {
                return Ok(Some(endpoint));
            }
            anyhow::ensure!(
                start.elapsed() < PATIENCE,
                "another `orchestra up` has this workspace, but does not say where it listens"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Takes the place for this process, until it ends; false when another has it.
    ///
    /// # Errors
    /// When the lock cannot be made.
    pub(super) fn take(&mut self) -> Result<bool, FileError> {
        workspace::run_directory(self.root.path())
            .map_err(|error| failed("create", run_directory(), error))?;
        let path = self.root.path().join(lock_path());
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| failed("open", lock_path(), error))?;
        match file.try_lock() {
            Ok(()) => self.lock = Some(file),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(failed("lock", lock_path(), error)),
        }
        // What a process that was killed left behind.
        self.root.remove_file(&endpoint_path())?;
        Ok(true)
    }

    /// Tells other programs the endpoint.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn publish(&self, endpoint: &Endpoint) -> anyhow::Result<()> {
        let text = serde_json::to_string(endpoint)?;
        Ok(self.root.write(&endpoint_path(), &text, Mode::Private)?)
    }

    /// Takes the endpoint back and leaves the place to others.
    pub(super) fn withdraw(&mut self) {
        if let Err(error) = self.root.remove_file(&endpoint_path()) {
            tracing::warn!(%error, "the endpoint file stays behind");
        }
        self.lock = None;
    }
}

fn run_directory() -> PathBuf {
    Path::new(PROJECTS).join(RUN)
}

fn lock_path() -> PathBuf {
    run_directory().join("up.lock")
}

fn endpoint_path() -> PathBuf {
    run_directory().join("endpoint.json")
}

fn failed(action: &'static str, path: PathBuf, source: io::Error) -> FileError {
    FileError::Io {
        action,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_finds_the_first_until_it_is_gone() {
        let workspace = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (Place::new(workspace.path()), Place::new(workspace.path()));
        assert!(second.running().unwrap().is_none());
        assert!(first.take().unwrap());
        first.publish(&Endpoint::new("http://127.0.0.1:1")).unwrap();
        assert!(!second.take().unwrap());
        let found = second.running().unwrap().unwrap();
        assert_eq!(
            (found.http.as_str(), found.mcp.as_str()),
            ("http://127.0.0.1:1", "http://127.0.0.1:1/mcp")
        );
        first.withdraw();
        assert!(second.running().unwrap().is_none());
        assert!(second.take().unwrap());
    }

    #[test]
    fn what_a_killed_process_left_behind_is_not_believed() {
        let workspace = tempfile::tempdir().unwrap();
        let mut dead = Place::new(workspace.path());
        assert!(dead.take().unwrap());
        dead.publish(&Endpoint::new("http://127.0.0.1:1")).unwrap();
        drop(dead);
        assert!(Place::new(workspace.path()).running().unwrap().is_none());
    }
}
