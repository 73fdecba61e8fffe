//! Which program stands between us and our children.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

/// First argument of a program that is to call [`child_main`](crate::child_main).
pub const CHILD_COMMAND: &str = "__child";

/// How guards are started: a program and its first arguments, by which it comes to
/// [`child_main`](crate::child_main).
#[derive(Debug, Clone)]
pub struct Launcher {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
}

impl Launcher {
    /// Our own program, called with [`CHILD_COMMAND`].
    ///
    /// # Errors
    /// When the system does not say which program we are.
    pub fn this_program() -> io::Result<Self> {
        Self::this_program_with([CHILD_COMMAND])
    }

    /// Our own program, called with other words.
    ///
    /// # Errors
    /// When the system does not say which program we are.
    pub fn this_program_with<I>(arguments: I) -> io::Result<Self>
    where
        I: IntoIterator<Item: AsRef<OsStr>>,
    {
        // It is this very program even when the file was replaced by another version since.
        let this = Path::new("/proc/self/exe");
        let program = match cfg!(target_os = "linux") && this.exists() {
            true => this.to_owned(),
            false => std::env::current_exe()?,
        };
        Ok(Self::new(program, arguments))
    }

    /// Another program.
    pub fn new<I>(program: impl Into<PathBuf>, arguments: I) -> Self
    where
        I: IntoIterator<Item: AsRef<OsStr>>,
    {
        let arguments = arguments.into_iter();
        Self {
            program: program.into(),
            arguments: arguments.map(|word| word.as_ref().to_owned()).collect(),
        }
    }
}
