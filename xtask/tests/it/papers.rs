//! The papers that answer for the source documents, for the invariants and for security name tests that
//! exist, and leave nothing out.
//!
//! A test is named in backticks as `crate::file::function`, where the file is the one that holds
//! the function, or the directory of a `tests.rs`; one of the extension of VS Code as
//! `editors/vscode::title`.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{self, File};

const WEAKNESSES: &str = "docs/internal/weaknesses.md";
const SEEDS: &str = "docs/internal/seeds.md";
const SERVERS: &str = "docs/internal/servers-checked.md";
const PLUGINS: &str = "docs/internal/plugins-checked.md";
const MEMORY: &str = "docs/internal/memory-checked.md";
const PLANS: &str = "docs/internal/plans-checked.md";
const SECURITY: &str = "docs/security.md";
const INVARIANTS: &str = "docs/internal/invariants.md";
const ARCHITECTURE: &str = "docs/architecture.md";

/// Pages that are read in one sitting, and their maximum size in bytes.
const SHORT: [(&str, usize); 3] = [
    ("README.md", 9 * 1024),
    ("CHANGELOG.md", 8 * 1024),
    (ARCHITECTURE, 30 * 1024),
];

/// Maximum number of invariants on the architecture page.
const MAX_INVARIANTS: usize = 60;

/// The registry of environment variables that the program reads.
const ENVIRONMENT: &str = "crates/orchestra/src/env.rs";

/// What a cell of a row may begin with instead of naming a test.
const WITHOUT_TEST: [&str; 5] = [
    "not yet:",
    "changed, because",
    "later:",
    "not protected:",
    "no test:",
];

fn paper(path: &str) -> String {
    let files = tree::files();
    let paper = files.into_iter().find(|file| file.path == path);
    paper.unwrap_or_else(|| panic!("{path} is missing")).text
}

/// What stands in backticks, with a double colon in it.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines();
    let spans = lines.flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| span.contains("::"))
}

/// The lines of tables, without their heads and rules.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = text.lines().collect();
    let rules = |line: &str| line.starts_with('|') && line.chars().all(|c| "|-: ".contains(c));
    let mut rows = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let head = lines.get(place + 1).is_some_and(|next| rules(next));
        if line.starts_with('|') && !rules(line) && !head {
            rows.push(*line);
        }
    }
    rows.into_iter()
}

/// Every test of the workspace, under the names of the module documentation.
fn tests() -> BTreeSet<String> {
    let packages: BTreeMap<String, String> = tree::metadata()
        .workspace_packages()
        .into_iter()
        .map(|package| {
            let directory = package.manifest_path.parent().unwrap();
            let directory = directory.strip_prefix(tree::root().to_str().unwrap());
            (directory.unwrap().to_string(), package.name.to_string())
        })
        .collect();
    let mut tests = BTreeSet::new();
    for file in tree::rust_files() {
        let package = packages.iter().filter(|(directory, _)| {
            let below = file.path.strip_prefix(directory.as_str());
            below.is_some_and(|below| below.starts_with('/'))
        });
        let Some((_, package)) = package.max_by_key(|(directory, _)| directory.len()) else {
            continue;
        };
        let module = module(&file);
        for function in functions(&file.text) {
            tests.insert(format!("{package}::{module}::{function}"));
        }
    }
    for file in tree::files() {
        let is_of_editor = file.path.starts_with("editors/vscode/test/");
        let titles = file.text.lines().filter(|_| is_of_editor);
        let titles = titles.filter_map(|line| line.strip_prefix("test(\"")?.split('"').next());
        tests.extend(titles.map(|title| format!("editors/vscode::{title}")));
    }
    tests
}

/// The name of the file, or of its directory when it is a `tests.rs`.
fn module(file: &File) -> String {
    let path = file.path.strip_suffix(".rs").unwrap();
    let path = path.strip_suffix("/tests").unwrap_or(path);
    path.rsplit('/').next().unwrap().to_owned()
}

/// The functions that are tests; those inside `proptest!` have the attribute as well.
fn functions(text: &str) -> Vec<&str> {
    let mut functions = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        }
        let line = line.strip_prefix("async ").unwrap_or(line);
        if let Some(rest) = line.strip_prefix("fn ") {
            if is_test {
                functions.push(rest.split(['(', '<']).next().unwrap());
            }
            is_test = false;
        }
    }
    functions
}

#[test]
fn every_test_that_a_paper_names_exists() {
    let tests = tests();
    let mut missing = Vec::new();
    for path in [
        WEAKNESSES,
        SEEDS,
        SERVERS,
        PLUGINS,
        MEMORY,
        PLANS,
        SECURITY,
        INVARIANTS,
        ARCHITECTURE,
    ] {
        let text = paper(path);
        let mut named = 0;
        for name in names(&text) {
            named += 1;
            if !tests.contains(name) {
                missing.push(format!("{path}: {name}"));
            }
        }
        assert!(named > 0, "{path} names no test");
    }
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

#[test]
fn every_weakness_and_scenario_has_one_row() {
    let text = paper(WEAKNESSES);
    let firsts: Vec<&str> = rows(&text)
        .filter_map(|row| row.split('|').nth(1).map(str::trim))
        .collect();
    let weaknesses = (1..=52).map(|number| format!("W{number:02}"));
    let scenarios = (1..=17).map(|number| number.to_string());
    for name in weaknesses.chain(scenarios) {
        let count = firsts.iter().filter(|first| **first == name).count();
        assert_eq!(count, 1, "rows of {name}");
    }
}

#[test]
fn every_row_names_a_test_or_says_why_there_is_none() {
    let mut empty = Vec::new();
    for path in [WEAKNESSES, SEEDS, SERVERS, PLUGINS, MEMORY, PLANS, SECURITY] {
        let text = paper(path);
        for row in rows(&text) {
            let mut cells = row.split('|').map(str::trim);
            let said = cells.any(|cell| WITHOUT_TEST.iter().any(|words| cell.starts_with(words)));
            if !said && names(row).next().is_none() {
                empty.push(format!("{path}: {row}"));
            }
        }
    }
    assert!(empty.is_empty(), "\n{}", empty.join("\n"));
}

#[test]
fn every_row_of_the_security_page_is_complete() {
    let text = paper(SECURITY);
    let mut found = 0;
    for row in rows(&text) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        // A row begins and ends with a bar.
        assert_eq!(cells.len(), 6, "{row}");
        assert!(cells[1..5].iter().all(|cell| !cell.is_empty()), "{row}");
        found += 1;
    }
    assert!(found > 80, "{found}");
}

#[test]
fn every_environment_variable_has_a_row_on_the_security_page() {
    let text = paper(SECURITY);
    let registry = paper(ENVIRONMENT);
    let values = registry
        .lines()
        .filter_map(|line| line.split_once(" => \""));
    let names = values.filter_map(|(_, value)| value.strip_suffix("\","));
    let is_name = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    let names: Vec<&str> = names.filter(|name| name.bytes().all(is_name)).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let quoted = format!("`{name}`");
        assert!(rows(&text).any(|row| row.contains(&quoted)), "{name}");
    }
}

#[test]
fn every_invariant_names_a_test() {
    let text = paper(INVARIANTS);
    let mut found = 0;
    for invariant in invariants(&text) {
        // Each sentence promises something of its own.
        for sentence in invariant.split_inclusive("`. ") {
            assert!(names(sentence).next().is_some(), "{sentence}");
            found += 1;
        }
    }
    assert!(found > 20, "{found}");
}

#[test]
fn architecture_page_has_few_invariants_of_one_test_each() {
    let text = paper(ARCHITECTURE);
    let lines: Vec<&str> = invariants(&text).collect();
    let found = lines.len();
    assert!((20..=MAX_INVARIANTS).contains(&found), "{found}");
    for line in lines {
        assert_eq!(names(line).count(), 1, "{line}");
    }
}

#[test]
fn short_pages_stay_short() {
    for (path, most) in SHORT {
        let bytes = paper(path).len();
        assert!(bytes <= most, "{path}: {bytes} bytes, at most {most}");
    }
}

/// List items of the section "Invariants" of a page.
fn invariants(text: &str) -> impl Iterator<Item = &str> {
    let (_, section) = text
        .split_once("\n## Invariants\n")
        .expect("the page has a section \"Invariants\"");
    let section = section.split("\n**Deliberately absent**").next();
    let lines = section.unwrap_or_default().lines();
    lines.filter(|line| line.starts_with("- "))
}
