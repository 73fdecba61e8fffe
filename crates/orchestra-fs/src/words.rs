//! Words of a command line that may name files.

mod arguments;
mod build_files;
mod code_paths;
mod packages;
mod plain;
mod spellings;

use std::{collections::BTreeSet, iter};

pub use arguments::{MOVES, directory_words};
pub use build_files::{build_file_rules, build_files, is_build_file, known_build_files};
pub use code_paths::{CodePaths, Loads};
pub use packages::{node_packages, preloaded_modules};
pub use plain::{is_plain, is_plain_line};
pub(crate) use spellings::lexical;
pub use spellings::spellings;

/// Maximum number of bytes of a word of which the parts are found.
const MAX_WORD_BYTES: usize = 64 * 1024;

/// Maximum number of parts of a word. A long part counts once for each kibibyte.
const MAX_PARTS: usize = 1_024;

/// Maximum number of bytes of a path that a system call accepts.
pub const MAX_PATH_BYTES: usize = 4_096;

/// Maximum number of bytes of a part: a URL of the longest path, in which each byte may be escaped.
pub(crate) const MAX_PART_BYTES: usize = 3 * MAX_PATH_BYTES + 64;

/// Ends that a file may be named without.
const ENDS: [&str; 33] = [
    ".awk", ".el", ".groovy", ".lisp", ".nim", ".js", ".mjs", ".cjs", ".jsx", ".json", ".node",
    ".ts", ".mts", ".cts", ".tsx", ".py", ".pyc", ".so", ".rb", ".pl", ".pm", ".pmc", ".lua",
    ".php", ".sh", ".tcl", ".class", ".jar", ".wasm", ".exe", ".beam", ".boot", ".config",
];

/// Files that a program starts with when it is given their directory.
pub(crate) const MAIN_FILES: [&str; 20] = [
    "index.js",
    "index.mjs",
    "index.cjs",
    "index.json",
    "index.node",
    "index.jsx",
    "index.ts",
    "index.mts",
    "index.cts",
    "index.tsx",
    "index.php",
    "php.ini",
    "php-cgi.ini",
    "php-cli.ini",
    "__init__.py",
    "__main__.py",
    "sitecustomize.py",
    "usercustomize.py",
    "init.lua",
    "main.go",
];

/// Options whose value is a line of commands: programs, the letter of the short option, and the long one.
const LINES: [(&[&str], char, &str); 4] = [
    (
        &[
            "ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh",
            "zsh",
        ],
        'c',
        "--command",
    ),
    (
        &["bunx", "npm", "npx", "pnpm", "pnpx", "yarn"],
        'c',
        "--call",
    ),
    (&["env"], 'S', "--split-string"),
    (&["flock", "runuser", "script", "su"], 'c', "--command"),
];

/// Programs that copy, move or link directories, whose files then have other paths, or that write files.
const COPIERS: [&str; 21] = [
    "7z", "bsdtar", "cp", "cpio", "curl", "dd", "ed", "ex", "gunzip", "ln", "mount", "mv", "patch",
    "pax", "rsync", "scp", "tar", "tee", "unxz", "unzip", "wget",
];

/// Commands of git that change no files of a working tree.
const GIT_READS: [&str; 16] = [
    "blame",
    "cat-file",
    "describe",
    "diff",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "status",
    "symbolic-ref",
    "version",
];

/// Characters that end a word of a shell line.
fn is_end(char: char) -> bool {
    char.is_whitespace() || "'\"`&|;()<".contains(char)
}

/// Characters that end a command of a shell line.
const COMMAND_ENDS: [char; 6] = [';', '|', '&', '(', ')', '\n'];

/// Characters that separate the paths in a word: of a list, of an option and its value, of a URL and its query.
fn is_inner(char: char) -> bool {
    "=,:@!?#".contains(char)
}

/// Parts of a word of a command line that may name files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// The parts, without parts that are too long for a path.
    pub words: Vec<String>,
    /// True if parts are missing, because the word is too long or has too many parts.
    pub is_cut: bool,
}

/// Returns a word of a command line and the words in it that may name files: it may be a list, an option with its
/// value, or a line of a shell. Long options are left out, of short ones each tail is a part, and the file that a shell
/// writes to is left out.
#[must_use]
pub fn parts(word: &str) -> Parts {
    let mut parts = Parts::default();
    if word.len() > MAX_WORD_BYTES {
        parts.is_cut = true;
        return parts;
    }
    let is_dropped = |char: char| matches!(char, '\t' | '\n' | '\r');
    // Parsers of URLs drop these characters, and Node.js splits its options at spaces alone.
    let joined = word.split(' ').filter(|text| text.contains(is_dropped));
    let joined = joined.map(|text| text.replace(is_dropped, ""));
    let joined: Vec<String> = joined.chain(unquoted(word)).collect();
    let words = iter::once(word).chain(joined.iter().map(String::as_str));
    let (mut known, mut left) = (BTreeSet::new(), MAX_PARTS);
    for part in words.flat_map(parts_of) {
        if part.is_empty() || known.contains(part) {
            continue;
        }
        let Some(rest) = left.checked_sub(1 + part.len() / 1_024) else {
            parts.is_cut = true;
            break;
        };
        left = rest;
        known.insert(part);
        if part.len() <= MAX_PART_BYTES {
            parts.words.push(part.to_owned());
        } else {
            // Without its `.` and `..`, it may be short enough.
            let spellings = spellings(part).into_iter();
            let short = spellings.filter(|path| path.len() <= MAX_PATH_BYTES);
            parts.words.extend(short);
        }
    }
    parts
}

fn parts_of(word: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let is_line = word.contains(char::is_whitespace);
    let mut pieces = word.split('>');
    let mut before = pieces.next().unwrap_or_default();
    tokens.extend(before.split(is_end));
    for piece in pieces {
        // The file behind `<>` is read.
        let is_read = std::mem::replace(&mut before, piece).ends_with('<');
        let piece = piece.trim_start_matches(|char: char| char.is_whitespace() || char == '&');
        // A shell writes to the file behind `>`.
        let is_over = |char| is_end(char) || is_inner(char);
        let written = match is_line && !is_read {
            true => piece.find(is_over).unwrap_or(piece.len()),
            false => 0,
        };
        tokens.extend(piece[written..].split(is_end));
    }
    // The value of an option may have any characters in it.
    let options = iter::once(&word).chain(&tokens);
    let options = options.filter(|token| token.starts_with('-'));
    let values = options.filter_map(|option| Some(option.split_once('=')?.1));
    let inner = tokens.iter().flat_map(|token| token.split(is_inner));
    let all: Vec<&str> = iter::once(word)
        .chain(tokens.iter().copied())
        .chain(values)
        .chain(inner)
        .collect();
    let mut parts = Vec::new();
    for part in all {
        match part.strip_prefix('-') {
            None => parts.push(part),
            // A long option; its value is a part of its own.
            Some(long) if long.starts_with('-') => {}
            Some(short) => parts.extend(tails(short)),
        }
    }
    parts
}

/// Words of a line as a shell reads them, without quotes and backslashes; none where the line has no such characters.
/// The files that the shell writes to are left out.
fn unquoted(line: &str) -> Vec<String> {
    if !line.contains(['"', '\'', '\\']) {
        return Vec::new();
    }
    let mut words = Vec::new();
    let (mut word, mut quote, mut is_written) = (String::new(), None, false);
    let mut before = ' ';
    // Ends the last word as well.
    let mut chars = line.chars().chain([' ']);
    while let Some(char) = chars.next() {
        let is_read = std::mem::replace(&mut before, char) == '<';
        match (quote, char) {
            (Some(open), char) if open == char => quote = None,
            (None, '"' | '\'') => quote = Some(char),
            (None | Some('"'), '\\') => word.extend(chars.next()),
            (None, char) if is_boundary(char) => {
                let ended = std::mem::take(&mut word);
                if !ended.is_empty() && !std::mem::take(&mut is_written) {
                    words.push(ended);
                }
                // The file behind `<>` is read.
                is_written |= char == '>' && !is_read;
            }
            (_, char) => word.push(char),
        }
    }
    // A quote that is not closed.
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// Values that may be attached to the letters of a short option: `Bmserver` may be `-B -m server`.
fn tails(short: &str) -> impl Iterator<Item = &str> {
    let letters = short
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .count();
    (1..=letters).map(|letters| &short[letters..])
}

/// Paths of the files that a program may load instead of the one that is named: with an ending, or of a module.
pub(crate) fn files(part: &str) -> Vec<String> {
    if part.ends_with('/') {
        return Vec::new();
    }
    let mut files: Vec<String> = ENDS.iter().map(|end| format!("{part}{end}")).collect();
    if part.contains("::") {
        let module = part.replace("::", "/");
        files.extend([".pm", ".pmc"].map(|end| format!("{module}{end}")));
    }
    if let Some(module) = part.strip_prefix(':') {
        // The debugger of Perl: `-d:Module`, also with options.
        let module = module.split('=').next().unwrap_or(module);
        let module = module.trim_start_matches('-').replace("::", "/");
        files.extend([".pm", ".pmc"].map(|end| format!("Devel/{module}{end}")));
    }
    if !part.contains('/') {
        // Each package of a module of Python is loaded on the way to it.
        let mut module = String::new();
        for name in part.split('.').filter(|name| !name.is_empty()) {
            if !module.is_empty() {
                module.push('/');
            }
            module.push_str(name);
            if module.len() > MAX_PATH_BYTES {
                return files;
            }
            files.push(format!("{module}/__init__.py"));
        }
        if !module.is_empty() {
            let mains = [".py", ".pyc", ".lua", ".class", "/__main__.py"];
            files.extend(mains.iter().map(|end| format!("{module}{end}")));
        }
    }
    files
}

/// Returns whether a command line runs a line of a shell that does not tell its files by its text: a word of it that
/// looks like a path has variables, patterns, commands or quotes in it, it has a pipe, or it copies, moves, links or
/// writes files. The same is true for the text of a program that may build the names of its files.
#[must_use]
pub fn is_unclear<'a>(words: impl IntoIterator<Item = &'a str>) -> bool {
    let words: Vec<&str> = words.into_iter().collect();
    let is_unclear_line = |line: &str| {
        let is_unclear = line.split(is_boundary).any(is_unclear_word);
        is_unclear || has_pipe(line) || line.split(COMMAND_ENDS).any(copies) || writes(line)
    };
    let mut lines = shell_lines(words.iter().copied()).into_iter();
    lines.any(is_unclear_line) || arguments::has_unclear_text(&words)
}

/// Returns the words of a command line that may be lines of a shell.
#[must_use]
pub fn shell_lines<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let (mut has_option, mut in_line) = ([false; LINES.len()], false);
    let mut lines = Vec::new();
    for word in words {
        let name = word.rsplit('/').next().unwrap_or(word);
        lines.extend(in_line.then_some(word));
        let options = LINES.iter().zip(has_option);
        for ((_, short, long), _) in options.filter(|(_, has_option)| *has_option) {
            match word.strip_prefix('-') {
                Some(rest) if rest.starts_with('-') => in_line |= is_long(word, long),
                Some(rest) => in_line |= rest.contains(*short),
                None => {}
            }
        }
        // The line may be part of the word: `--call='./$x'`, `-S./$x`.
        if in_line && word.starts_with('-') {
            let value = word.trim_start_matches('-').split_once(['=', 'S', 'c']);
            lines.extend(value.map(|(_, line)| line));
        }
        for ((programs, ..), has_option) in LINES.iter().zip(&mut has_option) {
            *has_option |= programs.contains(&name);
        }
    }
    lines
}

/// Returns the words of a command line, those of lines of a shell apart. Other words with blanks, such as prompts, have
/// no part in it.
#[must_use]
pub fn command_words<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let plain = words.iter().copied();
    let plain = plain.filter(|word| !word.contains(char::is_whitespace));
    let lines = shell_lines(words.iter().copied()).into_iter();
    let lines = lines.filter(|line| line.contains(char::is_whitespace));
    let all = plain.chain(lines).flat_map(shell_words);
    all.collect()
}

/// Returns the words of a line of a shell.
pub fn shell_words(line: &str) -> impl Iterator<Item = &str> {
    let is_end = |char: char| is_boundary(char) || char == '\'' || char == '"';
    line.split(is_end).filter(|word| !word.is_empty())
}

/// Returns whether a word is a long option, with or without a value.
fn is_long(word: &str, option: &str) -> bool {
    let rest = word.strip_prefix(option);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// Characters that end a word of a shell line, quotes aside.
fn is_boundary(char: char) -> bool {
    char.is_whitespace() || ";|&()<>".contains(char)
}

/// Returns whether a line of a shell has a pipe: a shell or an interpreter may read its commands from it.
fn has_pipe(line: &str) -> bool {
    line.replace("||", "").contains('|')
}

/// Returns whether a command before the last one of a shell line writes to a file.
fn writes(line: &str) -> bool {
    let line = [">&1", ">&2", ">&-"]
        .iter()
        .fold(line.replace(">>", ">"), |line, end| line.replace(end, ""));
    let commands = line.split(COMMAND_ENDS);
    let mut commands: Vec<&str> = commands
        .filter(|command| !command.trim().is_empty())
        .collect();
    commands.pop();
    let files = commands
        .iter()
        .flat_map(|command| command.split('>').skip(1));
    let mut files = files.map(str::trim_start);
    // The name behind `>&` is in the next part.
    files.any(|file| !file.starts_with("/dev/"))
}

/// Returns whether a command of a shell line copies, moves, links or writes files.
fn copies(command: &str) -> bool {
    let words = command.split_whitespace();
    let names = words.map(|word| word.replace(['\'', '"', '\\'], ""));
    let names: Vec<String> = names.collect();
    let git = names
        .iter()
        .position(|word| word.rsplit('/').next() == Some("git"));
    // The value of an option is no command that only reads.
    let command = git.and_then(|git| names[git + 1..].iter().find(|word| !word.starts_with('-')));
    let has_output = || {
        names
            .iter()
            .any(|word| word.split('=').next() == Some("--output"))
    };
    let changes =
        command.is_some_and(|command| !GIT_READS.contains(&command.as_str()) || has_output());
    changes
        || names.iter().enumerate().any(|(place, word)| {
            let name = word.rsplit('/').next().unwrap_or(word);
            // Package managers have a command of this name.
            COPIERS.contains(&name) || place == 0 && name == "install"
        })
}

fn is_unclear_word(word: &str) -> bool {
    let unquoted = |quote: char| word.strip_prefix(quote)?.strip_suffix(quote);
    let bare = unquoted('"').or_else(|| unquoted('\'')).unwrap_or(word);
    let starts = word.trim_start_matches(['"', '\'']);
    let is_path = bare.contains(['/', '.']) || starts.starts_with(['$', '`', '~']);
    let is_expanded = bare.contains(['$', '`', '*', '?', '[', '{', '~', '\'', '"', '\\']);
    let is_word = !word.starts_with('-') && !word.contains('=');
    is_path && is_expanded || is_word && bare.contains(['$', '`', '*', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_word_are_its_paths_and_the_values_of_its_options() {
        for (word, expected) in [
            ("server.py", &["server.py"][..]),
            ("--env-file=.env.txt", &[".env.txt"]),
            ("-mserver", &["server", "erver", "rver", "ver", "er", "r"]),
            ("-r./x", &["./x"]),
            ("-Bmx", &["mx", "x"]),
            ("-", &[]),
            ("mod.ts?x=1", &["mod.ts?x=1", "mod.ts", "x", "1"]),
            (
                "alias.x=!./x.txt",
                &["alias.x=!./x.txt", "alias.x", "./x.txt"],
            ),
            ("a >b c", &["a >b c", "a", "c"]),
            ("a <>b c", &["a <>b c", "a", "b", "c"]),
            ("a 3<> b", &["a 3<> b", "a", "3", "b"]),
            ("a <>'b'", &["a <>'b'", "a", "b"]),
            ("a <>b >c", &["a <>b >c", "a", "b"]),
            ("--require=./a b.js", &["b.js", "./a b.js", "./a"]),
            (
                "sh a' 'b \"r\"u\\n",
                &[
                    "sh a' 'b \"r\"u\\n",
                    "sh",
                    "a",
                    "b",
                    "r",
                    "u\\n",
                    "a b",
                    "run",
                ],
            ),
            (
                "--import=./a\tb.js",
                &["b.js", "./a\tb.js", "./a", "./ab.js"],
            ),
        ] {
            assert_eq!(parts(word).words, expected, "{word}");
        }
    }

    /// Number of bytes of all parts of a word.
    fn bytes(parts: &Parts) -> usize {
        parts.words.iter().map(String::len).sum()
    }

    #[test]
    fn parts_of_a_long_word_are_bounded() {
        for piece in [
            "a", "a ", "a=", "a:", "-a", "a>", "\t", "a\tb", "'", "\\ ", "-a=", " -", "é", "../",
        ] {
            for length in [100, 2_000, MAX_WORD_BYTES, MAX_WORD_BYTES + 1] {
                for start in ["", "-", "--x=", "-x "] {
                    let mut word = start.to_owned();
                    while word.len() + piece.len() <= length {
                        word.push_str(piece);
                    }
                    let parts = parts(&word);
                    assert!(parts.words.len() <= MAX_PARTS, "{piece:?} {length}");
                    assert!(bytes(&parts) <= MAX_PARTS * 1_024, "{piece:?} {length}");
                }
            }
        }
        let tails = |letters: usize| parts(&format!("-{}", "a".repeat(letters)));
        assert!(!tails(500).is_cut && tails(1_025).is_cut);
        let list =
            |paths: usize| parts(&Vec::from_iter((0..paths).map(|at| at.to_string())).join(":"));
        assert!(!list(1_000).is_cut && list(1_100).is_cut);
        let letters = |bytes: usize| parts(&"a".repeat(bytes));
        assert_eq!(letters(MAX_PART_BYTES).words.len(), 1);
        assert_eq!(letters(MAX_PART_BYTES + 1), Parts::default());
        assert!(!letters(MAX_WORD_BYTES).is_cut && letters(MAX_WORD_BYTES + 1).is_cut);
    }

    #[test]
    fn long_path_is_found_by_its_short_spelling() {
        let dots = "./".repeat(10_000);
        for word in [
            format!("{dots}x.js"),
            format!("--require={dots}x.js"),
            format!("-r{dots}x.js"),
            format!("{}x.js", "a/../".repeat(4_000)),
        ] {
            let parts = parts(&word);
            assert!(parts.words.iter().any(|part| part == "x.js"));
            assert!(!parts.is_cut);
        }
    }

    #[test]
    fn debugger_module_of_perl_is_a_file() {
        for (option, file) in [
            ("-d:Foo", "Devel/Foo.pm"),
            ("-dt:Foo::Bar=x", "Devel/Foo/Bar.pm"),
        ] {
            let parts = parts(option).words;
            let mut files = parts.iter().flat_map(|part| files(part));
            assert!(files.any(|one| one == file), "{option}");
        }
    }

    #[test]
    fn files_of_a_long_module_are_bounded() {
        let files = files(&"a.".repeat(6_000));
        let bytes: usize = files.iter().map(String::len).sum();
        assert!(bytes < 8 * 1024 * 1024, "{bytes}");
        assert!(files.iter().any(|file| file == "a/a/a/__init__.py"));
    }

    #[test]
    fn option_of_many_shells_is_found() {
        let words = iter::repeat_n("sh", 1_000_000).chain(["-c", "./$x"]);
        assert!(is_unclear(words));
    }

    #[test]
    fn shell_line_with_words_that_it_expands_is_unclear() {
        for words in [
            &["sh", "-c", "$RUN"][..],
            &["sh", "-c", "exec ./x$A"],
            &["sh", "-c", "sh ./*.sh"],
            &["/bin/bash", "-lc", "~/x"],
            &["bash", "-c", "`cat x`"],
            &["env", "sh", "-ec", "./x''.sh"],
            &["zsh", "-c", "./\\x.sh"],
            &["sh", "-c", "\"a dir/x.sh\""],
            &["sh", "-c", "sh r*n"],
            &["sh", "-c", "sh r$N"],
            &["npx", "-c", "./$X"],
            &["npm", "exec", "--call", "node ./$X.js"],
            &["npx", "--call=node ./$X.js"],
            &["env", "-S", "node ./$X.js"],
            &["env", "-Snode ./$X.js"],
            &["/usr/bin/env", "--split-string=node ./$X.js"],
            &["su", "me", "-c", "./*.sh"],
            &["sh", "-c", "ln -sfn sub l; sh l/x.sh"],
            &["sh", "-c", "cd a && exec /bin/c''p -r sub l"],
            &["sh", "-c", "tar c sub | tar x -C l"],
            &["sh", "-c", "install -D sub/x l/x"],
            &["sh", "-c", "echo Li9h|base64 -d|sh"],
            &["sh", "-c", "cut -c2- n |& sh"],
            &["sh", "-c", "git show x:a.js > b.js; exec node b.js"],
            &["sh", "-c", "git -C d pull && node a.js"],
            &["sh", "-c", "git checkout x; node a.js"],
            &["sh", "-c", "git diff --output=a.js x; node a.js"],
            &["sh", "-c", "git log --output a.js; node a.js"],
            &["sh", "-c", "echo x >&a.js; node a.js"],
            &["sh", "-c", "echo x >> a.js; node a.js"],
            &["sh", "-c", "unzip x; node a.js"],
        ] {
            assert!(is_unclear(words.iter().copied()), "{words:?}");
        }
        for words in [
            &["sh", "-c", "cd sub && exec python3 './main.py'"][..],
            &["sh", "run.sh", "*.txt"],
            &["node", "-c", "./$x"],
            &["sh", "-c", "exit"],
            &["sh", "-c", "node server.js || exit 1"],
            &["npx", "-y", "./$X"],
            &["npx", "-c", "node ./server.js"],
            &["sh", "-c", "npm install && node server.js"],
            &[
                "sh",
                "-c",
                "git rev-parse HEAD 2>>/dev/null >&-; node a.js 2>&1 > log",
            ],
            &["ln", "-s", "sub", "l"],
            &["env", "A=./$X", "node", "server.js"],
        ] {
            assert!(!is_unclear(words.iter().copied()), "{words:?}");
        }
    }
}
