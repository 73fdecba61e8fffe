//! Files that a server's configuration names: what they hold belongs to it.

use std::{
    fmt, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

/// What is read of a file; no file of variables and no certificate is as long.
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
        let digest = digest(&path).ok();
        Self { path, digest }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn digest(path: &Path) -> io::Result<[u8; 32]> {
    // Reading a pipe would wait.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("no regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(MAX_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(Sha256::digest(&bytes).into())
}
