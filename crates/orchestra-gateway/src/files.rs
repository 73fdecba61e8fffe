//! Small files of the user's state, which several programs share: readable by nobody else, replaced
//! in one step, behind a lock.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::Path,
};

use serde::{Serialize, de::DeserializeOwned};

/// The largest file that is read.
const MAX_BYTES: u64 = 96 * 1024 * 1024;

/// Reads a file; `None` when there is none that can be read.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    match read_text(path) {
        Ok(text) => match serde_json::from_slice(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot be read, and is begun anew");
                None
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot be read");
            None
        }
    }
}

fn read_text(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    fs::File::open(path)?
        .take(MAX_BYTES)
        .read_to_end(&mut text)?;
    Ok(text)
}

/// Changes a file, which is made where there is none.
///
/// # Errors
/// When it, or its directory, cannot be written.
pub(crate) fn change<T, R>(path: &Path, change: impl FnOnce(&mut T) -> R) -> io::Result<R>
where
    T: Serialize + DeserializeOwned + Default,
{
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    private_directory(directory)?;
    let lock = private()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path.with_extension("lock"))?;
    lock.lock()?;
    let mut value = read(path).unwrap_or_default();
    let answer = change(&mut value);
    let text = serde_json::to_vec(&value)?;
    let aside = path.with_extension("new");
    let mut file = private()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&aside)?;
    file.write_all(&text)?;
    file.sync_data()?;
    fs::rename(&aside, path)?;
    // Given back with its file.
    drop(lock);
    Ok(answer)
}

/// Makes a directory that nobody else may look into.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// How files are opened that nobody else may read.
pub(crate) fn private() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
