//! Directories in which programs look for code that may not exist yet.
//!
//! A file that appears there later is covered then. Between the comparison and the start, it is not compared.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use orchestra_fs::{
    Entry, Loads, MOVES, build_file_rules, command_words, directory_words, known_build_files,
    parts, spellings,
};

use super::{Search, members::has_program};
use crate::{
    config::loads_code,
    expand::normal,
    runners::{CONTAINERS, NODE_MODULES, PACKAGE_RUNNERS},
};

/// Options of build tools with such a directory.
const BUILD_MOVES: [&str; 4] = ["-S", "-d", "-f", "-p"];

/// Commands of [`CONTAINERS`] that read files of the workspace.
const CONTAINER_COMMANDS: [&str; 2] = ["build", "compose"];

/// Programs that run the packages of the directory in which they work.
const PACKAGES: [&str; 4] = ["bun", "npm", "pnpm", "yarn"];

/// Programs that run a program of a package of that directory if there is one, and another package otherwise.
const NODE_RUNNERS: [&str; 3] = ["bunx", "npx", "pnpx"];

/// Programs with a command or an option that runs a package in the same way.
const PACKAGE_COMMANDS: [(&str, &str); 2] = [("deno", "task"), ("node", "--run")];

/// Programs that load packages for a file.
const NODE: [&str; 4] = ["deno", "node", "ts-node", "tsx"];

/// Programs whose first argument is a file, a directory or a module of code.
const INTERPRETERS: [&str; 6] = ["bun", "deno", "node", "php", "ts-node", "tsx"];

/// Commands of these programs that are followed by a file of code.
const FILE_COMMANDS: [(&str, &str); 5] = [
    ("bun", "run"),
    ("deno", "run"),
    ("deno", "serve"),
    ("node", "inspect"),
    ("tsx", "watch"),
];

/// Commands and options of these programs that run no file which the command line names.
const NAME_COMMANDS: [(&str, &str); 9] = [
    ("bun", "exec"),
    ("bun", "x"),
    ("deno", "eval"),
    ("deno", "jupyter"),
    ("deno", "lsp"),
    ("deno", "repl"),
    ("deno", "task"),
    ("deno", "x"),
    ("node", "--run"),
];

/// Beginnings of the names of packages and addresses in the place of a file.
const PACKAGE_SCHEMES: [&str; 4] = ["http:", "https:", "jsr:", "npm:"];

/// Shells.
const SHELLS: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];

/// Ends of the names of interpreters of Python.
const PYTHON_ENDS: [&str; 2] = ["-c", "-dbg"];

/// Letters after the version of Python, for its builds: debug, with its own allocator, free-threaded, and windowed.
const PYTHON_BUILDS: [char; 4] = ['d', 'm', 't', 'w'];

/// Options of Python with a value.
const PYTHON_VALUES: [&str; 2] = ["-W", "-X"];

/// Directory of the programs of the packages in [`NODE_MODULES`].
const NODE_PROGRAMS: &str = "node_modules/.bin";

impl Search<'_> {
    /// Notes the directories in which a server works.
    pub(super) fn note_moves(&mut self, line: &[String]) {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let words = command_words(&words);
        let is_built = !known_build_files(&tools(&words)).is_empty();
        // A bare repository in a directory has settings that run programs: git does not only work there.
        let has_git = has_program(&words, &["git"]);
        let is_move = |option: &str| {
            !has_git && (MOVES.contains(&option) || is_built && BUILD_MOVES.contains(&option))
        };
        let next = words.windows(2).filter(|pair| is_move(pair[0]));
        let attached = words.iter().filter_map(|word| {
            let long = word.split_once('=');
            long.or_else(|| word.split_at_checked(2))
        });
        let attached = attached.filter(|(option, _)| is_move(option));
        let named = next.map(|pair| pair[1]).chain(attached.map(|(_, at)| at));
        for name in named.collect::<Vec<_>>() {
            for base in self.own.clone() {
                if let Some(Entry::Directory(below)) = self.tree.find(&base, Path::new(name)) {
                    let directory = self.tree.top().join(below);
                    if !self.own.contains(&directory) {
                        self.own.push(directory);
                    }
                }
            }
        }
    }

    /// Notes doubts about the directories that the arguments name: a program may load files from them. Those whose code
    /// is covered and those in which a server works are none of them. The top is one for a container, whose command line
    /// names its files by other paths.
    pub(super) fn note_directories(&mut self, line: &[String]) {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let is_mounted = has_program(&command_words(&words), &CONTAINERS);
        let own = self.own.iter().filter_map(|base| self.inside(base));
        let own: BTreeSet<PathBuf> = own.collect();
        for part in directory_words(&words)
            .into_iter()
            .flat_map(|word| parts(word).words)
        {
            let paths = spellings(&part);
            let bases = self.own.clone();
            let all = bases
                .iter()
                .flat_map(|base| paths.iter().map(move |path| (base, path)));
            for (base, path) in all {
                let Some(Entry::Directory(below)) = self.tree.find(base, Path::new(path)) else {
                    continue;
                };
                let is_known = match below.as_os_str().is_empty() {
                    true => !is_mounted,
                    false => {
                        let is_code = self.code.iter().any(|(_, code)| *code == below);
                        is_code || own.contains(&below) || self.members.contains(&below)
                    }
                };
                self.covered.is_unclear |= !is_known;
            }
        }
    }

    /// Notes a directory whose files run without being named.
    pub(super) fn note_code(&mut self, loads: Loads, path: &str) {
        self.note(path, matches!(loads, Loads::All | Loads::Code));
        for name in loads.subdirectories() {
            self.note(&format!("{path}/{name}"), true);
        }
    }

    /// Notes the directories of a variable from which an interpreter loads modules.
    pub(super) fn note_modules(&mut self, name: &str, value: &str) {
        if !loads_code(name) || !(name.ends_with("PATH") || name.ends_with("LIB")) {
            return;
        }
        for path in value.split([':', ';']) {
            // A pattern of Lua.
            let directory = path.split('?').next().unwrap_or(path);
            if !directory.is_empty() {
                self.note(directory, false);
            }
        }
    }

    /// Notes the directories in which the programs of a command line look for code and settings.
    pub(super) fn note_lookups(&mut self, line: &[String]) {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let words = command_words(&words);
        let program = words.first().filter(|program| program.contains('/'));
        for script in scripts(&words).into_iter().chain(program.copied()) {
            self.note(script, false);
        }
        let own = self.own.iter().filter_map(|base| self.inside(base));
        let loaded = self.loaded.clone();
        let all: BTreeSet<PathBuf> = own.chain(loaded.iter().cloned()).collect();
        let tools = tools(&words);
        let names = known_build_files(&tools);
        let parents = names.iter().filter_map(|name| Path::new(name).parent());
        let mut parents: BTreeSet<&Path> = parents.collect();
        let is_package = has_program(&tools, &PACKAGES) || runs_package(&words);
        if is_package || !build_file_rules(&tools).is_empty() {
            parents.insert(Path::new(""));
        }
        for directory in above(&all) {
            for parent in &parents {
                self.put(Some(&directory.join(parent)), false);
            }
        }
        let has_programs = is_package || has_program(&words, &NODE_RUNNERS);
        let starts = match () {
            () if has_programs || !self.modules.is_empty() => above(&all),
            () if has_program(&words, &NODE) => above(&loaded),
            () => BTreeSet::new(),
        };
        for directory in starts {
            self.put(Some(&directory.join(NODE_MODULES)), false);
            if has_programs {
                self.put(Some(&directory.join(NODE_PROGRAMS)), false);
            }
        }
        let covered = self.covered.files.keys();
        let sources = covered.filter(|path| path.extension().is_some_and(|end| end == "py"));
        let caches = sources.map(|path| path.with_file_name("__pycache__"));
        for cache in caches.collect::<Vec<_>>() {
            self.put(Some(&cache), false);
        }
    }

    /// Notes a directory, as seen from each directory in which the server works.
    fn note(&mut self, path: &str, is_deep: bool) {
        for base in self.own.clone() {
            let path = self.inside(&base.join(path));
            self.put(path.as_deref(), is_deep);
        }
    }

    fn put(&mut self, below: Option<&Path>, is_deep: bool) {
        if let Some(below) = below {
            *self.covered.lookups.entry(below.to_owned()).or_default() |= is_deep;
        }
    }

    /// Returns the path below the workspace, where it is in it.
    pub(super) fn inside(&self, path: &Path) -> Option<PathBuf> {
        let path = normal(path);
        let tops = [self.workspace, self.tree.top()];
        let below = tops.iter().find_map(|top| path.strip_prefix(top).ok());
        below.map(Path::to_owned)
    }
}

/// Directories with all directories above them.
fn above(directories: &BTreeSet<PathBuf>) -> BTreeSet<&Path> {
    let all = directories.iter().flat_map(|start| start.ancestors());
    all.collect()
}

/// Words that may be programs whose files of the workspace are code of a server.
fn tools<'l>(words: &[&'l str]) -> Vec<&'l str> {
    let reads = words.iter().any(|word| CONTAINER_COMMANDS.contains(word));
    let (mut tools, mut is_value) = (Vec::new(), false);
    for word in words {
        let is_other = has_program(&[*word], &PACKAGE_RUNNERS)
            || !reads && has_program(&[*word], &CONTAINERS)
            || is_value;
        if !is_other {
            tools.push(*word);
        }
        is_value = word.len() > 2 && word.starts_with("--") && !word.contains('=');
    }
    tools
}

/// Returns whether one of the [`PACKAGE_COMMANDS`] is among words. Options and their values may precede the command.
fn runs_package(words: &[&str]) -> bool {
    PACKAGE_COMMANDS.iter().any(|(program, command)| {
        let mut names = words.iter().filter_map(|word| word.split('=').next());
        has_program(words, &[*program]) && names.any(|name| name == *command)
    })
}

/// Files, directories and modules that the interpreters among words run. Of a module it is the first package.
fn scripts<'l>(words: &[&'l str]) -> Vec<&'l str> {
    let mut found = Vec::new();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let name = word.rsplit('/').next().unwrap_or(word);
        found.extend(match () {
            () if is_python(name) => script_of_python(&mut words),
            () if SHELLS.contains(&name) => script_of_a_shell(&mut words),
            () if INTERPRETERS.contains(&name) => script_of(name, &mut words),
            () => None,
        });
    }
    found
}

/// Returns whether a program is an interpreter of Python by its name, such as `python3.12`, `pypy3-c` or `python3-dbg`.
fn is_python(name: &str) -> bool {
    let name = name.strip_suffix(".exe").unwrap_or(name);
    let version = name
        .strip_prefix("python")
        .or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| {
        let mut ends = PYTHON_ENDS.iter();
        let version = ends
            .find_map(|end| version.strip_suffix(*end))
            .unwrap_or(version)
            .trim_end_matches(PYTHON_BUILDS);
        let is_number =
            |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        version.is_empty() || version.split('.').all(is_number)
    })
}

fn script_of_python<'l>(words: &mut impl Iterator<Item = &'l str>) -> Option<&'l str> {
    let mut is_isolated = false;
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix('-') else {
            return Some(word);
        };
        if PYTHON_VALUES.contains(&word) {
            words.next();
        }
        if option.starts_with(['-', 'W', 'X']) {
            continue;
        }
        let (flags, module) = match option.split_once('m') {
            Some((flags, module)) => (flags, Some(module)),
            None => (option, None),
        };
        // The directory in which it works is no place of modules then.
        is_isolated |= flags.contains(['I', 'P']);
        if let Some(module) = module {
            let module = match module {
                "" => words.next()?,
                _ => module,
            };
            return module.split('.').next().filter(|_| !is_isolated);
        }
    }
    None
}

fn script_of_a_shell<'l>(words: &mut impl Iterator<Item = &'l str>) -> Option<&'l str> {
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix('-') else {
            return Some(word);
        };
        if !option.starts_with('-') && option.contains('c') {
            // A line of commands follows.
            return None;
        }
        if option.ends_with(['o', 'O']) {
            words.next();
        }
    }
    None
}

fn script_of<'l>(name: &str, words: &mut impl Iterator<Item = &'l str>) -> Option<&'l str> {
    let mut has_command = false;
    for word in words {
        let command = word.split('=').next().unwrap_or(word);
        if !has_command && NAME_COMMANDS.contains(&(name, command)) {
            return None;
        }
        if word.starts_with('-') {
            continue;
        }
        if has_command || !FILE_COMMANDS.contains(&(name, word)) {
            let is_package = PACKAGE_SCHEMES
                .iter()
                .any(|scheme| word.starts_with(scheme));
            return Some(word).filter(|_| !is_package);
        }
        has_command = true;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_of_a_package_is_found_among_options() {
        for (line, expected) in [
            ("/usr/bin/node --run start", true),
            ("node --env-file .env --run=start", true),
            ("sh -c node --run start", true),
            ("deno task start", true),
            ("node server.js run", false),
            ("server --run start", false),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(runs_package(&words), expected, "{line}");
        }
    }

    #[test]
    fn value_of_an_option_is_no_tool() {
        for (line, expected) in [
            (
                "server --language go make",
                &["server", "--language", "make"][..],
            ),
            ("npx -y cargo", &["-y", "cargo"]),
            ("docker run x", &["run", "x"]),
            ("docker compose up", &["docker", "compose", "up"]),
            ("mise exec -- make", &["mise", "exec", "--", "make"]),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(tools(&words), expected, "{line}");
        }
    }

    #[test]
    fn script_of_an_interpreter_is_found() {
        for (line, expected) in [
            ("node server.js --data data", &["server.js"][..]),
            ("/usr/bin/python3.12 -X dev -Bm srv.sub x", &["srv"]),
            ("python3 -msrv x", &["srv"]),
            ("python3 server data", &["server"]),
            ("sh -c cd sub && node .", &["."]),
            ("env A=1 bun run x", &["x"]),
            ("bun --smol run --watch sub/x.ts y", &["sub/x.ts"]),
            ("bun run run", &["run"]),
            ("bun server.ts run", &["server.ts"]),
            ("bun x thing --data data", &[]),
            ("bun x tsx watch server.ts", &["server.ts"]),
            ("deno run -A mod.ts x", &["mod.ts"]),
            ("deno run -A npm:@a/thing data", &[]),
            ("deno run -A https://example.com/mod.ts", &[]),
            ("deno serve --port=1 mod.ts", &["mod.ts"]),
            ("deno task start", &[]),
            ("deno lsp", &[]),
            ("node --run start", &[]),
            ("node --run=start x", &[]),
            ("node server.js --run", &["server.js"]),
            ("node inspect server.js", &["server.js"]),
            ("npm run start", &[]),
            ("pnpm run start", &[]),
            ("yarn start", &[]),
            ("pnpm exec node server.js", &["server.js"]),
            ("bash -eo pipefail sub/x.sh y", &["sub/x.sh"]),
            ("sh -ec x y", &[]),
            ("server data", &[]),
            ("python server.py", &["server.py"]),
            ("pypy3.10 server.py", &["server.py"]),
            ("python3.14t -m srv", &["srv"]),
            ("pythonw -m srv", &["srv"]),
            ("python3-dbg -m srv", &["srv"]),
            ("python3.12d -m srv", &["srv"]),
            ("python3.12-dbg -m srv", &["srv"]),
            ("python3.13td -m srv", &["srv"]),
            ("pypy3-c -m srv", &["srv"]),
            ("python3.exe -m srv", &["srv"]),
            ("python-language-server data", &[]),
            ("python3-config data", &[]),
            ("python3.12-dbg-config data", &[]),
            ("pythonic data", &[]),
            ("python. data", &[]),
            ("docker run python:3.12 data", &[]),
            ("python3 -I -m srv", &[]),
            ("python3 -Im srv", &[]),
            ("python3 -BPmsrv", &[]),
            ("python3 -P -X dev -m srv x", &[]),
            ("python3 -I server.py", &["server.py"]),
            ("python3 -W I -m srv", &["srv"]),
            ("python3 -m srv -I", &["srv"]),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(scripts(&words), expected, "{line}");
        }
    }
}
