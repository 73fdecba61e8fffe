//! One key, set in a configuration file: every other line stays as it was.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use orchestra_fs::Access;

use super::FILE;
use crate::{board::BoardMode, exit::Failure, files::Root};

/// The table of the keys of the memory.
const TABLE: &str = "memory";
/// The key with the mode of the board, which is in no table.
const BOARD: &str = "board";

/// Sets `memory.KEY` in the configuration file of a directory, which is made when it is not there; where
/// that is.
///
/// # Errors
/// When the file is not understood, or would say anything else otherwise; it is left alone then.
pub(crate) fn set_memory(
    workspace: &Path,
    directory: &Path,
    key: &str,
    value: &str,
) -> Result<PathBuf, Failure> {
    let root = Root::near(directory, workspace);
    let path = directory.join(FILE);
    let set = || {
        let before = root.read(Path::new(FILE))?.unwrap_or_default();
        let after = with(&before, key, value);
        check(&before, &after, key, value)?;
        Ok::<_, anyhow::Error>(root.write(Path::new(FILE), &after, Access::Shared)?)
    };
    set().map_err(|error| {
        let hint = format!(
            "{} was not changed; write {key} into its [memory]",
            path.display()
        );
        Failure::Refused(error.context(hint))
    })?;
    Ok(path)
}

/// Sets `board` in the configuration file of a workspace, which is created where there is none. Returns its path.
///
/// # Errors
/// When the file cannot be understood or written, or would change otherwise; it is left alone then.
pub(crate) fn set_board(root: &Root, mode: BoardMode) -> Result<PathBuf, Failure> {
    let path = root.path().join(FILE);
    let set = || {
        let before = root.read(Path::new(FILE))?.unwrap_or_default();
        let after = with_board(&before, mode.name());
        let mut wanted: toml::Table = before.parse().context("it is no TOML")?;
        wanted.insert(BOARD.to_owned(), mode.name().into());
        is_only_change(&after, &wanted)?;
        Ok::<_, anyhow::Error>(root.write(Path::new(FILE), &after, Access::Shared)?)
    };
    set().map_err(|error| {
        let hint = format!(
            "{} was not changed; write `{BOARD} = \"{}\"` at its top",
            path.display(),
            mode.name()
        );
        Failure::Refused(error.context(hint))
    })?;
    Ok(path)
}

/// Returns the text with the mode of the board above all tables.
fn with_board(before: &str, mode: &str) -> String {
    let line = format!("{BOARD} = {}", toml::Value::from(mode));
    let mut lines: Vec<&str> = before.lines().collect();
    let mut above = lines
        .iter()
        .take_while(|line| !line.trim_start().starts_with('['));
    let known = above.position(|line| {
        line.split_once('=')
            .is_some_and(|(name, _)| name.trim() == BOARD)
    });
    match known {
        Some(place) => lines[place] = &line,
        None => lines.insert(0, &line),
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// The text with the key set.
fn with(before: &str, key: &str, value: &str) -> String {
    let line = format!("{key} = {}", toml::Value::from(value));
    let mut lines: Vec<&str> = before.lines().collect();
    let is_table = |line: &str| line.trim_start().starts_with('[');
    let head = lines.iter().position(|line| is_head(line));
    let Some(head) = head else {
        let gap = match before {
            "" => "",
            text if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        return format!("{before}{gap}[{TABLE}]\n{line}\n");
    };
    let rest = &lines[head + 1..];
    let end = rest.iter().position(|line| is_table(line));
    let known = rest[..end.unwrap_or(rest.len())].iter().position(|line| {
        line.split_once('=')
            .is_some_and(|(name, _)| name.trim() == key)
    });
    match known {
        Some(place) => lines[head + 1 + place] = &line,
        None => lines.insert(head + 1, &line),
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// Whether a line begins the table.
fn is_head(line: &str) -> bool {
    let line = line.split('#').next().unwrap_or_default().trim();
    let inner = line
        .strip_prefix('[')
        .and_then(|line| line.strip_suffix(']'));
    inner.is_some_and(|inner| inner.trim() == TABLE)
}

/// Whether nothing but the key differs.
fn check(before: &str, after: &str, key: &str, value: &str) -> anyhow::Result<()> {
    let mut wanted: toml::Table = before.parse().context("it is no TOML")?;
    let memory = wanted
        .entry(TABLE)
        .or_insert_with(|| toml::Value::Table(toml::Table::new()));
    let memory = memory.as_table_mut().context("`memory` is not a table")?;
    memory.insert(key.to_owned(), value.into());
    is_only_change(after, &wanted)
}

/// Refuses a text that does not read as wanted.
fn is_only_change(after: &str, wanted: &toml::Table) -> anyhow::Result<()> {
    let found: toml::Table = after.parse().context("the key cannot be set in it")?;
    anyhow::ensure!(
        found == *wanted,
        "the key cannot be set without changing something else"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(before: &str) -> anyhow::Result<String> {
        let after = with(before, "model", "tiny");
        check(before, &after, "model", "tiny").map(|()| after)
    }

    #[test]
    fn every_other_line_stays_as_it_was() {
        for (before, after) in [
            ("", "[memory]\nmodel = \"tiny\"\n"),
            (
                "log = \"info\"",
                "log = \"info\"\n\n[memory]\nmodel = \"tiny\"\n",
            ),
            (
                "[ memory ] # mine\n# kept\nmodel = \"other\" # gone\nmax_items = 5\n[audit]\n",
                "[ memory ] # mine\n# kept\nmodel = \"tiny\"\nmax_items = 5\n[audit]\n",
            ),
            (
                "[memory]\nmodel_url = \"http://127.0.0.1\"\n\n[mcp]\nmodel = 1\n",
                "[memory]\nmodel = \"tiny\"\nmodel_url = \"http://127.0.0.1\"\n\n[mcp]\nmodel = 1\n",
            ),
        ] {
            assert_eq!(set(before).unwrap(), after);
            assert_eq!(set(after).unwrap(), after);
        }
    }

    #[test]
    fn mode_of_the_board_is_set_above_all_tables() {
        for (before, after) in [
            ("", "board = \"checkout\"\n"),
            (
                "# Mine\nboard = \"repository\" # all\n\n[memory]\nboard = 1\n",
                "# Mine\nboard = \"checkout\"\n\n[memory]\nboard = 1\n",
            ),
            (
                "[memory]\nboard = 1",
                "board = \"checkout\"\n[memory]\nboard = 1\n",
            ),
        ] {
            assert_eq!(with_board(before, "checkout"), after);
        }
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for before in [
            "[memory",
            "memory = 1",
            "memory = { model = \"x\" }",
            "memory.model = \"x\"",
            "[memory]\n\"model\" = \"x\"",
            "x = \"\"\"\n[memory]\n\"\"\"\n",
        ] {
            assert!(set(before).is_err(), "{before}");
        }
    }
}
