//! Files of the workspace that decide what a server runs.
//!
//! Covered are the files that the command line of a server or its environment names, and the package manifests and
//! lock files nearest to them and to its directory. Of a directory it is the main file, and the code where a virtual
//! machine loads classes from it. Files that the covered ones load by themselves are not covered.

mod manifests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
};

pub use orchestra_fs::Content;
use orchestra_fs::{Code, CodePaths, Entry, Tree, is_unclear, parts, spellings};

use crate::{
    config::{Auth, ServerConfig, Template, Transport, loads_code},
    expand::{Scope, variables_of},
};

/// Maximum number of words of a server that is approved.
const MAX_WORDS: usize = 512;

/// Maximum number of files of a server that is approved.
const MAX_FILES: usize = 512;

/// Maximum number of directories in which files of a server that is approved are looked for.
const MAX_DIRECTORIES: usize = 16;

/// Maximum number of paths that are looked up for a server that is approved.
const MAX_PATHS: usize = 500_000;

/// Ends of the names of files that hold data. Variables name such files, which servers write while they run.
const DATA: [&str; 16] = [
    "cache", "csv", "db", "duckdb", "jsonl", "log", "md", "ndjson", "out", "parquet", "pid",
    "sock", "sqlite", "sqlite3", "tsv", "txt",
];

/// Files of the workspace that decide what a server runs, as they are at one moment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Covered {
    files: BTreeMap<PathBuf, Content>,
    variables: Vec<(String, String)>,
    targets: BTreeMap<PathBuf, PathBuf>,
    gap: Option<Gap>,
    is_unclear: bool,
}

/// Reason for which files of a server are not covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Gap {
    /// The workspace cannot be opened.
    #[error("the workspace cannot be read")]
    Workspace,
    /// Too many words.
    #[error(
        "the command line and environment of the server have more than {} words",
        MAX_WORDS
    )]
    Words,
    /// Too many directories.
    #[error(
        "the command line and environment of the server name more than {} directories of the workspace",
        MAX_DIRECTORIES
    )]
    Directories,
    /// Too many files.
    #[error(
        "the command line and environment of the server name more than {} files of the workspace",
        MAX_FILES
    )]
    Files,
    /// Too many paths.
    #[error(
        "the command line and environment of the server may name more than {} paths",
        MAX_PATHS
    )]
    Paths,
}

impl fmt::Debug for Covered {
    // The variables may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Covered")
            .field("files", &self.files)
            .field("gap", &self.gap)
            .finish_non_exhaustive()
    }
}

impl Covered {
    /// Finds and reads the files of a server.
    #[must_use]
    pub fn of(config: &ServerConfig, scope: &Scope) -> Self {
        let Ok(tree) = Tree::open(scope.workspace()) else {
            return Self {
                gap: Some(Gap::Workspace),
                ..Self::default()
            };
        };
        let mut search = Search {
            tree,
            bases: Vec::new(),
            starts: BTreeSet::new(),
            covered: Self {
                targets: scope.targets(config).into_iter().collect(),
                ..Self::default()
            },
            words: 0,
            paths: 0,
        };
        search.server(config, scope);
        search.covered
    }

    /// The files, by their paths below the workspace.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &Content)> {
        let files = self.files.iter();
        files.map(|(path, content)| (path.as_path(), content))
    }

    /// Paths of the sandbox that lead elsewhere by symbolic links, with their targets.
    pub fn targets(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let targets = self.targets.iter();
        targets.map(|(path, target)| (path.as_path(), target.as_path()))
    }

    /// The variables of a file of the workspace that the server gets. Holds secrets.
    #[must_use]
    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Why files of the server are not covered. Such a server must not be approved: they may change unnoticed.
    #[must_use]
    pub const fn gap(&self) -> Option<Gap> {
        self.gap
    }

    /// Returns whether the server may run files that are not covered: its line of a shell does not tell them by its
    /// text, a manifest cannot be read, or a directory has too many files of code.
    #[must_use]
    pub const fn is_unclear(&self) -> bool {
        self.is_unclear
    }
}

/// Use of a file by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It is loaded, or named by the command line: it is covered whatever it looks like.
    Loaded,
    /// It is the value of a variable.
    Value,
}

struct Search {
    tree: Tree,
    /// Directories that relative paths may start from.
    bases: Vec<PathBuf>,
    /// Directories below the top from which manifests are looked for.
    starts: BTreeSet<PathBuf>,
    covered: Covered,
    words: usize,
    paths: usize,
}

impl Search {
    fn server(&mut self, config: &ServerConfig, scope: &Scope) {
        // What cannot be expanded cannot be started either.
        let expand = |text: &Template| scope.expand(text, config).unwrap_or_default();
        let all = |texts: &[Template]| texts.iter().map(expand).collect::<Vec<_>>();
        let path = |text: &Template| scope.path(text, config).ok();
        let (mut directories, mut beside, mut variables) = (Vec::new(), Vec::new(), Vec::new());
        let (program, arguments) = match &config.transport {
            Transport::Stdio(stdio) => {
                directories.extend(stdio.cwd.as_ref().and_then(path));
                let env = stdio.env.iter();
                variables.extend(env.map(|(name, value)| (name.clone(), expand(value))));
                if let Some(path) = stdio.env_file.as_ref().and_then(path) {
                    self.variables_of(&path);
                }
                (expand(&stdio.command), all(&stdio.args))
            }
            Transport::Plugin(plugin) => {
                directories.extend(plugin.cwd.as_ref().and_then(path));
                beside.push(plugin.directory.clone());
                let pairs = plugin.env.iter().chain(&plugin.config);
                variables.extend(pairs.map(|(name, value)| (name.clone(), expand(value))));
                (expand(&plugin.binary), all(&plugin.args))
            }
            Transport::Http(http) => {
                if let Some(path) = http.ca_file.as_ref().and_then(path) {
                    self.named(&path);
                }
                let Some(Auth::Command { command, args }) = &http.auth else {
                    return;
                };
                (expand(command), all(args))
            }
            Transport::Orchestrator(_) => return,
        };
        variables.extend(self.covered.variables.iter().cloned());
        if directories.is_empty() {
            directories.push(config.directory().clone());
        }
        for directory in directories.into_iter().chain(beside) {
            self.base(directory);
        }
        let values = variables.iter().map(|(_, value)| value);
        let words = arguments.iter().chain(values).chain([&program]);
        for part in words.flat_map(|word| parts(word)).take(MAX_WORDS) {
            self.directories_of(&part);
        }
        let command = std::iter::once(&program).chain(&arguments);
        self.covered.is_unclear = is_unclear(command.clone().map(String::as_str));
        self.code(&CodePaths::of(command.clone().map(String::as_str)));
        for word in command {
            self.word(word, Use::Loaded);
        }
        for (name, value) in &variables {
            let used = match loads_code(name) {
                true => Use::Loaded,
                false => Use::Value,
            };
            self.word(value, used);
            self.code(&CodePaths::of_variable(name, value));
        }
        self.manifests(&program);
    }

    /// Reads a file of variables of the workspace.
    fn variables_of(&mut self, path: &Path) {
        if let Some(Entry::File(below)) = self.tree.find(Path::new(""), path) {
            let read = variables_of(&self.tree.top().join(below));
            self.covered.variables = read.unwrap_or_default();
        }
        self.named(path);
    }

    fn base(&mut self, directory: PathBuf) {
        if self.bases.contains(&directory) {
            return;
        }
        if self.bases.len() >= MAX_DIRECTORIES {
            self.covered.gap = Some(Gap::Directories);
            return;
        }
        let found = self.tree.find(Path::new(""), &directory);
        if let Some(Entry::Directory(below)) = found {
            self.starts.insert(below);
        }
        self.bases.push(directory);
    }

    /// Looks for files also in the directories that a word names.
    fn directories_of(&mut self, word: &str) {
        for base in self.bases.clone() {
            for path in spellings(word) {
                if let Some(Entry::Directory(below)) = self.tree.find(&base, Path::new(&path)) {
                    self.base(self.tree.top().join(below));
                }
            }
        }
    }

    fn word(&mut self, word: &str, used: Use) {
        for part in parts(word) {
            if self.words >= MAX_WORDS {
                self.covered.gap = Some(Gap::Words);
                return;
            }
            self.words += 1;
            self.part(&part, used);
        }
    }

    fn part(&mut self, part: &str, used: Use) {
        for base in self.bases.clone() {
            let candidates = self.tree.candidates(&base, Path::new(part));
            self.covered.is_unclear |= candidates.is_unclear;
            for path in candidates.paths {
                if self.paths >= MAX_PATHS {
                    self.covered.gap = Some(Gap::Paths);
                    return;
                }
                self.paths += 1;
                if let Some(entry) = self.tree.find(&base, &path) {
                    self.entry(entry, used);
                }
            }
        }
    }

    /// Covers the code in the directories from which classes and modules are loaded by their names.
    fn code(&mut self, found: &CodePaths) {
        self.covered.is_unclear |= found.is_unclear;
        for path in &found.paths {
            for base in self.bases.clone() {
                let Some(Entry::Directory(below)) = self.tree.find(&base, Path::new(path)) else {
                    continue;
                };
                let name = match below.as_os_str().is_empty() {
                    true => PathBuf::from("."),
                    false => below.clone(),
                };
                if self.covered.files.contains_key(&name) {
                    continue;
                }
                match self.tree.code(&below) {
                    Code::Content(content) => self.insert(name, content),
                    Code::TooMuch => self.covered.is_unclear = true,
                    Code::None => {}
                }
            }
        }
    }

    /// Covers the file at a path.
    fn named(&mut self, path: &Path) {
        if let Some(entry) = self.tree.find(Path::new(""), path) {
            self.entry(entry, Use::Loaded);
        }
    }

    fn entry(&mut self, entry: Entry, used: Use) {
        match entry {
            Entry::File(below) => {
                if used == Use::Loaded || !self.is_data(&below) {
                    self.starts.insert(parent(&below));
                    self.cover(below);
                }
            }
            Entry::Closed(below, why) => self.insert(below, why),
            Entry::Directory(_) => {}
        }
    }

    /// Returns whether a file holds data: by its name, and it is no program.
    fn is_data(&self, below: &Path) -> bool {
        let extension = below.extension().map(|end| end.to_ascii_lowercase());
        let is_named_so = extension.is_none_or(|end| DATA.iter().any(|data| end == *data));
        is_named_so && !self.tree.is_program(below)
    }

    fn cover(&mut self, below: PathBuf) {
        if self.covered.files.contains_key(&below) {
            return;
        }
        let content = self.tree.content(&below);
        self.insert(below, content);
    }

    fn insert(&mut self, below: PathBuf, content: Content) {
        if self.covered.files.len() >= MAX_FILES {
            self.covered.gap = Some(Gap::Files);
            return;
        }
        self.covered.files.insert(below, content);
    }

    /// Covers the manifests and lock files that are nearest to the directories of the server.
    fn manifests(&mut self, program: &str) {
        for start in std::mem::take(&mut self.starts) {
            for name in manifests::of(program) {
                let found = start.ancestors().find_map(|directory| {
                    let found = self.tree.find(directory, Path::new(name))?;
                    (!matches!(found, Entry::Directory(_))).then_some(found)
                });
                match found {
                    Some(Entry::File(below)) => self.cover(below),
                    Some(Entry::Closed(below, why)) => self.insert(below, why),
                    Some(Entry::Directory(_)) | None => {}
                }
            }
        }
    }
}

fn parent(below: &Path) -> PathBuf {
    below.parent().map(Path::to_owned).unwrap_or_default()
}

#[cfg(test)]
mod tests;
