//! The rule by which git ignores the mirror of a board, added and removed.

use std::path::Path;

use orchestra_fs::{Access, Directory};

use super::{Action, Effect, InitError, Step};
use crate::{config, files::Root, workspace::PROJECTS};

/// Largest file of rules that is changed.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// File of rules in a git directory, and the directory that it is in.
const INFO: &str = "info";
const EXCLUDE: &str = "exclude";

/// Adds the rule to the rules of the repository on this machine; `None` outside of repositories.
///
/// # Errors
/// When the file cannot be read or written.
pub(crate) fn exclude(workspace: &Path, effect: Effect) -> Result<Option<Step>, InitError> {
    let Some((git, below)) = orchestra_place::repository(workspace, config::safety(workspace))
    else {
        return Ok(None);
    };
    let Some(rule) = rule_at(&below) else {
        return Ok(None);
    };
    let path = git.join(INFO).join(EXCLUDE);
    let before = orchestra_fs::read(&path, MAX_BYTES)?;
    let existed = before.is_some();
    let before = before.unwrap_or_default();
    let after = with(&before, &rule);
    let is_changed = after.is_some();
    if let (Some(after), Effect::Apply) = (after, effect) {
        Directory::open(&git)?
            .make_below(INFO.as_ref(), Access::Shared)?
            .write(EXCLUDE, &after, Access::Shared)?;
    }
    let shown = format!(".git/{INFO}/{EXCLUDE}");
    Ok(Some(step(shown, existed, is_changed)))
}

/// Adds the rule to `.gitignore` of the workspace, for everyone who uses the repository.
///
/// # Errors
/// When the file cannot be read or written.
pub(crate) fn gitignore(root: &Root, effect: Effect) -> anyhow::Result<Step> {
    let name = Path::new(".gitignore");
    let before = root.read(name)?;
    let existed = before.is_some();
    let before = before.unwrap_or_default();
    let after = with(before.as_bytes(), &format!("/{PROJECTS}/"));
    let is_changed = after.is_some();
    if let (Some(after), Effect::Apply) = (after, effect) {
        root.write(name, &String::from_utf8_lossy(&after), Access::Shared)?;
    }
    Ok(step(name.display().to_string(), existed, is_changed))
}

/// Removes the rules by which git ignores the readable files of a workspace, and returns the files that had one.
///
/// # Errors
/// When a file cannot be read or written.
pub(crate) fn lift(root: &Root) -> anyhow::Result<Vec<String>> {
    let (mut changed, own) = (Vec::new(), format!("/{PROJECTS}/"));
    let name = Path::new(".gitignore");
    let before = root.read(name)?.unwrap_or_default();
    if let Some(after) = without(before.as_bytes(), &own) {
        root.write(name, &String::from_utf8_lossy(&after), Access::Shared)?;
        changed.push(name.display().to_string());
    }
    let workspace = root.path();
    let Some((git, below)) = orchestra_place::repository(workspace, config::safety(workspace))
    else {
        return Ok(changed);
    };
    let Some(rule) = rule_at(&below) else {
        return Ok(changed);
    };
    let path = git.join(INFO).join(EXCLUDE);
    let before = orchestra_fs::read(&path, MAX_BYTES)?.unwrap_or_default();
    if let Some(after) = without(&before, &rule) {
        Directory::open(&git)?
            .make_below(INFO.as_ref(), Access::Shared)?
            .write(EXCLUDE, &after, Access::Shared)?;
        changed.push(format!(".git/{INFO}/{EXCLUDE}"));
    }
    Ok(changed)
}

/// Returns the rule in the file of the repository, for a workspace at this path below the top.
fn rule_at(below: &Path) -> Option<String> {
    Some(match below.to_str()? {
        "" => format!("/{PROJECTS}/"),
        below => format!("/{}/{PROJECTS}/", escaped(below)),
    })
}

fn step(path: String, existed: bool, is_changed: bool) -> Step {
    let action = match is_changed {
        true => Action::written(existed),
        false => Action::Unchanged,
    };
    Step {
        path,
        action,
        reason: None,
    }
}

/// Returns the rules with one more; `None` where they have it.
fn with(before: &[u8], rule: &str) -> Option<Vec<u8>> {
    let mut lines = before.split(|byte| *byte == b'\n');
    if lines.any(|line| line.trim_ascii_end() == rule.as_bytes()) {
        return None;
    }
    let mut after = before.to_vec();
    if !before.is_empty() && !before.ends_with(b"\n") {
        after.push(b'\n');
    }
    after.extend_from_slice(rule.as_bytes());
    after.push(b'\n');
    Some(after)
}

/// Returns the rules without one; `None` where they do not have it.
fn without(before: &[u8], rule: &str) -> Option<Vec<u8>> {
    let is_rule = |line: &[u8]| line.trim_ascii_end() == rule.as_bytes();
    let lines = before.split_inclusive(|byte| *byte == b'\n');
    let after = lines.filter(|line| !is_rule(line)).collect::<Vec<_>>();
    let after = after.concat();
    (after.len() < before.len()).then_some(after)
}

/// Escapes the letters of a path that have a meaning in rules.
fn escaped(path: &str) -> String {
    let mut escaped = String::new();
    for letter in path.chars() {
        if matches!(letter, '*' | '?' | '[' | '\\' | ' ') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_is_added_once_and_other_lines_stay() {
        for (before, after) in [
            ("", Some("/a/\n")),
            ("x", Some("x\n/a/\n")),
            ("# y\r\n", Some("# y\r\n/a/\n")),
            ("/a/\nx\n", None),
            ("/a/ \r\n", None),
        ] {
            let found = with(before.as_bytes(), "/a/");
            assert_eq!(found.as_deref(), after.map(str::as_bytes), "{before:?}");
        }
        for (before, after) in [
            ("", None),
            ("/a/\n", Some("")),
            ("x\n/a/\r\ny", Some("x\ny")),
            ("/a/b\n", None),
        ] {
            let found = without(before.as_bytes(), "/a/");
            assert_eq!(found.as_deref(), after.map(str::as_bytes), "{before:?}");
        }
        assert_eq!(escaped("a b[1]"), "a\\ b\\[1]");
    }
}
