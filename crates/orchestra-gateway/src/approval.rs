//! What the user decided of servers, kept between runs: which of a workspace were approved, which
//! are switched off or on by hand, and which are to be restarted. Beside them are the agents that the user
//! agreed to for a workspace.
//!
//! One file in the user's state directory, readable by nobody else, replaced in one step behind a
//! lock, so that several programs may change it at once.

mod fingerprint;

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use orchestra_fs::{Access, Directory, Lock};
use serde::{Deserialize, Serialize};

use crate::config::{ServerConfig, ServerName};

pub use fingerprint::Fingerprint;

/// The file's name.
const FILE: &str = "mcp.json";

/// The file that is locked while the other is replaced.
const LOCK: &str = "mcp.lock";

/// The version of the file; a newer one is left alone.
const VERSION: u32 = 1;

/// The largest file; a decision is some hundred bytes.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The decisions of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decisions {
    workspaces: BTreeMap<String, InWorkspace>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct InWorkspace {
    approved: BTreeMap<String, String>,
    enabled: BTreeMap<String, bool>,
    restarts: BTreeMap<String, u64>,
    agents: BTreeMap<String, String>,
    /// The [identity] of the directory for which the agents were agreed to.
    directory: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct OnDisk {
    version: u32,
    #[serde(default)]
    workspaces: BTreeMap<String, WorkspaceOnDisk>,
}

#[derive(Serialize, Deserialize)]
struct WorkspaceOnDisk {
    #[serde(default)]
    approved: BTreeMap<String, String>,
    #[serde(default)]
    enabled: BTreeMap<String, bool>,
    #[serde(default)]
    restarts: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    agents: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
}

/// Why decisions were not read or kept.
#[derive(Debug, thiserror::Error)]
pub enum DecisionsError {
    /// The file, or the directory that it is in, cannot be used.
    #[error(transparent)]
    File(#[from] orchestra_fs::Error),
    /// The file is none of ours.
    #[error("{} holds no decisions over servers: {what}; move it away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl Decisions {
    /// Whether a server was approved as it is.
    #[must_use]
    pub fn is_approved(&self, workspace: &Path, config: &ServerConfig) -> bool {
        let approved = self
            .of(workspace)
            .and_then(|of| of.approved.get(config.name.as_str()));
        approved.is_some_and(|hash| hash == Fingerprint::of(config).as_str())
    }

    /// Whether a server was approved as it was before.
    #[must_use]
    pub fn was_approved(&self, workspace: &Path, name: &ServerName) -> bool {
        self.of(workspace)
            .is_some_and(|of| of.approved.contains_key(name.as_str()))
    }

    /// Whether a server was switched on or off by hand.
    #[must_use]
    pub fn enabled(&self, workspace: &Path, name: &ServerName) -> Option<bool> {
        self.of(workspace)?.enabled.get(name.as_str()).copied()
    }

    /// Approves a server as it is.
    pub fn approve(&mut self, workspace: &Path, config: &ServerConfig) {
        let hash = Fingerprint::of(config).as_str().to_owned();
        let of = self.of_mut(workspace);
        of.approved.insert(config.name.to_string(), hash);
    }

    /// Takes an approval back; whether there was one.
    pub fn revoke(&mut self, workspace: &Path, name: &ServerName) -> bool {
        let of = self.of_mut(workspace);
        of.approved.remove(name.as_str()).is_some()
    }

    /// Switches a server on or off by hand, or leaves it to its file.
    pub fn switch(&mut self, workspace: &Path, name: &ServerName, enabled: Option<bool>) {
        let of = self.of_mut(workspace);
        match enabled {
            Some(enabled) => of.enabled.insert(name.to_string(), enabled),
            None => of.enabled.remove(name.as_str()),
        };
    }

    /// How often a restart of a server was asked for.
    #[must_use]
    pub fn restarts(&self, workspace: &Path, name: &ServerName) -> u64 {
        let of = self.of(workspace);
        let restarts = of.and_then(|of| of.restarts.get(name.as_str()));
        restarts.copied().unwrap_or(0)
    }

    /// Asks every program that runs a server of the workspace to start it anew.
    pub fn restart(&mut self, workspace: &Path, name: &ServerName) {
        let of = self.of_mut(workspace);
        let restarts = of.restarts.entry(name.to_string()).or_default();
        *restarts = restarts.wrapping_add(1);
    }

    /// The agents that were agreed to in a workspace, and the digest of what was shown then. Those of another
    /// directory that had the same path are left out.
    #[must_use]
    pub fn agents(&self, workspace: &Path) -> BTreeMap<String, String> {
        let directory = identity(workspace);
        let of = self.of(workspace).filter(|of| of.directory == directory);
        of.map_or_else(BTreeMap::new, |of| of.agents.clone())
    }

    /// Stores that an agent was agreed to as it was shown.
    pub fn agree(&mut self, workspace: &Path, agent: &str, digest: &str) {
        let of = self.of_mut(workspace);
        let directory = identity(workspace);
        if of.directory != directory {
            of.agents.clear();
            of.directory = directory;
        }
        of.agents.insert(agent.to_owned(), digest.to_owned());
    }

    /// Takes an agreement back; whether there was one.
    pub fn disagree(&mut self, workspace: &Path, agent: &str) -> bool {
        self.of_mut(workspace).agents.remove(agent).is_some()
    }

    fn of(&self, workspace: &Path) -> Option<&InWorkspace> {
        self.workspaces.get(&key(workspace))
    }

    fn of_mut(&mut self, workspace: &Path) -> &mut InWorkspace {
        self.workspaces.entry(key(workspace)).or_default()
    }
}

/// A workspace in the file. Paths that are no text do not meet others: what is no text is shown
/// escaped.
fn key(workspace: &Path) -> String {
    workspace.to_str().map_or_else(
        || {
            format!(
                "not-utf-8:{}",
                workspace.as_os_str().to_string_lossy().escape_default()
            )
        },
        str::to_owned,
    )
}

/// Device, inode and, where the file system stores it, time of creation of a directory, so that another one at
/// the same path is told apart; `None` where there is none.
fn identity(directory: &Path) -> Option<String> {
    let found = std::fs::metadata(directory).ok()?;
    let created = found.created().ok();
    let created = created.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let created = created.map_or(0, |at| at.as_nanos());
    Some(format!("{}:{}:{created}", found.dev(), found.ino()))
}

/// Where decisions are kept.
#[derive(Debug, Clone)]
pub struct DecisionFile {
    directory: PathBuf,
}

impl DecisionFile {
    /// The decisions in a state directory, which is made when something is decided.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Reads what was decided; nothing when there is no file.
    ///
    /// # Errors
    /// When the file cannot be read, or is none of ours.
    pub fn read(&self) -> Result<Decisions, DecisionsError> {
        let path = self.path();
        let Some(text) = orchestra_fs::read(&path, MAX_BYTES)? else {
            return Ok(Decisions::default());
        };
        let foreign = |what: String| DecisionsError::Foreign {
            path: path.clone(),
            what,
        };
        let on_disk: OnDisk =
            serde_json::from_slice(&text).map_err(|error| foreign(error.to_string()))?;
        if on_disk.version != VERSION {
            let what = format!("it is of version {}, not {VERSION}", on_disk.version);
            return Err(foreign(what));
        }
        let workspaces = on_disk.workspaces.into_iter().map(|(key, of)| {
            let of = InWorkspace {
                approved: of.approved,
                enabled: of.enabled,
                restarts: of.restarts,
                agents: of.agents,
                directory: of.directory,
            };
            (key, of)
        });
        Ok(Decisions {
            workspaces: workspaces.collect(),
        })
    }

    /// Changes what was decided, and keeps it before it returns.
    ///
    /// # Errors
    /// When the file is none of ours, or cannot be replaced; it is as it was then.
    pub fn change<T>(&self, change: impl FnOnce(&mut Decisions) -> T) -> Result<T, DecisionsError> {
        Directory::private(&self.directory)?;
        // Held until it is dropped.
        let _lock = Lock::wait(&self.directory.join(LOCK))?;
        let mut decisions = self.read()?;
        let changed = change(&mut decisions);
        self.write(&decisions)?;
        Ok(changed)
    }

    fn write(&self, decisions: &Decisions) -> orchestra_fs::Result<()> {
        let workspaces = decisions.workspaces.iter().map(|(key, of)| {
            let of = WorkspaceOnDisk {
                approved: of.approved.clone(),
                enabled: of.enabled.clone(),
                restarts: of.restarts.clone(),
                agents: of.agents.clone(),
                directory: of.directory.clone(),
            };
            (key.clone(), of)
        });
        let on_disk = OnDisk {
            version: VERSION,
            workspaces: workspaces.collect(),
        };
        let mut text = serde_json::to_vec_pretty(&on_disk).expect("decisions are JSON");
        text.push(b'\n');
        orchestra_fs::write(&self.path(), &text, Access::Private)
    }
}
