//! Commands of the program that README and the pages of the book show: each must exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::run;

/// How a page calls the program, from a clone and once it is installed.
const CALLS: [&str; 2] = ["cargo run --release -- ", "orchestra "];

const LIMIT: Duration = Duration::from_secs(10);

/// Asks the program for the help of each command that a page shows, and says how many there are.
///
/// # Errors
/// When a page cannot be read, or the program does not know one of them.
pub(crate) fn check(program: &Path) -> Result<usize> {
    let mut known = BTreeSet::new();
    for path in pages()? {
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        for command in commands(&text) {
            if known.contains(&command) {
                continue;
            }
            let mut help = Command::new(program);
            let ended = run::run_within(help.arg(&command).arg("--help"), LIMIT)?;
            if !ended.success {
                let page = path.display();
                bail!("{page} shows `orchestra {command}`: {}", ended.complaint);
            }
            known.insert(command);
        }
    }
    Ok(known.len())
}

/// README and the pages of the book that show commands.
fn pages() -> Result<Vec<PathBuf>> {
    let docs = run::root().join("docs");
    let mut pages = vec![run::root().join("README.md")];
    for directory in [docs.join("how-to"), docs] {
        let reading = || format!("reading {}", directory.display());
        for entry in fs::read_dir(&directory).with_context(reading)? {
            let path = entry.with_context(reading)?.path();
            if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    Ok(pages)
}

/// The first words after the program's name, on lines of code.
fn commands(readme: &str) -> BTreeSet<String> {
    let mut commands = BTreeSet::new();
    for block in readme.split("```").skip(1).step_by(2) {
        for line in block.lines() {
            let line = line.trim_start().trim_start_matches("$ ");
            let rest = CALLS.iter().find_map(|call| line.strip_prefix(call));
            let word = rest.and_then(|rest| rest.split_whitespace().next());
            let plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
            commands.extend(word.filter(plain).map(str::to_owned));
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_from_blocks_of_code_only() {
        let readme = "orchestra never\n```sh\n$ orchestra init --dry-run\n\
                      cargo run --release -- up\norchestra --version\n```\norchestra neither\n";
        let expected = ["init", "up"].map(str::to_owned);
        assert_eq!(commands(readme), BTreeSet::from(expected));
    }
}
