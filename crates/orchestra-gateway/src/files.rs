//! Small files of the user's state, which several programs share: readable by nobody else, replaced
//! in one step, behind a lock.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use orchestra_fs::{Access, Directory, Lock};
use serde::{Serialize, de::DeserializeOwned};

use crate::config::is_absent;

/// The largest file that is read.
const MAX_BYTES: u64 = 96 * 1024 * 1024;

/// What is kept in a file.
pub(crate) trait Kept: Serialize + DeserializeOwned + Default {
    /// Stands in the place of what cannot be understood any more.
    fn lost() -> Self;
}

/// Reads a file; `None` when there is none.
///
/// # Errors
/// When it cannot be read. [`io::ErrorKind::InvalidData`]: it is damaged.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let Some(text) = orchestra_fs::read(path, MAX_BYTES)? else {
        return Ok(None);
    };
    let value = serde_json::from_slice(&text);
    value
        .map(Some)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Changes a file, which is made where there is none. One that is damaged is put aside first, and
/// begun anew as one whose contents are lost.
///
/// # Errors
/// When it cannot be read, or it or its directory cannot be written, or `change` fails; it is as it
/// was then.
pub(crate) fn change<T: Kept, R>(
    path: &Path,
    change: impl FnOnce(&mut T) -> io::Result<R>,
) -> io::Result<R> {
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    Directory::private(directory)?;
    // Held to the end of the change.
    let _lock = Lock::wait(&path.with_extension("lock"))?;
    let mut value = match read(path) {
        Ok(value) => value.unwrap_or_default(),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let kept = put_aside(path)?;
            let (path, kept) = (path.display(), kept.display());
            tracing::error!(%path, %error, "file is damaged: starting with an empty one; the damaged file is now `{kept}`");
            T::lost()
        }
        Err(error) => return Err(error),
    };
    let answer = change(&mut value)?;
    let text = serde_json::to_vec(&value)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("its content is too long to be read again"));
    }
    orchestra_fs::write(path, &text, Access::Private)?;
    Ok(answer)
}

/// Where a file is kept that was damaged.
pub(crate) fn aside(path: &Path) -> PathBuf {
    path.with_extension("damaged")
}

/// Keeps a damaged file. It also stays where it is until another one takes its place, so that it is
/// never forgotten that there was one.
fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let kept = aside(path);
    match fs::remove_file(&kept) {
        Err(error) if !is_absent(&error) => return Err(error),
        _ => {}
    }
    fs::hard_link(path, &kept).or_else(|_| fs::copy(path, &kept).map(drop))?;
    Ok(kept)
}
