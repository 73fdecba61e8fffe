//! Arguments of a command line by their use: texts of programs, and words that may name directories.

use super::{shell_lines, shell_words};

/// Options and commands with a directory in which a program works.
pub const MOVES: [&str; 10] = [
    "--cwd",
    "--dir",
    "--directory",
    "--prefix",
    "--project",
    "--project-dir",
    "--project-directory",
    "--working-directory",
    "-C",
    "cd",
];

/// Programs with the text of a program as the value of an option: beginnings of their names, the letters of the short
/// options, and the long ones.
const TEXTS: [(&[&str], &[char], &[&str]); 6] = [
    (&["guile", "pwsh", "pypy", "python"], &['c'], &["-Command"]),
    (
        &["bun", "node", "tsx", "ts-node"],
        &['e', 'p'],
        &["--eval", "--print"],
    ),
    (&["deno"], &[], &["eval"]),
    (&["php"], &['B', 'E', 'R', 'r'], &["--run"]),
    (
        &[
            "Rscript", "clj", "clojure", "elixir", "groovy", "jruby", "julia", "lua", "perl",
            "ruby", "scala",
        ],
        &['E', 'e'],
        &["--eval", "--print"],
    ),
    (&["emacs", "sbcl"], &[], &["--eval", "-eval"]),
];

/// Words of the text of a program that are followed by a name.
const KEYWORDS: [&str; 5] = ["as", "await", "from", "import", "use"];

/// Interpreters that run the main file of a directory, by the beginnings of their names.
const MAIN: [&str; 7] = ["bun", "deno", "node", "pypy", "python", "ts-node", "tsx"];

/// Returns whether a command line has the text of a program that is more than names, and calls without an argument or
/// with one plain text. Such a text may build the names of the files that it runs.
pub(super) fn has_unclear_text(words: &[&str]) -> bool {
    let lines = shell_lines(words.iter().copied());
    let lines = lines
        .into_iter()
        .filter(|line| line.contains(char::is_whitespace));
    let is_unclear_line = |line: &str| {
        let words: Vec<&str> = shell_words(line).collect();
        !texts(&words).is_empty() && !is_plain(line)
    };
    texts(words).into_iter().any(|text| !is_plain(text)) || lines.into_iter().any(is_unclear_line)
}

/// Texts of programs among words.
fn texts<'l>(words: &[&'l str]) -> Vec<&'l str> {
    let (mut found, mut is_next) = (Vec::new(), false);
    let mut has_program = [false; TEXTS.len()];
    for &word in words {
        if std::mem::take(&mut is_next) {
            found.push(word);
        }
        let known = TEXTS.iter().zip(has_program);
        for ((_, letters, long), _) in known.filter(|(_, has_program)| *has_program) {
            let (option, value) = match word.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (word, None),
            };
            if long.contains(&option) {
                is_next |= value.is_none();
                found.extend(value);
                continue;
            }
            let Some(short) = word.strip_prefix('-') else {
                continue;
            };
            if let Some((flags, text)) = short.split_once(*letters)
                && flags.chars().all(|char| char.is_ascii_alphanumeric())
            {
                // The text, or further letters of options.
                is_next |= text.chars().all(|char| char.is_ascii_alphanumeric());
                found.push(text);
            }
        }
        let name = word.rsplit('/').next().unwrap_or(word);
        for ((programs, ..), has_program) in TEXTS.iter().zip(&mut has_program) {
            *has_program |= programs.iter().any(|program| name.starts_with(program));
        }
    }
    found
}

/// Returns whether the text of a program consists of names, and of calls without an argument or with one plain text.
fn is_plain(text: &str) -> bool {
    let mut rest = text.trim();
    // The last name, and the character before the rest. A semicolon stands for the start.
    let (mut name, mut before) = ("", ';');
    while let Some(char) = rest.chars().next() {
        let is_name = |char: char| char.is_ascii_alphanumeric() || "_.:".contains(char);
        if is_name(char) {
            let end = rest.find(|char| !is_name(char)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            let is_joined = before == ' ' && !KEYWORDS.contains(&name) && !KEYWORDS.contains(&word);
            // A dot joins texts in Perl and PHP.
            let is_call = before == ')' && word.starts_with('.') && word.len() > 1;
            if is_joined || !(is_call || " ;,".contains(before)) {
                return false;
            }
            (name, before, rest) = (word, 'a', behind);
        } else if char == '\'' || char == '"' {
            let Some((literal, behind)) = rest.split_at(1).1.split_once(char) else {
                return false;
            };
            let is_simple = |char: char| char.is_ascii_alphanumeric() || "_./:@-".contains(char);
            if !"( a".contains(before) || !literal.chars().all(is_simple) {
                return false;
            }
            (before, rest) = ('"', behind.trim_start_matches([' ', '\t']));
        } else {
            let is_expected = match char {
                ' ' | '\t' => true,
                '\n' | ';' => before != '(',
                ',' => "a )".contains(before),
                '(' => before == 'a',
                ')' => "(\"".contains(before),
                _ => false,
            };
            if !is_expected {
                return false;
            }
            let behind = rest.split_at(1).1;
            rest = behind.trim_start_matches([' ', '\t']);
            before = match char {
                '\n' => ';',
                '\t' => ' ',
                // Blanks between names alone have a meaning.
                ' ' if before != 'a' => before,
                char => char,
            };
        }
    }
    before != '('
}

/// Returns the words behind the program of a command line that may name a directory of which a program loads files. Left
/// out are the directories in which programs work, and scripts and modules, whose main file is known.
#[must_use]
pub fn directory_words<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let lines = shell_lines(words.iter().copied());
    let has_python = words
        .iter()
        .any(|word| is_main(word) && word.contains("py"));
    let mut found = Vec::new();
    for pair in words.windows(2) {
        let [before, word] = *pair else { continue };
        if word.contains(char::is_whitespace) && lines.contains(&word) {
            let words: Vec<&str> = shell_words(word).collect();
            found.extend(directory_words(&words));
            continue;
        }
        let is_script = is_main(before) && !word.starts_with('-');
        let is_module = before == "-m" && has_python;
        if !is_script && !is_module && !MOVES.contains(&before) {
            found.push(word);
        }
    }
    found
}

/// Returns whether a program runs the main file of a directory.
fn is_main(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    MAIN.iter().any(|program| name.starts_with(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_program_with_more_than_names_and_plain_calls_is_unclear() {
        for words in [
            &["python3", "-c", "exec(open('sr' 'v.py').read())"][..],
            &[
                "python3",
                "-uc",
                "import runpy; runpy.run_path('sr'+'v.py')",
            ],
            &["python3", "-cexec(input())"],
            &["python3", "-c", "ｅxec('x')"],
            &["node", "-e", "require(process.cwd()+'/evil')"],
            &["node", "--eval=require('./a','b')"],
            &["node", "-p", "require(`./x`)"],
            &["node", "-pe", "require(`./x`)"],
            &["deno", "eval", "import('./' + 'x')"],
            &["perl", "-e", "do 'sr'.'v'"],
            &["perl", "-e", "do sr.v"],
            &["ruby", "-e", "load $0"],
            &["sh", "-c", "python3 -c 'exec(input())'"],
        ] {
            assert!(has_unclear_text(words), "{words:?}");
        }
        for words in [
            &["python3", "-c", "from server import main; main()"][..],
            &["python3", "-c", "import srv.main as run\nrun.start()"],
            &["node", "-e", "require('./dist/index.js').start()"],
            &["node", "--eval", "import './server.mjs'"],
            &["node", "dist/index.js", "--title", "a (b)"],
            &["python3", "server.py", "-x", "a+b"],
            &["npx", "-y", "thing", "-e", "a+b"],
            &["uvx", "thing", "é"],
            &["sh", "-c", "python3 server.py 'a+b'"],
        ] {
            assert!(!has_unclear_text(words), "{words:?}");
        }
    }

    #[test]
    fn words_for_directories_exclude_programs_scripts_and_moves() {
        for (words, expected) in [
            (
                &["git", "--exec-path=bin", "srv"][..],
                &["--exec-path=bin", "srv"][..],
            ),
            (
                &["uv", "--directory", "sub", "run"],
                &["--directory", "run"],
            ),
            (&["node", "tool", "x"], &["x"]),
            (&["python3", "-m", "pkg"], &["-m"]),
            (
                &["sh", "-c", "cd sub && envdir d x"],
                &["-c", "envdir", "d", "x"],
            ),
        ] {
            assert_eq!(directory_words(words), expected, "{words:?}");
        }
    }
}
