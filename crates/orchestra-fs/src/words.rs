//! Words of a command line that may name files.

mod code_paths;
mod spellings;

use std::collections::BTreeSet;

pub use code_paths::CodePaths;
pub(crate) use spellings::lexical;
pub use spellings::spellings;

/// Ends that a file may be named without.
const ENDS: [&str; 27] = [
    ".js", ".mjs", ".cjs", ".jsx", ".json", ".node", ".ts", ".mts", ".cts", ".tsx", ".py", ".pyc",
    ".so", ".rb", ".pl", ".pm", ".lua", ".php", ".sh", ".tcl", ".class", ".jar", ".wasm", ".exe",
    ".beam", ".boot", ".config",
];

/// Files that a program starts with when it is given their directory.
pub(crate) const MAIN_FILES: [&str; 18] = [
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

/// Characters that end a word of a shell line.
fn is_end(char: char) -> bool {
    char.is_whitespace() || "'\"`&|;()<".contains(char)
}

/// Characters that separate the paths in a word: of a list, of an option and its value, of a URL and its query.
fn is_inner(char: char) -> bool {
    "=,:@!?#".contains(char)
}

/// Returns a word of a command line and the words in it that may name files: it may be a list, an option with its
/// value, or a line of a shell. Long options are left out, of short ones each tail is a part, and the file that a shell
/// writes to is left out.
#[must_use]
pub fn parts(word: &str) -> Vec<String> {
    let is_dropped = |char: char| matches!(char, '\t' | '\n' | '\r');
    // Parsers of URLs drop these characters, and Node.js splits its options at spaces alone.
    let joined = word.split(' ').filter(|text| text.contains(is_dropped));
    let joined = joined.map(|text| text.replace(is_dropped, ""));
    let joined: Vec<String> = joined.chain(unquoted(word)).collect();
    let mut known = BTreeSet::new();
    let words = std::iter::once(word).chain(joined.iter().map(String::as_str));
    let mut parts: Vec<&str> = words.flat_map(parts_of).collect();
    parts.retain(|part| !part.is_empty() && known.insert(*part));
    parts.into_iter().map(str::to_owned).collect()
}

fn parts_of(word: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let is_line = word.contains(char::is_whitespace);
    let mut pieces = word.split('>');
    tokens.extend(
        pieces
            .next()
            .into_iter()
            .flat_map(|piece| piece.split(is_end)),
    );
    for piece in pieces {
        let piece = piece.trim_start_matches(|char: char| char.is_whitespace() || char == '&');
        // A shell writes to the file behind `>`.
        let is_over = |char| is_end(char) || is_inner(char);
        let written = match is_line {
            true => piece.find(is_over).unwrap_or(piece.len()),
            false => 0,
        };
        tokens.extend(piece[written..].split(is_end));
    }
    // The value of an option may have any characters in it.
    let options = std::iter::once(&word).chain(&tokens);
    let options = options.filter(|token| token.starts_with('-'));
    let values = options.filter_map(|option| Some(option.split_once('=')?.1));
    let inner = tokens.iter().flat_map(|token| token.split(is_inner));
    let all: Vec<&str> = std::iter::once(word)
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
    // Ends the last word as well.
    let mut chars = line.chars().chain([' ']);
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), char) if open == char => quote = None,
            (None, '"' | '\'') => quote = Some(char),
            (None | Some('"'), '\\') => word.extend(chars.next()),
            (None, char) if is_boundary(char) => {
                let ended = std::mem::take(&mut word);
                if !ended.is_empty() && !std::mem::take(&mut is_written) {
                    words.push(ended);
                }
                is_written |= char == '>';
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
        files.push(format!("{}.pm", part.replace("::", "/")));
    }
    if !part.contains('/') {
        // Each package of a module of Python is loaded on the way to it.
        let mut module = String::new();
        for name in part.split('.').filter(|name| !name.is_empty()) {
            if !module.is_empty() {
                module.push('/');
            }
            module.push_str(name);
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
/// looks like a path has variables, patterns, commands or quotes in it.
#[must_use]
pub fn is_unclear<'a>(words: impl IntoIterator<Item = &'a str>) -> bool {
    let mut options: Vec<(char, &str)> = Vec::new();
    let mut in_line = false;
    for word in words {
        let name = word.rsplit('/').next().unwrap_or(word);
        if in_line && word.split(is_boundary).any(is_unclear_word) {
            return true;
        }
        for (short, long) in &options {
            match word.strip_prefix('-') {
                Some(rest) if rest.starts_with('-') => in_line |= is_long(word, long),
                Some(rest) => in_line |= rest.contains(*short),
                None => {}
            }
        }
        // The line may be part of the word: `--call='./$x'`, `-S./$x`.
        if in_line && word.starts_with('-') {
            let value = word.trim_start_matches('-').split_once(['=', 'S', 'c']);
            if value.is_some_and(|(_, line)| line.split(is_boundary).any(is_unclear_word)) {
                return true;
            }
        }
        for (programs, short, long) in LINES {
            if programs.contains(&name) {
                options.push((short, long));
            }
        }
    }
    false
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
            assert_eq!(parts(word), expected, "{word}");
        }
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
        ] {
            assert!(is_unclear(words.iter().copied()), "{words:?}");
        }
        for words in [
            &["sh", "-c", "cd sub && exec python3 './main.py'"][..],
            &["sh", "run.sh", "*.txt"],
            &["node", "-c", "./$x"],
            &["sh", "-c", "exit"],
            &["npx", "-y", "./$X"],
            &["npx", "-c", "node ./server.js"],
            &["env", "A=./$X", "node", "server.js"],
        ] {
            assert!(!is_unclear(words.iter().copied()), "{words:?}");
        }
    }
}
