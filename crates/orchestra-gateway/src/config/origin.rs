//! Where something was written, and what is wrong there.

use std::{
    fmt::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::ServerName;

/// A place in a file, counted from 1. Columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl Place {
    /// The beginning of a file.
    pub const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Which kind of file a server comes from, strongest first: of servers of one name the first is
/// taken whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// `--mcp-config`.
    CommandLine,
    /// A path of the environment.
    Environment,
    /// A file of the workspace, which others may have written.
    Workspace,
    /// A file of the user.
    User,
    /// A file that all users of the machine share.
    System,
}

impl Source {
    /// Its name for people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CommandLine => "command-line",
            Self::Environment => "environment",
            Self::Workspace => "workspace",
            Self::User => "user",
            Self::System => "system",
        }
    }

    /// Whether what it says may be done without asking.
    #[must_use]
    pub const fn trust(self) -> Trust {
        match self {
            Self::Workspace => Trust::Ask,
            Self::CommandLine | Self::Environment | Self::User | Self::System => Trust::Trusted,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether servers of a file may be started without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The user chose the file, or whoever looks after the machine did.
    Trusted,
    /// It came with a repository: each of its servers is approved once, and again when it changes.
    Ask,
}

/// Where a server was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: Arc<Path>,
    /// The server's place in it.
    pub place: Place,
    /// Which kind of file it is.
    pub source: Source,
    /// Whether it may be started without asking.
    pub trust: Trust,
    /// The directory that relative paths start from: the project that the file belongs to, or the
    /// workspace.
    pub directory: PathBuf,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escaped(f, &format!("{}:{}", self.file.display(), self.place))
    }
}

/// Writes a text with control characters escaped: names and texts of files cannot begin a line of their own.
fn escaped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for c in text.chars() {
        match c.is_control() {
            true => write!(f, "{}", c.escape_debug())?,
            false => f.write_char(c)?,
        }
    }
    Ok(())
}

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something is left out.
    Error,
    /// Something may be other than it was meant.
    Warning,
}

impl Severity {
    /// Its name for people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// What is wrong with a file of servers, and what to do. Holds no value of a header or of the
/// environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file.
    pub file: Arc<Path>,
    /// The place in it.
    pub place: Place,
    /// What stands there, as `mcpServers.github.args[1]`; empty for the file itself.
    pub path: String,
    /// The server that it is about.
    pub server: Option<ServerName>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, place, severity) = (self.file.display(), self.place, self.severity.as_str());
        let mut line = format!("{file}:{place}: {severity}: ");
        if !self.path.is_empty() {
            line.push_str(&self.path);
            line.push_str(": ");
        }
        line.push_str(&self.message);
        escaped(f, &line)
    }
}
