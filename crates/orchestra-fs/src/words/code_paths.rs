//! Directories whose files a command line runs without naming them: those from which virtual machines load classes and
//! modules, packages that Go compiles, directories of programs, and directories of files that are all run.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::is_end;

/// Maximum number of paths.
const MAX_PATHS: usize = 512;

/// Options of Java programs with a list of paths as their value.
const JAVA_OPTIONS: [&str; 8] = [
    "--class-path",
    "--module-path",
    "--patch-module",
    "--upgrade-module-path",
    "-Scp",
    "-classpath",
    "-cp",
    "-p",
];

/// Options of Erlang programs that are followed by paths.
const ERLANG_OPTIONS: [&str; 4] = ["-pa", "-path", "-pr", "-pz"];

/// Programs that run the Java virtual machine, beside those whose names begin with `java`.
const JAVA: [&str; 9] = [
    "clj", "clojure", "groovy", "jdb", "jruby", "jshell", "jython", "kotlin", "scala",
];

/// Programs that run the Erlang virtual machine.
const ERLANG: [&str; 6] = ["elixir", "erl", "escript", "iex", "mix", "werl"];

/// Programs that run all files of the directories that they are given, beside `find -exec`. Without a directory, they
/// search for files.
const RUNNERS: [&str; 11] = [
    "bats",
    "jest",
    "mocha",
    "phpunit",
    "prove",
    "py.test",
    "pytest",
    "rspec",
    "run-parts",
    "unittest",
    "vitest",
];

/// Programs that run tests with a word.
const TESTERS: [(&str, &str); 3] = [("bun", "test"), ("deno", "test"), ("node", "--test")];

/// Variables with a list of directories of programs.
const PROGRAM_LISTS: [&str; 2] = ["GIT_EXEC_PATH", "PATH"];

/// Variables with a list of directories of native libraries, or of their settings.
const LIBRARY_LISTS: [&str; 6] = [
    "DYLD_FALLBACK_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "LD_LIBRARY_PATH",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PHP_INI_SCAN_DIR",
];

/// Directories of libraries for certain processors, below a directory of native libraries. The loader prefers them.
const PROCESSORS: [&str; 12] = [
    "aarch64",
    "atomics",
    "avx512_1",
    "glibc-hwcaps",
    "haswell",
    "i386",
    "i586",
    "i686",
    "sse2",
    "tls",
    "x86_64",
    "xeon_phi",
];

/// Variables with a list of directories whose files are all copied or loaded.
const WHOLE_LISTS: [&str; 3] = ["DYLD_FRAMEWORK_PATH", "GCONV_PATH", "GIT_TEMPLATE_DIR"];

/// Variables with directories from which programs load settings, modules and plugins that nothing names.
const HOMES: [&str; 29] = [
    "CARGO_HOME",
    "DOCKER_CONFIG",
    // Its settings name files at any path.
    "GCONV_PATH",
    "GEM_HOME",
    "GEM_PATH",
    "GIO_EXTRA_MODULES",
    "GST_PLUGIN_PATH",
    "HOME",
    "IPYTHONDIR",
    "JULIA_DEPOT_PATH",
    "JULIA_LOAD_PATH",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_PATH",
    "LUA_CPATH",
    "LUA_PATH",
    "MISE_CONFIG_DIR",
    "NODE_PATH",
    "PERL5LIB",
    "PERLLIB",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONPYCACHEPREFIX",
    "PYTHONUSERBASE",
    "QT_PLUGIN_PATH",
    "RUBYLIB",
    "TCLLIBPATH",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "ZDOTDIR",
];

/// Directories of tasks of mise, as seen from its directory. All files in them are tasks.
const MISE_TASKS: [&str; 5] = [
    ".config/mise/tasks",
    ".mise-tasks",
    ".mise/tasks",
    "mise-tasks",
    "mise/tasks",
];

/// Option of the loader of programs with a list of directories of native libraries.
const LIBRARY_OPTION: &str = "--library-path";

/// Options of the loader of programs with native libraries.
const LOADED_OPTIONS: [&str; 2] = ["--audit", "--preload"];

/// Variables with the startup file of a shell, which the shell expands.
const STARTUP_FILES: [&str; 2] = ["BASH_ENV", "ENV"];

/// Files of a directory that a command line runs without naming them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loads {
    /// Classes, modules and packages below the directory.
    Code,
    /// The same, below the top of the module of Go that contains the directory.
    Module,
    /// Programs in the directory, as in one of `PATH`.
    Programs,
    /// Native libraries in the directory and in its [subdirectories](Self::subdirectories), and their settings.
    Libraries,
    /// All files below the directory.
    All,
    /// Startup files of shells and other programs in the directory. Programs may load further files from it, such as
    /// modules.
    Home,
}

impl Loads {
    /// Returns the path by which such files of a directory are shown.
    #[must_use]
    pub fn name(self, directory: &Path) -> PathBuf {
        match self {
            Self::Code | Self::Module if directory.as_os_str().is_empty() => PathBuf::from("."),
            Self::Code | Self::Module => directory.to_owned(),
            Self::Programs => directory.join("*"),
            Self::Libraries => directory.join("*.so*"),
            Self::All => directory.join("**"),
            Self::Home => directory.join(".*"),
        }
    }

    /// Returns the names of the subdirectories below which such files are also loaded, where other subdirectories have
    /// none.
    #[must_use]
    pub const fn subdirectories(self) -> &'static [&'static str] {
        match self {
            Self::Libraries => &PROCESSORS,
            Self::Code | Self::Module | Self::Programs | Self::All | Self::Home => &[],
        }
    }
}

/// Directories whose files a command line runs without naming them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodePaths {
    /// The paths. Of a pattern such as `lib/*` it is the directory.
    pub paths: BTreeSet<(Loads, String)>,
    /// True if paths are missing: there are too many, a file contains further arguments (`java @file`), a program
    /// searches for the files that it runs (`java Main.java`), or a shell or the loader of programs expands the name of a
    /// file.
    pub is_unclear: bool,
}

impl CodePaths {
    /// Finds the paths in a command line. Its words may be lines of a shell.
    #[must_use]
    pub fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let words: Vec<&str> = words.into_iter().collect();
        let mut found = Self::default();
        found.scan(words.iter().copied());
        if words.iter().any(|word| word.contains(char::is_whitespace)) {
            let tokens = words.iter().flat_map(|word| word.split(is_end));
            found.scan(tokens.filter(|token| !token.is_empty()));
        }
        found
    }

    /// Finds the paths in a variable of the environment.
    #[must_use]
    pub fn of_variable(name: &str, value: &str) -> Self {
        let mut found = Self::default();
        if found.directories(name, value) {
            return found;
        }
        match name {
            name if name.starts_with("ERL_") || name.starts_with("ELIXIR_ERL_") => {
                Self::of(["erl", value])
            }
            name if name.contains("JAVA") || name.ends_with("_OPTS") => Self::of(["java", value]),
            _ => found,
        }
    }

    fn scan<'a>(&mut self, tokens: impl Iterator<Item = &'a str>) {
        let (mut is_java, mut is_erlang, mut is_go) = (false, false, false);
        // Kind of the next token: a list of paths, a path of several, or a package.
        let (mut is_list, mut is_path, mut is_package) = (false, false, false);
        // Paths of `find`, and the number of those whose files are all run.
        let (mut searched, mut run) = (None::<Vec<&str>>, None::<usize>);
        let mut testers = [false; TESTERS.len()];
        let mut previous = "";
        for token in tokens {
            let option = std::mem::replace(&mut previous, token);
            if option == LIBRARY_OPTION {
                self.directories("LD_LIBRARY_PATH", token);
                continue;
            }
            self.is_unclear |= LOADED_OPTIONS.contains(&option) && token.contains('$');
            if let Some((variable, value)) = token.split_once('=')
                && self.directories(variable_of(variable), value)
            {
                continue;
            }
            let name = token.rsplit('/').next().unwrap_or(token);
            if let Some(paths) = &mut searched {
                if token.starts_with("-exec") || token.starts_with("-ok") {
                    let paths = searched.take().unwrap_or_default();
                    let paths = if paths.is_empty() { vec!["."] } else { paths };
                    paths.iter().for_each(|path| self.put(Loads::All, path));
                } else if !token.starts_with('-') {
                    paths.push(token);
                }
            }
            if let Some(count) = &mut run
                && !token.starts_with('-')
            {
                *count += 1;
                self.is_unclear |= token.contains(['*', '?', '[']);
                self.put(Loads::All, token);
            }
            let tests = TESTERS.iter().zip(&testers);
            let mut tests = tests.map(|((_, word), is_tester)| *is_tester && token == *word);
            if RUNNERS.contains(&name) || tests.any(|is_test| is_test) {
                run = run.or(Some(0));
            }
            for ((program, _), is_tester) in TESTERS.iter().zip(&mut testers) {
                *is_tester |= name == *program;
            }
            if is_list {
                self.list(token);
                is_list = false;
            } else if is_path && !token.starts_with('-') {
                self.path(token);
            } else if is_erlang && token.starts_with('-') {
                is_path = ERLANG_OPTIONS.contains(&token);
            } else if is_java && token.starts_with('-') {
                is_list = JAVA_OPTIONS.contains(&token);
                let value = token.split_once(['=', ':']).map(|(_, value)| value);
                let mut options = JAVA_OPTIONS.iter();
                let is_attached = options
                    .any(|option| option.starts_with("--") && token.starts_with(option))
                    || token.starts_with("-Xbootclasspath")
                    || token.starts_with("-D") && token.contains("path=");
                if let (Some(value), true) = (value, is_attached) {
                    self.list(value);
                }
            } else if is_go && (token == "run" || token == "test") {
                (is_go, is_package) = (false, true);
            } else if is_go && ["build", "generate", "install", "tool"].contains(&token) {
                is_go = false;
                self.put(Loads::Module, ".");
            } else if is_package && !token.starts_with('-') {
                self.package(token);
                is_package = false;
            } else if is_java && (token.starts_with('@') || token.ends_with(".java")) {
                self.is_unclear = true;
            } else if name.starts_with("java") || JAVA.contains(&name) {
                (is_java, is_erlang) = (true, false);
            } else if ERLANG.contains(&name) {
                (is_java, is_erlang) = (false, true);
            } else if name == "go" {
                is_go = true;
            } else if name == "find" {
                searched = Some(Vec::new());
            } else if name == "gradle" || name == "gradlew" {
                self.put(Loads::All, "buildSrc/src");
            } else if name == "mise" {
                MISE_TASKS
                    .iter()
                    .for_each(|path| self.put(Loads::All, path));
            } else if name == "xargs" || name == "parallel" {
                self.is_unclear = true;
            }
        }
        self.is_unclear |= run == Some(0);
    }

    /// Adds the directories of a variable that names directories; `false` if it does not.
    fn directories(&mut self, name: &str, value: &str) -> bool {
        let is_expanded = value.contains(['$', '`', '~']);
        self.is_unclear |= is_expanded && STARTUP_FILES.contains(&name);
        // The loader of programs expands `$LIB`, `$ORIGIN` and `$PLATFORM`.
        self.is_unclear |= name.starts_with("LD_") && value.contains('$');
        // It names a function of a module.
        self.is_unclear |= name == "PYTHONBREAKPOINT" && !["", "0"].contains(&value);
        if ["CLASSPATH", "ERL_LIBS"].contains(&name) {
            self.list(value);
            return true;
        }
        let mut is_known = false;
        for (names, loads) in [
            (PROGRAM_LISTS.as_slice(), Loads::Programs),
            (LIBRARY_LISTS.as_slice(), Loads::Libraries),
            (WHOLE_LISTS.as_slice(), Loads::All),
            (HOMES.as_slice(), Loads::Home),
        ] {
            if !names.contains(&name) {
                continue;
            }
            is_known = true;
            let is_between = |char: char| char == ':' || char == ';' && loads == Loads::Home;
            for path in value.split(is_between).filter(|_| !value.is_empty()) {
                // An empty path is the working directory.
                self.put(loads, if path.is_empty() { "." } else { path });
            }
        }
        is_known
    }

    /// Adds the package that `go run` is given. One with a version is not from here.
    fn package(&mut self, token: &str) {
        let is_path = token.starts_with(['.', '/']) || token.ends_with(".go");
        let directory = token.split("...").next().unwrap_or(token);
        match is_path {
            true => self.path(directory),
            false if token.contains('@') => {}
            false => self.put(Loads::Module, "."),
        }
    }

    fn list(&mut self, value: &str) {
        for path in value.split([':', ';']) {
            self.path(path);
            // A module with its paths.
            path.split(['=', ',']).for_each(|path| self.path(path));
        }
    }

    fn path(&mut self, path: &str) {
        let directory = path.strip_suffix('*').unwrap_or(path);
        let path = match (directory, path) {
            ("", "*") => ".",
            (directory, _) => directory,
        };
        self.put(Loads::Code, path);
    }

    fn put(&mut self, loads: Loads, path: &str) {
        let known = (loads, path.to_owned());
        if path.is_empty() || self.paths.contains(&known) {
            return;
        }
        if self.paths.len() < MAX_PATHS {
            self.paths.insert(known);
        } else {
            self.is_unclear = true;
        }
    }
}

/// Returns the variable that an option stands for, or its own name.
fn variable_of(option: &str) -> &str {
    match option.ends_with("pycache_prefix") {
        true => "PYTHONPYCACHEPREFIX",
        false => option,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&str]) -> BTreeSet<(Loads, String)> {
        let code = |path: &&str| (Loads::Code, (*path).to_owned());
        paths.iter().map(code).collect()
    }

    #[test]
    fn paths_of_java_and_erlang_are_found() {
        for (words, expected) in [
            (
                &["java", "-cp", "lib/*:classes", "com.x.Main"][..],
                &["lib/", "classes"][..],
            ),
            (&["env", "/usr/bin/java", "-classpath", "*", "x"], &["."]),
            // As one word, and as a line of a shell.
            (&["java", "--class-path=a b", "x"], &["a b", "a"]),
            (&["java", "-p", "lib", "-m", "m/x"], &["lib"]),
            (
                &["java", "--patch-module", "m=out", "x"],
                &["m=out", "m", "out"],
            ),
            (&["java", "-Xbootclasspath/a:out", "x"], &["out"]),
            (&["java", "-Djava.class.path=out", "x"], &["out"]),
            (&["sh", "-c", "exec java -cp 'out' x"], &["out"]),
            (
                &["sh", "-c", "CLASSPATH=out java x"],
                &["out java x", "out"],
            ),
            (
                &["erl", "-pa", "ebin", "deps", "-s", "mod"],
                &["ebin", "deps"],
            ),
            (&["go", "run", "-race", "./cmd", "x"], &["./cmd"]),
            (&["node", "-p", "lib"], &[]),
        ] {
            let found = CodePaths::of(words.iter().copied());
            assert_eq!(found.paths, set(expected), "{words:?}");
            assert!(!found.is_unclear, "{words:?}");
        }
        assert!(CodePaths::of(["java", "@options", "x"]).is_unclear);
        assert!(CodePaths::of(["java", "Main.java"]).is_unclear);
        let value = CodePaths::of_variable("CLASSPATH", "lib/*:out");
        assert_eq!(value.paths, set(&["lib/", "out"]));
        let value = CodePaths::of_variable("ERL_FLAGS", "-pa ebin");
        assert_eq!(value.paths, set(&["ebin"]));
    }

    #[test]
    fn directories_whose_files_run_are_found() {
        use Loads::{All, Code, Home, Libraries, Module, Programs};
        for (line, expected) in [
            ("go run ex.com/m/cmd/x", &[(Module, ".")][..]),
            ("go run ./cmd/... x", &[(Code, "./cmd/")]),
            ("go tool x", &[(Module, ".")]),
            ("go run ex.com/x@latest", &[]),
            (
                "find a b -type f -exec sh {} ;",
                &[(All, "a"), (All, "b"), (All, "f")],
            ),
            ("find -execdir sh {} ;", &[(All, ".")]),
            ("find a -name x", &[]),
            ("node --test a", &[(All, "a")]),
            ("python3 -m pytest a", &[(All, "a")]),
            ("run-parts --verbose a", &[(All, "a")]),
            (
                "env PATH=bin:/usr/bin x",
                &[(Programs, "bin"), (Programs, "/usr/bin")],
            ),
            (
                "ld.so --library-path a:b /bin/cat",
                &[(Libraries, "a"), (Libraries, "b")],
            ),
            (
                "mise run x",
                &[
                    (All, ".config/mise/tasks"),
                    (All, ".mise-tasks"),
                    (All, ".mise/tasks"),
                    (All, "mise-tasks"),
                    (All, "mise/tasks"),
                ],
            ),
            ("env HOME=a sh -l", &[(Home, "a")]),
            ("python3 -X pycache_prefix=a -m x", &[(Home, "a")]),
            ("python3 -BXpycache_prefix=a x.py", &[(Home, "a")]),
            (
                "env LUA_PATH=a/?.lua;b x",
                &[(Home, "a/?.lua"), (Home, "b")],
            ),
            (
                "env LD_LIBRARY_PATH=a: x",
                &[(Libraries, "."), (Libraries, "a")],
            ),
            ("env GCONV_PATH=a x", &[(All, "a"), (Home, "a")]),
            ("node test a", &[]),
        ] {
            let found = CodePaths::of(line.split(' '));
            let expected = expected.iter();
            let expected = expected.map(|(loads, path)| (*loads, (*path).to_owned()));
            assert_eq!(found.paths, expected.collect(), "{line}");
            assert!(!found.is_unclear, "{line}");
        }
        for line in [
            "pytest",
            "node --test",
            "node --test a/*.js",
            "find a | xargs sh",
            "LD_LIBRARY_PATH=./$LIB x",
            "ld.so --preload ./$LIB/x.so /bin/cat",
        ] {
            assert!(CodePaths::of(["sh", "-c", line]).is_unclear, "{line}");
        }
        for value in ["$PWD/x.sh", "`pwd`/x.sh", "~/x.sh"] {
            assert!(CodePaths::of_variable("BASH_ENV", value).is_unclear);
            assert!(CodePaths::of(["env", format!("ENV={value}").as_str(), "sh"]).is_unclear);
            assert!(!CodePaths::of_variable("A", value).is_unclear);
        }
        assert!(!CodePaths::of_variable("BASH_ENV", "x.sh").is_unclear);
        for (value, is_unclear) in [("", false), ("0", false), ("x.y", true)] {
            let found = CodePaths::of_variable("PYTHONBREAKPOINT", value);
            assert_eq!(found.is_unclear, is_unclear, "{value}");
        }
        for value in ["./$LIB/x.so", "${ORIGIN}/x.so", "$PLATFORM"] {
            for name in ["LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD"] {
                assert!(CodePaths::of_variable(name, value).is_unclear, "{name}");
            }
        }
        let value = CodePaths::of_variable("GIT_EXEC_PATH", "a");
        assert_eq!(value.paths, BTreeSet::from([(Programs, "a".to_owned())]));
    }

    #[test]
    fn more_paths_than_are_read_are_unclear() {
        let value = |paths: usize| {
            let paths = (0..paths).map(|path| path.to_string());
            CodePaths::of_variable("CLASSPATH", &paths.collect::<Vec<_>>().join(":"))
        };
        let (few, many) = (value(MAX_PATHS), value(MAX_PATHS + 1));
        assert!(few.paths.len() == MAX_PATHS && !few.is_unclear);
        assert!(many.paths.len() == MAX_PATHS && many.is_unclear);
    }
}
