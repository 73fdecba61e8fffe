//! Files of the workspace that decide what a server runs.
//!
//! Covered are the files that the command line of a server or its environment names, and the package manifests and
//! lock files beside and above them, its directory and the members that it names. Of a directory it is the main file,
//! and each file where a program runs all of them, or finds what it loads by its name. Files that the covered ones load
//! by themselves are not covered.

mod lookups;
mod members;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io, iter,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use orchestra_fs::Content;
use orchestra_fs::{
    Code, CodePaths, Entry, Loads, Tree, Unlisted, build_file_rules, build_files, command_words,
    is_plain, is_plain_line, is_unclear, node_packages, parts, preloaded_modules, shell_words,
    spellings,
};
use orchestra_secret::is_secret_name;

use crate::{
    config::{
        Auth, Sandbox, ServerConfig, Template, Transport, loads_code, names_code, names_data,
    },
    expand::{Scope, text_of_file, variables_of},
};
use members::Packages;

/// Maximum number of words of a server that is approved, their parts included.
const MAX_WORDS: usize = 512;

/// Maximum number of files of a server that is approved.
const MAX_FILES: usize = 512;

/// Maximum number of directories in which files of a server that is approved are looked for.
const MAX_DIRECTORIES: usize = 16;

/// Maximum effort for the servers of a workspace before the last one.
const MAX_EFFORT: usize = 10 * Tree::MAX_PATHS;

/// Maximum effort for the code of a server before the last directory. It exceeds that for any single directory.
const MAX_CODE_EFFORT: usize = 4 * Tree::MAX_PATHS;

/// Maximum number of names of a directory that are listed.
const MAX_NAMES: usize = 4_096;

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
    lookups: BTreeMap<PathBuf, bool>,
    shared: BTreeSet<PathBuf>,
}

/// Work for the servers of a workspace, with the results that several of them need.
#[derive(Debug, Default)]
pub(crate) struct SharedWork {
    /// The [effort](Tree::effort) so far.
    effort: usize,
    /// Code by its directory.
    code: BTreeMap<(Loads, PathBuf), ReadCode>,
    /// Packages by the name of their manifests.
    packages: BTreeMap<&'static str, Arc<Packages>>,
}

/// Code of a directory.
#[derive(Debug, Clone)]
struct ReadCode {
    code: Code,
    /// The effort of reading it.
    effort: usize,
    /// Whether it has a link that differs by process.
    has_process_link: bool,
    /// Files of it that have several names.
    shared: BTreeSet<PathBuf>,
}

/// Reason for which files of a server are not covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Gap {
    /// The workspace cannot be opened.
    #[error("the workspace cannot be read")]
    Workspace,
    /// Too many words.
    #[error(
        "the command line, variables and sandbox settings of the server have more than {} words; shorten these settings",
        MAX_WORDS
    )]
    Words,
    /// A word that is too long.
    #[error("a word of the command line or environment of the server is too long; shorten it")]
    Length,
    /// Too many directories.
    #[error(
        "the command line and environment of the server name more than {} directories of the workspace; name fewer directories",
        MAX_DIRECTORIES
    )]
    Directories,
    /// Too many files.
    #[error(
        "the command line and environment of the server name more than {} files of the workspace; name fewer files",
        MAX_FILES
    )]
    Files,
    /// Too much effort for the servers before this one.
    #[error(
        "the servers of the workspace name too many files to check them all; remove servers that you do not use"
    )]
    Servers,
    /// A path that leads to another file in each process.
    #[error(
        "a path in the definition of the server goes through a link such as /proc/self/cwd, which leads to another \
         file in each process; name the file without the link"
    )]
    Process,
    /// Too many paths, or too many compiled modules.
    #[error(
        "orchestra cannot find all files that the server may run: its command line and variables can refer to more \
         than {} paths, or a directory of its code has too many compiled modules. Shorten the command line and \
         variables, or delete compiled modules",
        Tree::MAX_PATHS
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
        Self::of_one(config, scope, &mut SharedWork::default())
    }

    /// Finds and reads the files of one of several servers. The result is the same for any [`SharedWork`] that has effort
    /// left.
    pub(crate) fn of_one(config: &ServerConfig, scope: &Scope, shared: &mut SharedWork) -> Self {
        let gap = |gap| Self {
            gap: Some(gap),
            ..Self::default()
        };
        if shared.effort > MAX_EFFORT {
            return gap(Gap::Servers);
        }
        let Ok(tree) = Tree::open(scope.workspace()) else {
            return gap(Gap::Workspace);
        };
        let mut search = Search {
            workspace: scope.workspace(),
            tree,
            shared,
            code: BTreeSet::new(),
            code_effort: 0,
            bases: Vec::new(),
            own: Vec::new(),
            starts: BTreeSet::new(),
            loaded: BTreeSet::new(),
            members: BTreeSet::new(),
            parts: Vec::new(),
            modules: BTreeSet::new(),
            words: 0,
            has_process_link: false,
            covered: Self::default(),
        };
        search.covered.gap = search.server(config, scope).err();
        let shared = search.tree.shared().iter().cloned();
        search.covered.shared.extend(shared);
        search.shared.effort += search.tree.effort();
        search.covered
    }

    /// Returns the part that an approval is for. Left out are the variables, whose file is covered, directories of code,
    /// because the files in them are covered, and the number of names of a file. A directory whose files are not known is
    /// one of the files. An approval with the notice about further files also holds while the notice does not apply.
    pub(crate) fn approved(&self, has_notice: bool) -> Self {
        Self {
            variables: Vec::new(),
            is_unclear: self.is_unclear || has_notice,
            lookups: BTreeMap::new(),
            shared: BTreeSet::new(),
            ..self.clone()
        }
    }

    /// The files, by their paths below the workspace.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &Content)> {
        let files = self.files.iter();
        files.map(|(path, content)| (path.as_path(), content))
    }

    /// Directories below the workspace in which the server looks for code. They may be absent. The flag is set where it
    /// also looks in the directories below them.
    pub(crate) fn lookups(&self) -> impl Iterator<Item = (&Path, bool)> {
        let lookups = self.lookups.iter();
        lookups.map(|(path, is_deep)| (path.as_path(), *is_deep))
    }

    /// Files below the workspace that the approval covers and that have several names (hard links).
    pub(crate) fn shared(&self) -> impl Iterator<Item = &Path> {
        self.shared.iter().map(PathBuf::as_path)
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

    /// Returns whether the server may run files that are not covered: they do not follow from its command line or a
    /// variable, one of these is not plain or names a directory, a manifest cannot be read, or a directory has too many
    /// files of code.
    #[must_use]
    pub const fn is_unclear(&self) -> bool {
        self.is_unclear
    }
}

/// Use of a file or directory by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The definition names it outside of variables: a file is covered with any name.
    Word,
    /// A variable of settings or code names it: so is such a file, and a directory may have code.
    Loaded,
    /// Another variable names it: a file is covered unless it is data, and both may be code.
    Value,
    /// A variable of data or a URL names it: a file is covered unless it is data.
    Data,
}

struct Search<'s> {
    workspace: &'s Path,
    tree: Tree,
    shared: &'s mut SharedWork,
    /// Directories that were searched for code.
    code: BTreeSet<(Loads, PathBuf)>,
    /// Effort for their code, whichever server it was first read for.
    code_effort: usize,
    /// Directories that relative paths may start from.
    bases: Vec<PathBuf>,
    /// Those of them in which the server works.
    own: Vec<PathBuf>,
    /// Directories below the top from which manifests are looked for.
    starts: BTreeSet<PathBuf>,
    /// Those of them with files and members that the server loads.
    loaded: BTreeSet<PathBuf>,
    /// Directories of the members that the command line names.
    members: BTreeSet<PathBuf>,
    /// Parts of the words, which may name files.
    parts: Vec<(String, Use)>,
    /// Modules of installed packages that Node.js loads before the program.
    modules: BTreeSet<String>,
    /// Number of words and parts.
    words: usize,
    /// Whether code has a link that differs by process.
    has_process_link: bool,
    covered: Covered,
}

impl Search<'_> {
    /// Covers the files of a server.
    ///
    /// # Errors
    /// The reason for which not all of them are covered. The search ends there.
    fn server(&mut self, config: &ServerConfig, scope: &Scope) -> Result<(), Gap> {
        if let Sandbox::Workspace { read, write } = &config.sandbox
            && read.len() + write.len() > MAX_WORDS
        {
            return Err(Gap::Words);
        }
        self.covered.targets = scope.targets(config).into_iter().collect();
        let path = |text: &Template| scope.path(text, config).ok();
        let (mut directories, mut beside) = (Vec::new(), Vec::new());
        let mut env: Vec<(&String, &Template)> = Vec::new();
        let (program, arguments) = match &config.transport {
            Transport::Stdio(stdio) => {
                directories.extend(stdio.cwd.as_ref().and_then(path));
                env.extend(&stdio.env);
                if let Some(path) = stdio.env_file.as_ref().and_then(path) {
                    self.variables_of(&path)?;
                }
                (&stdio.command, &stdio.args)
            }
            Transport::Plugin(plugin) => {
                directories.extend(plugin.cwd.as_ref().and_then(path));
                beside.push(plugin.directory.clone());
                env.extend(plugin.env.iter().chain(&plugin.config));
                (&plugin.binary, &plugin.args)
            }
            Transport::Http(http) => {
                if let Some(path) = http.ca_file.as_ref().and_then(path) {
                    self.named(&path)?;
                }
                let Some(Auth::Command { command, args }) = &http.auth else {
                    return Ok(());
                };
                (command, args)
            }
            Transport::Orchestrator(_) => return Ok(()),
        };
        // A server with a text that cannot be expanded cannot be started.
        let expand = |text: &Template| scope.expand(text, config).unwrap_or_default();
        let (mut line, mut written) = (Vec::new(), Vec::new());
        for text in iter::once(program).chain(arguments) {
            let word = expand(text);
            self.word(&word, Use::Word)?;
            line.push(word);
            written.push(text_of_file(text, config));
        }
        let written: Vec<&str> = written.iter().map(String::as_str).collect();
        self.covered.is_unclear |= !is_plain_line(&written);
        let mut variables = Vec::new();
        for (name, text) in env {
            let value = expand(text);
            self.variable(name, &value)?;
            self.covered.is_unclear |= may_be_program(name, &text_of_file(text, config));
            variables.push((name.clone(), value));
        }
        for (name, value) in self.covered.variables.clone() {
            self.variable(&name, &value)?;
            self.covered.is_unclear |= may_be_program(&name, &value);
            variables.push((name, value));
        }
        if directories.is_empty() {
            directories.push(config.directory().clone());
        }
        for directory in directories.into_iter().chain(beside) {
            self.base(directory)?;
        }
        self.own.clone_from(&self.bases);
        if !variables.iter().any(|(name, _)| name == "PATH") {
            let path = scope.variable("PATH").unwrap_or_default();
            self.programs(&line, &path)?;
        }
        self.files(&line, &variables)
    }

    /// Covers the programs that a command line names in directories of the workspace on the inherited `PATH`.
    fn programs(&mut self, line: &[String], path: &str) -> Result<(), Gap> {
        let directories = std::env::split_paths(path).filter(|directory| {
            let real = directory.canonicalize();
            directory.is_absolute() && real.is_ok_and(|real| real.starts_with(self.tree.top()))
        });
        for directory in directories.collect::<Vec<_>>() {
            let words = line.iter().flat_map(|word| shell_words(word));
            for word in words.filter(|word| !word.contains('/')) {
                if let Some(entry) = self.tree.find(&directory, Path::new(word)) {
                    self.entry(entry, Use::Word)?;
                }
            }
        }
        Ok(())
    }

    /// Covers the files that a command line, program first, and variables name.
    fn files(&mut self, line: &[String], variables: &[(String, String)]) -> Result<(), Gap> {
        let parts = std::mem::take(&mut self.parts);
        // A word may name a directory below that of a variable (`CDPATH`), and the other way round.
        for (part, _) in parts.iter().rev().chain(&parts) {
            self.directories_of(part)?;
        }
        self.note_moves(line);
        let command = || line.iter().map(String::as_str);
        self.covered.is_unclear |= is_unclear(command());
        self.code(&CodePaths::of(command()))?;
        for (name, value) in variables {
            self.code(&CodePaths::of_variable(name, value))?;
            self.note_modules(name, value);
        }
        for (part, used) in &parts {
            self.part(part, *used)?;
        }
        let words = line.iter().flat_map(|word| shell_words(word));
        let words: Vec<&str> = words.collect();
        self.members(&words);
        self.packages_of(line, variables)?;
        self.note_directories(line);
        self.manifests(&line[0], &words)?;
        self.note_lookups(line);
        match self.tree.is_exhausted() {
            true => Err(Gap::Paths),
            false if self.has_process_link || self.tree.has_process_link() => Err(Gap::Process),
            false => Ok(()),
        }
    }

    /// Reads a file of variables of the workspace.
    fn variables_of(&mut self, path: &Path) -> Result<(), Gap> {
        if let Some(Entry::File(below)) = self.tree.find(Path::new(""), path) {
            let read = variables_of(&self.tree.top().join(below));
            self.covered.variables = read.unwrap_or_default();
        }
        self.named(path)
    }

    fn variable(&mut self, name: &str, value: &str) -> Result<(), Gap> {
        let is_url = value.starts_with("http://") || value.starts_with("https://");
        let used = match () {
            () if names_code(name) => Use::Loaded,
            () if names_data(name) || is_url => Use::Data,
            () => Use::Value,
        };
        self.word(value, used)
    }

    fn word(&mut self, word: &str, used: Use) -> Result<(), Gap> {
        let found = parts(word);
        self.words += found.words.len().max(1);
        if self.words > MAX_WORDS {
            return Err(Gap::Words);
        }
        if found.is_cut {
            return Err(Gap::Length);
        }
        let parts = found.words.into_iter().map(|part| (part, used));
        self.parts.extend(parts);
        Ok(())
    }

    fn base(&mut self, directory: PathBuf) -> Result<(), Gap> {
        if self.bases.contains(&directory) {
            return Ok(());
        }
        if self.bases.len() >= MAX_DIRECTORIES {
            return Err(Gap::Directories);
        }
        let found = self.tree.find(Path::new(""), &directory);
        if let Some(Entry::Directory(below)) = found {
            self.starts.insert(below);
        }
        self.bases.push(directory);
        Ok(())
    }

    /// Looks for files also in the directories that a part names.
    fn directories_of(&mut self, part: &str) -> Result<(), Gap> {
        for base in self.bases.clone() {
            for path in spellings(part) {
                if let Some(Entry::Directory(below)) = self.tree.find(&base, Path::new(&path)) {
                    self.base(self.tree.top().join(below))?;
                }
            }
        }
        Ok(())
    }

    fn part(&mut self, part: &str, used: Use) -> Result<(), Gap> {
        let part = Path::new(part);
        for base in self.bases.clone() {
            let candidates = self.tree.candidates(&base, part);
            self.covered.is_unclear |= candidates.is_unclear;
            for path in candidates.paths {
                if let Some(entry) = self.tree.find(&base, &path) {
                    self.entry(entry, used)?;
                }
            }
            if self.tree.is_exhausted() {
                return Err(Gap::Paths);
            }
            // Each directory leads to the same files.
            if part.is_absolute() {
                break;
            }
        }
        Ok(())
    }

    /// Covers the files that run without being named, in the directories that are known for it.
    fn code(&mut self, found: &CodePaths) -> Result<(), Gap> {
        self.covered.is_unclear |= found.is_unclear;
        for (loads, path) in &found.paths {
            self.note_code(*loads, path);
            for base in self.bases.clone() {
                // Files that appear in such a directory later are not noticed.
                let is_inside = self.inside(&base.join(path)).is_some();
                self.covered.is_unclear |= *loads == Loads::Home && is_inside;
                let below = self.tree.code_directory(*loads, &base, Path::new(path));
                let Some(below) = below else {
                    continue;
                };
                self.covered.is_unclear |= *loads == Loads::Home;
                if !self.code.insert((*loads, below.clone())) {
                    continue;
                }
                match self.code_of(*loads, &below) {
                    Code::Content(content) => self.insert(loads.name(&below), content)?,
                    Code::Unknown(why) => self.unknown(loads.name(&below), why.to_string())?,
                    Code::None => {}
                }
            }
        }
        Ok(())
    }

    /// Returns the code below a directory, which is read for the first server that needs it. A tree of its own makes the
    /// result independent of that server.
    fn code_of(&mut self, loads: Loads, below: &Path) -> Code {
        if self.code_effort > MAX_CODE_EFFORT {
            return Code::Unknown(Unlisted::Entries);
        }
        let key = (loads, below.to_owned());
        let read = match self.shared.code.get(&key) {
            Some(known) => known.clone(),
            None => {
                let Ok(mut tree) = Tree::open(self.tree.top()) else {
                    return Code::Unknown(Unlisted::Directory(below.to_owned()));
                };
                let code = tree.code(loads, below);
                let read = ReadCode {
                    code,
                    effort: tree.effort(),
                    has_process_link: tree.has_process_link(),
                    shared: tree.shared().clone(),
                };
                self.shared.effort += read.effort;
                self.shared.code.insert(key, read.clone());
                read
            }
        };
        self.code_effort += read.effort;
        self.has_process_link |= read.has_process_link;
        self.covered.shared.extend(read.shared);
        read.code
    }

    /// Covers the file at a path.
    fn named(&mut self, path: &Path) -> Result<(), Gap> {
        match self.tree.find(Path::new(""), path) {
            Some(entry) => self.entry(entry, Use::Word),
            None => Ok(()),
        }
    }

    fn entry(&mut self, entry: Entry, used: Use) -> Result<(), Gap> {
        match entry {
            Entry::File(below) => {
                if matches!(used, Use::Value | Use::Data) && self.is_data(&below) {
                    self.covered.is_unclear |= used == Use::Value;
                    return Ok(());
                }
                self.starts.insert(parent(&below));
                self.loaded.insert(parent(&below));
                self.cover(below)
            }
            Entry::Closed(below, why) => self.insert(below, why),
            Entry::Directory(below) => {
                let is_code = |(_, known): &(Loads, PathBuf)| *known == below;
                let may_run = matches!(used, Use::Loaded | Use::Value);
                self.covered.is_unclear |= may_run && !self.code.iter().any(is_code);
                Ok(())
            }
        }
    }

    /// Returns whether a file holds data: by its name, and it is no program.
    fn is_data(&self, below: &Path) -> bool {
        let extension = below.extension().map(|end| end.to_ascii_lowercase());
        let is_named_so = extension.is_none_or(|end| DATA.iter().any(|data| end == *data));
        is_named_so && !self.tree.is_program(below)
    }

    fn cover(&mut self, below: PathBuf) -> Result<(), Gap> {
        if self.covered.files.contains_key(&below) {
            return Ok(());
        }
        let content = self.tree.content(&below);
        self.insert(below, content)
    }

    fn insert(&mut self, below: PathBuf, content: Content) -> Result<(), Gap> {
        if self.covered.files.len() >= MAX_FILES {
            return Err(Gap::Files);
        }
        self.covered.files.insert(below, content);
        Ok(())
    }

    /// Covers the fact that files of a directory are not known, so that their number cannot grow past a limit unnoticed.
    fn unknown(&mut self, below: PathBuf, why: String) -> Result<(), Gap> {
        self.covered.is_unclear = true;
        self.insert(below, Content::Unreadable(why))
    }

    /// Covers the programs and modules of the installed packages that a command line and variables name.
    fn packages_of(&mut self, line: &[String], variables: &[(String, String)]) -> Result<(), Gap> {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let words = command_words(&words);
        let options = variables.iter();
        let options = options.filter(|(name, _)| name.ends_with("OPTIONS"));
        for words in std::iter::once(words.clone())
            .chain(options.map(|(_, value)| shell_words(value).collect()))
        {
            let modules = preloaded_modules(&words).into_iter();
            self.modules.extend(modules.map(str::to_owned));
        }
        let packages = node_packages(&words);
        for base in self.own.clone() {
            let mut all = Vec::new();
            for package in &packages {
                all.push(self.tree.package(&base, package));
            }
            for module in &self.modules {
                all.push(self.tree.module(&base, module));
            }
            for found in all {
                self.covered.is_unclear |= found.is_unclear;
                for path in found.paths.iter().chain(&found.manifests) {
                    self.named(path)?;
                }
            }
        }
        Ok(())
    }

    /// Looks for manifests also in the directories of the members that a command line names.
    fn members(&mut self, words: &[&str]) {
        for member in members::of(words) {
            let Some(name) = member.name else {
                self.covered.is_unclear = true;
                continue;
            };
            let manifest = member.manifest;
            let mut directories = Vec::new();
            for base in self.bases.clone() {
                if let Some(Entry::Directory(below)) = self.tree.find(&base, Path::new(name))
                    && self.tree.find(&below, Path::new(manifest)).is_some()
                {
                    directories.push(below);
                }
            }
            let packages = self.packages(manifest);
            directories.extend(packages.named(name, manifest).cloned());
            self.covered.is_unclear |= packages.is_partial || directories.is_empty();
            self.loaded.extend(directories.iter().cloned());
            self.members.extend(directories.iter().cloned());
            self.starts.extend(directories);
        }
    }

    /// Returns the packages of the workspace, which are found for the first server that needs them.
    fn packages(&mut self, manifest: &'static str) -> Arc<Packages> {
        if let Some(known) = self.shared.packages.get(manifest) {
            return Arc::clone(known);
        }
        let Ok(mut tree) = Tree::open(self.tree.top()) else {
            return Arc::new(Packages::unknown(0));
        };
        let packages = Arc::new(Packages::of(&mut tree, manifest));
        self.shared.effort += packages.effort() + tree.effort();
        let known = Arc::clone(&packages);
        self.shared.packages.insert(manifest, known);
        packages
    }

    /// Covers the files of a directory that have certain names.
    fn all_of(&mut self, below: &Path, is_named: impl Fn(&Path) -> bool) -> Result<(), Gap> {
        // direct: names alone; contents are opened below the open top.
        let listed = fs::read_dir(self.tree.top().join(below)).and_then(|entries| {
            let names = entries.map(|entry| entry.map(|entry| PathBuf::from(entry.file_name())));
            names.take(MAX_NAMES + 1).collect::<io::Result<Vec<_>>>()
        });
        let names = match listed {
            Ok(names) if names.len() <= MAX_NAMES => names,
            Ok(_) => {
                let why = format!("more than {MAX_NAMES} names");
                return self.unknown(Loads::Code.name(below), why);
            }
            Err(error) if members::is_gone(&error) => return Ok(()),
            Err(error) => {
                return self.unknown(Loads::Code.name(below), error.kind().to_string());
            }
        };
        for name in names.iter().filter(|name| is_named(name)) {
            match self.tree.find(below, name) {
                Some(Entry::File(below)) => self.cover(below)?,
                Some(Entry::Closed(below, why)) => self.insert(below, why)?,
                Some(Entry::Directory(_)) | None => {}
            }
        }
        Ok(())
    }

    /// Covers the manifests and lock files in the directories of the server, and in all directories above them.
    fn manifests(&mut self, program: &str, words: &[&str]) -> Result<(), Gap> {
        let starts = std::mem::take(&mut self.starts);
        let directories = starts.iter().flat_map(|start| start.ancestors());
        let directories: BTreeSet<&Path> = directories.collect();
        let names = build_files(program, words);
        let rules = build_file_rules(words);
        for directory in directories {
            for name in &names {
                match self.tree.find(directory, Path::new(name)) {
                    Some(Entry::File(below)) => self.cover(below)?,
                    Some(Entry::Closed(below, why)) => self.insert(below, why)?,
                    Some(Entry::Directory(_)) | None => {}
                }
            }
            if !rules.is_empty() {
                self.all_of(directory, |name| rules.iter().any(|rule| rule(name)))?;
            }
            if self.tree.is_exhausted() {
                return Err(Gap::Paths);
            }
        }
        Ok(())
    }
}

/// Returns whether the value of a variable may have program text or a pattern in it. Programs read JSON as data, and
/// secrets and data have any characters, unless the name is that of a variable that decides what a program loads.
fn may_be_program(name: &str, value: &str) -> bool {
    let is_json = || {
        let parsed = || serde_json::from_str::<serde_json::Value>(value);
        value.starts_with(['{', '[']) && parsed().is_ok()
    };
    let is_data = || names_data(name) || is_secret_name(name) || is_json();
    !is_plain(value) && (loads_code(name) || !is_data())
}

fn parent(below: &Path) -> PathBuf {
    below.parent().map(Path::to_owned).unwrap_or_default()
}

#[cfg(test)]
mod tests;
