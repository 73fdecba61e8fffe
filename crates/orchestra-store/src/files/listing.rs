//! What stands in a directory below `.projects/`.

use std::io;
use std::path::Path;

use super::place::{OTHERS, TEMP, under};
use crate::DocumentPath;
use crate::io::{EntryKind, FileIo};

/// How deep the files stand: those of issues 7 names, documents as they please within bounds.
const MAX_DEPTH: usize = DocumentPath::MAX_NAMES;

/// What stands in a directory, by the paths below `.projects/`, sorted.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The directories in which files of ours can stand.
    pub(super) directories: Vec<String>,
    /// All that is no directory, whosever it is.
    pub(super) files: Vec<String>,
    /// Files in the making.
    pub(super) unfinished: Vec<String>,
}

impl Listing {
    /// Lists a directory, by its path below `root`; one that is not there is empty.
    pub(super) fn of(io: &dyn FileIo, root: &Path, directory: &str) -> io::Result<Self> {
        let mut listing = Self::default();
        for entry in io.list(&under(root, directory))? {
            // What is not text is none of ours.
            let Some(name) = entry.name.to_str() else {
                continue;
            };
            let path = if directory.is_empty() {
                name.to_owned()
            } else {
                format!("{directory}/{name}")
            };
            match entry.kind {
                EntryKind::Directory if directory.is_empty() && OTHERS.contains(&name) => {}
                EntryKind::Directory if path.split('/').count() < MAX_DEPTH => {
                    listing.directories.push(path)
                }
                EntryKind::Directory => {}
                EntryKind::File if name.ends_with(TEMP) => listing.unfinished.push(path),
                EntryKind::File | EntryKind::Other => listing.files.push(path),
            }
        }
        listing.directories.sort();
        listing.files.sort();
        Ok(listing)
    }
}
