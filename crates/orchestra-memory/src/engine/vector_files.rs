//! Files of vectors beside the board, one per model: their names, and their removal.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::model::ModelId;

/// Files are named `vectors-MODEL.db`.
const PREFIX: &str = "vectors-";
const SUFFIX: &str = ".db";

/// Path of the vectors of a model.
#[must_use]
pub fn vectors_path(directory: &Path, model: &ModelId) -> PathBuf {
    directory.join(format!("{PREFIX}{model}{SUFFIX}"))
}

/// Removes the files of all models but one, as far as possible.
pub fn remove_other_vectors(directory: &Path, except: Option<&ModelId>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| {
            let id = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
            id.parse::<ModelId>().ok()
        });
        if id.is_some_and(|id| Some(&id) != except) {
            // Another process may have it open; what it cannot write then stays in its memory.
            let _ = remove_vectors(&entry.path());
        }
    }
}

/// Removes a file of vectors, with the files that SQLite has beside it.
///
/// # Errors
/// When one of them is there and cannot be removed.
pub fn remove_vectors(path: &Path) -> io::Result<()> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
