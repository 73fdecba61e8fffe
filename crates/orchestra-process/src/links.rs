//! Hard links: further names of protected files in directories that a confined command may write.
//!
//! A command in the sandbox creates none. A link from one mount to another is refused, and so is one by which a file
//! would get rights that it has not (Landlock). An archive can contain them.

use std::{
    collections::{BTreeSet, HashSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Maximum number of files and directories that are looked at. More would delay the start.
pub(crate) const MAX_FILES: usize = 4_000_000;

/// Directories in protected ones that hold packages and working trees. Their files configure nothing where they are, and
/// installers of packages link them from one store.
pub(crate) const CONTENT: [&str; 2] = ["node_modules", ".worktrees"];

/// Device and number of a file.
type FileId = (u64, u64);

/// Returns the names below `writable` directories of files that have another name at or below one of the `protected`
/// paths. Names that are themselves protected are left out.
///
/// # Errors
/// When there is too much to search, or a directory cannot be read.
pub(crate) fn further_names(
    writable: &[PathBuf],
    protected: &BTreeSet<PathBuf>,
) -> Result<Vec<PathBuf>, String> {
    let mut files = 0;
    let mut shared: HashSet<FileId> = HashSet::new();
    for path in protected {
        let is_skipped = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            CONTENT.iter().any(|content| name == *content)
        };
        each_linked(path, &mut files, is_skipped, |_, id| {
            shared.insert(id);
        })?;
    }
    let mut names = Vec::new();
    if shared.is_empty() {
        return Ok(names);
    }
    for root in writable {
        let is_skipped = |path: &Path| protected.contains(path);
        each_linked(root, &mut files, is_skipped, |path, id| {
            if shared.contains(&id) {
                names.push(path);
            }
        })?;
    }
    Ok(names)
}

/// Calls a function for each file at or below a path that has several names.
fn each_linked(
    root: &Path,
    files: &mut usize,
    is_skipped: impl Fn(&Path) -> bool,
    mut seen: impl FnMut(PathBuf, FileId),
) -> Result<(), String> {
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        if is_skipped(&path) {
            continue;
        }
        *files += 1;
        if *files > MAX_FILES {
            return Err(too_many());
        }
        let failed = |error: &io::Error| format!("cannot read `{}`: {error}", path.display());
        let found = match fs::symlink_metadata(&path) {
            Err(error) if is_out_of_reach(&error) => continue,
            found => found.map_err(|error| failed(&error))?,
        };
        if found.is_file() && found.nlink() > 1 {
            seen(path, (found.dev(), found.ino()));
            continue;
        }
        if !found.is_dir() {
            continue;
        }
        let entries = match fs::read_dir(&path) {
            Err(error) if is_out_of_reach(&error) => continue,
            entries => entries.map_err(|error| failed(&error))?,
        };
        for entry in entries {
            paths.push(entry.map_err(|error| failed(&error))?.path());
        }
    }
    Ok(())
}

/// The error where more than [`MAX_FILES`] would be looked at.
pub(crate) fn too_many() -> String {
    format!(
        "more than {MAX_FILES} files would have to be searched for links to or from protected ones; set `cwd` to a \
         smaller directory"
    )
}

/// Returns whether a path does not exist, or cannot be reached by the command either.
pub(crate) fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::InvalidFilename
    )
}
