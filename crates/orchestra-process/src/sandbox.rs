//! What of the system a child may reach.

use std::{
    ffi::OsString,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use crate::{Launcher, guard::MOUNTS};

/// What programs need to run at all, which a child in a sandbox may read and run; what is not there is
/// passed over. Other programs' secrets in `/proc` stay closed, as a confined process may not look into
/// others.
pub const SYSTEM_PATHS: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/opt",
    "/nix/store",
    "/proc",
    "/sys",
    "/snap",
];

/// What a child may reach. Linux only, but for [`Sandbox::None`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// Whatever its user may.
    #[default]
    None,
    /// Only the operations that the lists below permit. Landlock and seccomp enforce them, and no program inside can
    /// leave the sandbox.
    ///
    /// The working directory and the listed paths have no symbolic links in them: the caller resolves and
    /// checks them. The sandbox opens each of them once, without following links. The start fails when a path has become
    /// a link meanwhile.
    ///
    /// The child and its programs can
    ///
    /// - read, write and run files below its working directory and `paths`,
    /// - read and run files below [`SYSTEM_PATHS`] and `read_only`, and its own program,
    /// - use pairs of Unix stream sockets, and devices without content such as `/dev/null`.
    ///
    /// They cannot
    ///
    /// - read the content of another file, or create, rename or remove an entry elsewhere,
    /// - create another socket, so that they reach neither the network nor a listening program,
    /// - open a terminal,
    /// - use shared memory, semaphores or message queues of System V, message queues of POSIX, keys of the kernel or
    ///   `io_uring`,
    /// - create a user namespace,
    /// - use other capabilities of root than those to change owners and modes of files and to pass their permissions.
    ///
    /// Landlock does not control some calls that programs need. Wherever its user may, a child can find out whether a
    /// file exists, read and change its times and extended attributes, read its size, change its mode and owner, and watch
    /// a directory for changes. Older kernels restrict less: before Linux 6.12 it can signal other programs of its user,
    /// before 6.2 truncate files elsewhere.
    Workspace {
        /// More to read and write. All must exist.
        paths: Vec<PathBuf>,
        /// More to read. Those that do not exist when the child starts are left out.
        read_only: Vec<PathBuf>,
        /// Paths that stay read-only below what it may write, whether they exist or not.
        ///
        /// Landlock cannot take a right away below a directory that has it. So the entries that exist in the
        /// directories above such a path are granted one by one, and none is created, renamed or removed there.
        /// Symbolic links among them grant nothing.
        ///
        /// Where the system allows mount namespaces ([`mounts_allowed`]), those that exist are read-only mounts as
        /// well, and so are entries of the same names at any depth below what it may write, unless `paths` holds
        /// them, or [`NestedNames`] limit them. If they need too many mounts, the start fails. Nothing changes their
        /// modes, owners, times and extended attributes either. Directories above a deeper one cannot be renamed, and
        /// files are not renamed from one of them to another.
        ///
        /// Further names of their files (hard links) below what it may write are protected in the same way, and so are
        /// paths to which they lead: by symbolic links, a `.git` file, `commondir`, and the configuration of git.
        protected: Vec<PathBuf>,
    },
}

/// Names of protected paths that deeper entries share only in certain directories: in those that the child may write by
/// name, and in those with an entry of `beside`. In other directories, entries of these names stay writable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedNames {
    /// The names.
    pub names: Vec<OsString>,
    /// Names of entries, one of which is in such a directory.
    pub beside: Vec<OsString>,
}

/// Returns whether this system allows the read-only mounts of a sandbox, by trying in a process of its own.
///
/// # Errors
/// The reason, when it does not.
pub fn mounts_allowed(launcher: &Launcher) -> Result<(), String> {
    // direct: it ends by itself, and at once.
    let mut attempt = Command::new(&launcher.program);
    attempt
        .args(&launcher.arguments)
        .arg(MOUNTS)
        .env_clear()
        .stdin(Stdio::null());
    let ended = attempt.output().map_err(|error| error.to_string())?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&ended.stdout).trim().to_owned()),
    }
}
