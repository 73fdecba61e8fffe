//! What was found, and what differs between two findings.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::approval::{Covered, Fingerprint, Waits};
use crate::config::{
    Diagnostic, Limits, Origin, Place, PluginsFile, Sandbox, ServerConfig, ServerName, Source,
    ToolFilter, Transport, Written, nearest,
};

/// Everything that was found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Each server, in the order of the files and in them.
    pub servers: Vec<Server>,
    /// Servers whose names are taken by stronger ones.
    pub shadowed: Vec<Shadowed>,
    /// The files that were looked at, strongest first.
    pub files: Vec<LookedAt>,
    /// What the lists of plugins among them say beside their plugins, strongest first.
    pub plugins_files: Vec<PluginsFile>,
    /// What is wrong with them.
    pub diagnostics: Vec<Diagnostic>,
}

/// A file that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookedAt {
    /// The file.
    pub path: Arc<Path>,
    /// Which kind it is.
    pub source: Source,
    /// How many servers it names; `None` when it is not there.
    pub servers: Option<usize>,
    /// Whether nothing of it can be read or understood now. Its servers are those that it named
    /// before, where that is known.
    pub is_broken: bool,
}

/// A server that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Its name.
    pub name: ServerName,
    /// Its name as it was written.
    pub shown_name: String,
    /// Where.
    pub origin: Origin,
    /// What becomes of it.
    pub state: ServerState,
    /// Files that decide what becomes of it, beside the one that it stands in.
    pub files: BTreeSet<PathBuf>,
    /// How often a restart was asked for: one more makes it another, to be started anew.
    pub restarts: u64,
    /// Files of the workspace that its approval covers; none while it is disabled.
    pub covered: Arc<Covered>,
    /// The directory of the user's `trusted_directories` because of which it needs no approval.
    pub trusted_by: Option<Arc<Path>>,
    /// Servers of the user and of the system that it replaces, where it is of the workspace.
    pub replaced: Vec<Replaced>,
}

/// A server that a server of the workspace with the same name replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// File that defines it.
    pub file: Arc<Path>,
    /// Its restrictions, which do not apply to the other server: `2 rules`, `limits`.
    pub restrictions: Vec<String>,
}

impl Replaced {
    pub(super) fn of(written: &Written) -> Self {
        let mut restrictions = Vec::new();
        if let Ok(config) = &written.config {
            match config.rules.len() {
                0 => {}
                1 => restrictions.push("1 rule".to_owned()),
                rules => restrictions.push(format!("{rules} rules")),
            }
            let others = [
                (config.default.is_some(), "default"),
                (config.tools != ToolFilter::default(), "selection of tools"),
                (config.limits != Limits::default(), "limits"),
                (config.sandbox != Sandbox::None, "sandbox"),
            ];
            let set = others.into_iter().filter(|(is_set, _)| *is_set);
            restrictions.extend(set.map(|(_, name)| name.to_owned()));
        }
        Self {
            file: Arc::clone(&written.origin.file),
            restrictions,
        }
    }
}

/// What becomes of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerState {
    /// It is used.
    Usable(Arc<ServerConfig>),
    /// It is switched off.
    Disabled {
        /// The server.
        config: Arc<ServerConfig>,
        /// By hand, rather than by its file.
        by_hand: bool,
    },
    /// It comes with a repository, and nobody has approved it as it is.
    NeedsApproval {
        /// The server.
        config: Arc<ServerConfig>,
        /// Fingerprint of the server as it is shown.
        fingerprint: Fingerprint,
        /// Reason for which it is asked for.
        why: Waits,
    },
    /// It cannot be used.
    Invalid {
        /// Why, and what to do.
        reason: String,
    },
    /// It is this program itself, as clients start it: calling it would never end.
    Own,
}

impl ServerState {
    /// A stable name for programs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Usable(_) => "enabled",
            Self::Disabled { .. } => "disabled",
            Self::NeedsApproval { .. } => "needs_approval",
            Self::Invalid { .. } => "invalid",
            Self::Own => "own",
        }
    }
}

/// A server whose name is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadowed {
    /// Its name.
    pub name: ServerName,
    /// Where it was written.
    pub origin: Origin,
    /// Where the one was written that is taken.
    pub by: Origin,
}

impl Server {
    /// The server's configuration, unless that is wrong.
    #[must_use]
    pub fn config(&self) -> Option<&Arc<ServerConfig>> {
        match &self.state {
            ServerState::Usable(config)
            | ServerState::Disabled { config, .. }
            | ServerState::NeedsApproval { config, .. } => Some(config),
            ServerState::Invalid { .. } | ServerState::Own => None,
        }
    }

    /// Name in messages: the id of a plugin, else the name.
    #[must_use]
    pub fn display_name(&self) -> &str {
        match self.config().map(|config| &config.transport) {
            Some(Transport::Plugin(plugin)) => plugin.id.as_str(),
            _ => self.name.as_str(),
        }
    }

    /// Whether it is the same, wherever it stands in its file.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let settled = |server: &Self| {
            let mut server = server.clone();
            server.origin = other.origin.clone();
            server.replaced.clone_from(&other.replaced);
            if let ServerState::Usable(config)
            | ServerState::Disabled { config, .. }
            | ServerState::NeedsApproval { config, .. } = &mut server.state
            {
                let config = Arc::make_mut(config);
                config.origin.place = Place::START;
            }
            server
        };
        settled(self) == settled(other)
    }
}

/// What differs between two findings.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A server is new.
    Added(Server),
    /// A server is another, or something else becomes of it.
    Changed(Server),
    /// A server is gone.
    Removed(ServerName),
}

impl Found {
    /// Returns the names of all servers, in any state.
    #[must_use]
    pub fn names(&self) -> HashSet<String> {
        let names = self.servers.iter().map(|server| &server.name);
        names.map(ToString::to_string).collect()
    }

    /// A server by its name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&Server> {
        let named = |server: &&Server| server.name.as_str() == name || server.shown_name == name;
        self.servers.iter().find(named)
    }

    /// The name that may have been meant by one that no server has.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Option<&str> {
        let names = self.servers.iter().map(|server| server.name.as_str());
        nearest(name, &names.collect::<Vec<_>>())
    }

    /// The files that cannot be read or understood now.
    pub fn broken(&self) -> impl Iterator<Item = &Path> {
        let broken = self.files.iter().filter(|file| file.is_broken);
        broken.map(|file| &*file.path)
    }

    /// The servers that are used.
    pub fn usable(&self) -> impl Iterator<Item = &Arc<ServerConfig>> {
        self.servers
            .iter()
            .filter_map(|server| match &server.state {
                ServerState::Usable(config) => Some(config),
                _ => None,
            })
    }

    /// What is other than before: first what is gone, then the rest in its order.
    #[must_use]
    pub fn changes_since(&self, before: &Self) -> Vec<Change> {
        let of = |found: &'_ Self| -> BTreeMap<ServerName, Server> {
            let servers = found.servers.iter();
            servers
                .map(|server| (server.name.clone(), server.clone()))
                .collect()
        };
        let (old, new) = (of(before), of(self));
        let gone = old.keys().filter(|name| !new.contains_key(*name));
        let mut changes: Vec<Change> = gone.cloned().map(Change::Removed).collect();
        for server in &self.servers {
            match old.get(&server.name) {
                None => changes.push(Change::Added(server.clone())),
                Some(known) if !known.is_same(server) => {
                    changes.push(Change::Changed(server.clone()));
                }
                Some(_) => {}
            }
        }
        changes
    }
}
