//! Which servers there are: the files that are looked at, in their order, and what becomes of each
//! server in them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    approval::Decisions,
    config::{
        Contents, Diagnostic, File, Origin, Place, ServerConfig, ServerName, Severity, Source,
        Transport, Trust, Written,
    },
    expand::Scope,
};

/// The most files of a directory.
const MAX_FILES: usize = 256;

/// The file of the user that holds servers and nothing else.
const USER_FILE: &str = "mcp.json";

/// The configuration of this program, in a workspace and of the user.
const CONFIG_FILE: &str = "orchestra.toml";

/// The files of a workspace, strongest first.
const WORKSPACE_FILES: [&str; 4] = [CONFIG_FILE, ".mcp.json", "mcp.json", ".vscode/mcp.json"];

/// Where servers are looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Files that the command line names, strongest first.
    pub command_line: Vec<PathBuf>,
    /// Files, and directories of files, that the environment names.
    pub environment: Vec<PathBuf>,
    /// The workspace.
    pub workspace: PathBuf,
    /// The user's configuration directory of this program.
    pub user: Option<PathBuf>,
}

/// Everything that was found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Each server, in the order of the files and in them.
    pub servers: Vec<Server>,
    /// Servers whose names are taken by stronger ones.
    pub shadowed: Vec<Shadowed>,
    /// The files that were looked at, strongest first.
    pub files: Vec<LookedAt>,
    /// What is wrong with them.
    pub diagnostics: Vec<Diagnostic>,
}

/// What files said when they could be understood.
#[derive(Debug, Default)]
pub(crate) struct LastRead(BTreeMap<Arc<Path>, Vec<Written>>);

impl LastRead {
    fn or_before(&mut self, file: &File, now: Option<Contents>) -> Option<Contents> {
        let Some(mut now) = now else {
            self.0.remove(&file.path);
            return None;
        };
        if !now.is_broken {
            self.0.insert(Arc::clone(&file.path), now.servers.clone());
        } else if let Some(before) = self.0.get(&file.path) {
            now.servers.clone_from(before);
        }
        Some(now)
    }
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
    /// How often a restart was asked for: one more makes it another, to be started anew.
    pub restarts: u64,
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
        /// It was approved, and was changed since.
        changed: bool,
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

    /// Whether it is the same, wherever it stands in its file.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let settled = |server: &Self| {
            let mut server = server.clone();
            server.origin = other.origin.clone();
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
    /// A server by its name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&Server> {
        let named = |server: &&Server| server.name.as_str() == name || server.shown_name == name;
        self.servers.iter().find(named)
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

impl Places {
    /// Every file that may hold servers, strongest first, also those that are not there.
    #[must_use]
    pub fn files(&self) -> Vec<File> {
        let mut files = Vec::new();
        for path in &self.command_line {
            files.push(self.file(path, Source::CommandLine));
        }
        for path in &self.environment {
            let within = listed(path);
            let paths = within.as_deref().unwrap_or(std::slice::from_ref(path));
            files.extend(
                paths
                    .iter()
                    .map(|path| self.file(path, Source::Environment)),
            );
        }
        for name in WORKSPACE_FILES {
            files.push(self.file(&self.workspace.join(name), Source::Workspace));
        }
        for name in [CONFIG_FILE, USER_FILE] {
            let path = self.user.as_ref().map(|user| user.join(name));
            files.extend(path.map(|path| self.file(&path, Source::User)));
        }
        files
    }

    fn file(&self, path: &Path, source: Source) -> File {
        let directory = match source {
            Source::Workspace | Source::User => self.workspace.clone(),
            Source::CommandLine | Source::Environment => {
                project_of(path).unwrap_or_else(|| self.workspace.clone())
            }
        };
        File {
            path: path.into(),
            source,
            trust: source.trust(),
            directory,
        }
    }

    /// Reads every file and decides what becomes of each server. Nothing is started.
    #[must_use]
    pub fn find(&self, scope: &Scope, decisions: &Decisions) -> Found {
        self.find_again(scope, decisions, &mut LastRead::default())
    }

    /// As [`find`](Self::find); of a file that cannot be understood now, what it said when it
    /// could be is taken, so that one that somebody is writing stops no server.
    pub(crate) fn find_again(
        &self,
        scope: &Scope,
        decisions: &Decisions,
        last: &mut LastRead,
    ) -> Found {
        let mut found = Found::default();
        for file in self.files() {
            let contents = last.or_before(&file, file.read());
            found.files.push(LookedAt {
                path: Arc::clone(&file.path),
                source: file.source,
                servers: contents.as_ref().map(|contents| contents.servers.len()),
            });
            let Some(contents) = contents else {
                found.diagnostics.extend(missing(&file));
                continue;
            };
            found.diagnostics.extend(contents.diagnostics);
            for written in contents.servers {
                let known = found.servers.iter().find(|one| one.name == written.name);
                if let Some(stronger) = known {
                    found.shadowed.push(Shadowed {
                        name: written.name,
                        origin: written.origin,
                        by: stronger.origin.clone(),
                    });
                    continue;
                }
                let server = self.decide(written, scope, decisions, &mut found.diagnostics);
                found.servers.push(server);
            }
        }
        found
    }

    /// What becomes of a server.
    fn decide(
        &self,
        written: Written,
        scope: &Scope,
        decisions: &Decisions,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Server {
        let Written {
            name,
            shown_name,
            origin,
            config,
        } = written;
        let workspace = &self.workspace;
        let by_hand = decisions.enabled(workspace, &name);
        let state = match config {
            Err(reason) => ServerState::Invalid { reason },
            Ok(config) if origin.trust == Trust::Ask && is_own(&config) => ServerState::Own,
            Ok(config) if by_hand == Some(false) || (config.disabled && by_hand.is_none()) => {
                ServerState::Disabled {
                    config: Arc::from(config),
                    by_hand: by_hand.is_some(),
                }
            }
            Ok(config)
                if origin.trust == Trust::Ask && !decisions.is_approved(workspace, &config) =>
            {
                ServerState::NeedsApproval {
                    changed: decisions.was_approved(workspace, &name),
                    config: Arc::from(config),
                }
            }
            Ok(mut config) => match scope.check(&config) {
                Ok(()) => {
                    config.named = scope.named_files(&config);
                    ServerState::Usable(Arc::from(config))
                }
                Err(error) => {
                    let reason = error.to_string();
                    diagnostics.push(Diagnostic {
                        severity: Severity::Error,
                        file: Arc::clone(&origin.file),
                        place: origin.place,
                        path: shown_name.clone(),
                        server: Some(name.clone()),
                        message: reason.clone(),
                    });
                    ServerState::Invalid { reason }
                }
            },
        };
        Server {
            restarts: decisions.restarts(workspace, &name),
            name,
            shown_name,
            origin,
            state,
        }
    }
}

/// A file that somebody named must be there.
fn missing(file: &File) -> Option<Diagnostic> {
    if !matches!(file.source, Source::CommandLine) {
        return None;
    }
    Some(Diagnostic {
        severity: Severity::Error,
        file: Arc::clone(&file.path),
        place: Place::START,
        path: String::new(),
        server: None,
        message: "there is no such file".to_owned(),
    })
}

/// The files of a directory, in the order of their names; `None` when it is none.
fn listed(path: &Path) -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(path).ok()?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let known = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("json" | "jsonc" | "toml" | "yaml" | "yml"))
    };
    let mut files: Vec<PathBuf> = paths.filter(known).collect();
    files.sort();
    files.truncate(MAX_FILES);
    Some(files)
}

/// The directory of the project that a file belongs to: the settings of editors have a directory
/// of their own in it.
fn project_of(file: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(file).ok()?;
    let parent = absolute.parent()?;
    let name = parent.file_name().and_then(|name| name.to_str());
    let is_settings = matches!(name, Some(".vscode" | ".cursor"));
    let project = if is_settings {
        parent.parent()?
    } else {
        parent
    };
    Some(project.to_owned())
}

/// Whether a server is what `orchestra init` writes for clients: this program itself.
#[must_use]
pub fn is_own(config: &ServerConfig) -> bool {
    const NAMES: [&str; 2] = ["orchestra", "orchestra-mcp"];
    match &config.transport {
        Transport::Stdio(stdio) => {
            let program = Path::new(stdio.command.written()).file_stem();
            let program = program.and_then(|stem| stem.to_str()).unwrap_or_default();
            let serves = match stdio.args.first() {
                Some(first) => ["stdio", "--workspace"].contains(&first.written()),
                None => program == "orchestra-mcp",
            };
            NAMES.contains(&program) && serves
        }
        Transport::Http(http) => {
            let url = http.url.written();
            let is_here = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"]
                .iter()
                .any(|start| url.starts_with(start));
            NAMES.contains(&config.name.as_str()) && is_here && url.ends_with("/mcp")
        }
    }
}
