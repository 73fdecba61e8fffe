//! Why a child could not be started.

use std::{io, path::PathBuf};

use crate::{Limit, limits};

/// Why a child could not be started. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program is not in any directory of `PATH`.
    #[error("the program `{program}` is not on PATH; install it, or give its whole path")]
    NotOnPath {
        /// Its name.
        program: String,
    },
    /// There is no such file, or it may not be run.
    #[error("cannot run `{}`; check that it exists and is executable", .program.display())]
    NotRunnable {
        /// Its path.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its working directory cannot be used.
    #[error("cannot use the working directory `{}`; check that it exists and is a directory", .directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A limit that this system cannot hold.
    #[error("this system cannot enforce a limit of {limit}; omit it")]
    LimitUnsupported {
        /// Which.
        limit: limits::Limit,
    },
    /// A limit that could not be set.
    #[error("cannot set the limit of {limit}")]
    Limit {
        /// Which.
        limit: Limit,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The sandbox cannot be had.
    #[error("cannot set up the sandbox: {what}")]
    Sandbox {
        /// What is missing, and what to do.
        what: String,
    },
    /// The guard could not be started or did not do its work.
    #[error("cannot start the guard `{}`: {what}", .program.display())]
    Guard {
        /// The program it should have been.
        program: PathBuf,
        /// What happened.
        what: String,
    },
}
