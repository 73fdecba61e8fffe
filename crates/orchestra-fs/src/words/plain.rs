//! Words without program text, patterns and quotes. A program that runs such a word, or completes a path in it, finds only
//! the paths that its text names.

use super::{arguments::texts, has_pipe, shell_lines};

/// Punctuation of plain words.
const PUNCTUATION: &str = "_-./:=@+,#";

/// Further punctuation of URLs.
const URL_PUNCTUATION: &str = "&%";

/// Further punctuation of plain lines of a shell, in which [`is_unclear`](super::is_unclear) finds paths that the shell
/// completes.
const SHELL_PUNCTUATION: &str = " \t\n;&|<>'\"$";

/// Returns whether the arguments of a command line, program first, are plain. A line of a shell, and the text of a
/// program behind the option of its interpreter, may have further punctuation: [`is_unclear`](super::is_unclear) finds
/// the texts that may run files which they do not name.
#[must_use]
pub fn is_plain_line(words: &[&str]) -> bool {
    let mut known = texts(words, true);
    known.extend(
        shell_line(words)
            .into_iter()
            .filter(|line| is_plain_shell(line)),
    );
    words.iter().skip(1).all(|word| {
        // The text may be attached to its option.
        let is_option = |option: &str| option.is_empty() || option.starts_with('-');
        let is_known = |text: &&str| {
            let option = word.strip_suffix(*text);
            option.is_some_and(|option| is_option(option) && is_plain(option))
        };
        is_plain(word) || is_plain_json(word) || known.iter().any(is_known)
    })
}

/// Returns whether a text has only plain words, with single spaces between them, or is a URL.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    // Node.js, Bun and Deno run the program in such a URL.
    let lower = text.to_ascii_lowercase();
    let mut starts = lower.split([' ', '=']);
    let is_data = starts.any(|start| start.starts_with("data:") && start.contains(','));
    let is_word =
        |word: &str| !word.is_empty() && (word.chars().all(is_plain_char) || is_requirement(word));
    let is_text = text.is_empty() || text.split(' ').all(is_word);
    !is_data && (is_text || is_plain_url(text))
}

/// Returns whether a text names a package with extras or a version, such as `mcp[cli]>=1.0` (PEP 508) and `server@^1.2`
/// (npm). A shell finds no program in it.
fn is_requirement(text: &str) -> bool {
    let end = text.find(['[', '<', '>', '=', '~', '!', '^']);
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    if let Some(package) = name.strip_suffix('@') {
        let version = rest.strip_prefix(['^', '~']).unwrap_or_default();
        return is_version(version) && package.chars().all(is_plain_char);
    }
    let is_of_name = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    let rest = match rest.strip_prefix('[').map(|rest| rest.split_once(']')) {
        None => rest,
        Some(Some((extras, rest))) if extras.chars().all(|c| is_of_name(c) || c == ',') => rest,
        Some(_) => return false,
    };
    let operators = ["==", ">=", "<=", "~=", "!=", ">", "<"];
    let is_clause = |clause: &str| {
        let version = operators.iter().find_map(|sign| clause.strip_prefix(sign));
        version.is_some_and(is_version)
    };
    !name.is_empty()
        && name.chars().all(is_of_name)
        && (rest.is_empty() || rest.split(',').all(is_clause))
}

fn is_version(text: &str) -> bool {
    let is_of_version = |char: char| char.is_ascii_alphanumeric() || "._+-".contains(char);
    text.starts_with(|char: char| char.is_ascii_digit()) && text.chars().all(is_of_version)
}

/// Returns whether a text is JSON whose brackets and quotes are its only further punctuation.
fn is_plain_json(text: &str) -> bool {
    let is_of_json = |char: char| is_plain_char(char) || " {}[]\"".contains(char);
    let is_parsed = || serde_json::from_str::<serde_json::Value>(text).is_ok();
    text.starts_with(['{', '[']) && text.chars().all(is_of_json) && is_parsed()
}

/// Returns whether a text is a plain URL, or an option with one as its value.
fn is_plain_url(text: &str) -> bool {
    let url = match text.split_once('=') {
        Some((option, url)) if option.starts_with('-') && is_plain(option) => url,
        _ => text,
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let is_of_scheme = |char: char| char.is_ascii_alphanumeric() || "+-.:".contains(char);
    let is_of_query = |char: char| is_plain_char(char) || URL_PUNCTUATION.contains(char);
    // A `&` in front of the query would end a command of a shell.
    let is_of_path = |char: char| char != '&' && is_of_query(char);
    scheme.starts_with(|char: char| char.is_ascii_alphabetic())
        && scheme.chars().all(is_of_scheme)
        && path.chars().all(is_of_path)
        && query.chars().all(is_of_query)
}

/// Letters of all scripts count: no program has a meaning for them that it has not for ASCII letters.
fn is_plain_char(char: char) -> bool {
    char.is_alphanumeric() || PUNCTUATION.contains(char)
}

/// The line that a shell runs, whole or behind its option; the words behind it are its arguments.
fn shell_line<'l>(words: &[&'l str]) -> Vec<&'l str> {
    let mut attached = None;
    for line in shell_lines(words.iter().copied()) {
        match words.contains(&line) {
            // The rest of the letters of an option comes first: `-ce`.
            true if !line.is_empty() && !line.starts_with('-') => {
                return attached.into_iter().chain([line]).collect();
            }
            false if !line.is_empty() => attached = attached.or(Some(line)),
            _ => {}
        }
    }
    attached.into_iter().collect()
}

fn is_plain_shell(line: &str) -> bool {
    let is_expected = |char: char| is_plain_char(char) || SHELL_PUNCTUATION.contains(char);
    line.chars().all(is_expected) && !has_pipe(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_with_program_text_or_a_pattern_is_not_plain() {
        for words in [
            &["awk", "BEGIN{system(\"./a\" \"b\")}"][..],
            &["sed", "1e ./a?b"],
            &["git", "-c", "alias.x=!./ab", "x"],
            &["git", "ls-remote", "ext::./a%s"],
            &["make", "--eval=all:;./ab"],
            &["make", "X=$(shell ./ab)"],
            &["strace", "-o", "|./ab", "true"],
            &["watch", "~/ab"],
            &["vim", "-c", "exe './a' . 'b'"],
            &["perl", "-Mstrict;do('./a'.'b')", "s.pl"],
            &["python3", "-m", "timeit", "-s", "exec(input())"],
            &["node", "--import", "data:text/javascript,import"],
            &["node", "--import=DATA:text/javascript,import"],
            &["sg", "root", "http://a/&./b"],
            &["sg", "root", "http://a?b?c"],
            &["env", "-S", "awk", "BEGIN{system(\"./a\" \"b\")}"],
            &["env", "-Sawk", "BEGIN{system(\"./a\" \"b\")}"],
            &["env", "-S", "perl", "-Mstrict;do q/./a/.q/b/", "s.pl"],
            &["sh", "-c", "exec ./x", "a;b"],
            &["sh", "-c", "awk 'BEGIN{system(\"./a\" \"b\")}'"],
            &["sh", "-c", "sh [e]vil"],
            &["sh", "-c", "echo a|sh"],
            &["sg", "root", "./a[b]c"],
            &["sg", "root", "a[b]c"],
            &["sg", "root", "a>./b"],
            &["sg", "root", "a@^$x"],
            &["sg", "root", r#"{"a": "$(./b)"}"#],
            &["server", "a  b"],
            &["server", "a\nb"],
            &["server", "a\u{a0}b"],
        ] {
            assert!(!is_plain_line(words), "{words:?}");
        }
    }

    #[test]
    fn honest_command_line_is_plain() {
        for words in [
            &["npx", "-y", "@a/server@1.2.3", "--port=80", "."][..],
            &["npx", "-y", "github:a/b#v1"],
            &["npx", "mcp-remote", "https://a.com/mcp?key=a%20b&x=1#y"],
            &[
                "npx",
                "mcp-remote",
                "x",
                "--header",
                "Authorization: Bearer a=",
            ],
            &["uvx", "--from", "git+https://a.com/b@v1", "thing"],
            &["server", "--url=postgres://a:b%40@localhost/db?sslmode=x"],
            &[
                "docker",
                "run",
                "-i",
                "--rm",
                "-v",
                "/a/data:/b:ro",
                "-e",
                "A=1",
                "x:2",
            ],
            &["server", "--title", "Grüße 世界", "", "metadata: a, b"],
            &["docker", "run", "-v", "./data:/data:ro,z", "mcp/git"],
            &["uv", "run", "--with", "mcp[cli]", "mcp", "run", "server.py"],
            &["uvx", "thing[a,b]~=1.0,<2"],
            &["npx", "-y", "@a/server@^1.2"],
            &[
                "npx",
                "-y",
                "@a/cli",
                "run",
                "x",
                "--config",
                r#"{"key":"v"}"#,
            ],
            &["python3", "-c", "from server import main; main()"],
            &["node", "--eval=require('./dist/index.js').start()"],
            &["sh", "-c", "cd sub && exec python3 './main.py' >&2"],
            &["sh", "-ce", "./a || exit 1; exec ./b"],
            &["npx", "--call=node ./server.js"],
            &["/a (b)/server", "x"],
            &["server"],
        ] {
            assert!(is_plain_line(words), "{words:?}");
        }
    }
}
