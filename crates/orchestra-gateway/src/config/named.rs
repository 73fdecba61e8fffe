//! Files that a server's configuration names: what they hold belongs to it.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use orchestra_mcp::files;
use sha2::{Digest as _, Sha256};

/// The longest file that is read; no file of variables and no certificate is as long.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A file as it was at one moment.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedFile {
    path: PathBuf,
    /// The digest of what it held; `None` when it could not be read.
    digest: Option<[u8; 32]>,
}

impl fmt::Debug for NamedFile {
    // Of a short secret, a digest would tell too much.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl NamedFile {
    /// Reads the file as it is now.
    #[must_use]
    pub fn read(path: PathBuf) -> Self {
        let held = files::read(&path, MAX_BYTES).ok();
        let digest = held.map(|held| Sha256::digest(&held).into());
        Self { path, digest }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
