//! Files that the command line of an agent names: shown to a person before an agreement, and compared with the agreed
//! ones before each start.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use orchestra_fs::{Code, CodePaths, Content, Entry, Tree, Unlisted, parts};

use super::{PRIVATE_DIRECTORY, Profile};

/// Number of paths that are not looked up in the workspace: where the agent starts, the same texts may need more, for
/// example for manifests.
const RESERVED_PATHS: usize = Tree::MAX_PATHS / 10;

/// Line for a command line that does not tell its files.
const UNCLEAR: &str = "other files: Orchestra cannot tell which files this command runs";

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
}

/// Text that may name entries.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Text {
    /// Directory from which classes and modules are loaded by their names.
    Code(String),
    /// Part of a word.
    Part(String),
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
    #[error("the file `{0}` there differs from the file that you approved in the workspace")]
    Path(String),
    /// The code in a directory is not all known, in one of both. It is never known to be the same.
    #[error("the code in `{0}` cannot be compared: {1}")]
    Uncompared(String, Unlisted),
    /// The files that the command lines may run are known in the workspace alone.
    #[error("Orchestra can no longer tell which files the command line runs there")]
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
        let (all, is_unclear) = texts_of(profile);
        let mut covered = Self {
            is_unclear,
            ..Self::default()
        };
        if let Some(program) = program
            && let Some(target) = find(&mut tree, program)
        {
            covered.named.insert(program.to_owned(), target);
        }
        let mut known = BTreeSet::new();
        for (at, text) in all.iter().enumerate() {
            if !known.insert(text) {
                continue;
            }
            let (found, is_unclear) = text.entries(&mut tree);
            if at >= limit || tree.paths_left() <= reserved {
                covered.cut = Some(at);
                break;
            }
            covered.named.extend(found);
            covered.is_unclear |= is_unclear;
        }
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
        lines.chain(unclear).chain(cut).collect()
    }

    /// Returns a difference from the `agreed` directory. Absolute paths lead to the same entry from each directory, and a
    /// path that leads nowhere runs nothing.
    pub(crate) fn difference(&self, agreed: &Self) -> Option<Difference> {
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

/// Texts of a profile, and whether there may be further ones. Directories of code come first, then the parts of words,
/// those of the words with the fewest parts first. Words with blanks come last: most of them are prompts.
fn texts_of(profile: &Profile) -> (Vec<Text>, bool) {
    let text = profile.text();
    let groups = text
        .arguments
        .iter()
        .chain(text.resume_arguments.iter().flatten());
    let probe = &text.probe;
    let words: Vec<&String> = groups
        .chain([&probe.version, &probe.help, &probe.models])
        .flatten()
        .chain(text.variables.values())
        .collect();
    let line = std::iter::once(&text.program).chain(words.iter().copied());
    let mut code = vec![CodePaths::of(line.map(String::as_str))];
    let variables = text.variables.iter();
    code.extend(variables.map(|(name, value)| CodePaths::of_variable(name, value)));
    let mut is_unclear = code.iter().any(|found| found.is_unclear);
    let paths = code.iter().flat_map(|found| &found.paths);
    let paths = paths.flat_map(|path| texts(path));
    let mut all: Vec<Text> = paths.map(Text::Code).collect();
    let mut ordered = Vec::new();
    for text in words.iter().flat_map(|word| texts(word)) {
        let found = parts(&text);
        is_unclear |= found.is_cut;
        let pieces = text.split_whitespace().filter_map(attached);
        let pieces = pieces.map(str::to_owned);
        let parts: Vec<String> = found.words.into_iter().chain(pieces).collect();
        ordered.push((text.contains(char::is_whitespace), parts));
    }
    ordered.sort_by_key(|(has_blanks, parts)| (*has_blanks, parts.len()));
    let parts = ordered.into_iter().flat_map(|(_, parts)| parts);
    all.extend(parts.map(Text::Part));
    (all, is_unclear)
}

impl Text {
    /// Returns the entries that the text names, and whether there may be further ones.
    fn entries(&self, tree: &mut Tree) -> (Vec<(PathBuf, Target)>, bool) {
        match self {
            Self::Code(path) => (code(tree, Path::new(path)).into_iter().collect(), false),
            Self::Part(part) => {
                let candidates = tree.candidates(Path::new(""), Path::new(part));
                let paths = candidates.paths.into_iter().chain(candidates.manifests);
                let found = paths.filter_map(|path| {
                    let target = find(tree, &path)?;
                    Some((path, target))
                });
                (found.collect(), candidates.is_unclear)
            }
        }
    }
}

/// Returns the code in a directory from which classes and modules are loaded by their names.
fn code(tree: &mut Tree, path: &Path) -> Option<(PathBuf, Target)> {
    let Some(Entry::Directory(below)) = tree.find(Path::new(""), path) else {
        return None;
    };
    let target = match tree.code(&below) {
        Code::Content(content) => Target::File(below, content),
        Code::Unknown(why) => Target::Uncompared(why),
        Code::None => return None,
    };
    // Apart from the directory itself, which may have no code elsewhere.
    Some((path.join("*"), target))
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
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

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

    /// Difference between a directory where an agent starts and the agreed workspace.
    fn difference_at_start(
        profile: &Profile,
        here: &tempfile::TempDir,
        agreed: &tempfile::TempDir,
    ) -> Option<Difference> {
        let agreed = Covered::of(None, profile, agreed.path()).unwrap();
        let here = agreed.at_start(None, profile, here.path()).unwrap();
        here.difference(&agreed)
    }

    #[test]
    fn file_of_an_option_behind_a_long_prompt_is_compared() {
        let [workspace, worktree] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let prompt: Vec<String> = (0..700).map(|at| format!("w{at}")).collect();
        let prompt = prompt.join(" ");
        let option = "--append-system-prompt";
        let agent = profile(
            "agent",
            &[option, &prompt, "--mcp-config=./agent.json", "{prompt}"],
        );
        for top in [&workspace, &worktree] {
            fs::write(top.path().join("agent.json"), "agreed").unwrap();
            // Files of the last words are not looked up.
            for at in 600..700 {
                let path = top.path().join(format!("w{at}"));
                fs::write(path, top.path().to_str().unwrap()).unwrap();
            }
        }
        // Without it, more paths are looked up.
        fs::write(workspace.path().join("package.json"), "{}").unwrap();
        let lines = Covered::of(None, &agent, workspace.path()).unwrap().lines();
        assert!(lines[0].starts_with("agent.json (SHA-256 "), "{lines:?}");
        assert_eq!(lines[1..], [CUT]);
        assert_eq!(difference_at_start(&agent, &worktree, &workspace), None);
        fs::write(worktree.path().join("agent.json"), "other").unwrap();
        let differs = Some(Difference::Path("./agent.json".to_owned()));
        assert_eq!(difference_at_start(&agent, &worktree, &workspace), differs);
        // A long path counts twice, so that fewer are looked up than in the workspace.
        let far = ["n".repeat(200), "n".repeat(200), "n".repeat(200)].join("/");
        let far = worktree.path().join(far);
        fs::create_dir_all(&far).unwrap();
        let far = tempfile::tempdir_in(far).unwrap();
        let unclear = Some(Difference::Unclear);
        assert_eq!(difference_at_start(&agent, &far, &workspace), unclear);
    }

    #[test]
    fn code_beside_a_closed_directory_and_many_other_files_is_compared() {
        let [workspace, worktree] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let other = workspace.path().join("node_modules");
        fs::create_dir(&other).unwrap();
        for number in 0..50_001 {
            fs::File::create(other.join(number.to_string())).unwrap();
        }
        let closed = workspace.path().join("pgdata");
        fs::create_dir(&closed).unwrap();
        let mode = |mode| fs::set_permissions(&closed, fs::Permissions::from_mode(mode));
        mode(0).unwrap();
        for top in [&workspace, &worktree] {
            fs::write(top.path().join("agent.go"), "agreed").unwrap();
        }
        let go = profile("go", &["run", ".", "{prompt}"]);
        assert_eq!(difference_at_start(&go, &worktree, &workspace), None);
        fs::write(worktree.path().join("agent.go"), "other").unwrap();
        let differs = Some(Difference::Path("./*".to_owned()));
        assert_eq!(difference_at_start(&go, &worktree, &workspace), differs);
        mode(0o700).unwrap();
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
        let too_much = Some(Difference::Uncompared("classes/*".into(), Unlisted::Files));
        assert_eq!(of(&few).difference(&of(&few)), None);
        for (here, agreed) in [(&many, &few), (&few, &many), (&many, &many)] {
            assert_eq!(of(here).difference(&of(agreed)), too_much);
        }
        let line =
            "classes/* (not compared: more than 4096 files of code; the agent is not started)";
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
