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

/// Programs that run the text of a program in the value of an option.
struct Interpreter {
    programs: &'static [&'static str],
    /// Letters of the short options with a text.
    letters: &'static [char],
    long: &'static [&'static str],
    /// Letters of short options with another value, which may be attached.
    values: &'static [char],
}

const INTERPRETERS: [Interpreter; 6] = [
    Interpreter {
        programs: &[
            "guile",
            "pwsh",
            "pypy",
            "pypy-c",
            "python",
            "python-dbg",
            "pythonw",
        ],
        letters: &['c'],
        long: &["-Command"],
        // The option `-I` of Python has no value.
        values: &['W', 'X', 'm'],
    },
    Interpreter {
        programs: &[
            "bun",
            "node",
            "nodejs",
            "tsx",
            "ts-node",
            "ts-node-cwd",
            "ts-node-esm",
            "ts-node-script",
            "ts-node-transpile-only",
        ],
        letters: &['e', 'p'],
        long: &["--eval", "--print"],
        values: &['r'],
    },
    Interpreter {
        programs: &["deno"],
        letters: &[],
        long: &["eval"],
        values: &[],
    },
    Interpreter {
        programs: &["php", "php-cli"],
        letters: &['B', 'E', 'R', 'r'],
        long: &["--run"],
        values: &['d'],
    },
    Interpreter {
        programs: &[
            "Rscript",
            "clj",
            "clojure",
            "elixir",
            "groovy",
            "jruby",
            "julia",
            "lua",
            "luajit",
            "perl",
            "ruby",
            "scala",
            "scala-cli",
        ],
        letters: &['E', 'e'],
        long: &["--eval", "--print"],
        values: &['I', 'M', 'm', 'r'],
    },
    Interpreter {
        programs: &["emacs", "emacs-gtk", "emacs-nox", "sbcl"],
        letters: &[],
        long: &["--eval", "-eval"],
        values: &[],
    },
];

/// Words of the text of a program that are followed by a name.
const KEYWORDS: [&str; 6] = ["as", "await", "from", "import", "use", "using"];

/// Commands and programs that are followed by the name of a script, a program or a target.
const RUNS: [&str; 5] = ["exec", "just", "make", "run", "run-script"];

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
        // A word behind the name of an interpreter may be the file of a redirection.
        let has_scripts = !line.contains(['<', '>']);
        !texts(&words, has_scripts).is_empty() && !is_plain(line)
    };
    texts(words, true).into_iter().any(|text| !is_plain(text))
        || lines.into_iter().any(is_unclear_line)
}

/// Texts of programs among words. With scripts, options behind a script are those of the script.
pub(super) fn texts<'l>(words: &[&'l str], has_scripts: bool) -> Vec<&'l str> {
    let (mut found, mut is_next) = (Vec::new(), false);
    let mut has_program = [false; INTERPRETERS.len()];
    let mut is_behind_name = [false; INTERPRETERS.len()];
    for &word in words {
        if std::mem::take(&mut is_next) {
            found.push(word);
        }
        // The command `run` of Bun has the same options.
        let is_script = !word.starts_with('-') && word != "run" && word.chars().all(is_simple);
        let name = word.rsplit('/').next().unwrap_or(word);
        let states = has_program.iter_mut().zip(&mut is_behind_name);
        for (interpreter, (has_program, is_behind_name)) in INTERPRETERS.iter().zip(states) {
            // Programs without such letters evaluate texts behind files too.
            if has_scripts && *is_behind_name && is_script && !interpreter.letters.is_empty() {
                *has_program = false;
            }
            if *has_program {
                is_next |= add_text(interpreter, word, &mut found);
            }
            let mut programs = interpreter.programs.iter();
            let is_name = programs.any(|program| is_program(name, program));
            *has_program |= is_name;
            *is_behind_name = is_name || *is_behind_name && word == "run";
        }
    }
    found
}

/// Adds the text of a program in an option of an interpreter. Returns whether the next word may be the text.
fn add_text<'l>(interpreter: &Interpreter, word: &'l str, found: &mut Vec<&'l str>) -> bool {
    let (option, value) = match word.split_once('=') {
        Some((option, value)) => (option, Some(value)),
        None => (word, None),
    };
    if interpreter.long.contains(&option) {
        found.extend(value);
        return value.is_none();
    }
    let Some(short) = word.strip_prefix('-') else {
        return false;
    };
    // The value of `-M` of Perl may have code in it.
    let is_value = |char: char| is_simple(char) || "=,".contains(char);
    if short.starts_with(interpreter.values) && short.chars().all(is_value) {
        return false;
    }
    match short.split_once(interpreter.letters) {
        Some((flags, text)) if flags.chars().all(|char| char.is_ascii_alphanumeric()) => {
            found.push(text);
            // The text, or further letters of options.
            text.chars().all(|char| char.is_ascii_alphanumeric())
        }
        _ => false,
    }
}

/// Returns whether a name is that of a program, also with a version.
fn is_program(name: &str, program: &str) -> bool {
    let name = name.strip_suffix(".exe").unwrap_or(name);
    name.strip_prefix(program).is_some_and(|rest| {
        let version = rest.trim_start_matches('-');
        rest.is_empty()
            || rest.starts_with('@')
            || version.starts_with(|char: char| char.is_ascii_digit())
    })
}

/// Returns whether a character has no meaning of its own in a path or in the text of a program.
fn is_simple(char: char) -> bool {
    char.is_ascii_alphanumeric() || "_./:@-".contains(char)
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
            // Lists of directories for modules: `sys.path`, `__path__`, `module.paths`.
            let mut segments = word.split(['.', ':']);
            let has_list =
                segments.any(|segment| ["path", "paths"].contains(&segment.trim_matches('_')));
            if is_joined || has_list || !(is_call || " ;,".contains(before)) {
                return false;
            }
            (name, before, rest) = (word, 'a', behind);
        } else if char == '\'' || char == '"' {
            let Some((literal, behind)) = rest.split_at(1).1.split_once(char) else {
                return false;
            };
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
/// out are the directories in which programs work, scripts and modules, whose main file is known, and names of scripts,
/// programs and targets.
#[must_use]
pub fn directory_words<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let lines = shell_lines(words.iter().copied());
    let has_python = words
        .iter()
        .any(|word| is_main(word) && word.contains("py"));
    // A bare repository in a directory has settings that run programs.
    let has_git = words
        .iter()
        .any(|word| word.rsplit('/').next() == Some("git"));
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
        let is_target = RUNS.contains(&before) && !word.starts_with('-') && !word.contains('/');
        let is_moved = MOVES.contains(&before) && !has_git;
        if !is_script && !is_module && !is_target && !is_moved {
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
            &[
                "python3",
                "-c",
                "import sys; sys.path.extend('ab'); import evil",
            ],
            &["node", "-e", "module.paths.push('a'); require('x')"],
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
            &["sh", "-c", "node >x -e 'require(`./x`)'"],
            &["python3", "-Ic", "exec(input())"],
            &["python3.12", "-c", "exec(input())"],
            &["npx", "node@22", "-e", "require(`./x`)"],
            &["bun", "run", "-e", "require(`./x`)"],
            &["emacs", "x.el", "--eval", "(load (f))"],
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
            &["python3", "server.py", "-c", "./conf.json"],
            &["npx", "tsx", "src/x.ts", "-p", "./data"],
            &["ruby", "-rbundler/setup", "bin/server"],
            &["php", "-dmemory_limit=-1", "x.php"],
            &["bunx", "claude", "-p", "Fix the bug"],
            &["bundle", "exec", "x", "-e", "a+b"],
            &["julia", "-e", "using X; main()"],
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
            (&["uv", "run", "weather", "x"], &["run", "x"]),
            (&["npm", "run-script", "server"], &["run-script"]),
            (&["npm", "exec", "./tool"], &["exec", "./tool"]),
            (&["make", "docs"], &[]),
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
