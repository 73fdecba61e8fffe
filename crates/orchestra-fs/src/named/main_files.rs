//! Paths of the files that a program may load for a part of a command line.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Entry, Tree};
use crate::words::{self, lexical, spellings};

/// Manifest of a package of Node.js.
const MANIFEST: &str = "package.json";

/// Members of a manifest that name files of the package which programs start with.
const MEMBERS: [&str; 6] = ["main", "module", "bin", "exports", "imports", "directories"];

/// Maximum number of bytes of a manifest that is read.
const MAX_MANIFEST_BYTES: u64 = 1024 * 1024;

/// Maximum number of files of a manifest.
const MAX_FILES: usize = 32;

/// Paths of the files that a program may load for a part of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// The paths, each as seen from the same directory as the part. Most of them lead nowhere.
    pub paths: BTreeSet<PathBuf>,
    /// Paths of the manifests that name some of them.
    pub manifests: BTreeSet<PathBuf>,
    /// Whether a manifest cannot be read as JSON or names too many files.
    pub is_unclear: bool,
}

impl Candidates {
    /// Puts a path and the files that may be loaded instead.
    fn put_all(&mut self, path: &Path) {
        self.paths.insert(path.to_owned());
        for file in path.to_str().map(words::files).unwrap_or_default() {
            self.paths.insert(PathBuf::from(file));
        }
    }

    /// Puts the files that a program starts with when it is given a directory.
    fn put_main_files(&mut self, directory: &Path) {
        for name in words::MAIN_FILES {
            self.paths.insert(directory.join(name));
        }
    }
}

impl Tree {
    /// Returns the paths that a program may load when a [part](crate::parts) of its command line is given to it, as
    /// seen from a directory: each spelling of the path, also without its ending, a module, and the main files of a
    /// directory, which its manifest may name.
    #[must_use]
    pub fn candidates(&self, from: &Path, part: &Path) -> Candidates {
        let mut candidates = Candidates::default();
        let spelled = match part.to_str() {
            Some(text) => spellings(text).into_iter().map(PathBuf::from).collect(),
            None => vec![part.to_owned(), lexical(part)],
        };
        for path in spelled {
            candidates.put_all(&path);
            if let Some(Entry::Directory(below)) = self.find(from, &path) {
                candidates.put_main_files(&path);
                self.manifest(from, &path, &below, &mut candidates);
            }
        }
        candidates
    }

    /// Puts the files that the manifest of a directory names.
    fn manifest(&self, from: &Path, path: &Path, below: &Path, candidates: &mut Candidates) {
        let manifest = match self.find(below, Path::new(MANIFEST)) {
            Some(Entry::File(manifest)) => self.open_file(&manifest).ok().and_then(parsed),
            Some(Entry::Closed(..)) => None,
            Some(Entry::Directory(_)) | None => return,
        };
        candidates.manifests.insert(path.join(MANIFEST));
        let Some(manifest) = manifest else {
            candidates.is_unclear = true;
            return;
        };
        let mut files = Vec::new();
        for member in MEMBERS {
            texts(&manifest[member], &mut files);
        }
        candidates.is_unclear |= files.len() > MAX_FILES;
        for file in files.into_iter().take(MAX_FILES) {
            let file = path.join(file);
            for file in [lexical(&file), file] {
                candidates.put_all(&file);
                if let Some(Entry::Directory(_)) = self.find(from, &file) {
                    candidates.put_main_files(&file);
                }
            }
        }
    }
}

/// The manifest, where it is JSON and not too long.
fn parsed(file: File) -> Option<Value> {
    let mut text = Vec::new();
    let mut file = file.take(MAX_MANIFEST_BYTES + 1);
    file.read_to_end(&mut text).ok()?;
    if text.len() as u64 > MAX_MANIFEST_BYTES {
        return None;
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    serde_json::from_slice(text).ok()
}

/// Collects the texts of a value, up to one more than the limit.
fn texts<'v>(value: &'v Value, found: &mut Vec<&'v OsStr>) {
    match value {
        _ if found.len() > MAX_FILES => {}
        // Patterns name files by what is imported.
        Value::String(text) if !text.is_empty() && !text.contains('*') => {
            found.push(OsStr::new(text));
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Object(members) => members.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}
