//! What a server has offered, kept between runs: shown before it is started, or while it cannot be;
//! and pinned, so that a tool that is told anew is not taken unseen.
//!
//! The first time a tool is listed, it is pinned as it is, with all of its members, also by a command that only shows
//! it. When one of them changes later, the tool is hidden until the change is approved. So is a tool with another name
//! that may be shown by the name of a pinned one. Where it is not known any more what was approved, because the file is
//! damaged, all are hidden until they are approved.

mod known;

use std::{
    io,
    path::{Path, PathBuf},
};

use orchestra_wire::RawJson;
use sha2::{Digest as _, Sha256};

use crate::{
    config::{Pins as Mode, ServerConfig, ServerName, Transport},
    definitions, files,
    names::hex,
};
use known::OnDisk;
pub(crate) use known::{Facts, Known, Lists};

/// The pins of one server, as it is configured: another program under the same name has others.
#[derive(Debug, Clone)]
pub struct PinFile {
    path: PathBuf,
    /// The server whose name begins the shown names of its tools; `None` if they pass unchanged.
    prefix: Option<ServerName>,
}

/// A tool that is told other than it was approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its name at the server.
    pub tool: String,
    /// Its definition as it was approved; `None` where that is not known any more.
    pub before: Option<RawJson>,
    /// As it is told now.
    pub after: RawJson,
}

/// What a server said of itself when it was last seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its version.
    pub version: Option<String>,
    /// How many tools it had.
    pub tools: usize,
    /// How many prompts it had.
    pub prompts: usize,
}

impl PinFile {
    /// The pins of a server in a state directory.
    #[must_use]
    pub fn new(state: &Path, config: &ServerConfig) -> Self {
        let file = format!("{}-{}.json", config.name, identity(config));
        Self {
            path: state.join("mcp").join("known").join(file),
            prefix: config.shown_prefix(),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the server has changed and nobody has approved. Reads a file.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let known = self.read().ok().flatten();
        known.map(|known| known.changes()).unwrap_or_default()
    }

    /// What the server said of itself when it was last seen; `None` when it never was, or that is
    /// not known any more. Reads a file.
    #[must_use]
    pub fn seen(&self) -> Option<Seen> {
        let known = self.load().ok().flatten()?;
        let info: Option<serde_json::Value> = serde_json::from_str(&known.lists.facts.info).ok();
        let version = info.and_then(|info| info.get("version")?.as_str().map(str::to_owned));
        Some(Seen {
            // What a plugin is called where its version is not known.
            version: version.filter(|version| !matches!(&**version, "" | "unknown")),
            tools: known.lists.tools.len(),
            prompts: known.lists.prompts.len(),
        })
    }

    /// The names of the tools that are offered as the server was last seen: those that changed since they
    /// were approved are not. Reads a file.
    #[must_use]
    pub fn tools(&self) -> Vec<String> {
        let known = self.read().ok().flatten();
        known.map(|known| known.offered()).unwrap_or_default()
    }

    /// Why it is not known any more what was approved, when that is so. Reads a file.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        let path = self.path.display();
        match self.read() {
            Err(error) => Some(format!("{path} cannot be read: {error}")),
            Ok(known) => known.filter(Known::is_lost).map(|_| {
                let aside = files::aside(&self.path);
                format!(
                    "{path} was damaged, and is preserved as {}",
                    aside.display()
                )
            }),
        }
    }

    /// Approves changes: of these tools, or of all when none are named. Answers which. Writes a
    /// file; programs that run see it within a few seconds.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn approve(&self, tools: &[&str]) -> io::Result<Vec<String>> {
        self.change(|known| {
            let changes = known.changes().into_iter();
            let chosen =
                changes.filter(|change| tools.is_empty() || tools.contains(&change.tool.as_str()));
            known.approve(chosen.collect())
        })
    }

    /// Takes in the tools that the server lists now, for a command that shows them: new tools are pinned. Returns the
    /// tools that the user has not approved, which are stored for a later approval.
    #[must_use]
    pub fn notice(&self, tools: &[RawJson], mode: Mode) -> Vec<Change> {
        if mode != Mode::Ask {
            return Vec::new();
        }
        let known = match self.read() {
            Ok(known) => known.unwrap_or_else(Known::partial),
            Err(_) => Known::lost(),
        };
        let mut known = known.shown_with(self.prefix.clone());
        let before = known.changes();
        let tools = definitions::once_each(tools.to_vec());
        let is_new = known.notice(tools.clone());
        let changes = known.changes();
        if is_new || changes.iter().any(|change| !before.contains(change)) {
            let kept = self.change(|known| known.notice(tools));
            if let Err(error) = kept {
                tracing::warn!(path = %self.path.display(), %error, "cannot store the definitions of a server");
            }
        }
        changes
    }

    /// What is known; `None` when the server was never seen, or only by a command that shows its tools.
    ///
    /// # Errors
    /// When it was seen, and what is known of it cannot be read.
    pub(crate) fn load(&self) -> io::Result<Option<Known>> {
        Ok(self.read()?.filter(|known| !known.is_partial()))
    }

    /// What is known, also if only a command that shows the tools has listed them.
    fn read(&self) -> io::Result<Option<Known>> {
        let kept: Option<OnDisk> = files::read(&self.path)?;
        match kept {
            Some(kept) if kept.is_newer() => Err(newer()),
            kept => Ok(kept.map(|kept| Known::from(kept).shown_with(self.prefix.clone()))),
        }
    }

    /// Takes in what the server offers now. Where the file cannot be written, that is told, and
    /// what was known before counts.
    pub(crate) fn learn(
        &self,
        lists: Lists,
        of_clients: &[RawJson],
        mode: Mode,
        before: Option<&Known>,
    ) -> Known {
        let learnt = self.change(|known| {
            // What was read while it could be is as good.
            if let Some(before) = before.filter(|before| known.is_lost() && !before.is_lost()) {
                known.clone_from(before);
            }
            known.learn(lists.clone(), of_clients.to_vec(), mode);
            known.clone()
        });
        learnt.unwrap_or_else(|error| {
            tracing::warn!(path = %self.path.display(), %error, "cannot store the definitions of a server");
            let mut known = match (before, self.read()) {
                (_, Ok(Some(kept))) => kept,
                (Some(before), _) => before.clone(),
                (None, Ok(None)) => Known::default(),
                (None, Err(_)) => Known::lost(),
            }
            .shown_with(self.prefix.clone());
            known.learn(lists, of_clients.to_vec(), mode);
            known
        })
    }

    fn change<R>(&self, change: impl FnOnce(&mut Known) -> R) -> io::Result<R> {
        let name = self.path.file_stem().unwrap_or_default().to_string_lossy();
        files::change(&self.path, |kept: &mut OnDisk| {
            if kept.is_newer() {
                return Err(newer());
            }
            let known = Known::from(std::mem::take(kept));
            let mut known = known.shown_with(self.prefix.clone());
            let answer = change(&mut known);
            *kept = known.to_disk(&name);
            Ok(answer)
        })
    }
}

fn newer() -> io::Error {
    io::Error::other("it is of a newer version of this program")
}

/// Tells servers of one name apart by how they are reached. Texts go in as they were written: what
/// they refer to may be a secret, and may change without the server being another.
pub(crate) fn identity(config: &ServerConfig) -> String {
    let mut digest = Sha256::new();
    let mut put = |text: &str| {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text.as_bytes());
    };
    put(config.transport.as_str());
    match &config.transport {
        Transport::Stdio(stdio) => {
            put(stdio.command.written());
            stdio.args.iter().for_each(|arg| put(arg.written()));
            put(&config.origin.directory.to_string_lossy());
        }
        Transport::Http(http) => put(http.url.written()),
        Transport::Plugin(plugin) => {
            put(plugin.id.as_str());
            put(plugin.binary.written());
            plugin.args.iter().for_each(|arg| put(arg.written()));
            put(&plugin.directory.to_string_lossy());
        }
        Transport::Orchestrator(there) => put(there.address.written()),
    }
    hex(&digest.finalize()[..8])
}

#[cfg(test)]
mod tests;
