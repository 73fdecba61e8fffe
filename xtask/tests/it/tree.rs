//! The workspace as cargo and git see it; shared by the other modules.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use cargo_metadata::{Metadata, MetadataCommand};

/// The directory of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// What cargo knows about it.
pub(crate) fn metadata() -> Metadata {
    let mut command = MetadataCommand::new();
    command.current_dir(root());
    command.exec().unwrap()
}

/// A file that git tracks, or would if it were added.
pub(crate) struct File {
    /// Relative to the workspace, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// The lines before the unit tests that end a file.
    pub(crate) fn code(&self) -> Vec<&str> {
        let lines: Vec<&str> = self.text.lines().collect();
        let tests = lines.windows(2).position(|pair| {
            pair[0].trim() == "#[cfg(test)]" && pair[1].trim_start().starts_with("mod ")
        });
        lines[..tests.unwrap_or(lines.len())].to_vec()
    }

    /// Whether all of it is test code.
    pub(crate) fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }
}

/// Every text file of the repository.
pub(crate) fn files() -> Vec<File> {
    let mut git = Command::new("git");
    git.current_dir(root()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
    ]);
    let listed = match git.output() {
        Ok(output) if output.status.success() => output.stdout,
        // Not a git checkout, for instance an unpacked archive.
        _ => return walk(root()),
    };
    let listed = String::from_utf8(listed).unwrap();
    let paths = listed.split('\0').filter(|path| !path.is_empty());
    paths.filter_map(|path| read(&root().join(path))).collect()
}

/// Every Rust file of the repository.
pub(crate) fn rust_files() -> Vec<File> {
    let mut files = files();
    files.retain(|file| file.path.ends_with(".rs"));
    assert!(!files.is_empty());
    files
}

fn walk(directory: &Path) -> Vec<File> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                files.extend(walk(&path));
            }
        } else {
            files.extend(read(&path));
        }
    }
    files
}

/// A text file; `None` for anything else, and for one removed but not yet committed as such.
fn read(path: &PathBuf) -> Option<File> {
    let text = fs::read_to_string(path).ok()?;
    let path = path.strip_prefix(root()).unwrap();
    let path = path.to_string_lossy().replace('\\', "/");
    Some(File { path, text })
}
