//! The commands of the program that README shows exist.

use std::{collections::BTreeSet, fs, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, bail};

use crate::run;

/// How README calls the program, from a clone and once it is installed.
const CALLS: [&str; 2] = ["cargo run --release -- ", "orchestra "];

const LIMIT: Duration = Duration::from_secs(10);

/// Asks the program for the help of each command that README shows.
///
/// # Errors
/// When README cannot be read, or the program does not know one of them.
pub(crate) fn check(program: &Path) -> Result<usize> {
    let path = run::root().join("README.md");
    let readme = fs::read_to_string(&path).context("reading README.md")?;
    let commands = commands(&readme);
    for command in &commands {
        let mut help = Command::new(program);
        let ended = run::run_within(help.args([command, "--help"]), LIMIT)?;
        if !ended.success {
            bail!("README shows `orchestra {command}`: {}", ended.complaint);
        }
    }
    Ok(commands.len())
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
