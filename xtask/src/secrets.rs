//! `cargo xtask secrets`: a search for planted secrets in everything that leaves the program, and a count of the
//! lines of source texts that are masked by mistake.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};

use crate::run;

/// Number of lines of which at most one may be masked by mistake.
const LINES_PER_MISTAKE: usize = 10_000;

/// Longest line that is read. Longer lines are generated.
const MAX_LINE_BYTES: usize = 4_096;

/// Directories without source texts.
const SKIPPED: [&str; 5] = ["target", "node_modules", "dist", "vendor", "corpus"];

/// Lines that were read, and those that were masked.
struct Count {
    lines: usize,
    masked: Vec<String>,
}

/// Plants a secret of every form at every entry of the program, with logs at level trace, and searches for it in
/// recordings, logs, exports, stored files and replies.
///
/// # Errors
/// When a secret is found.
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
    run::run(run::cargo(black_box).env("RUST_BACKTRACE", "0"))
}

/// Counts the lines below directories that are masked, and prints them.
///
/// # Errors
/// When more than one in [`LINES_PER_MISTAKE`] is.
pub(crate) fn lines(directories: &[&str]) -> Result<()> {
    for directory in directories {
        let count = Count::below(Path::new(directory));
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
    /// Lines of the text files below a directory, without tests, which contain secrets on purpose.
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
        for (number, line) in text.lines().enumerate() {
            if line.len() > MAX_LINE_BYTES {
                continue;
            }
            self.lines += 1;
            // The rest of a Rust file is tests.
            if is_test || line.trim() == "#[cfg(test)]" {
                self.lines += text.lines().count() - number - 1;
                return;
            }
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

    #[test]
    fn lines_of_the_repository_are_rarely_masked() {
        let count = Count::below(run::root());
        let masked = count.masked.join("\n");
        assert!(count.lines > 100_000, "{} lines", count.lines);
        assert!(
            count.is_rare(),
            "{} of {} lines:\n{masked}",
            count.masked.len(),
            count.lines
        );
    }
}
