//! `cargo xtask secrets`: a search for planted secrets in everything that leaves the program, and a count of the
//! lines of source texts that are masked by mistake.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::run;

/// Number of lines of which at most one may be masked by mistake.
const LINES_PER_MISTAKE: usize = 10_000;

/// Longest line that is read. Longer lines are generated.
const MAX_LINE_BYTES: usize = 4_096;

/// Packages of `Cargo.lock` whose sources are read beside this repository: an MCP SDK with OAuth, the protocol of a
/// browser in prose, and a database with a parser in C. Their lines name tokens, keys and credentials more often than
/// most texts do. The lock file pins version and checksum, and every build has fetched them.
const PACKAGES: [&str; 3] = ["rmcp", "chromiumoxide_cdp", "libsqlite3-sys"];

/// Directories without source texts.
const SKIPPED: [&str; 5] = ["target", "node_modules", "dist", "vendor", "corpus"];

/// Lines that were read, and those that were masked.
struct Count {
    lines: usize,
    masked: Vec<String>,
}

/// Plants a secret of every form at every entry of the program, with logs at level trace, and searches for it in
/// recordings, logs, exports, stored files and replies. Then counts the masked lines of this repository and of the
/// [`PACKAGES`].
///
/// # Errors
/// When a secret is found, when a text that is not secret is missing beside the place of one, or when too many lines
/// are masked.
pub(crate) fn run() -> Result<()> {
    run::run(run::cargo(["test", "--package", "orchestra-secret"]).env("RUST_BACKTRACE", "0"))?;
    let black_box = [
        "test",
        "--package",
        "orchestra",
        "--test",
        "it",
        "--",
        "secrets::",
    ];
    run::run(run::cargo(black_box).env("RUST_BACKTRACE", "0"))?;
    let mut directories = vec![run::root().to_owned()];
    directories.extend(packages()?);
    lines(&directories)
}

/// Directories with the sources of the [`PACKAGES`], in the registry of cargo.
fn packages() -> Result<Vec<PathBuf>> {
    let locked = ["metadata", "--format-version", "1", "--locked"];
    // The packages of other platforms may not be there.
    let mut cargo = run::cargo(locked);
    let metadata = run::output(cargo.args(["--filter-platform", "host-tuple"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("reading the metadata")?;
    let find = |name: &&str| -> Result<PathBuf> {
        let all = metadata["packages"].as_array().into_iter().flatten();
        let manifest = all
            .filter(|package| package["name"] == **name)
            .find_map(|package| Path::new(package["manifest_path"].as_str()?).parent());
        let manifest = manifest.with_context(|| format!("Cargo.lock has no package {name}"))?;
        Ok(manifest.to_owned())
    };
    PACKAGES.iter().map(find).collect()
}

/// Counts the lines below directories that are masked, and prints them.
///
/// # Errors
/// When more than one in [`LINES_PER_MISTAKE`] is.
pub(crate) fn lines(directories: &[impl AsRef<Path>]) -> Result<()> {
    for directory in directories {
        let directory = directory.as_ref();
        let count = Count::below(directory);
        let directory = directory.display();
        count.masked.iter().for_each(|line| run::say(line));
        run::say(&format!(
            "{directory}: {} of {} lines are masked",
            count.masked.len(),
            count.lines
        ));
        ensure!(
            count.is_rare(),
            "more than one of {LINES_PER_MISTAKE} lines below {directory} is masked"
        );
    }
    Ok(())
}

impl Count {
    /// Lines of the text files below a directory. Tests, which contain secrets on purpose, are not counted.
    fn below(directory: &Path) -> Self {
        let mut count = Self {
            lines: 0,
            masked: Vec::new(),
        };
        let mut open = vec![directory.to_owned()];
        while let Some(path) = open.pop() {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let is_hidden = name.starts_with('.') && path != directory;
            if path.is_symlink() || is_hidden || SKIPPED.contains(&name.as_str()) {
                continue;
            }
            if let Ok(entries) = fs::read_dir(&path) {
                let mut entries: Vec<PathBuf> =
                    entries.flatten().map(|entry| entry.path()).collect();
                entries.sort();
                open.extend(entries);
            } else if let Ok(text) = fs::read_to_string(&path) {
                count.read(&path, &text);
            }
        }
        count
    }

    fn read(&mut self, path: &Path, text: &str) {
        let is_test = path.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            [
                "test",
                "tests",
                "testdata",
                "fixtures",
                "__tests__",
                "samples",
            ]
            .contains(&&*part)
                || part.ends_with("_test.go")
                || part.ends_with("tests.rs")
                || part.contains(".test.")
                || part == "sample.rs"
        });
        if is_test {
            return;
        }
        for (number, line) in text.lines().enumerate() {
            // The rest of a Rust file is tests.
            if line.trim() == "#[cfg(test)]" {
                return;
            }
            if line.len() > MAX_LINE_BYTES {
                continue;
            }
            self.lines += 1;
            let masked = orchestra_secret::text(line);
            if masked != line {
                let (path, line) = (path.display(), line.trim());
                self.masked.push(format!(
                    "{path}:{}: {line}\n  {}",
                    number + 1,
                    masked.trim()
                ));
            }
        }
    }

    fn is_rare(&self) -> bool {
        self.masked.len() * LINES_PER_MISTAKE <= self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(directory: &Path, least: usize) {
        let count = Count::below(directory);
        let masked = count.masked.join("\n");
        let (directory, number) = (directory.display(), count.masked.len());
        assert!(
            count.lines > least,
            "{} lines below {directory}",
            count.lines
        );
        assert!(
            count.is_rare(),
            "{number} of {} lines below {directory}:\n{masked}",
            count.lines
        );
    }

    #[test]
    fn lines_of_the_repository_are_rarely_masked() {
        check(run::root(), 100_000);
    }

    #[test]
    fn lines_of_locked_packages_are_rarely_masked() {
        for directory in packages().unwrap() {
            check(&directory, 20_000);
        }
    }
}
