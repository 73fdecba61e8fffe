//! Small files in git's directories: read with a bound, written whole or not at all.

use std::{
    fs::OpenOptions,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use orchestra_fs::Access;
use rustix::fs::OFlags;

use super::GitError;

/// Opens without waiting.
const NONBLOCK: i32 = OFlags::NONBLOCK.bits().cast_signed();

/// Reads a file; `None` when there is none. One that is larger than the bound is an error.
pub(super) fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>, GitError> {
    let failed = |source| GitError::File {
        operation: "read a file of git's",
        path: path.to_owned(),
        source,
    };
    // A job may have put a pipe in the place of a file, whose opening would wait for a writer.
    // direct: git follows links here as well, and the file is only read.
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(NONBLOCK).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
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
    orchestra_fs::write(path, content, Access::Shared).map_err(|error| GitError::File {
        operation: "write a file of git's",
        path: path.to_owned(),
        source: error.into_cause(),
    })
}
