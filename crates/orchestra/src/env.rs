//! Every environment variable the program reads, in one registry.

use std::{ffi::OsString, fmt};

/// An environment variable the program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variable {
    /// What to log, in the syntax of `--log`.
    Log,
    /// The token that callers over HTTP must show.
    Token,
    /// The workspace of a hook event, set by the client that runs the hook.
    ClaudeProjectDir,
    /// Where the user's `orchestra/orchestra.toml` is.
    ConfigHome,
    /// Where `.config` is, when [`Variable::ConfigHome`] is not set.
    Home,
    /// Where clients look for programs.
    Path,
}

impl Variable {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [
        Self::Log,
        Self::Token,
        Self::ClaudeProjectDir,
        Self::ConfigHome,
        Self::Home,
        Self::Path,
    ];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Log => "RUST_LOG",
            Self::Token => "ORCHESTRA_TOKEN",
            Self::ClaudeProjectDir => "CLAUDE_PROJECT_DIR",
            Self::ConfigHome => "XDG_CONFIG_HOME",
            Self::Home => "HOME",
            Self::Path => "PATH",
        }
    }

    /// What it does.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Log => "what to log, as --log",
            Self::Token => "the token that callers of `orchestra up` must show; see --token-file",
            Self::ClaudeProjectDir => "the workspace of `orchestra hook`",
            Self::ConfigHome => "directory of the user's orchestra/orchestra.toml",
            Self::Home => "where .config is, without XDG_CONFIG_HOME",
            Self::Path => {
                "where clients look for orchestra; `orchestra init` warns when it is not there"
            }
        }
    }

    /// Its value; `None` when it is not set or empty.
    pub(crate) fn read(self) -> Option<OsString> {
        std::env::var_os(self.name()).filter(|value| !value.is_empty())
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
