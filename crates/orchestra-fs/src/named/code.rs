//! Code below a directory from which a program loads classes, modules or packages by their names.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use super::{Content, Entry, Tree};

/// Ends of the names of files of code: classes, archives of them, native libraries, and sources of Go.
const ENDS: [&str; 13] = [
    "app", "beam", "boot", "c", "class", "ear", "ez", "go", "jar", "s", "so", "war", "zip",
];

/// Maximum number of files of code below one directory.
const MAX_FILES: usize = 4_096;

/// Code below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// There is no file of code.
    None,
    /// Digest of the names and contents of all files.
    Content(Content),
    /// There are more files than are read.
    TooMuch,
}

impl Tree {
    /// Returns the code below a directory, by its path below the top. Hidden directories are left out: a dot separates
    /// the names of packages of Java, so no class can be in one, and Go skips them.
    #[must_use]
    pub fn code(&mut self, below: &Path) -> Code {
        let Some(files) = self.code_files(below) else {
            return Code::TooMuch;
        };
        if files.is_empty() {
            return Code::None;
        }
        let mut digest = Sha256::new();
        for (path, entry) in files {
            let content = match entry {
                Entry::File(below) => self.content(&below),
                Entry::Closed(_, why) => why,
                Entry::Directory(_) => continue,
            };
            let (kind, text) = match &content {
                Content::Digest(digits) => ("digest", digits.as_bytes()),
                Content::Long(changed) => ("long", changed.as_bytes()),
                Content::Outside(target) => ("outside", target.as_os_str().as_encoded_bytes()),
                Content::Unreadable(why) => ("unreadable", why.as_bytes()),
            };
            for text in [path.as_os_str().as_encoded_bytes(), kind.as_bytes(), text] {
                digest.update(text);
                // No path and no text of a content has this byte.
                digest.update(b"\0");
            }
        }
        let digits = digest.finalize();
        let digits = digits.iter().map(|byte| format!("{byte:02x}"));
        Code::Content(Content::Digest(digits.collect()))
    }

    /// The files of code by their paths, and entries that lead out of the tree; `None` where there are too many, or a
    /// directory cannot be listed.
    fn code_files(&mut self, below: &Path) -> Option<BTreeMap<PathBuf, Entry>> {
        let mut files = BTreeMap::new();
        let mut known = BTreeSet::from([below.to_owned()]);
        let mut waiting = vec![below.to_owned()];
        while let Some(directory) = waiting.pop() {
            // direct: names alone; contents are opened below the open top.
            for entry in fs::read_dir(self.top.join(&directory)).ok()? {
                self.entries_left = self.entries_left.checked_sub(1)?;
                let entry = entry.ok()?;
                let name = entry.file_name();
                if name.as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                let end = Path::new(&name).extension();
                let is_code =
                    end.is_some_and(|end| ENDS.iter().any(|code| end.eq_ignore_ascii_case(code)));
                if !is_code && entry.file_type().is_ok_and(|kind| kind.is_file()) {
                    continue;
                }
                match self.entry(&directory, Path::new(&name)) {
                    Some(Entry::Directory(below)) if known.insert(below.clone()) => {
                        waiting.push(below);
                    }
                    Some(Entry::Directory(_)) => {}
                    Some(Entry::File(_)) if !is_code => {}
                    Some(entry) => {
                        files.insert(directory.join(name), entry);
                    }
                    None => {}
                }
                if files.len() > MAX_FILES {
                    return None;
                }
            }
        }
        Some(files)
    }
}
