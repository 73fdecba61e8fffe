//! The English of texts for users: words and openings that make a text hard to read, counted per place.
//!
//! Each pattern has a goal per 100,000 words. Counts above it have a line in `language-limits.txt`. A count above its
//! limit fails, and so does a limit well above its count. `cargo xtask tidy --limits` lowers the limits.

use std::{collections::BTreeMap, env, fmt::Write as _, fs};

use crate::tree::{self, File};

/// Highest counts that are allowed above the goals: place, pattern, count.
const LIMITS: &str = "xtask/language-limits.txt";

/// Variable with which the limits are lowered instead of checked.
const LOWER: &str = "XTASK_LOWER_LIMITS";

/// Number of occurrences that a failure lists.
const LISTED: usize = 20;

struct Pattern {
    name: &'static str,
    phrases: &'static [&'static str],
    /// Whether only the opening of a text counts.
    opens: bool,
    /// Word that, within so many words after the phrase, gives it another meaning.
    unless: Option<(&'static str, usize)>,
    /// Occurrences per 100,000 words that are fine.
    goal: usize,
}

const fn opening(name: &'static str, phrases: &'static [&'static str], goal: usize) -> Pattern {
    Pattern {
        name,
        phrases,
        opens: true,
        unless: None,
        goal,
    }
}

const fn anywhere(name: &'static str, phrases: &'static [&'static str], goal: usize) -> Pattern {
    Pattern {
        name,
        phrases,
        opens: false,
        unless: None,
        goal,
    }
}

const PATTERNS: [Pattern; 14] = [
    opening("opens-with-what", &["what", "who", "whose"], 30),
    opening("opens-with-how", &["how"], 40),
    opening("opens-with-whether", &["whether"], 160),
    opening("opens-with-where", &["where", "why"], 15),
    Pattern {
        unless: Some(("apart", 4)),
        ..anywhere("told", &["told", "tell", "tells"], 30)
    },
    anywhere("says", &["say", "says", "said"], 20),
    anywhere("nobody", &["nobody", "somebody"], 15),
    anywhere(
        "whoever",
        &["whoever", "whatever", "wherever", "whomever"],
        20,
    ),
    anywhere("one-that", &["one that", "those that", "those who"], 15),
    anywhere("kept", &["kept", "keep", "keeps"], 80),
    anywhere("others", &["others"], 15),
    Pattern {
        unless: Some(("for", 1)),
        ..anywhere("stands", &["stand", "stands", "stood"], 15)
    },
    anywhere("goes-on", &["goes on", "go on", "gone on", "went on"], 5),
    anywhere("anew", &["anew"], 3),
];

/// Texts of a file that belong to a place; none of most files.
type Texts = fn(&File) -> Vec<String>;

const PLACES: [(&str, Texts); 7] = [
    ("prose", prose),
    ("rest", rest),
    ("help", help),
    ("errors", errors),
    ("tools", tools),
    ("dashboard", dashboard),
    ("extension", extension),
];

/// Pages at the root and in `docs`, without generated pages and pages for developers.
fn prose(file: &File) -> Vec<String> {
    let is_page = file.path.starts_with("docs/") || !file.path.contains('/');
    let is_left_out = ["docs/internal/", "docs/reference/"]
        .iter()
        .any(|directory| file.path.starts_with(directory));
    match file.path.ends_with(".md") && is_page && !is_left_out {
        true => paragraphs(&file.text),
        false => Vec::new(),
    }
}

/// The generated page of the REST routes. Its texts are doc comments of the routes and their bodies.
fn rest(file: &File) -> Vec<String> {
    match file.path == "docs/reference/rest.md" {
        true => paragraphs(&file.text),
        false => Vec::new(),
    }
}

/// Doc comments of command lines, which clap prints as help.
fn help(file: &File) -> Vec<String> {
    const DERIVED: [&str; 4] = ["Args", "Parser", "Subcommand", "ValueEnum"];
    let mut texts = Vec::new();
    let mut comment = String::new();
    let mut is_help = false;
    for line in source(file, "crates/orchestra/src/") {
        let line = line.trim_end();
        if let Some(text) = line.trim_start().strip_prefix("///") {
            comment.push_str(text);
            continue;
        }
        let derived = line.strip_prefix("#[derive(").unwrap_or_default();
        let mut derived = derived.split(|c: char| !c.is_alphanumeric());
        is_help |= derived.any(|name| DERIVED.contains(&name));
        if is_help && !comment.is_empty() {
            texts.push(comment.clone());
        }
        comment.clear();
        is_help &= line != "}" && !line.ends_with("{}");
    }
    texts
}

/// Texts of error types.
fn errors(file: &File) -> Vec<String> {
    let code = source(file, "crates/").join("\n");
    literals_after(&code, "#[error(")
}

/// Descriptions and refusals of tools, and the descriptions of their arguments.
fn tools(file: &File) -> Vec<String> {
    let code = source(file, "crates/orchestra-tools/src/").join("\n");
    match file.path.ends_with("/generated.rs") {
        true => literals_after(&code, "\"description\":"),
        false => literals(&code, &['"']),
    }
}

/// Strings of the dashboard's scripts.
fn dashboard(file: &File) -> Vec<String> {
    match file.path.starts_with("crates/orchestra-web/assets/") && file.path.ends_with(".js") {
        true => literals(&file.text, &['"', '`']),
        false => Vec::new(),
    }
}

/// Strings of the VS Code extension and of its manifest.
fn extension(file: &File) -> Vec<String> {
    let is_code = file.path.starts_with("editors/vscode/src/");
    match is_code || file.path == "editors/vscode/package.json" {
        true => literals(&file.text, &['"', '`']),
        false => Vec::new(),
    }
}

/// Lines of a Rust file below a directory, without tests.
fn source<'f>(file: &'f File, directory: &str) -> Vec<&'f str> {
    let is_source = file.path.starts_with(directory) && file.path.contains("/src/");
    match is_source && file.path.ends_with(".rs") && !file.is_test() {
        true => file.code(),
        false => Vec::new(),
    }
}

/// Paragraphs, list items, headings and table cells of a Markdown page, without code blocks.
fn paragraphs(page: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut is_code = false;
    for line in page.lines().map(str::trim) {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence {
            paragraphs.push(String::new());
            continue;
        }
        let text = line.trim_start_matches(|c: char| "#*>- ".contains(c) || c.is_ascii_digit());
        let text = text.strip_prefix(". ").unwrap_or(text);
        if text.is_empty() || text.len() < line.len() {
            paragraphs.push(String::new());
        }
        for (column, cell) in text.split('|').enumerate() {
            if column > 0 {
                paragraphs.push(String::new());
            }
            let paragraph = paragraphs.last_mut().unwrap();
            paragraph.push(' ');
            paragraph.push_str(cell);
        }
    }
    paragraphs
}

/// String literals of several words, outside of comments.
fn literals(code: &str, quotes: &[char]) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(|c| c == '/' || c == '\'' || quotes.contains(&c)) {
        let (start, next) = (&rest[at..], rest[at..].chars().next().unwrap());
        let end = match next {
            '/' if start.starts_with("//") => start.find('\n'),
            '/' if start.starts_with("/*") => start.find("*/"),
            '\'' if start.starts_with("'\"'") => Some(3),
            '/' | '\'' => Some(1),
            quote => {
                let (text, end) = literal(&start[1..], quote);
                found.extend(text);
                Some(1 + end)
            }
        };
        rest = end.map_or("", |end| &start[end..]);
    }
    found.retain(|text| text.trim().contains(' '));
    found
}

/// The literal that follows each marker.
fn literals_after(code: &str, marker: &str) -> Vec<String> {
    let parts = code.split(marker).skip(1);
    let starts = parts.filter_map(|part| part.trim_start().strip_prefix('"'));
    starts.filter_map(|start| literal(start, '"').0).collect()
}

/// The rest of a literal after its opening quote, and its length. A plain literal ends with its line, unless the line
/// ends with a backslash.
fn literal(rest: &str, quote: char) -> (Option<String>, usize) {
    let mut text = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next();
                text.push(' ');
            }
            '\n' if quote == '"' => return (None, at),
            c if c == quote => return (Some(text), at + c.len_utf8()),
            c => text.push(c),
        }
    }
    (None, rest.len())
}

/// The words of a text, in lower case. A code span is one word.
fn words(text: &str) -> Vec<String> {
    let spans = text.split('`').enumerate();
    let words = spans.flat_map(|(number, span)| match number % 2 {
        0 => span
            .split(|c: char| !c.is_alphanumeric() && c != '\'')
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect(),
        _ => vec!["`".to_owned()],
    });
    words.collect()
}

impl Pattern {
    /// Number of occurrences in the words of a text.
    fn count(&self, words: &[String]) -> usize {
        let starts = if self.opens { 1 } else { words.len() };
        let starts = (0..starts).map(|start| &words[start..]);
        starts.filter(|words| self.begins(words)).count()
    }

    fn begins(&self, words: &[String]) -> bool {
        self.phrases.iter().any(|phrase| {
            let phrase: Vec<&str> = phrase.split(' ').collect();
            let is_found = words.len() >= phrase.len()
                && phrase.iter().zip(words).all(|(left, right)| left == right);
            let is_other = self.unless.is_some_and(|(word, within)| {
                let after = words.iter().skip(phrase.len());
                after.take(within).any(|found| found == word)
            });
            is_found && !is_other
        })
    }
}

/// Occurrences of a pattern in a place.
struct Count {
    /// File and text of each.
    found: Vec<String>,
    /// Number of occurrences that is fine in as many words as the place has.
    goal: usize,
}

type Key = (String, String);

/// Occurrences of every pattern in every place.
fn counts(files: &[File]) -> BTreeMap<Key, Count> {
    let mut counts = BTreeMap::new();
    for (place, texts) in PLACES {
        let texts: Vec<(String, Vec<String>)> = files
            .iter()
            .flat_map(|file| {
                let texts = texts(file).into_iter();
                texts.map(|text| (format!("{}: {}", file.path, text.trim()), words(&text)))
            })
            .collect();
        let total: usize = texts.iter().map(|(_, words)| words.len()).sum();
        assert!(total > 0, "{place} holds no text");
        for pattern in &PATTERNS {
            let occurrences = texts.iter().flat_map(|(shown, words)| {
                std::iter::repeat_n(shown.clone(), pattern.count(words))
            });
            let count = Count {
                found: occurrences.collect(),
                goal: (pattern.goal * total).div_ceil(100_000),
            };
            counts.insert((place.to_owned(), pattern.name.to_owned()), count);
        }
    }
    counts
}

/// The limits of the file; `None` without a file.
fn limits() -> Option<BTreeMap<Key, usize>> {
    let text = fs::read_to_string(tree::root().join(LIMITS)).ok()?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let limits = lines.map(|line| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let [place, pattern, count] = cells.as_slice() else {
            panic!("{LIMITS}: `{line}` is not a place, a pattern and a count");
        };
        let key = ((*place).to_owned(), (*pattern).to_owned());
        (key, count.parse().unwrap())
    });
    Some(limits.collect())
}

/// Fault of a count, if any.
fn fault(count: &Count, limit: Option<usize>) -> Option<String> {
    let found = count.found.len();
    let allowed = limit.unwrap_or(0).max(count.goal);
    if found > allowed {
        let listed = &count.found[found.saturating_sub(LISTED)..];
        let listed = listed.join("\n  ");
        return Some(format!(
            "{found}, at most {allowed}; the last of them:\n  {listed}"
        ));
    }
    let needed = if found > count.goal { found } else { 0 };
    (limit? > needed + needed / 10 + 1).then(|| {
        format!("{found}: lower its line in {LIMITS} to {needed} (cargo xtask tidy --limits)")
    })
}

/// Writes the limits that counts still need; without a file, those of all counts above their goals.
fn lower(counts: &BTreeMap<Key, Count>, limits: Option<&BTreeMap<Key, usize>>) {
    let mut text =
        "# Written by `cargo xtask tidy --limits`: highest counts above the goals.\n".to_owned();
    for (key, count) in counts {
        let found = count.found.len();
        let limit = limits.map_or(found, |limits| {
            found.min(limits.get(key).copied().unwrap_or(0))
        });
        if limit > count.goal {
            writeln!(text, "{} {} {limit}", key.0, key.1).unwrap();
        }
    }
    fs::write(tree::root().join(LIMITS), text).unwrap();
}

#[test]
fn hard_words_are_within_limits_that_only_go_down() {
    let counts = counts(&tree::files());
    if env::var_os(LOWER).is_some() {
        lower(&counts, limits().as_ref());
    }
    let limits = limits().unwrap_or_default();
    let mut faults = String::new();
    for (key, count) in &counts {
        if let Some(fault) = fault(count, limits.get(key).copied()) {
            writeln!(faults, "{} {}: {fault}", key.0, key.1).unwrap();
        }
    }
    for key in limits.keys().filter(|key| !counts.contains_key(key)) {
        writeln!(faults, "{LIMITS}: no such count: {} {}", key.0, key.1).unwrap();
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn limits_well_above_or_below_their_counts_are_refused() {
    let count = |found: usize| Count {
        found: vec!["a.md: text".to_owned(); found],
        goal: 3,
    };
    for (found, limit, expected) in [
        (3, None, None),
        (4, None, Some("4, at most 3")),
        (20, Some(20), None),
        (21, Some(20), Some("21, at most 20")),
        (18, Some(20), None),
        (
            16,
            Some(20),
            Some("lower its line in xtask/language-limits.txt to 16"),
        ),
        (2, Some(20), Some("to 0")),
    ] {
        let fault = fault(&count(found), limit).unwrap_or_default();
        assert_eq!(!fault.is_empty(), expected.is_some(), "{found}: {fault}");
        assert!(fault.contains(expected.unwrap_or_default()), "{fault}");
    }
}

#[test]
fn texts_of_each_place_are_found() {
    let file = |path: &str, text: &str| File {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let page = "# What\n\nOne\nline. `how`\n\n```\nwho\n```\n- Why | Who\n";
    let texts = prose(&file("docs/page.md", page));
    let texts: Vec<&str> = texts.iter().map(|text| text.trim()).collect();
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    assert_eq!(texts, ["What", "One line. `how`", "Why", "Who"]);
    assert!(prose(&file("docs/reference/page.md", page)).is_empty());
    assert!(rest(&file("docs/reference/page.md", page)).is_empty());
    assert!(!rest(&file("docs/reference/rest.md", page)).is_empty());

    let code = "/// No help.\nstruct A;\n/// Show it\n#[derive(Debug, Args)]\nstruct B {\n    /// Its\n    /// name\n    \
                c: u8,\n}\n/// Neither.\nstruct D;\n";
    let texts = help(&file("crates/orchestra/src/cli.rs", code));
    assert_eq!(texts, [" Show it", " Its name"]);

    let code = "// \"a comment\"\n#[error(\"cannot \\\n    read\")]\nlet a = '\"'; b(\"two words\", \"one\")";
    assert_eq!(
        errors(&file("crates/a/src/b.rs", code)),
        ["cannot      read"]
    );
    let texts = tools(&file("crates/orchestra-tools/src/a.rs", code));
    assert_eq!(texts, ["cannot      read", "two words"]);
    let code = "/** \"no text\" */ a(`of ${b}`, \"c d\")";
    let texts = dashboard(&file("crates/orchestra-web/assets/a.js", code));
    assert_eq!(texts, ["of ${b}", "c d"]);
    assert_eq!(extension(&file("editors/vscode/src/a.ts", code)), texts);
}

#[test]
fn phrases_are_counted_by_word() {
    for (name, text, expected) in [
        ("opens-with-what", "What goes. What stays.", 1),
        ("opens-with-what", "`a` what", 0),
        ("told", "Told twice: it tells. Telling", 2),
        ("told", "tells the two kinds apart", 0),
        ("stands", "a word stands for an idea and stands", 1),
        ("one-that", "one that is, those who are", 2),
        ("kept", "`keep` is kept", 1),
    ] {
        let pattern = PATTERNS.iter().find(|pattern| pattern.name == name);
        assert_eq!(pattern.unwrap().count(&words(text)), expected, "{text}");
    }
}
