//! Running git.

use std::path::Path;
use std::process::Command as Process;

pub(crate) fn git(at: &Path, arguments: &[&str]) {
    git_says(at, arguments);
}

/// What git answers.
pub(crate) fn git_says(at: &Path, arguments: &[&str]) -> String {
    let output = Process::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .current_dir(at)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
