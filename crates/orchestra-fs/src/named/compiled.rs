//! Compiled modules of Python in a directory: extension modules, and bytecode that no source is compared with.

use std::{collections::BTreeSet, ffi::OsString, fs, io::Read as _, path::Path, sync::Arc};

use super::{Entry, Tree, code::is_closed};

/// Ends of the names of compiled modules.
const ENDS: [&str; 2] = ["pyc", "so"];

/// Place of the flags in bytecode, behind its magic number.
const FLAGS: std::ops::Range<usize> = 4..8;

impl Tree {
    /// Returns the names of the compiled modules of a directory, as seen from a directory; `None` when it cannot be
    /// listed. Left out is bytecode that Python writes itself: the interpreter loads it only for a source of the time
    /// and size that it has in it.
    pub(super) fn compiled(
        &mut self,
        from: &Path,
        named: &Path,
    ) -> Option<Arc<BTreeSet<OsString>>> {
        let key = self.top.join(from).join(named);
        if let Some(known) = self.compiled.get(&key) {
            return known.clone();
        }
        let named = if named.as_os_str().is_empty() {
            Path::new(".")
        } else {
            named
        };
        let names = match self.find(from, named) {
            Some(Entry::Directory(below)) => self.list_compiled(&below).map(Arc::new),
            _ => Some(Arc::default()),
        };
        self.compiled.insert(key, names.clone());
        names
    }

    fn list_compiled(&mut self, below: &Path) -> Option<BTreeSet<OsString>> {
        let mut names = BTreeSet::new();
        let path = self.top.join(below);
        // direct: names alone; contents are opened below the open top.
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(_) if is_closed(&path) => return Some(names),
            Err(_) => return None,
        };
        for entry in entries {
            let name = entry.ok()?.file_name();
            self.names_left = self.names_left.checked_sub(1)?;
            let end = Path::new(&name).extension();
            if end.is_some_and(|end| ENDS.iter().any(|one| end == *one))
                && !self.is_checked(&below.join(&name))
            {
                names.insert(name);
            }
        }
        Some(names)
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
