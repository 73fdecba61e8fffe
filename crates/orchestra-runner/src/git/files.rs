//! Small files in git's directories: read with a bound, written whole or not at all.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use super::GitError;
use crate::private;

/// Reads a file; `None` when there is none. One that is larger than the bound is an error.
pub(super) fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>, GitError> {
    let failed = |source| GitError::File {
        operation: "read a file of git's",
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut content = Vec::new();
    file.take(most + 1)
        .read_to_end(&mut content)
        .map_err(failed)?;
    if content.len() as u64 > most {
        return Err(failed(io::Error::other(format!(
            "it is larger than {most} bytes"
        ))));
    }
    Ok(Some(content))
}

/// Puts a file in the place of another in one step, and makes it durable. The permissions stay what they
/// were.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), GitError> {
    let failed = |source| GitError::File {
        operation: "write a file of git's",
        path: path.to_owned(),
        source,
    };
    let temporary = beside(path);
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary)?;
        file.write_all(content)?;
        if let Ok(before) = fs::metadata(path) {
            file.set_permissions(before.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        path.parent().map_or(Ok(()), private::sync_directory)
    };
    write().map_err(|error| {
        // The first error says more than one about a file that may not even be there.
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

/// A name beside a file that nobody else uses.
fn beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{name}.orchestra-{}-{number}", std::process::id()))
}
