//! What the user decided of servers, kept between runs: which of a workspace were approved, which
//! are switched off or on by hand, and which are to be restarted. Beside them are the agents that the user
//! agreed to for a workspace.
//!
//! One file in the user's state directory, readable by nobody else, replaced in one step behind a
//! lock, so that several programs may change it at once.

mod covered;
mod fingerprint;

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use orchestra_fs::{Access, Directory, Lock};
use serde::{Deserialize, Serialize};

use crate::config::ServerName;

pub(crate) use covered::SharedWork;
pub use covered::{Content, Covered, Gap};
use fingerprint::FORM;
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
    /// Approvals by programs that knew the first form of the fingerprint alone.
    approved: BTreeMap<String, String>,
    approvals: BTreeMap<String, Approval>,
    enabled: BTreeMap<String, bool>,
    restarts: BTreeMap<String, u64>,
    /// By server whose changed tools are taken: the [identity] of the workspace's directory.
    follows: BTreeMap<String, Option<String>>,
    agents: BTreeMap<String, String>,
    /// The [identity] of the directory for which the agents were agreed to.
    directory: Option<String>,
}

/// Approval of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Approval {
    /// The form of the fingerprint.
    form: u32,
    fingerprint: String,
    /// The [identity] of the workspace's directory.
    directory: Option<String>,
    /// Digests of the parts of the fingerprint; none where they are too many.
    #[serde(default)]
    parts: BTreeMap<String, String>,
}

/// Result of looking for the approval of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The server is approved as it is.
    Approved {
        /// True if the approval showed that Orchestra cannot tell which files the server runs. Such an approval also holds
        /// while the files are known.
        has_notice: bool,
    },
    /// The server is not approved.
    Waits(Waits),
}

/// Reason for which a server waits to be approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waits {
    /// It was never approved.
    New,
    /// It changed since; the texts name what changed.
    Changed(Vec<String>),
    /// It was approved by a program that did not cover files.
    OlderForm,
    /// The approval was for another directory at the same path.
    OtherDirectory,
}

/// Number of bytes of the parts of an approval that are stored.
const MAX_PARTS_BYTES: usize = 64 * 1024;

#[derive(Serialize, Deserialize)]
struct OnDisk {
    version: u32,
    #[serde(default)]
    workspaces: BTreeMap<String, WorkspaceOnDisk>,
}

#[derive(Serialize, Deserialize)]
struct WorkspaceOnDisk {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    approved: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    approvals: BTreeMap<String, Approval>,
    #[serde(default)]
    enabled: BTreeMap<String, bool>,
    #[serde(default)]
    restarts: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    follows: BTreeMap<String, Option<String>>,
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
    #[error("{} is not a valid file of approvals: {what}; move it away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl Decisions {
    /// Returns whether a server is approved with a fingerprint, in the directory that the workspace is now.
    #[must_use]
    pub fn standing(
        &self,
        workspace: &Path,
        name: &ServerName,
        fingerprint: &Fingerprint,
    ) -> Standing {
        let Some(of) = self.of(workspace) else {
            return Standing::Waits(Waits::New);
        };
        let Some(approval) = of.approvals.get(name.as_str()) else {
            return Standing::Waits(match of.approved.contains_key(name.as_str()) {
                true => Waits::OlderForm,
                false => Waits::New,
            });
        };
        match () {
            () if approval.directory != identity(workspace) => {
                Standing::Waits(Waits::OtherDirectory)
            }
            () if approval.form != FORM => Standing::Waits(Waits::OlderForm),
            () if approval.fingerprint == fingerprint.as_str() => Standing::Approved {
                has_notice: fingerprint.has_notice(),
            },
            () if approval.fingerprint == fingerprint.with_notice().as_str() => {
                Standing::Approved { has_notice: true }
            }
            () => {
                let changes = fingerprint::differences(&approval.parts, fingerprint.parts());
                Standing::Waits(Waits::Changed(changes))
            }
        }
    }

    /// Whether a server was switched on or off by hand.
    #[must_use]
    pub fn enabled(&self, workspace: &Path, name: &ServerName) -> Option<bool> {
        self.of(workspace)?.enabled.get(name.as_str()).copied()
    }

    /// Approves a server with the fingerprint that was shown.
    pub fn approve(&mut self, workspace: &Path, name: &ServerName, shown: &Fingerprint) {
        let parts = shown.parts();
        let bytes = parts.iter().map(|(name, digest)| name.len() + digest.len());
        let is_short = bytes.sum::<usize>() <= MAX_PARTS_BYTES;
        let approval = Approval {
            form: FORM,
            fingerprint: shown.as_str().to_owned(),
            directory: identity(workspace),
            parts: match is_short {
                true => parts.clone(),
                false => BTreeMap::new(),
            },
        };
        let of = self.of_mut(workspace);
        of.approved.remove(name.as_str());
        of.follows.remove(name.as_str());
        of.approvals.insert(name.to_string(), approval);
    }

    /// Returns whether changed tools of a server are taken without a question, in the directory that the
    /// workspace is now.
    #[must_use]
    pub fn follows(&self, workspace: &Path, name: &ServerName) -> bool {
        let of = self.of(workspace);
        let directory = of.and_then(|of| of.follows.get(name.as_str()));
        directory.is_some_and(|directory| *directory == identity(workspace))
    }

    /// Takes changed tools of a server without a question, until the server is approved again or its
    /// approval is taken back.
    pub fn follow(&mut self, workspace: &Path, name: &ServerName) {
        let directory = identity(workspace);
        let of = self.of_mut(workspace);
        of.follows.insert(name.to_string(), directory);
    }

    /// Takes an approval back; whether there was one.
    pub fn revoke(&mut self, workspace: &Path, name: &ServerName) -> bool {
        let of = self.of_mut(workspace);
        of.follows.remove(name.as_str());
        let older = of.approved.remove(name.as_str()).is_some();
        of.approvals.remove(name.as_str()).is_some() || older
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

    /// The agents that were agreed to in a workspace, and what was stored of that. Those of another
    /// directory that had the same path are left out.
    #[must_use]
    pub fn agents(&self, workspace: &Path) -> BTreeMap<String, String> {
        let directory = identity(workspace);
        let of = self.of(workspace).filter(|of| of.directory == directory);
        of.map_or_else(BTreeMap::new, |of| of.agents.clone())
    }

    /// Stores that an agent was agreed to as it was shown.
    pub fn agree(&mut self, workspace: &Path, agent: &str, agreement: &str) {
        let of = self.of_mut(workspace);
        let directory = identity(workspace);
        if of.directory != directory {
            of.agents.clear();
            of.directory = directory;
        }
        of.agents.insert(agent.to_owned(), agreement.to_owned());
    }

    /// Takes an agreement back; whether there was one.
    pub fn disagree(&mut self, workspace: &Path, agent: &str) -> bool {
        self.of_mut(workspace).agents.remove(agent).is_some()
    }

    fn of(&self, workspace: &Path) -> Option<&InWorkspace> {
        self.workspaces.get(&path_text(workspace))
    }

    fn of_mut(&mut self, workspace: &Path) -> &mut InWorkspace {
        self.workspaces.entry(path_text(workspace)).or_default()
    }
}

/// Returns a path as text. A path that is not UTF-8 is escaped, with a prefix that no other path has.
fn path_text(path: &Path) -> String {
    let escaped = || {
        let bytes = path.as_os_str().as_encoded_bytes();
        format!("not-utf-8://{}", bytes.escape_ascii())
    };
    path.to_str().map_or_else(escaped, str::to_owned)
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
                approvals: of.approvals,
                enabled: of.enabled,
                restarts: of.restarts,
                follows: of.follows,
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
                approvals: of.approvals.clone(),
                enabled: of.enabled.clone(),
                restarts: of.restarts.clone(),
                follows: of.follows.clone(),
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
