//! Files of a directory that a program runs without their names in its command line.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fmt, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use super::{Content, Entry, LOOKUP_NAMES, Tree, is_absent};
use crate::Loads;

/// Ends of the names of files of code: classes, archives of them, native libraries, and sources of Go.
const ENDS: [&str; 13] = [
    "app", "beam", "boot", "c", "class", "ear", "ez", "go", "jar", "s", "so", "war", "zip",
];

/// Names of the files in a home directory that shells and other programs run or take settings from.
const STARTUP: [&str; 22] = [
    ".Renviron",
    ".Rprofile",
    ".bash_login",
    ".bash_profile",
    ".bashrc",
    ".gdbinit",
    ".gemrc",
    ".gitconfig",
    ".irbrc",
    ".kshrc",
    ".npmrc",
    ".profile",
    ".pypirc",
    ".pythonrc",
    ".vimrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "sitecustomize.py",
];

/// Parts of the names of native libraries and their settings.
const LIBRARIES: [&str; 4] = [".dylib", ".ini", ".so", "gconv-modules"];

/// Maximum number of files of code below one directory.
const MAX_FILES: usize = 4_096;

/// Code below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// There is no file of code.
    None,
    /// Digest of the names and contents of all files.
    Content(Content),
    /// Not all files of code are known.
    Unknown(Unlisted),
}

/// Reason for which the files of code below a directory are not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unlisted {
    /// There are more files of code than are read.
    Files,
    /// There are more entries than are listed.
    Entries,
    /// This directory below the top cannot be listed, but files in it can be opened by their names.
    Directory(PathBuf),
}

impl fmt::Display for Unlisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files => write!(f, "more than {MAX_FILES} files of code"),
            Self::Entries => f.write_str("too many files and directories to list"),
            Self::Directory(path) => write!(f, "the directory {path:?} cannot be listed"),
        }
    }
}

impl Tree {
    /// Finds the directory that a path of a command line leads to, as seen from a directory.
    #[must_use]
    pub fn code_directory(&mut self, loads: Loads, from: &Path, path: &Path) -> Option<PathBuf> {
        let Some(Entry::Directory(below)) = self.find(from, path) else {
            return None;
        };
        if loads != Loads::Module {
            return Some(below);
        }
        let mut has_file = |directory: &Path| {
            let mut names = ["go.mod", "go.work"].iter();
            names.any(|name| self.find(directory, Path::new(name)).is_some())
        };
        let above = below.ancestors().filter(|above| has_file(above)).last();
        Some(above.map_or_else(|| below.clone(), Path::to_owned))
    }

    /// Returns the code below a directory, by its path below the top. Of classes, modules and packages, hidden
    /// directories are left out: a dot separates the names of packages of Java, so no class can be in one, and Go skips
    /// them. So are directories in which nothing can be opened: nothing can be loaded from them either.
    #[must_use]
    pub fn code(&mut self, loads: Loads, below: &Path) -> Code {
        let files = match self.code_files(loads, below) {
            Ok(files) => files,
            Err(why) => return Code::Unknown(why),
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

    /// Returns whether a file may be executed by a user, or cannot be looked at.
    fn is_executable(&self, below: &Path) -> bool {
        // direct: the permissions of a file of the tree, of which nothing is read.
        let found = self.top.join(below).metadata();
        !found.is_ok_and(|found| found.mode() & 0o111 == 0)
    }

    /// The files of code by their paths, and entries that lead out of the tree.
    fn code_files(
        &mut self,
        loads: Loads,
        below: &Path,
    ) -> Result<BTreeMap<PathBuf, Entry>, Unlisted> {
        let is_flat = matches!(loads, Loads::Programs | Loads::Libraries | Loads::Home);
        let inner = loads.subdirectories();
        let mut files = BTreeMap::new();
        let mut known = BTreeSet::from([below.to_owned()]);
        let mut waiting = vec![below.to_owned()];
        while let Some(directory) = waiting.pop() {
            let path = self.top.join(&directory);
            let is_below = directory != below && !inner.is_empty();
            let unlisted = || Unlisted::Directory(directory.clone());
            // direct: names alone; contents are opened below the open top.
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                Err(_) if is_closed(&path) => continue,
                Err(_) => return Err(unlisted()),
            };
            for entry in entries {
                let entry = entry.map_err(|_| unlisted())?;
                let name = entry.file_name();
                let kind = entry.file_type().ok();
                let is_flat = is_flat && !is_below && inner.iter().all(|inner| name != *inner);
                let is_file = kind.is_some_and(|kind| kind.is_file());
                let is_skipped = is_file && !is_named(loads, Path::new(&name))
                    || is_flat && kind.is_some_and(|kind| kind.is_dir())
                    || is_hidden(loads, &name);
                let count = if is_skipped { 1 } else { LOOKUP_NAMES };
                let left = self.names_left.checked_sub(count);
                self.names_left = left.ok_or(Unlisted::Entries)?;
                if is_skipped {
                    continue;
                }
                match self.entry(&directory, Path::new(&name)) {
                    Some(Entry::Directory(below)) if !is_flat && known.insert(below.clone()) => {
                        waiting.push(below);
                    }
                    Some(Entry::Directory(_)) => {}
                    Some(Entry::File(_)) if !is_named(loads, Path::new(&name)) => {}
                    Some(Entry::File(below))
                        if loads == Loads::Programs && !self.is_executable(&below) => {}
                    Some(entry) => {
                        files.insert(directory.join(name), entry);
                    }
                    None => {}
                }
                if files.len() > MAX_FILES {
                    return Err(Unlisted::Files);
                }
            }
        }
        Ok(files)
    }
}

/// Returns whether nothing in a directory can be opened, or the directory is absent.
pub(super) fn is_closed(directory: &Path) -> bool {
    // direct: a look-up in the directory, of which nothing is read.
    let found = directory.join(".").metadata();
    found.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied || is_absent(&error))
}

/// Returns whether a file may be run, by its name.
fn is_named(loads: Loads, name: &Path) -> bool {
    match loads {
        Loads::Code | Loads::Module => {
            let end = name.extension();
            end.is_some_and(|end| ENDS.iter().any(|code| end.eq_ignore_ascii_case(code)))
        }
        Loads::Programs | Loads::All => true,
        Loads::Libraries => {
            let name = name.as_os_str().to_string_lossy();
            LIBRARIES.iter().any(|part| name.contains(part))
        }
        Loads::Home => STARTUP.iter().any(|one| name.as_os_str() == *one),
    }
}

/// Returns whether an entry is left out by its name.
fn is_hidden(loads: Loads, name: &OsStr) -> bool {
    match loads {
        Loads::Code | Loads::Module => name.as_encoded_bytes().starts_with(b"."),
        Loads::All => name == ".git",
        Loads::Programs | Loads::Libraries | Loads::Home => false,
    }
}
