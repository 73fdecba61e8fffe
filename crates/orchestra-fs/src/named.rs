//! Files of a directory tree that texts name, such as the words of a command line, with their contents.

mod code;
mod compiled;
mod installed;
mod main_files;
mod manifest;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use sha2::{Digest as _, Sha256};

use crate::{Directory, Result, words::lexical};
pub use code::{Code, Unlisted};
use compiled::Modules;
pub use main_files::Candidates;
use manifest::Manifest;

/// Maximum number of bytes of one file that are read.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of bytes of all files that are read.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Number of names of a directory that take as long to be listed as an entry to be looked up.
const LOOKUP_NAMES: usize = 16;

/// Maximum number of names that are listed. An entry that is looked up counts as [`LOOKUP_NAMES`].
const MAX_NAMES: usize = 50_000 * LOOKUP_NAMES;

/// Number of bytes of a path that is looked up as one. Each component of a longer one takes time.
const PATH_BYTES: usize = 512;

/// Number of bytes that take as long to be read as a path to be looked up.
const READ_BYTES: u64 = 16 * 1024;

/// Number of paths that take as long to be looked up as a manifest to be read.
const MANIFEST_PATHS: usize = 256;

/// Number of bytes at the start of a file by which its kind is recognized.
const HEAD_BYTES: usize = 4;

/// Content of a file at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// SHA-256 of the content, as hexadecimal digits.
    Digest(String),
    /// The file is too long to be read; the text changes with each change of the file.
    Long(String),
    /// A symbolic link that leads out of the tree, to this path.
    Outside(PathBuf),
    /// The file cannot be read, for this reason.
    Unreadable(String),
}

/// Entry of a tree that a text names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A file, by its path below the top without symbolic links.
    File(PathBuf),
    /// A directory, in the same form. The top itself is the empty path.
    Directory(PathBuf),
    /// An entry that leads out of the tree or nowhere, or that cannot be looked at.
    Closed(PathBuf, Content),
}

/// Tree of files. Symbolic links are followed inside it, and never out of it.
#[derive(Debug)]
pub struct Tree {
    top: PathBuf,
    directory: Directory,
    /// Number of bytes that may still be read.
    left: u64,
    /// Number of paths that may still be looked up.
    paths_left: usize,
    /// Number of names of directories that may still be listed.
    names_left: usize,
    /// Manifests by their directories.
    manifests: BTreeMap<PathBuf, Manifest>,
    /// Names of compiled modules by their directories; `None` where a directory cannot be listed.
    compiled: BTreeMap<PathBuf, Option<Arc<Modules>>>,
    read: BTreeMap<PathBuf, Content>,
    /// Files that were read and have several names.
    shared: BTreeSet<PathBuf>,
    /// Whether a path led through a link that differs by process.
    has_process_link: bool,
}

impl Tree {
    /// Maximum number of paths that are looked up. A long path counts more than once.
    pub const MAX_PATHS: usize = 20_000;

    /// Opens the tree below a directory.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub fn open(top: &Path) -> Result<Self> {
        let directory = Directory::open(top)?;
        let top = top.canonicalize().unwrap_or_else(|_| top.to_owned());
        Ok(Self {
            top,
            directory,
            left: MAX_BYTES,
            paths_left: Self::MAX_PATHS,
            names_left: MAX_NAMES,
            manifests: BTreeMap::new(),
            compiled: BTreeMap::new(),
            read: BTreeMap::new(),
            shared: BTreeSet::new(),
            has_process_link: false,
        })
    }

    /// Returns the top without symbolic links.
    #[must_use]
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Returns whether no further path is looked up, so that files of the tree may not have been found.
    #[must_use]
    pub const fn is_exhausted(&self) -> bool {
        self.paths_left == 0
    }

    /// Returns the number of paths that may still be looked up.
    #[must_use]
    pub const fn paths_left(&self) -> usize {
        self.paths_left
    }

    /// Returns whether a path that was looked up leads through a link that is another one for each process, such as
    /// `/proc/self/cwd`. Another process finds another file there.
    #[must_use]
    pub const fn has_process_link(&self) -> bool {
        self.has_process_link
    }

    /// Returns the files that were read and have several names (hard links). A program that may write one of the names
    /// changes the file.
    #[must_use]
    pub const fn shared(&self) -> &BTreeSet<PathBuf> {
        &self.shared
    }

    /// Returns the work that was done, as the number of paths that could have been looked up instead.
    #[must_use]
    pub fn effort(&self) -> usize {
        let read = usize::try_from((MAX_BYTES - self.left) / READ_BYTES).unwrap_or(usize::MAX);
        let listed = (MAX_NAMES - self.names_left) / LOOKUP_NAMES;
        let manifests = self.manifests.len() * MANIFEST_PATHS;
        (Self::MAX_PATHS - self.paths_left) + listed + manifests + read
    }

    /// Finds the entry that a path leads to, as seen from a directory; `None` when there is none in the tree, or the tree
    /// [is exhausted](Self::is_exhausted).
    #[must_use]
    pub fn find(&mut self, from: &Path, named: &Path) -> Option<Entry> {
        self.counted(from, named)?;
        self.entry(from, named)
    }

    /// Returns whether a path leads to a directory, which may be outside of the tree, or cannot be looked at.
    fn may_be_directory(&mut self, from: &Path, named: &Path) -> bool {
        // direct: an entry of the tree, of which nothing is read.
        match self.counted(from, named).map(|path| path.metadata()) {
            None => false,
            Some(Ok(found)) => found.is_dir(),
            Some(Err(error)) => !is_absent(&error),
        }
    }

    /// Returns an absolute path that is looked up, and counts it; `None` when no further path is looked up.
    fn counted(&mut self, from: &Path, named: &Path) -> Option<PathBuf> {
        let path = self.top.join(from).join(named);
        let count = 1 + path.as_os_str().len() / PATH_BYTES;
        let left = self.paths_left.checked_sub(count);
        self.paths_left = left.unwrap_or(0);
        left.map(|_| path)
    }

    /// Finds an entry without counting it.
    fn entry(&mut self, from: &Path, named: &Path) -> Option<Entry> {
        let bytes = named.as_os_str().as_encoded_bytes();
        if bytes.is_empty() || bytes.contains(&0) {
            return None;
        }
        let path = self.top.join(from).join(named);
        // Programs such as Node.js drop the end of `file/` and `file/.`, at which the system fails.
        let path: PathBuf = path.components().collect();
        self.has_process_link |= leads_through_process(&path);
        let inside = |path: &Path| path.strip_prefix(&self.top).ok().map(Path::to_owned);
        let why = match path.canonicalize() {
            Ok(found) => match inside(&found) {
                Some(below) if found.is_file() => return Some(Entry::File(below)),
                Some(below) if found.is_dir() => return Some(Entry::Directory(below)),
                // Sockets, pipes and devices have no content of their own.
                Some(_) => return None,
                None => Content::Outside(found),
            },
            Err(error) if is_absent(&error) && path.symlink_metadata().is_err() => return None,
            Err(error) => Content::Unreadable(error.kind().to_string()),
        };
        // The parent may be reached through a link into the tree.
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let parent = parent.as_deref().and_then(inside);
        let below = parent.zip(path.file_name());
        let below = below.map(|(parent, name)| parent.join(name));
        let below = below.or_else(|| inside(&lexical(&path)))?;
        Some(Entry::Closed(below, why))
    }

    /// Returns the content of a file, by its path below the top.
    #[must_use]
    pub fn content(&mut self, below: &Path) -> Content {
        if let Some(content) = self.read.get(below) {
            return content.clone();
        }
        let content = match self.open_file(below) {
            Ok(file) => {
                if file.metadata().is_ok_and(|found| found.nlink() > 1) {
                    self.shared.insert(below.to_owned());
                }
                read(&file, &mut self.left)
            }
            Err(error) => Err(error),
        };
        let content = content.unwrap_or_else(|error| Content::Unreadable(error.kind().to_string()));
        self.read.insert(below.to_owned(), content.clone());
        content
    }

    /// Returns whether a file is a program by its permissions or its first bytes.
    #[must_use]
    pub fn is_program(&self, below: &Path) -> bool {
        let Ok(file) = self.open_file(below) else {
            return true;
        };
        let is_executable =
            |file: &File| file.metadata().is_ok_and(|found| found.mode() & 0o111 != 0);
        let mut head = Vec::new();
        let limit = HEAD_BYTES as u64;
        let is_read = (&file).take(limit).read_to_end(&mut head).is_ok();
        is_executable(&file) || !is_read || head.starts_with(b"#!") || head == *b"\x7fELF"
    }

    fn open_file(&self, below: &Path) -> io::Result<File> {
        let absent = || io::Error::from(io::ErrorKind::NotFound);
        let parent = below.parent().unwrap_or_else(|| Path::new(""));
        let directory = self.directory.below(parent)?.ok_or_else(absent)?;
        let name = below.file_name().ok_or_else(absent)?;
        directory.open_file(name)?.ok_or_else(absent)
    }
}

/// Reads a file up to the limits.
fn read(mut file: &File, left: &mut u64) -> io::Result<Content> {
    let found = file.metadata()?;
    let limit = MAX_FILE_BYTES.min(*left);
    if found.len() > limit {
        return Ok(long(&found));
    }
    let (mut digest, mut buffer, mut bytes) = (Sha256::new(), vec![0; 64 * 1024], 0);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
        if bytes > limit {
            return Ok(long(&file.metadata()?));
        }
        digest.update(&buffer[..count]);
    }
    *left -= bytes;
    let digits = digest.finalize();
    let digits = digits.iter().map(|byte| format!("{byte:02x}"));
    Ok(Content::Digest(digits.collect()))
}

/// Length and time of the last change, which no program can set back.
fn long(found: &std::fs::Metadata) -> Content {
    let (seconds, nanoseconds) = (found.ctime(), found.ctime_nsec());
    Content::Long(format!("{} {seconds} {nanoseconds}", found.len()))
}

/// Returns whether a path leads through a link of `/proc` that is another one for each process. Standard streams and
/// other open files, such as `/dev/stderr`, do not count: the program chooses them for a child.
#[cfg(target_os = "linux")]
fn leads_through_process(path: &Path) -> bool {
    use rustix::{
        fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
        io::Errno,
    };
    let names: Vec<&str> = path.iter().filter_map(|name| name.to_str()).collect();
    let is_open_file = matches!(
        names[..],
        ["/", "dev", "stdin" | "stdout" | "stderr"]
            | ["/", "dev", "fd", _]
            | ["/", "proc", _, "fd", _]
    );
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
    // Links that lead to each other have the same error. The entry that is looked up may exist in the other process alone.
    let is_loop = || {
        path.metadata()
            .is_err_and(|error| error.raw_os_error() == Some(Errno::LOOP.raw_os_error()))
    };
    opened.err() == Some(Errno::LOOP) && !is_open_file && !is_loop()
}

#[cfg(not(target_os = "linux"))]
fn leads_through_process(_: &Path) -> bool {
    false
}

fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}
