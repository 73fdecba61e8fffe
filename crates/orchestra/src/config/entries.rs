//! The configuration as it is shown: each key with its value, what it means and where it comes from.

use orchestra_place::Choice;
use std::path::PathBuf;

use super::{Config, Origin};

/// One key of the configuration, to be shown.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Dotted key.
    pub(crate) key: &'static str,
    /// Value as TOML.
    pub(crate) value: String,
    /// What it means.
    pub(crate) meaning: &'static str,
    /// Where it comes from.
    pub(crate) origin: Origin,
}

/// The workspace, which no file names.
const WORKSPACE: &str = "workspace";

impl Entry {
    /// Whether a file can say it.
    pub(crate) fn is_key(&self) -> bool {
        self.key != WORKSPACE && self.key != super::plans::STORAGE
    }
}

impl Config {
    /// Every key with its value as TOML, what it means and where it comes from.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let seconds = self.call_timeout.value.as_secs();
        let mut entries = vec![
            Entry {
                key: "tools",
                value: quoted(&self.tools.value),
                meaning: "built-in tools that a client sees: all, lean, search, or a list of groups; with server:NAME in the list, only the named upstream servers are offered",
                origin: self.tools.origin.clone(),
            },
            Entry {
                key: "format",
                value: quoted(self.format.value.name()),
                meaning: "text format of tool results: json or toon",
                origin: self.format.origin.clone(),
            },
            Entry {
                key: "http",
                value: quoted(&self.http.value.to_string()),
                meaning: "address on which `orchestra up` listens; if the port is in use, the next free port",
                origin: self.http.origin.clone(),
            },
            self.engine.engine_entry(),
            Entry {
                key: "log",
                value: quoted(&self.log.value),
                meaning: "log filter for stderr: a level, or PART=LEVEL, separated by commas",
                origin: self.log.origin.clone(),
            },
            Entry {
                key: WORKSPACE,
                value: quoted(&self.workspace.display().to_string()),
                meaning: "workspace directory; set by --workspace or ORCHESTRATOR_WORKSPACE, not in a file",
                origin: self.workspace_origin.clone(),
            },
            Entry {
                key: "safe_directories",
                value: paths_as_toml(&self.safe_directories.value),
                meaning: "workspaces that are accepted although they, or files in them, belong to other users or are writable by them, or whose git directory names no working tree; * for every directory; only in your own file",
                origin: self.safe_directories.origin.clone(),
            },
            Entry {
                key: "trusted_directories",
                value: paths_as_toml(&self.trusted_directories.value),
                meaning: "directories whose workspaces may define servers that start without approval; only in your own file",
                origin: self.trusted_directories.origin.clone(),
            },
            Entry {
                key: "place",
                value: quoted(match self.place.value {
                    Choice::Repository => "repository",
                    Choice::State => "state",
                }),
                meaning: "location of plans and other private state of a workspace: repository (inside its git directory, or your state directory if there is none) or state (always your state directory); only in your own file",
                origin: self.place.origin.clone(),
            },
            Entry {
                key: "board",
                value: quoted(self.board.value.name()),
                meaning: "location of the board: repository (one for all worktrees of a repository, inside `place`; .projects is its readable mirror in the main checkout, which git ignores) or checkout (in .projects of each checkout, to be committed); if it is not set, the workspace's current mode",
                origin: self.board.origin.clone(),
            },
            Entry {
                key: "limits.call_timeout_seconds",
                value: seconds.to_string(),
                meaning: "time limit of a tool call, 1 to 86400 seconds",
                origin: self.call_timeout.origin.clone(),
            },
            Entry {
                key: "limits.concurrent_calls",
                value: self.concurrent_calls.value.to_string(),
                meaning: "maximum number of concurrent calls of a connection, 1 to 1024; further calls wait",
                origin: self.concurrent_calls.origin.clone(),
            },
            Entry {
                key: "limits.line_bytes",
                value: self.line_bytes.value.to_string(),
                meaning: "maximum size of a message, 4096 to 268435456 bytes",
                origin: self.line_bytes.origin.clone(),
            },
        ];
        entries.splice(3..3, self.quic.entries());
        entries.extend(self.audit.entries());
        entries.extend(self.memory.entries());
        entries.extend(self.plans.entries());
        entries.extend(self.chat.entries());
        entries.extend(self.sync.entries());
        entries.extend(self.access.entries());
        entries
    }
}

fn paths_as_toml(paths: &[PathBuf]) -> String {
    let paths = paths.iter();
    let paths = paths.map(|path| toml::Value::from(path.display().to_string()));
    toml::Value::Array(paths.collect()).to_string()
}
