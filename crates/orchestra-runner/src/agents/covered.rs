//! Files that the command line of an agent names: shown to a person before an agreement, and compared with the agreed
//! ones before each start.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use orchestra_fs::{Code, CodePaths, Content, Entry, Tree, parts};

use super::{PRIVATE_DIRECTORY, Profile};

/// Text for a directory whose code is never known to be the agreed one.
const TOO_MUCH: &str = "more code than is compared: the agent is not started";

/// Line for a command line that does not tell its files.
const UNCLEAR: &str = "other files: Orchestra cannot tell which files this command runs";

/// Entries that the command lines and the variables of a profile name, its program included, as they are in one
/// directory. Files that these load by themselves are not among them.
#[derive(Debug, Default)]
pub(crate) struct Covered {
    named: BTreeMap<PathBuf, Target>,
    /// Whether the command lines may run files that are not among them.
    is_unclear: bool,
}

/// Entry to which a path leads.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// A file or what cannot be read, by its path below the directory.
    File(PathBuf, Content),
    /// More code below a directory than is read.
    TooMuch,
    /// A directory.
    Directory,
    /// An entry outside of the directory, or a socket, pipe or device.
    Other(PathBuf),
}

/// Difference between the files in the directory where an agent starts and those that the user agreed to.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Difference {
    /// A path leads to something else.
    #[error("the file `{0}` there differs from the file that you approved in the workspace")]
    Path(String),
    /// A path leads to more code than is read, in one of both. It is never known to be the same.
    #[error("`{0}` has more code than is compared")]
    TooMuch(String),
    /// The files that the command lines may run are known in the workspace alone.
    #[error("Orchestra can no longer tell which files the command line runs there")]
    Unclear,
}

impl Covered {
    /// Reads the entries in a directory.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub(crate) fn of(
        program: Option<&Path>,
        profile: &Profile,
        directory: &Path,
    ) -> orchestra_fs::Result<Self> {
        let mut tree = Tree::open(directory)?;
        let text = profile.text();
        let groups = text
            .arguments
            .iter()
            .chain(text.resume_arguments.iter().flatten());
        let probe = &text.probe;
        let words = groups
            .chain([&probe.version, &probe.help, &probe.models])
            .flatten()
            .chain(text.variables.values());
        let mut covered = Self::default();
        if let Some(program) = program {
            covered.put(&mut tree, program.to_owned());
        }
        let program = text.program.as_str();
        let mut line = vec![program];
        let words: Vec<&String> = words.collect();
        line.extend(words.iter().map(|word| word.as_str()));
        for word in &words {
            for text in texts(word) {
                let pieces = text.split_whitespace().filter_map(attached);
                let pieces = pieces.map(str::to_owned);
                let found = parts(&text);
                covered.is_unclear |= found.is_cut;
                for part in found.words.into_iter().chain(pieces) {
                    let candidates = tree.candidates(Path::new(""), Path::new(&part));
                    covered.is_unclear |= candidates.is_unclear;
                    for path in candidates.paths.into_iter().chain(candidates.manifests) {
                        covered.put(&mut tree, path);
                    }
                }
            }
        }
        covered.code(&mut tree, &CodePaths::of(line));
        for (name, value) in &text.variables {
            covered.code(&mut tree, &CodePaths::of_variable(name, value));
        }
        covered.is_unclear |= tree.is_exhausted();
        Ok(covered)
    }

    fn put(&mut self, tree: &mut Tree, path: PathBuf) {
        if let Some(target) = find(tree, &path) {
            self.named.insert(path, target);
        }
    }

    /// Adds the code in the directories from which classes and modules are loaded by their names.
    fn code(&mut self, tree: &mut Tree, found: &CodePaths) {
        self.is_unclear |= found.is_unclear;
        for path in found.paths.iter().flat_map(|path| texts(path)) {
            let path = Path::new(&path);
            let Some(Entry::Directory(below)) = tree.find(Path::new(""), path) else {
                continue;
            };
            let target = match tree.code(&below) {
                Code::Content(content) => Target::File(below, content),
                Code::TooMuch => Target::TooMuch,
                Code::None => continue,
            };
            // Apart from the directory itself, which may have no code elsewhere.
            self.named.insert(path.join("*"), target);
        }
    }

    /// A line for each file, with the SHA-256 of its content.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self
            .named
            .iter()
            .filter_map(|(named, target)| match target {
                Target::File(path, content) => Some((path, shown(content))),
                Target::TooMuch => Some((named, TOO_MUCH.to_owned())),
                Target::Directory | Target::Other(_) => None,
            });
        let lines: BTreeMap<&PathBuf, String> = lines.collect();
        let lines = lines.into_iter();
        let lines = lines.map(|(path, content)| format!("{} ({content})", path_text(path)));
        let unclear = self.is_unclear.then(|| UNCLEAR.to_owned());
        lines.chain(unclear).collect()
    }

    /// Returns a difference from the `agreed` directory. Absolute paths lead to the same entry from each directory, and a
    /// path that leads nowhere runs nothing.
    pub(crate) fn difference(&self, agreed: &Self) -> Option<Difference> {
        let mut all = self.named.iter().chain(&agreed.named);
        if let Some((path, _)) = all.find(|(_, target)| **target == Target::TooMuch) {
            return Some(Difference::TooMuch(path_text(path)));
        }
        let mut here = self.named.iter().filter(|(path, _)| path.is_relative());
        if let Some((path, _)) =
            here.find(|(path, target)| agreed.named.get(*path) != Some(*target))
        {
            return Some(Difference::Path(path_text(path)));
        }
        (self.is_unclear && !agreed.is_unclear).then_some(Difference::Unclear)
    }
}

fn shown(content: &Content) -> String {
    match content {
        Content::Digest(digest) => format!("SHA-256 {digest}"),
        Content::Long(changed) => format!("too long to be read: {changed}"),
        Content::Outside(target) => format!("leads out of the workspace, to {}", path_text(target)),
        Content::Unreadable(why) => format!("cannot be read: {why}"),
    }
}

/// Texts that a word of a template may become: without the mark of an optional group and the escapes of braces, and
/// with the directories that its placeholders name.
fn texts(word: &str) -> BTreeSet<String> {
    let plain = |text: &str| text.replace("{{", "{").replace("}}", "}");
    let word = word.strip_prefix('?').unwrap_or(word);
    let private = format!("{PRIVATE_DIRECTORY}/agent/");
    let filled = word
        .replace("{worktree}", ".")
        .replace("{private}/", &private);
    BTreeSet::from([word.to_owned(), plain(word), plain(&filled)])
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
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn profile(program: &str, arguments: &[&str]) -> Profile {
        let text = serde_json::json!({"program": program, "arguments": [arguments]});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn files_of_an_agent_are_those_of_each_word_of_its_command_line() {
        let workspace = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        for name in ["rules", "run", "unnamed", "below", "{x}", "option"] {
            fs::write(workspace.path().join(name), "x").unwrap();
        }
        symlink(outside.path(), workspace.path().join("link")).unwrap();
        let line = [
            "?option",
            "cat rules|./run&link",
            "{worktree}/below",
            "{{x}}",
            "{prompt}",
        ];
        let profile = profile("sh", &line);
        let files = Covered::of(None, &profile, workspace.path())
            .unwrap()
            .lines();
        let [below, link, option, rules, run, braces] = &files[..] else {
            panic!("{files:?}");
        };
        // Another place that it leads to makes another digest.
        let target = outside.path().canonicalize().unwrap();
        let target = target.display().to_string();
        assert!(
            link.starts_with("link ") && link.contains(&target),
            "{link}"
        );
        assert!(below.starts_with("below (SHA-256 "), "{below}");
        assert!(option.starts_with("option (SHA-256 "), "{option}");
        assert!(braces.starts_with("{x} (SHA-256 "), "{braces}");
        assert!(rules.starts_with("rules (SHA-256 "), "{rules}");
        assert!(run.starts_with("run (SHA-256 "), "{run}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn program_of_an_agent_whose_path_is_not_utf_8_is_one_of_its_files() {
        use std::os::unix::ffi::OsStrExt as _;

        let workspace = tempfile::tempdir().unwrap();
        let name = std::ffi::OsStr::from_bytes(b"agent-\xff");
        let program = workspace.path().join(name);
        fs::write(&program, "x").unwrap();
        let profile = profile("agent", &["{prompt}"]);
        let files = Covered::of(Some(&program), &profile, workspace.path())
            .unwrap()
            .lines();
        assert_eq!(files.len(), 1, "{files:?}");
        assert!(
            files[0].starts_with(r#""agent-\xFF" (SHA-256 "#),
            "{files:?}"
        );
    }

    #[test]
    fn modules_and_values_of_short_options_are_files_of_an_agent() {
        let workspace = tempfile::tempdir().unwrap();
        fs::create_dir_all(workspace.path().join("pkg/sub")).unwrap();
        let names = [
            "agent.py",
            "pkg/__init__.py",
            "pkg/sub/__main__.py",
            "prog.awk",
        ];
        for name in names.into_iter().chain(["pkg/other.py"]) {
            fs::write(workspace.path().join(name), "x").unwrap();
        }
        let line = ["-magent", "-m", "pkg.sub", "-fprog.awk", "{prompt}"];
        let covered = Covered::of(None, &profile("python3", &line), workspace.path()).unwrap();
        let lines = covered.lines();
        let found: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(found, names);
    }

    #[test]
    fn main_files_code_paths_and_spellings_are_files_of_an_agent() {
        let workspace = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("tool/package.json", r#"{"main": "lib/x"}"#),
            ("tool/lib/x.js", "x"),
            ("b.js", "x"),
            ("c.js", "x"),
            ("classes/x/Main.class", "x"),
        ] {
            let path = workspace.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        for (program, words, expected) in [
            (
                "node",
                &["tool"][..],
                &["tool/lib/x.js", "tool/package.json"][..],
            ),
            ("node", &["none/../b.js"], &["b.js"]),
            ("node", &["--import", "./%63.js"], &["c.js"]),
            (
                "java",
                &["-cp", "{worktree}/classes", "x.Main"],
                &["classes"],
            ),
        ] {
            let profile = profile(program, &[words, &["{prompt}"]].concat());
            let covered = Covered::of(None, &profile, workspace.path()).unwrap();
            let lines = covered.lines();
            let found = lines.iter().filter_map(|line| line.split(' ').next());
            assert_eq!(found.collect::<Vec<_>>(), expected, "{words:?}");
        }
        // The code is compared where the agent starts.
        let worktree = tempfile::tempdir().unwrap();
        let java = profile("java", &["-cp", "classes", "x.Main", "{prompt}"]);
        let of = |directory: &Path| Covered::of(None, &java, directory).unwrap();
        let difference = || of(worktree.path()).difference(&of(workspace.path()));
        assert_eq!(difference(), None);
        fs::create_dir_all(worktree.path().join("classes/x")).unwrap();
        assert_eq!(difference(), None);
        fs::write(worktree.path().join("classes/x/Main.class"), "other").unwrap();
        assert_eq!(difference(), Some(Difference::Path("classes/*".into())));
    }

    #[test]
    fn file_that_differs_where_an_agent_starts_is_named() {
        let workspace = tempfile::tempdir().unwrap();
        let worktree = tempfile::tempdir().unwrap();
        let profile = profile("python3", &["run.py", "--rules=rules.txt", "{prompt}"]);
        let difference = || {
            let of = |directory: &Path| Covered::of(None, &profile, directory).unwrap();
            of(worktree.path()).difference(&of(workspace.path()))
        };
        let differs = |path: &str| Some(Difference::Path(path.to_owned()));
        let put = |name: &str, content: &str| fs::write(worktree.path().join(name), content);
        fs::write(workspace.path().join("run.py"), "agreed").unwrap();
        fs::write(workspace.path().join("other.py"), "agreed").unwrap();
        put("other.py", "agreed").unwrap();
        // Missing files run nothing.
        assert_eq!(difference(), None);
        put("run.py", "agreed").unwrap();
        assert_eq!(difference(), None);
        put("rules.txt", "new").unwrap();
        assert_eq!(difference(), differs("rules.txt"));
        fs::remove_file(worktree.path().join("rules.txt")).unwrap();
        put("run.py", "other").unwrap();
        assert_eq!(difference(), differs("run.py"));
        let run = worktree.path().join("run.py");
        fs::remove_file(&run).unwrap();
        symlink("other.py", &run).unwrap();
        assert_eq!(difference(), differs("run.py"));
        fs::remove_file(&run).unwrap();
        // An interpreter starts `__main__.py` of a directory.
        fs::create_dir(&run).unwrap();
        assert_eq!(difference(), differs("run.py"));
    }

    #[test]
    fn more_code_than_is_read_differs_from_every_agreed_directory() {
        let [few, many] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for (workspace, count) in [(&few, 1), (&many, 4_097)] {
            let classes = workspace.path().join("classes");
            fs::create_dir(&classes).unwrap();
            for number in 0..count {
                fs::write(classes.join(format!("{number}.class")), "x").unwrap();
            }
        }
        let java = profile("java", &["-cp", "classes", "x.Main", "{prompt}"]);
        let of =
            |workspace: &tempfile::TempDir| Covered::of(None, &java, workspace.path()).unwrap();
        let too_much = Some(Difference::TooMuch("classes/*".into()));
        assert_eq!(of(&few).difference(&of(&few)), None);
        for (here, agreed) in [(&many, &few), (&few, &many), (&many, &many)] {
            assert_eq!(of(here).difference(&of(agreed)), too_much);
        }
        let line = "classes/* (more code than is compared: the agent is not started)";
        assert_eq!(of(&many).lines(), [line]);
    }

    #[test]
    fn command_whose_files_are_no_longer_known_where_an_agent_starts_differs() {
        let [workspace, worktree] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let npx = profile("npx", &["tool", "{prompt}"]);
        let difference = || {
            let of = |directory: &tempfile::TempDir| Covered::of(None, &npx, directory.path());
            of(&worktree).unwrap().difference(&of(&workspace).unwrap())
        };
        assert_eq!(difference(), None);
        fs::write(worktree.path().join("package.json"), "{").unwrap();
        assert_eq!(difference(), Some(Difference::Unclear));
        // The user has agreed to a command whose files are not known.
        fs::write(workspace.path().join("package.json"), "[").unwrap();
        assert_eq!(difference(), None);
    }
}
