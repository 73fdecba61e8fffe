//! Packages of a repository that a command line names as members, such as `npm -w server` and `cargo run -p server`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use orchestra_fs::{Entry, Tree};

use crate::runners::NODE_MODULES;

/// Maximum number of entries of directories that are looked at for manifests.
const MAX_ENTRIES: usize = 100_000;

/// Number of entries that take as long to be listed as a path to be looked up.
const ENTRIES: usize = 16;

/// Maximum number of bytes of a manifest.
const MAX_BYTES: u64 = 1024 * 1024;

/// Names of directories into which build tools write their output.
const OUTPUT: [&str; 4] = ["target", ".venv", "venv", ".tox"];

/// Name of the file that marks a directory as a cache. Build tools write it into their output.
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// Beginning of a file that marks a directory as a cache.
const CACHE_SIGNATURE: &str = "Signature: 8a477f597d28d172789f06886806bc55";

const NODE: &str = "package.json";
const PYTHON: &str = "pyproject.toml";
const RUST: &str = "Cargo.toml";

/// Programs that run a member.
struct Runner {
    programs: &'static [&'static str],
    manifest: &'static str,
    /// Words with a member as their value.
    options: &'static [&'static str],
    /// Words for all members.
    all: &'static [&'static str],
}

static RUNNERS: [Runner; 6] = [
    Runner {
        programs: &["npm", "npx"],
        manifest: NODE,
        options: &["-w", "--workspace"],
        all: &["-ws", "--workspaces"],
    },
    Runner {
        programs: &["pnpm", "pnpx", "turbo"],
        manifest: NODE,
        options: &["-F", "--filter", "--filter-prod"],
        all: &["-r", "--recursive"],
    },
    Runner {
        programs: &["bun", "bunx"],
        manifest: NODE,
        options: &["-F", "--filter"],
        all: &["--workspaces"],
    },
    Runner {
        programs: &["yarn"],
        manifest: NODE,
        options: &["workspace"],
        all: &["workspaces"],
    },
    Runner {
        programs: &["cargo"],
        manifest: RUST,
        options: &["-p", "--package"],
        all: &[],
    },
    Runner {
        programs: &["uv"],
        manifest: PYTHON,
        options: &["--package"],
        all: &[],
    },
];

/// Member that a command line names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Member<'l> {
    /// Its name, or its directory; `None` where the command line does not have one member by its text.
    pub(super) name: Option<&'l str>,
    /// Name of its manifest.
    pub(super) manifest: &'static str,
}

/// Returns the members that the [words](orchestra_fs::shell_words) of a command line name.
pub(super) fn of<'l>(words: &[&'l str]) -> Vec<Member<'l>> {
    let (mut members, mut runners) = (Vec::new(), Vec::<&Runner>::new());
    for (place, &word) in words.iter().enumerate() {
        if word == "--" {
            // The rest is for the program of the member.
            runners.clear();
        }
        for runner in &runners {
            let named = match runner.all.contains(&word) {
                true => Some(""),
                false => runner.value(word, words.get(place + 1).copied()),
            };
            members.extend(named.map(|named| Member {
                name: runner.member(named),
                manifest: runner.manifest,
            }));
        }
        let known = RUNNERS.iter();
        runners.extend(known.filter(|runner| has_program(&[word], runner.programs)));
    }
    members
}

/// Returns whether words have one of some programs among them.
pub(super) fn has_program(words: &[&str], programs: &[&str]) -> bool {
    let mut names = words.iter().filter_map(|word| word.rsplit('/').next());
    names.any(|name| programs.contains(&name))
}

impl Runner {
    /// Returns the value of a word that is an option for members.
    fn value<'l>(&self, word: &'l str, next: Option<&'l str>) -> Option<&'l str> {
        self.options.iter().find_map(|option| {
            if !option.starts_with('-') {
                return next.filter(|_| word == *option);
            }
            if !option.starts_with("--") {
                let rest = word.strip_prefix(option)?;
                return match rest.is_empty() {
                    true => next,
                    false => Some(rest.trim_start_matches('=')),
                };
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            // `npm` accepts the beginnings of its options.
            let is_option = name.len() > 2 && option.starts_with(name);
            value.or(next).filter(|_| is_option)
        })
    }

    /// Returns the member that the value of an option names.
    fn member<'l>(&self, value: &'l str) -> Option<&'l str> {
        let name = match self.manifest {
            // With its version.
            RUST => value.split(['@', ':']).next().unwrap_or(value),
            // With its dependencies.
            _ => value.trim_start_matches("...").trim_end_matches("..."),
        };
        let has_pattern = name.contains(['*', '?', '[', ']', '{', '}', '!', '^', '$', '`', '\\']);
        (!name.is_empty() && !has_pattern && !value.contains("://")).then_some(name)
    }
}

/// Packages of a repository that have the same kind of manifest.
#[derive(Debug, Default)]
pub(super) struct Packages {
    /// Their directories by their names.
    directories: BTreeMap<String, BTreeSet<PathBuf>>,
    /// True if the list may lack packages.
    pub(super) is_partial: bool,
    /// Number of entries that were looked at.
    entries: usize,
}

impl Packages {
    /// Packages of a tree that cannot be listed.
    pub(super) fn unknown(entries: usize) -> Self {
        Self {
            is_partial: true,
            entries,
            ..Self::default()
        }
    }

    /// Finds the packages of a tree.
    pub(super) fn of(tree: &mut Tree, manifest: &str) -> Self {
        let mut packages = Self::default();
        let mut known = BTreeSet::from([PathBuf::new()]);
        let mut waiting = vec![PathBuf::new()];
        while let Some(directory) = waiting.pop() {
            if is_output(tree, &directory) {
                continue;
            }
            // direct: names alone; manifests are found below the open top.
            let entries = match fs::read_dir(tree.top().join(&directory)) {
                Ok(entries) => entries,
                Err(error) => {
                    packages.is_partial |= !is_gone(&error);
                    continue;
                }
            };
            for entry in entries {
                packages.entries += 1;
                if packages.entries > MAX_ENTRIES || tree.is_exhausted() {
                    return Self::unknown(packages.entries);
                }
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        packages.is_partial |= !is_gone(&error);
                        continue;
                    }
                };
                let name = entry.file_name();
                if name == manifest {
                    packages.add(tree, &directory, manifest);
                    continue;
                }
                // No member is in them: git writes the one, and package managers skip the other.
                let is_skipped = name == ".git" || (name == NODE_MODULES && manifest == NODE);
                let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
                if is_skipped || is_file {
                    continue;
                }
                if let Some(Entry::Directory(below)) = tree.find(&directory, Path::new(&name))
                    && known.insert(below.clone())
                {
                    waiting.push(below);
                }
            }
        }
        if tree.is_exhausted() {
            return Self::unknown(packages.entries);
        }
        packages
    }

    /// Directories of the packages with a name.
    pub(super) fn named(&self, name: &str, manifest: &str) -> impl Iterator<Item = &PathBuf> {
        let directories = self.directories.get(&normal(name, manifest));
        directories.into_iter().flatten()
    }

    /// The work that was done, as the number of paths that could have been looked up instead.
    pub(super) const fn effort(&self) -> usize {
        self.entries / ENTRIES
    }

    fn add(&mut self, tree: &mut Tree, directory: &Path, manifest: &str) {
        let name = match tree.find(directory, Path::new(manifest)) {
            Some(Entry::File(below)) => match text(&tree.top().join(below)) {
                Ok(text) => name_of(&text, directory, manifest),
                Err(error) if is_gone(&error) => return,
                Err(_) => None,
            },
            Some(Entry::Closed(..)) => None,
            Some(Entry::Directory(_)) | None => return,
        };
        match name {
            Some(Some(name)) => {
                let directories = self.directories.entry(normal(&name, manifest));
                directories.or_default().insert(directory.to_owned());
            }
            Some(None) => {}
            None => self.is_partial = true,
        }
    }
}

/// Returns whether an error means that a file or directory was removed after it was listed, as running builds do.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns whether a directory is the output of a build tool: it has the name of one, and is marked as a cache.
fn is_output(tree: &mut Tree, directory: &Path) -> bool {
    let name = directory.file_name();
    if name.is_none_or(|name| OUTPUT.iter().all(|output| name != *output)) {
        return false;
    }
    let Some(Entry::File(tag)) = tree.find(directory, Path::new(CACHE_TAG)) else {
        return false;
    };
    let text = text(&tree.top().join(tag));
    text.is_ok_and(|text| text.starts_with(CACHE_SIGNATURE))
}

/// Returns the text of a short file, such as a manifest.
fn text(path: &Path) -> io::Result<String> {
    // direct: a file of the tree, whose links were followed inside the tree.
    let file = File::open(path)?;
    let mut text = String::new();
    let length = file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    match length as u64 <= MAX_BYTES {
        true => Ok(text),
        false => Err(ErrorKind::FileTooLarge.into()),
    }
}

/// Returns the name of the package of a manifest, if there is one; `None` where the manifest cannot be parsed.
fn name_of(text: &str, directory: &Path, manifest: &str) -> Option<Option<String>> {
    if manifest == NODE {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        // Without a name, a package has the name of its directory.
        let own = value["name"].as_str().map(str::to_owned);
        let directory = directory.file_name();
        return Some(own.or_else(|| Some(directory?.to_str()?.to_owned())));
    }
    let table: toml::Table = toml::from_str(text).ok()?;
    let package = table.get("package").or_else(|| table.get("project"));
    let name = package.and_then(|package| package.get("name")?.as_str());
    Some(name.map(str::to_owned))
}

/// Returns the form of a name by which package managers compare.
fn normal(name: &str, manifest: &str) -> String {
    if manifest != PYTHON {
        return name.to_owned();
    }
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use orchestra_fs::shell_words;

    use super::*;

    #[test]
    fn members_of_a_command_line_are_found_in_each_form() {
        for (line, names) in [
            ("npm start -w server", &[Some("server")][..]),
            ("npm --workspace=@a/b run x", &[Some("@a/b")]),
            ("npm --works server -- -w x", &[Some("server")]),
            ("env A=1 /usr/bin/npm -w=server start", &[Some("server")]),
            ("npm -ws start", &[None]),
            ("pnpm --filter server... start", &[Some("server")]),
            ("pnpm -F ./packages/* start", &[None]),
            ("pnpm -r start", &[None]),
            ("yarn workspace server start", &[Some("server")]),
            ("yarn workspaces foreach start", &[None]),
            ("bun -r ./x.js --filter server start", &[Some("server")]),
            ("cargo run -pserver@1.0", &[Some("server")]),
            ("cargo run --package $X", &[None]),
            ("cargo run -- -p 80", &[]),
            ("uv run --package server serve -p 80", &[Some("server")]),
            ("node server.js -w x", &[]),
        ] {
            for words in [
                &line.split(' ').collect::<Vec<_>>()[..],
                &["sh", "-c", line],
            ] {
                let words: Vec<&str> = words.iter().flat_map(|word| shell_words(word)).collect();
                let found = of(&words).into_iter().map(|member| member.name);
                assert_eq!(found.collect::<Vec<_>>(), names, "{line}");
            }
        }
    }
}
