//! What of the system a child may reach.

use std::path::PathBuf;

/// What a child may reach. Linux only, but for [`Sandbox::None`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// Whatever its user may.
    #[default]
    None,
    /// Its working directory and `paths`, to read, write and run what is there; the system's
    /// programs, libraries and settings (`/usr`, `/etc`, `/proc` and the like), its own program and
    /// `read_only`, to read and run; nothing else of the file system. No sockets of any kind but
    /// connected pairs, so neither the network nor other programs that listen.
    ///
    /// Held by Landlock and seccomp; what is running in it cannot leave it.
    Workspace {
        /// More to read and write. All must exist.
        paths: Vec<PathBuf>,
        /// More to read. All must exist.
        read_only: Vec<PathBuf>,
    },
}
