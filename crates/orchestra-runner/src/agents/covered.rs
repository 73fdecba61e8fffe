//! Files that the command line of an agent names: shown to a person before an agreement, and compared with the agreed
//! ones before each start.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use orchestra_fs::{
    Code, CodePaths, Content, Entry, Loads, Tree, Unlisted, command_words, is_unclear,
    known_build_files, node_packages, parts, preloaded_modules, shell_lines, shell_words,
    spellings,
};
use orchestra_plan::work::Effort;

use super::{PRIVATE_DIRECTORY, Profile, ProfileText};

/// Number of paths that are not looked up in the workspace: where the agent starts, the same texts may need more, for
/// example for manifests.
const RESERVED_PATHS: usize = Tree::MAX_PATHS / 10;

/// Maximum number of directories in which files are looked for.
const MAX_DIRECTORIES: usize = 16;

/// Maximum number of parts of words that may name such directories.
const MAX_PARTS: usize = 256;

/// Placeholders whose values a profile names.
const MODEL: &str = "{model}";
const EFFORT: &str = "{effort}";

/// Maximum number of command lines with the values of these placeholders.
const MAX_LINES: usize = 64;

/// Line for a command line that does not tell its files.
const UNCLEAR: &str = "other files: Orchestra cannot tell which files this command runs";

/// Line for a path that leads to another file in each process.
const PROCESS: &str = "other files: a path contains a link such as /proc/self/cwd, which leads to another file in \
                       each process; the agent is not started";

/// Line for a command line with too many words.
const CUT: &str = "other files: the command line has more words than Orchestra looks up";

/// Entries that the command lines and the variables of a profile name, its program included, as they are in one
/// directory. Files that these load by themselves are not among them.
#[derive(Debug, Default)]
pub(crate) struct Covered {
    named: BTreeMap<PathBuf, Target>,
    /// Whether the command lines may run files that are not among them.
    is_unclear: bool,
    /// Number of texts whose entries are among them, where there are more texts than are looked up.
    cut: Option<usize>,
    /// Whether a path leads to another file in each process.
    has_process_link: bool,
}

/// Text that may name entries.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Text {
    /// Directory whose files run without being named.
    Code(Loads, String),
    /// Package that is run by its name.
    Package(String),
    /// Module of a package that is loaded by its name.
    Module(String),
    /// Part of a word of a command or a variable.
    Part(String),
    /// Part of another text, such as a prompt.
    Prompt(String),
}

/// Texts of a profile that may name entries.
#[derive(Debug, Default)]
struct Texts {
    /// Packages and directories of code come first, then the parts of words, those of the words with the fewest parts
    /// first. Words with blanks come last: most of them are prompts.
    all: Vec<Text>,
    /// Names of files that the programs of the command lines read.
    build_files: BTreeSet<&'static str>,
    /// Whether the command lines may run files that the texts do not name.
    is_unclear: bool,
}

/// Entry to which a path leads.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// A file or what cannot be read, by its path below the directory.
    File(PathBuf, Content),
    /// A directory with files of code that are not all known.
    Uncompared(Unlisted),
    /// A directory.
    Directory,
    /// An entry outside of the directory, or a socket, pipe or device.
    Other(PathBuf),
}

/// Difference between the files in the directory where an agent starts and the files that the user agreed to.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Difference {
    /// A path leads to something else.
    #[error("the file `{0}` differs from the file that you approved in the workspace")]
    Path(String),
    /// The code in a directory is not all known, in one of both. It is never known to be the same.
    #[error("the code in `{0}` cannot be compared with the code that you approved: {1}")]
    Uncompared(String, Unlisted),
    /// A path leads to another file in each process.
    #[error(
        "a path of the command line goes through a link such as /proc/self/cwd, which leads to another file in each \
         process; name the file without the link"
    )]
    Process,
    /// The files that the command lines may run are known in the workspace alone.
    #[error(
        "Orchestra can no longer determine which files the command line runs in that directory"
    )]
    Unclear,
}

impl Covered {
    /// Reads the entries in the workspace.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub(crate) fn of(
        program: Option<&Path>,
        profile: &Profile,
        workspace: &Path,
    ) -> orchestra_fs::Result<Self> {
        Self::read(program, profile, workspace, usize::MAX, RESERVED_PATHS)
    }

    /// Reads the entries in the directory where the agent starts, as far as they are known in the workspace.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub(crate) fn at_start(
        &self,
        program: Option<&Path>,
        profile: &Profile,
        directory: &Path,
    ) -> orchestra_fs::Result<Self> {
        let limit = self.cut.unwrap_or(usize::MAX);
        Self::read(program, profile, directory, limit, 0)
    }

    /// Reads the entries of at most `limit` texts, until only the reserved paths may still be looked up.
    fn read(
        program: Option<&Path>,
        profile: &Profile,
        directory: &Path,
        limit: usize,
        reserved: usize,
    ) -> orchestra_fs::Result<Self> {
        let mut tree = Tree::open(directory)?;
        let texts = Texts::of(profile);
        let (bases, is_complete) = bases(&mut tree, &texts.all);
        let mut covered = Self {
            is_unclear: texts.is_unclear || !is_complete,
            ..Self::default()
        };
        if let Some(program) = program
            && let Some(target) = find(&mut tree, program)
        {
            covered.named.insert(program.to_owned(), target);
        }
        let directories: BTreeSet<&Path> = bases.iter().flat_map(|base| base.ancestors()).collect();
        for directory in directories {
            let paths = texts.build_files.iter().map(|name| directory.join(name));
            let found = paths.filter_map(|path| Some((path.clone(), find(&mut tree, &path)?)));
            covered.named.extend(found);
        }
        let mut known = BTreeSet::new();
        for (at, text) in texts.all.iter().enumerate() {
            if !known.insert(text) {
                continue;
            }
            let (found, is_unclear) = text.entries(&mut tree, &bases);
            if at >= limit || tree.paths_left() <= reserved {
                covered.cut = Some(at);
                break;
            }
            covered.named.extend(found);
            covered.is_unclear |= is_unclear;
        }
        covered.has_process_link = tree.has_process_link();
        Ok(covered)
    }

    /// A line for each file, with the SHA-256 of its content.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self
            .named
            .iter()
            .filter_map(|(named, target)| match target {
                Target::File(path, content) => Some((path, shown(content))),
                Target::Uncompared(why) => Some((
                    named,
                    format!("not compared: {why}; the agent is not started"),
                )),
                Target::Directory | Target::Other(_) => None,
            });
        let lines: BTreeMap<&PathBuf, String> = lines.collect();
        let lines = lines.into_iter();
        let lines = lines.map(|(path, content)| format!("{} ({content})", path_text(path)));
        let unclear = self.is_unclear.then(|| UNCLEAR.to_owned());
        let cut = self.cut.map(|_| CUT.to_owned());
        let process = self.has_process_link.then(|| PROCESS.to_owned());
        lines.chain(unclear).chain(cut).chain(process).collect()
    }

    /// Returns a difference from the `agreed` directory. Absolute paths lead to the same entry from each directory, and a
    /// path that leads nowhere runs nothing.
    pub(crate) fn difference(&self, agreed: &Self) -> Option<Difference> {
        if self.has_process_link || agreed.has_process_link {
            return Some(Difference::Process);
        }
        for (path, target) in self.named.iter().chain(&agreed.named) {
            if let Target::Uncompared(why) = target {
                return Some(Difference::Uncompared(path_text(path), why.clone()));
            }
        }
        let mut here = self.named.iter().filter(|(path, _)| path.is_relative());
        if let Some((path, _)) =
            here.find(|(path, target)| agreed.named.get(*path) != Some(*target))
        {
            return Some(Difference::Path(path_text(path)));
        }
        let is_unclear = self.is_unclear && !agreed.is_unclear || self.cut != agreed.cut;
        is_unclear.then_some(Difference::Unclear)
    }
}

impl Texts {
    fn of(profile: &Profile) -> Self {
        let text = profile.text();
        let groups = text
            .arguments
            .iter()
            .chain(text.resume_arguments.iter().flatten());
        let probe = &text.probe;
        let words: Vec<&String> = groups
            .chain([&probe.version, &probe.help, &probe.models])
            .flatten()
            .collect();
        let mut texts = Self {
            is_unclear: profile.is_open(),
            ..Self::default()
        };
        let options = text.variables.iter();
        let options = options.filter(|(name, _)| name.ends_with("OPTIONS"));
        for (_, value) in options {
            let words: Vec<&str> = shell_words(value).collect();
            texts.all.extend(modules(&words));
        }
        let variables = text.variables.iter();
        let mut code: Vec<CodePaths> = variables
            .map(|(name, value)| CodePaths::of_variable(name, &filled(value)))
            .collect();
        let mut whole = Vec::new();
        let mut shell = BTreeSet::new();
        let lines = lines(text, &words);
        texts.is_unclear |= lines.len() > MAX_LINES;
        let lines = lines.get(..MAX_LINES).unwrap_or(&lines);
        for words in lines {
            let line: Vec<String> = std::iter::once(&text.program)
                .chain(words)
                .map(|word| filled(word))
                .collect();
            let line: Vec<&str> = line.iter().map(String::as_str).collect();
            let commands = command_words(&line);
            code.push(CodePaths::of(commands.iter().copied()));
            // A word with blanks that is no line of a known shell may be a line all the same, or a prompt.
            whole.extend(CodePaths::of(line.iter().copied()).paths);
            texts.build_files.extend(known_build_files(&commands));
            let packages = node_packages(&commands).into_iter().map(Text::Package);
            texts.all.extend(packages);
            texts.all.extend(modules(&commands));
            texts.is_unclear |= is_unclear(line.iter().copied());
            let lines = shell_lines(line.iter().copied()).into_iter();
            shell.extend(lines.map(str::to_owned));
        }
        texts.is_unclear |= code.iter().any(|found| found.is_unclear);
        let whole = whole.into_iter();
        let whole = whole.filter(|(loads, _)| *loads == Loads::Code);
        let paths = code.into_iter().flat_map(|found| found.paths).chain(whole);
        let paths: BTreeSet<(Loads, String)> = paths.collect();
        let paths = paths
            .into_iter()
            .map(|(loads, path)| Text::Code(loads, path));
        texts.all.extend(paths);
        let mut ordered = Vec::new();
        let mut known = BTreeSet::new();
        let words = lines.iter().flatten().filter(|word| known.insert(*word));
        let words = words.map(|word| (word, false));
        let variables = text.variables.values().map(|value| (value, true));
        for (word, is_variable) in words.chain(variables) {
            let filled = filled(word);
            let has_blanks = word.contains(char::is_whitespace);
            let is_command = is_variable || !has_blanks || shell.contains(&*filled);
            for text in self::texts(word) {
                let found = parts(&text);
                texts.is_unclear |= found.is_cut;
                let pieces = text.split_whitespace().filter_map(attached);
                let pieces = pieces.map(str::to_owned);
                let parts = found.words.into_iter().chain(pieces);
                let parts: Vec<Text> = match is_command {
                    true => parts.map(Text::Part).collect(),
                    false => parts.map(Text::Prompt).collect(),
                };
                ordered.push((has_blanks, parts));
            }
        }
        orchestra_sort::sort_by_key(&mut ordered, |(has_blanks, parts)| {
            (*has_blanks, parts.len())
        });
        let parts = ordered.into_iter().flat_map(|(_, parts)| parts);
        texts.all.extend(parts);
        texts
    }
}

/// Modules that the options among words load.
fn modules<'w>(words: &[&'w str]) -> impl Iterator<Item = Text> + use<'w> {
    let modules = preloaded_modules(words).into_iter();
    modules.map(|module| Text::Module(module.to_owned()))
}

/// Returns the directories from which the paths of a command line may start, by their paths below the top: the top, and
/// the directories that the command line or a variable names. The result has `false` where there are too many.
fn bases(tree: &mut Tree, texts: &[Text]) -> (Vec<PathBuf>, bool) {
    let mut bases = vec![PathBuf::new()];
    let parts = texts.iter().filter_map(|text| match text {
        Text::Part(part) => Some(part),
        Text::Code(..) | Text::Package(_) | Text::Module(_) | Text::Prompt(_) => None,
    });
    let parts: BTreeSet<&String> = parts.collect();
    let is_complete = parts.len() <= MAX_PARTS;
    let few = || parts.iter().take(MAX_PARTS);
    // A word may name a directory below that of another one, in any order.
    for part in few().rev().chain(few()) {
        for base in bases.clone() {
            for path in spellings(part) {
                let Some(Entry::Directory(below)) = tree.find(&base, Path::new(&path)) else {
                    continue;
                };
                if bases.contains(&below) {
                    continue;
                }
                if bases.len() >= MAX_DIRECTORIES {
                    return (bases, false);
                }
                bases.push(below);
            }
        }
    }
    (bases, is_complete)
}

impl Text {
    /// Returns the entries that the text names, as seen from each directory, and whether there may be further ones.
    fn entries(&self, tree: &mut Tree, bases: &[PathBuf]) -> (Vec<(PathBuf, Target)>, bool) {
        let (mut found, mut is_unclear) = (Vec::new(), false);
        for base in bases {
            match self {
                Self::Code(loads, path) => {
                    let Some(below) = tree.code_directory(*loads, base, Path::new(path)) else {
                        continue;
                    };
                    is_unclear |= *loads == Loads::Home;
                    found.extend(code(tree, *loads, &below, &base.join(path)));
                }
                Self::Package(name) | Self::Module(name) => {
                    let files = match self {
                        Self::Package(_) => tree.package(base, name),
                        _ => tree.module(base, name),
                    };
                    is_unclear |= files.is_unclear;
                    for path in files.paths.into_iter().chain(files.manifests) {
                        let target = find(tree, &path);
                        found.extend(target.map(|target| (path, target)));
                    }
                }
                Self::Part(part) | Self::Prompt(part) => {
                    let candidates = tree.candidates(base, Path::new(part));
                    is_unclear |= candidates.is_unclear;
                    let paths = candidates.paths.into_iter().chain(candidates.manifests);
                    for path in paths.map(|path| base.join(path)) {
                        let path = path
                            .strip_prefix(tree.top())
                            .map_or(path.clone(), Path::to_owned);
                        let target = find(tree, &path);
                        found.extend(target.map(|target| (path, target)));
                    }
                }
            }
            if matches!(self, Self::Prompt(_)) {
                break;
            }
        }
        (found, is_unclear)
    }
}

/// Returns the files of a directory that run without being named.
fn code(tree: &mut Tree, loads: Loads, below: &Path, named: &Path) -> Option<(PathBuf, Target)> {
    let target = match tree.code(loads, below) {
        Code::Content(content) => Target::File(loads.name(below), content),
        Code::Unknown(why) => Target::Uncompared(why),
        Code::None => return None,
    };
    // Apart from the directory itself, which may have no code elsewhere.
    let name = match loads {
        Loads::Code | Loads::Module => named.join("*"),
        _ => loads.name(named),
    };
    Some((name, target))
}

fn shown(content: &Content) -> String {
    match content {
        Content::Digest(digest) => format!("SHA-256 {digest}"),
        Content::Long(changed) => format!("too long to be read: {changed}"),
        Content::Outside(target) => format!("leads out of the workspace, to {}", path_text(target)),
        Content::Unreadable(why) => format!("cannot be read: {why}"),
    }
}

/// Command lines that words of a template may become with the models and the efforts that the profile names, each value
/// in one of them. The first one has the placeholders.
fn lines(text: &ProfileText, words: &[&String]) -> Vec<Vec<String>> {
    let models: Vec<&str> = text.models.all().map(String::as_str).collect();
    let efforts = match &text.efforts[..] {
        [] => Effort::ALL,
        efforts => efforts,
    };
    let efforts: Vec<&str> = efforts.iter().map(|effort| effort.as_str()).collect();
    let has = |name: &str| words.iter().any(|word| word.contains(name));
    let used = |name: &str, values: usize| if has(name) { values } else { 0 };
    let count = used(MODEL, models.len()).max(used(EFFORT, efforts.len()));
    let value = |values: &[&str], at: usize, name: &str| match values.len() {
        0 => name.to_owned(),
        count => values[at % count].to_owned(),
    };
    let written: Vec<String> = words.iter().map(|word| (*word).clone()).collect();
    let filled = (0..count).map(|at| {
        let (model, effort) = (value(&models, at, MODEL), value(&efforts, at, EFFORT));
        let words = words.iter();
        let words = words.map(|word| word.replace(MODEL, &model).replace(EFFORT, &effort));
        words.collect::<Vec<String>>()
    });
    std::iter::once(written).chain(filled).collect()
}

/// Texts that a word of a template may become: without the mark of an optional group and the escapes of braces, and
/// with the directories that its placeholders name.
fn texts(word: &str) -> BTreeSet<String> {
    let plain = |text: &str| text.replace("{{", "{").replace("}}", "}");
    let filled = filled(word);
    let word = word.strip_prefix('?').unwrap_or(word);
    BTreeSet::from([word.to_owned(), plain(word), plain(&filled)])
}

/// Returns a word of a template with the directories that its placeholders name.
fn filled(word: &str) -> String {
    let word = word.strip_prefix('?').unwrap_or(word);
    let private = format!("{PRIVATE_DIRECTORY}/agent/");
    word.replace("{worktree}", ".")
        .replace("{private}/", &private)
}

/// The value that is attached to a short option, as in `-mserver`.
fn attached(word: &str) -> Option<&str> {
    let option = word.strip_prefix('-')?;
    let (at, _) = option.char_indices().nth(1)?;
    (!option.starts_with('-')).then_some(&option[at..])
}

fn find(tree: &mut Tree, path: &Path) -> Option<Target> {
    match tree.find(Path::new(""), path) {
        Some(Entry::File(below)) => {
            let content = tree.content(&below);
            Some(Target::File(below, content))
        }
        Some(Entry::Closed(below, why)) => Some(Target::File(below, why)),
        Some(Entry::Directory(_)) => Some(Target::Directory),
        None if tree.is_exhausted() => None,
        None => {
            let found = tree.top().join(path).canonicalize().ok()?;
            match found.is_dir() {
                true => Some(Target::Directory),
                false => Some(Target::Other(found)),
            }
        }
    }
}

/// A path as text. Those that are not UTF-8 are escaped, so that two paths never have the same text.
fn path_text(path: &Path) -> String {
    path.to_str()
        .map_or_else(|| format!("{path:?}"), str::to_owned)
}

#[cfg(test)]
mod tests;
