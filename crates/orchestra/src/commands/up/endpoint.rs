//! Leader election of the processes that serve a workspace: a second `up` finds the first by its endpoint file.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use orchestra_fs::Directory;
use orchestra_place::{Election, Leader, Leadership, RunDirectory};
use orchestra_store::Home;
use serde::{Deserialize, Serialize};

use crate::{
    board,
    config::Config,
    exit::Failure,
    http::MCP_PATH,
    workspace::{self, PROJECTS},
};

/// Endpoint file in the run directory.
const ENDPOINT: &str = "endpoint.json";

/// Election of the serving process.
const ELECTION: Election = Election::new("up.lock", ENDPOINT);

/// Maximum time between the lock of a first `up` and its endpoint file.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval at which a serving process checks that it still leads.
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
    /// Address of `localhost` that may belong to another program, so that `localhost` is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) foreign_localhost: Option<SocketAddr>,
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
    /// Workspace whose plans and servers are served. Other worktrees may share its board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) serves: Option<PathBuf>,
    /// The board that is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    board: Option<BoardId>,
}

/// The directory of a board, which another one of its name is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct BoardId {
    device: u64,
    inode: u64,
}

impl BoardId {
    /// The board with a directory, if there is one.
    fn of(root: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let found = fs::metadata(root).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

impl Endpoint {
    /// This process, which listens on `address`, is reached at `base`, and may ask for tokens.
    pub(super) fn new(address: SocketAddr, base: &str, asks_token: bool) -> Self {
        Self {
            address,
            foreign_localhost: None,
            asks_token,
            tokens: None,
            issuers: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            mcp: format!("{base}{MCP_PATH}"),
            quic: None,
            certs_dir: None,
            plans: None,
            serves: None,
            board: None,
            http: base.to_owned(),
        }
    }

    /// Returns a note if it serves another worktree with the same board.
    pub(in crate::commands) fn other_worktree(&self, workspace: &Path) -> Option<String> {
        let serves = self.serves.as_ref().filter(|serves| *serves != workspace)?;
        Some(format!(
            "process {} serves {}; plans and servers of {} are not in it, but `orchestra plan list` and `orchestra mcp list` show them",
            self.pid,
            serves.display(),
            workspace.display()
        ))
    }
}

/// This process's part in the election of the process that serves a workspace.
#[derive(Debug)]
pub(in crate::commands) struct Place {
    /// Directory of the board.
    root: PathBuf,
    /// Whether the store puts the board back after the directory was removed and created again, as a git directory.
    is_put_back: bool,
    run: RunDirectory,
    leadership: Option<Leadership>,
    /// The directory of the board at the time when this process became the leader.
    board: Option<Directory>,
    /// The last published endpoint.
    endpoint: Option<Endpoint>,
}

impl Place {
    /// The place of a workspace.
    ///
    /// # Errors
    /// When the workspace has no place for private state.
    pub(in crate::commands) fn find(config: &Config) -> anyhow::Result<Self> {
        let failed = |failure: Failure| anyhow::Error::msg(failure.text());
        let root = board::root(config).map_err(failed)?;
        let is_put_back = match config.home().map_err(failed)? {
            Home::Checkout => false,
            Home::Shared(home) => home.place().is_in_repository(),
        };
        let mut place = Self::new(root, workspace::run_directory(config)?);
        place.is_put_back = is_put_back;
        Ok(place)
    }

    const fn new(root: PathBuf, run: RunDirectory) -> Self {
        Self {
            root,
            is_put_back: false,
            run,
            leadership: None,
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
            match self.run.leader::<Endpoint>(ELECTION)? {
                Leader::None => return Ok(None),
                Leader::Published(mut endpoint) if !self.is_of_another_board(&endpoint) => {
                    // Not for callers, who have their own.
                    endpoint.board = None;
                    return Ok(Some(endpoint));
                }
                Leader::Published(_) | Leader::Silent => {}
            }
            anyhow::ensure!(
                start.elapsed() < PATIENCE,
                "another `orchestra up` serves this workspace, but its endpoint file contains no address"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The same, without waiting.
    ///
    /// # Errors
    /// When another process leads and its endpoint file cannot be used.
    pub(in crate::commands) fn published(&self) -> anyhow::Result<Option<Endpoint>> {
        match self.run.leader(ELECTION)? {
            Leader::Published(endpoint) => Ok(Some(endpoint)),
            Leader::None | Leader::Silent => Ok(None),
        }
    }

    /// Whether an endpoint is that of a board that was removed or replaced since.
    fn is_of_another_board(&self, endpoint: &Endpoint) -> bool {
        endpoint.board.is_some() && endpoint.board != BoardId::of(&self.root)
    }

    /// Makes this process the leader, until it ends; false while another process leads. The board must exist.
    ///
    /// # Errors
    /// When a file of the election cannot be used.
    pub(super) fn lead(&mut self) -> anyhow::Result<bool> {
        let run = self.run.make()?;
        // A link in the place of the endpoint file is refused.
        run.open_file(ENDPOINT)?;
        let Some(leadership) = ELECTION.lead(&run)? else {
            return Ok(false);
        };
        if self.board.is_none() {
            self.board = Some(Directory::open(&self.root)?);
        }
        self.leadership = Some(leadership);
        Ok(true)
    }

    /// Writes the endpoint file for other programs.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn publish(&mut self, endpoint: &Endpoint) -> anyhow::Result<()> {
        let endpoint = Endpoint {
            board: BoardId::of(&self.root),
            ..endpoint.clone()
        };
        // The directory may have been removed since this process leads.
        self.run.make()?;
        if let Some(leadership) = &self.leadership {
            leadership.publish(&endpoint)?;
        }
        self.endpoint = Some(endpoint);
        Ok(())
    }

    /// Waits until this process has lost its leadership: the board was moved, removed or replaced, or another process
    /// leads. A removed git directory is no loss: the store still has the board open, and this process leads again once
    /// there is a git directory. If only the run directory was removed, recreates it and its endpoint file. Ends the
    /// leadership before it returns the directory that the board was moved to, if it was. May be cancelled.
    pub(super) async fn lost(&mut self) -> Option<PathBuf> {
        let mut looks = tokio::time::interval(LOOKS);
        let (mut was_removed, mut is_told) = (false, false);
        let mut is_awaited = false;
        loop {
            looks.tick().await;
            match self.look_at_board() {
                BoardLook::Here => is_awaited = false,
                BoardLook::Awaited => {
                    if !std::mem::replace(&mut is_awaited, true) {
                        self.warn_of_removal();
                    }
                    continue;
                }
                BoardLook::Lost(moved) => {
                    self.withdraw();
                    return moved;
                }
            }
            if self.is_current() && !is_gone(&self.endpoint_path()) {
                (was_removed, is_told) = (false, false);
                continue;
            }
            // Removal of the directory may be under way, and is complete at the next look.
            if !std::mem::replace(&mut was_removed, true) {
                continue;
            }
            let restored = self.restore();
            let run = self.run.path().display();
            match restored {
                Ok(true) => tracing::warn!(
                    "`{run}` was removed while the workspace was served; recreated it"
                ),
                Ok(false) => return None,
                Err(error) if !is_told => {
                    tracing::warn!("`{run}` was removed and cannot be recreated: {error:#}");
                    is_told = true;
                }
                Err(_) => {}
            }
        }
    }

    /// Looks whether the board is in its place. A git directory in the place of a removed one becomes the directory of
    /// the board: the store puts the board into it, or uses the board that it has.
    fn look_at_board(&mut self) -> BoardLook {
        if self.is_same_board() {
            return BoardLook::Here;
        }
        let is_removed = self
            .board
            .as_ref()
            .is_some_and(|board| board.current_path().is_none());
        if !self.is_put_back || !is_removed {
            return BoardLook::Lost(self.moved());
        }
        match Directory::open(&self.root) {
            Ok(board) => {
                self.board = Some(board);
                BoardLook::Here
            }
            Err(_) => BoardLook::Awaited,
        }
    }

    fn warn_of_removal(&self) {
        tracing::warn!(
            "`{}` was removed while its board was served: changes are refused until there is a git directory again, \
             into which the board is copied; run `git init`, or put the `.git` of a clone there, before you end this \
             program",
            self.root.display()
        );
    }

    /// Returns whether the board is the one that this process serves.
    fn is_same_board(&self) -> bool {
        self.board.as_ref().is_some_and(Directory::is_in_place)
    }

    /// Returns the directory that the board was moved to. A `.projects` that got another name was set aside.
    fn moved(&self) -> Option<PathBuf> {
        let path = self.board.as_ref()?.current_path()?;
        let is_aside = self.root.ends_with(PROJECTS) && !path.ends_with(PROJECTS);
        (!is_aside).then_some(path)
    }

    /// Leads again and publishes the last endpoint; false if another process leads by now.
    fn restore(&mut self) -> anyhow::Result<bool> {
        if !self.is_current() && !self.lead()? {
            return Ok(false);
        }
        if let Some(endpoint) = self.endpoint.clone() {
            self.publish(&endpoint)?;
        }
        Ok(true)
    }

    fn is_current(&self) -> bool {
        self.leadership.as_ref().is_some_and(Leadership::is_current)
    }

    fn endpoint_path(&self) -> PathBuf {
        self.run.path().join(ENDPOINT)
    }

    /// Removes the endpoint file and ends the leadership.
    pub(super) fn withdraw(&mut self) {
        let leadership = self.leadership.take();
        if let Some(Err(error)) = leadership.as_ref().map(Leadership::withdraw) {
            tracing::warn!(%error, "cannot remove the endpoint file");
        }
    }
}

/// Place of the board of a process that serves it.
#[derive(Debug, PartialEq, Eq)]
enum BoardLook {
    /// At its path.
    Here,
    /// In no place: its git directory was removed.
    Awaited,
    /// Elsewhere, removed or replaced, with the directory that it was moved to.
    Lost(Option<PathBuf>),
}

fn is_gone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use orchestra_place::Choice;

    use super::*;

    fn endpoint() -> Endpoint {
        let address = "127.0.0.1:1".parse().unwrap();
        Endpoint::new(address, "http://127.0.0.1:1", false)
    }

    /// The place of a workspace whose state is in it, with a board.
    fn place(workspace: &Path) -> Place {
        let state = workspace.join("state");
        fs::create_dir_all(workspace.join(PROJECTS)).unwrap();
        let place = orchestra_place::Place::find(workspace, Some(&state), Choice::State);
        let root = workspace.join(PROJECTS);
        Place::new(root, RunDirectory::new(place.unwrap()))
    }

    #[test]
    fn the_second_finds_the_first_until_it_is_gone() {
        let workspace = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (place(workspace.path()), place(workspace.path()));
        assert!(second.running().unwrap().is_none());
        assert!(first.lead().unwrap());
        first.publish(&endpoint()).unwrap();
        assert!(!second.lead().unwrap());
        let found = second.running().unwrap().unwrap();
        assert_eq!(
            (found.http.as_str(), found.mcp.as_str()),
            ("http://127.0.0.1:1", "http://127.0.0.1:1/mcp")
        );
        first.withdraw();
        assert!(second.running().unwrap().is_none());
        assert!(second.lead().unwrap());
    }

    #[test]
    fn a_place_that_was_lost_is_left_to_its_new_owner() {
        let workspace = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (place(workspace.path()), place(workspace.path()));
        assert!(first.lead().unwrap() && first.is_current());
        fs::remove_dir_all(first.run.path()).unwrap();
        assert!(!first.is_current() && first.is_same_board());
        assert!(second.lead().unwrap() && second.is_current() && !first.is_current());
        second.publish(&endpoint()).unwrap();
        first.withdraw();
        assert!(first.running().unwrap().is_some());
    }

    #[test]
    fn replaced_board_is_noticed() {
        let workspace = tempfile::tempdir().unwrap();
        let mut place = place(workspace.path());
        assert!(place.lead().unwrap() && place.is_same_board());
        place.publish(&endpoint()).unwrap();
        let told = place.published().unwrap().unwrap();
        assert!(!place.is_of_another_board(&told));
        fs::rename(
            workspace.path().join(PROJECTS),
            workspace.path().join("old"),
        )
        .unwrap();
        assert!(!place.is_same_board() && place.is_of_another_board(&told));
        fs::create_dir(workspace.path().join(PROJECTS)).unwrap();
        assert!(!place.is_same_board() && place.is_of_another_board(&told));
    }

    #[test]
    fn removed_git_directory_is_awaited_and_the_next_one_is_served() {
        let workspace = tempfile::tempdir().unwrap();
        let mut place = place(workspace.path());
        place.is_put_back = true;
        assert!(place.lead().unwrap());
        fs::remove_dir(&place.root).unwrap();
        for _ in 0..2 {
            assert_eq!(place.look_at_board(), BoardLook::Awaited);
        }
        fs::create_dir(&place.root).unwrap();
        assert_eq!(place.look_at_board(), BoardLook::Here);
        assert!(place.is_same_board());
        let moved = workspace.path().join("moved");
        fs::rename(&place.root, moved).unwrap();
        fs::create_dir(&place.root).unwrap();
        assert!(matches!(place.look_at_board(), BoardLook::Lost(_)));
    }

    #[test]
    fn endpoint_that_another_user_could_have_planted_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let workspace = tempfile::tempdir().unwrap();
        let (mut first, second) = (place(workspace.path()), place(workspace.path()));
        assert!(first.lead().unwrap());
        first.publish(&endpoint()).unwrap();
        let (run, file) = (first.run.path(), first.endpoint_path());
        for (path, bad, good) in [(run, 0o755, 0o700), (&*file, 0o622, 0o600)] {
            let set = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            set(bad);
            assert!(second.running().is_err(), "{path:?}");
            assert!(second.published().is_err(), "{path:?}");
            set(good);
            assert!(second.published().unwrap().is_some(), "{path:?}");
        }
    }

    #[test]
    fn what_a_killed_process_left_behind_is_not_believed() {
        let workspace = tempfile::tempdir().unwrap();
        let mut dead = place(workspace.path());
        assert!(dead.lead().unwrap());
        dead.publish(&endpoint()).unwrap();
        drop(dead);
        assert!(place(workspace.path()).running().unwrap().is_none());
    }
}
