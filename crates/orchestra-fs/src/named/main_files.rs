//! Paths of the files that a program may load for a part of a command line.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::{
    Entry, Tree,
    manifest::{self, Manifest},
};
use crate::words::{self, MAX_PART_BYTES, lexical, spellings};

/// Maximum number of manifests that are read.
const MAX_MANIFESTS: usize = 64;

/// Paths of the files that a program may load for a part of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// The paths, each as seen from the same directory as the part. Most of them lead nowhere, but their directories
    /// exist.
    pub paths: BTreeSet<PathBuf>,
    /// Paths of the manifests that name some of them.
    pub manifests: BTreeSet<PathBuf>,
    /// Whether a manifest cannot be read as JSON or names too many files.
    pub is_unclear: bool,
}

impl Candidates {
    /// Puts a path and the files that may be loaded instead.
    pub(super) fn put_all(&mut self, path: &Path) {
        self.paths.insert(path.to_owned());
        for file in path.to_str().map(words::files).unwrap_or_default() {
            self.paths.insert(PathBuf::from(file));
        }
    }

    /// Puts the files that a program starts with when it is given a directory.
    pub(super) fn put_main_files(&mut self, directory: &Path) {
        for name in words::MAIN_FILES {
            self.paths.insert(directory.join(name));
        }
    }
}

impl Tree {
    /// Returns the paths that a program may load when a [part](crate::parts) of its command line is given to it, as
    /// seen from a directory: each spelling of the path, also without its ending, a module, the main files of a
    /// directory, which its manifest may name, and the file of a command or an import of the package of the directory.
    /// A part that is too long has none, and so has each part when the tree [is exhausted](Self::is_exhausted).
    #[must_use]
    pub fn candidates(&mut self, from: &Path, part: &Path) -> Candidates {
        let mut candidates = Candidates::default();
        if self.is_exhausted() || part.as_os_str().len() > MAX_PART_BYTES {
            return candidates;
        }
        let spelled = match part.to_str() {
            Some(text) => spellings(text).into_iter().map(PathBuf::from).collect(),
            None => vec![part.to_owned(), lexical(part)],
        };
        for path in spelled {
            candidates.put_all(&path);
            if let Some(Entry::Directory(below)) = self.find(from, &path) {
                candidates.put_main_files(&path);
                if let Some(manifest) = self.manifest(&below) {
                    candidates.manifests.insert(path.join(manifest::NAME));
                    candidates.is_unclear |= manifest.is_unclear;
                    // Patterns name files by what is imported.
                    let files = manifest.files.iter().map(|(_, file)| file);
                    for file in files.filter(|file| !file.contains('*')) {
                        self.put_named(from, &path.join(file), &mut candidates);
                    }
                }
            }
        }
        if let Some(name) = part.to_str().filter(|name| !name.starts_with(['.', '/'])) {
            self.put_command(from, name, &mut candidates);
            self.put_installed(from, name, &mut candidates);
        }
        let mut directories = BTreeMap::new();
        candidates.paths.retain(|path| {
            let directory = path.parent().unwrap_or(path);
            directories.get(directory).copied().unwrap_or_else(|| {
                let may_be = self.may_be_directory(from, directory);
                directories.insert(directory.to_owned(), may_be);
                may_be
            })
        });
        self.put_compiled(from, &mut candidates);
        candidates
    }

    /// Puts the compiled files that Python loads in place of a source.
    fn put_compiled(&mut self, from: &Path, candidates: &mut Candidates) {
        let sources = candidates.paths.iter();
        let sources = sources.filter(|path| path.extension().is_some_and(|end| end == "py"));
        for source in sources.cloned().collect::<Vec<_>>() {
            let mut stem = source.file_stem().unwrap_or_default().to_owned();
            stem.push(".");
            let beside = source.parent().unwrap_or_else(|| Path::new(""));
            for directory in [beside.to_owned(), beside.join("__pycache__")] {
                let Some(names) = self.compiled(from, &directory, &stem) else {
                    candidates.is_unclear = true;
                    continue;
                };
                let paths = names.iter().map(|name| directory.join(name));
                candidates.paths.extend(paths);
            }
        }
    }

    /// Puts the file of a command or an import of the nearest package: `npx NAME` runs a command of the package itself.
    fn put_command(&mut self, from: &Path, name: &str, candidates: &mut Candidates) {
        for directory in self.above(from) {
            let Some(manifest) = self.manifest(&directory) else {
                continue;
            };
            // Without files, it could not be read.
            candidates.is_unclear |= manifest.is_unclear && manifest.files.is_empty();
            let seen = match from.as_os_str().is_empty() {
                true => directory,
                false => self.top.join(directory),
            };
            for file in manifest.files_of(name) {
                candidates.manifests.insert(seen.join(manifest::NAME));
                self.put_named(from, &seen.join(file), candidates);
            }
            return;
        }
    }

    /// Puts the program of an installed package that `npx NAME` runs: of the directory or of one above it. It usually is a
    /// link to a file of the package.
    fn put_installed(&mut self, from: &Path, name: &str, candidates: &mut Candidates) {
        let is_top = from.as_os_str().is_empty();
        for directory in self.above(from) {
            let seen = match is_top {
                true => directory,
                false => self.top.join(directory),
            };
            let path = seen.join("node_modules/.bin").join(name);
            if let Some(Entry::File(_)) = self.find(from, &path) {
                candidates.paths.insert(path);
            }
        }
    }

    /// Puts a file that a manifest names, or the main files of such a directory.
    pub(super) fn put_named(&mut self, from: &Path, path: &Path, candidates: &mut Candidates) {
        for path in [lexical(path), path.to_owned()] {
            candidates.put_all(&path);
            if let Some(Entry::Directory(_)) = self.find(from, &path) {
                candidates.put_main_files(&path);
            }
        }
    }

    /// The manifest of a directory, by its path below the top; `None` where there is none.
    pub(super) fn manifest(&mut self, below: &Path) -> Option<Manifest> {
        if let Some(manifest) = self.manifests.get(below) {
            return Some(manifest.clone());
        }
        let manifest = match self.find(below, Path::new(manifest::NAME))? {
            Entry::File(path) if self.manifests.len() < MAX_MANIFESTS => {
                let file = self.open_file(&path);
                file.map_or_else(|_| Manifest::unclear(), Manifest::read)
            }
            Entry::File(_) | Entry::Closed(..) => Manifest::unclear(),
            Entry::Directory(_) => return None,
        };
        if self.manifests.len() < MAX_MANIFESTS {
            self.manifests.insert(below.to_owned(), manifest.clone());
        }
        Some(manifest)
    }
}
