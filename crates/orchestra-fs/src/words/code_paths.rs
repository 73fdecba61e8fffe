//! Directories and archives from which the Java and Erlang virtual machines load code by names of classes and modules,
//! and directories of packages that Go compiles and runs.

use std::collections::BTreeSet;

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

/// Paths from which a command line loads code by the names of classes or modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodePaths {
    /// The paths. Of a pattern such as `lib/*` it is the directory.
    pub paths: BTreeSet<String>,
    /// True if paths are missing, because there are too many or a file contains further arguments (`java @file`).
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
        match name {
            "CLASSPATH" | "ERL_LIBS" => Self::of(["java", "-cp", value]),
            name if name.starts_with("ERL_") || name.starts_with("ELIXIR_ERL_") => {
                Self::of(["erl", value])
            }
            name if name.contains("JAVA") || name.ends_with("_OPTS") => Self::of(["java", value]),
            _ => Self::default(),
        }
    }

    fn scan<'a>(&mut self, tokens: impl Iterator<Item = &'a str>) {
        let (mut is_java, mut is_erlang, mut is_go) = (false, false, false);
        // Whether the next token is a list of paths, a path of several, or the directory of a package.
        let (mut is_list, mut is_path, mut is_package) = (false, false, false);
        for token in tokens {
            let name = token.rsplit('/').next().unwrap_or(token);
            if is_list {
                self.list(token);
                is_list = false;
            } else if is_path && !token.starts_with('-') {
                self.path(token);
            } else if let Some(value) = token.strip_prefix("CLASSPATH=") {
                self.list(value);
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
            } else if is_package && !token.starts_with('-') {
                self.path(token);
                is_package = false;
            } else if is_java && token.starts_with('@') {
                self.is_unclear = true;
            } else if name.starts_with("java") || JAVA.contains(&name) {
                (is_java, is_erlang) = (true, false);
            } else if ERLANG.contains(&name) {
                (is_java, is_erlang) = (false, true);
            } else if name == "go" {
                is_go = true;
            }
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
        if path.is_empty() || self.paths.contains(path) {
            return;
        }
        if self.paths.len() < MAX_PATHS {
            self.paths.insert(path.to_owned());
        } else {
            self.is_unclear = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
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
        let value = CodePaths::of_variable("CLASSPATH", "lib/*:out");
        assert_eq!(value.paths, set(&["lib/", "out"]));
        let value = CodePaths::of_variable("ERL_FLAGS", "-pa ebin");
        assert_eq!(value.paths, set(&["ebin"]));
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
