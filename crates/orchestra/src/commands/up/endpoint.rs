//! The endpoint file of a workspace that is served, and its lock, by which a second `up` finds the first.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use orchestra_fs::{Access, Lock};
use serde::{Deserialize, Serialize};

use crate::{
    files::{FileError, Root},
    http::MCP_PATH,
    workspace::{self, PROJECTS, RUN},
};

/// Maximum time between the lock of a first `up` and its endpoint file.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval at which a serving process checks that the lock is still its own.
const LOOKS: Duration = Duration::from_secs(1);

/// Source of the tokens that a running `up` was started with. It never holds a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::commands) enum Tokens {
    /// The user's own token.
    Own,
    /// The variable `ORCHESTRA_TOKEN` of its environment.
    Environment,
    /// A file of tokens.
    File(PathBuf),
}

/// The endpoint of a workspace that is served.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::commands) struct Endpoint {
    /// Version of the program.
    pub(super) version: String,
    /// Its process.
    pub(in crate::commands) pid: u32,
    /// Address that it listens on.
    pub(in crate::commands) address: SocketAddr,
    /// True if callers must show a token.
    pub(in crate::commands) asks_token: bool,
    /// Source of the tokens that it admits; none where only issuers give them out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) tokens: Option<Tokens>,
    /// Issuers of such tokens, if there are any.
    #[serde(default)]
    pub(super) issuers: Vec<String>,
    /// The base of its HTTP addresses.
    pub(in crate::commands) http: String,
    /// URL of MCP.
    pub(super) mcp: String,
    /// QUIC address for plugins and bridges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) quic: Option<SocketAddr>,
    /// The directory of the certificates that they must show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) certs_dir: Option<PathBuf>,
    /// Directory of the plans, which also names the process that runs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) plans: Option<PathBuf>,
}

impl Endpoint {
    /// This process, which listens on `address`, is reached at `base`, and may ask for tokens.
    pub(super) fn new(address: SocketAddr, base: &str, asks_token: bool) -> Self {
        Self {
            address,
            asks_token,
            tokens: None,
            issuers: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            mcp: format!("{base}{MCP_PATH}"),
            quic: None,
            certs_dir: None,
            plans: None,
            http: base.to_owned(),
        }
    }

    /// The same, with the source of its tokens.
    pub(super) fn with_tokens(self, tokens: Option<Tokens>) -> Self {
        Self { tokens, ..self }
    }

    /// The same, where plugins and bridges come in as well.
    pub(super) fn with_quic(self, address: SocketAddr, certs: &Path) -> Self {
        Self {
            quic: Some(address),
            certs_dir: Some(certs.to_owned()),
            ..self
        }
    }

    /// The same, with the directory of the plans that are served.
    pub(super) fn with_plans(self, storage: &Path) -> Self {
        Self {
            plans: Some(storage.to_owned()),
            ..self
        }
    }

    /// The same, for clients that get their tokens from issuers: they reach it as `resource`, for
    /// that is what their tokens are for.
    pub(super) fn with_issuers(self, resource: String, issuers: Vec<String>) -> Self {
        Self {
            mcp: resource,
            issuers,
            ..self
        }
    }
}

/// The lock and the endpoint file of a workspace.
#[derive(Debug)]
pub(in crate::commands) struct Place {
    root: Root,
    lock: Option<Lock>,
    /// The directory of the board that the place was taken in.
    board: Option<fs::Metadata>,
    /// The last published endpoint.
    endpoint: Option<Endpoint>,
}

/// State of the lock and the endpoint file.
enum Look {
    /// The lock is free.
    Free,
    /// The lock is held, and there is no endpoint yet.
    Silent,
    /// The lock is held, with this endpoint.
    Told(Box<Endpoint>),
}

impl Place {
    /// The place in `workspace`.
    pub(in crate::commands) fn new(workspace: &Path) -> Self {
        Self {
            root: Root::new(workspace),
            lock: None,
            board: None,
            endpoint: None,
        }
    }

    /// The endpoint of another process that serves this workspace now. Waits for a process that has just started.
    ///
    /// # Errors
    /// When the files of the place cannot be used, or the other process does not say where it
    /// listens.
    pub(super) fn running(&self) -> anyhow::Result<Option<Endpoint>> {
        let start = Instant::now();
        loop {
            match self.look()? {
                Look::Free => return Ok(None),
                Look::Told(endpoint) => return Ok(Some(*endpoint)),
                Look::Silent => {}
            }
            anyhow::ensure!(
                start.elapsed() < PATIENCE,
                "another `orchestra up` has this workspace, but does not say where it listens"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The same, without waiting.
    pub(in crate::commands) fn told(&self) -> Option<Endpoint> {
        match self.look() {
            Ok(Look::Told(endpoint)) => Some(*endpoint),
            Ok(Look::Free | Look::Silent) | Err(_) => None,
        }
    }

    fn look(&self) -> anyhow::Result<Look> {
        let is_held = orchestra_fs::is_locked(&self.root.path().join(lock_path()));
        if !is_held.map_err(|error| self.failed("lock", error))? {
            return Ok(Look::Free);
        }
        let text = self.root.read(&endpoint_path())?;
        let endpoint = text.and_then(|text| serde_json::from_str(&text).ok());
        Ok(endpoint.map_or(Look::Silent, |endpoint| Look::Told(Box::new(endpoint))))
    }

    /// Takes the place for this process, until it ends; false when another has it.
    ///
    /// # Errors
    /// When the lock cannot be made.
    pub(super) fn take(&mut self) -> Result<bool, FileError> {
        let take = || {
            let run = workspace::run_directory(self.root.path())?;
            Lock::attempt(&run.path().join("up.lock"))
        };
        match take().map_err(|error| self.failed("lock", error))? {
            Some(lock) => self.lock = Some(lock),
            None => return Ok(false),
        }
        if self.board.is_none() {
            let board = fs::symlink_metadata(self.root.path().join(PROJECTS));
            let board = board.map_err(|source| FileError::Io {
                action: "look at",
                path: PROJECTS.into(),
                source,
            });
            self.board = Some(board?);
        }
        // Left behind by a process that was killed.
        self.root.remove_file(&endpoint_path())?;
        Ok(true)
    }

    /// Writes the endpoint file for other programs.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn publish(&mut self, endpoint: &Endpoint) -> anyhow::Result<()> {
        let text = serde_json::to_string(endpoint)?;
        self.root.write(&endpoint_path(), &text, Access::Private)?;
        self.endpoint = Some(endpoint.clone());
        Ok(())
    }

    /// Waits until this process has lost its place: the board was removed or replaced, or another process has the
    /// lock. If only the directory of running programs was removed, recreates it and its endpoint file. May be
    /// cancelled.
    pub(super) async fn lost(&mut self) {
        let mut looks = tokio::time::interval(LOOKS);
        let (mut was_removed, mut is_told) = (false, false);
        loop {
            looks.tick().await;
            if self.is_ours() && !is_gone(&self.root, &endpoint_path()) {
                (was_removed, is_told) = (false, false);
                continue;
            }
            if !self.is_same_board() {
                return;
            }
            // The whole board may be in the course of removal, which is complete at the next look.
            if !std::mem::replace(&mut was_removed, true) {
                continue;
            }
            match self.restore() {
                Ok(true) => tracing::warn!(
                    "{PROJECTS}/{RUN} was removed while the workspace was served; it is there again"
                ),
                Ok(false) => return,
                Err(error) if !is_told => {
                    tracing::warn!("{PROJECTS}/{RUN} was removed and cannot be made: {error:#}");
                    is_told = true;
                }
                Err(_) => {}
            }
        }
    }

    /// Returns whether the board is the one in which the place was taken.
    fn is_same_board(&self) -> bool {
        let there = fs::symlink_metadata(self.root.path().join(PROJECTS));
        matches!((&self.board, there), (Some(ours), Ok(there)) if is_same(ours, &there))
    }

    /// Takes the place again and publishes the last endpoint; false if another process has it by now.
    fn restore(&mut self) -> anyhow::Result<bool> {
        if !self.is_ours() && !self.take()? {
            return Ok(false);
        }
        if let Some(endpoint) = self.endpoint.clone() {
            self.publish(&endpoint)?;
        }
        Ok(true)
    }

    /// Returns whether the locked file is the file that other processes would lock.
    fn is_ours(&self) -> bool {
        self.lock.as_ref().is_some_and(Lock::is_current)
    }

    fn failed(&self, action: &'static str, error: orchestra_fs::Error) -> FileError {
        FileError::below(self.root.path(), action, error)
    }

    /// Removes the endpoint file and releases the lock.
    pub(super) fn withdraw(&mut self) {
        // After a loss, the file belongs to another process.
        if self.is_ours()
            && let Err(error) = self.root.remove_file(&endpoint_path())
        {
            tracing::warn!(%error, "the endpoint file stays behind");
        }
        self.lock = None;
    }
}

fn is_gone(root: &Root, path: &Path) -> bool {
    let found = fs::symlink_metadata(root.path().join(path));
    found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[cfg(unix)]
fn is_same(ours: &fs::Metadata, there: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

#[cfg(not(unix))]
fn is_same(_ours: &fs::Metadata, _there: &fs::Metadata) -> bool {
    // A file that is open is neither removed nor replaced there.
    true
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

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        let address = "127.0.0.1:1".parse().unwrap();
        Endpoint::new(address, "http://127.0.0.1:1", false)
    }

    #[test]
    fn the_second_finds_the_first_until_it_is_gone() {
        let workspace = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (Place::new(workspace.path()), Place::new(workspace.path()));
        assert!(second.running().unwrap().is_none());
        assert!(first.take().unwrap());
        first.publish(&endpoint()).unwrap();
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
    fn a_place_that_was_lost_is_left_to_its_new_owner() {
        let workspace = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (Place::new(workspace.path()), Place::new(workspace.path()));
        assert!(first.take().unwrap() && first.is_ours());
        fs::remove_dir_all(workspace.path().join(PROJECTS)).unwrap();
        assert!(!first.is_ours());
        assert!(second.take().unwrap() && second.is_ours() && !first.is_ours());
        second.publish(&endpoint()).unwrap();
        first.withdraw();
        assert!(first.running().unwrap().is_some());
    }

    #[test]
    fn what_a_killed_process_left_behind_is_not_believed() {
        let workspace = tempfile::tempdir().unwrap();
        let mut dead = Place::new(workspace.path());
        assert!(dead.take().unwrap());
        dead.publish(&endpoint()).unwrap();
        drop(dead);
        assert!(Place::new(workspace.path()).running().unwrap().is_none());
    }
}
