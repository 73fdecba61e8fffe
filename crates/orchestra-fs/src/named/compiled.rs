//! Compiled modules of Python in a directory: extension modules, and bytecode that no source is compared with.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    io::Read as _,
    ops::Bound,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Entry, Tree, code::is_closed};

/// Ends of the names of compiled modules.
const ENDS: [&str; 2] = ["pyc", "so"];

/// Maximum number of compiled modules of a directory that are listed. A program could create any number.
const MAX_MODULES: usize = 10_000;

/// Maximum number of compiled modules of one source that are looked at.
const MAX_OF_SOURCE: usize = 512;

/// Place of the flags in bytecode, behind its magic number.
const FLAGS: std::ops::Range<usize> = 4..8;

/// Names of the compiled modules of a directory.
#[derive(Debug, Default)]
pub(super) struct Modules {
    /// The directory below the top.
    directory: PathBuf,
    names: BTreeSet<OsString>,
}

impl Tree {
    /// Returns the names of the compiled modules of a directory, as seen from a directory, that begin with a stem; `None`
    /// when the directory cannot be listed. Left out is bytecode that Python writes itself: the interpreter loads it only
    /// for a source of the time and size that it has in it.
    ///
    /// If there are more than can be listed, the tree [is exhausted](Self::is_exhausted) from then on.
    pub(super) fn compiled(
        &mut self,
        from: &Path,
        named: &Path,
        stem: &OsStr,
    ) -> Option<Vec<OsString>> {
        let modules = self.modules(from, named)?;
        let from_stem = (Bound::Included(stem), Bound::<&OsStr>::Unbounded);
        let names = modules.names.range::<OsStr, _>(from_stem);
        let start = stem.as_encoded_bytes();
        let names = names.take_while(|name| name.as_encoded_bytes().starts_with(start));
        let names: Vec<&OsString> = names.take(MAX_OF_SOURCE + 1).collect();
        if names.len() > MAX_OF_SOURCE {
            self.paths_left = 0;
            return None;
        }
        self.paths_left = self.paths_left.saturating_sub(names.len());
        let is_loaded = |name: &&OsString| !self.is_checked(&modules.directory.join(name));
        Some(names.into_iter().filter(is_loaded).cloned().collect())
    }

    fn modules(&mut self, from: &Path, named: &Path) -> Option<Arc<Modules>> {
        let key = self.top.join(from).join(named);
        if let Some(known) = self.compiled.get(&key) {
            return known.clone();
        }
        let named = if named.as_os_str().is_empty() {
            Path::new(".")
        } else {
            named
        };
        let modules = match self.find(from, named) {
            Some(Entry::Directory(below)) => self.list_modules(below).map(Arc::new),
            _ => Some(Arc::default()),
        };
        self.compiled.insert(key, modules.clone());
        modules
    }

    fn list_modules(&mut self, directory: PathBuf) -> Option<Modules> {
        let mut names = BTreeSet::new();
        let path = self.top.join(&directory);
        // direct: names alone; contents are opened below the open top.
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(_) if is_closed(&path) => return Some(Modules::default()),
            Err(_) => return None,
        };
        for entry in entries {
            let name = entry.ok()?.file_name();
            let left = self.names_left.checked_sub(1);
            self.names_left = left.unwrap_or(0);
            if left.is_none() || names.len() > MAX_MODULES {
                // A module that is not listed must not be taken for absent.
                self.paths_left = 0;
                return None;
            }
            let end = Path::new(&name).extension();
            if end.is_some_and(|end| ENDS.iter().any(|one| end == *one)) {
                names.insert(name);
            }
        }
        Some(Modules { directory, names })
    }

    /// Returns whether a file is bytecode with the time and size of its source.
    fn is_checked(&self, below: &Path) -> bool {
        let is_cache = below
            .parent()
            .is_some_and(|parent| parent.ends_with("__pycache__"));
        let mut head = Vec::new();
        let length = FLAGS.end as u64;
        let read = self
            .open_file(below)
            .map(|file| file.take(length).read_to_end(&mut head));
        is_cache
            && matches!(read, Ok(Ok(_)))
            && head.get(FLAGS).is_some_and(|flags| flags == [0; 4])
    }
}
