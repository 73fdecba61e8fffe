//! How quick plans are: `cargo xtask bench plans` builds and runs it. It measures the whole of a plan over
//! real git and real processes, the core alone, and worktrees against git's own.

#![expect(clippy::print_stdout, reason = "it is a measurement")]
#![expect(clippy::unwrap_used, reason = "a measurement fails by panicking")]

#[path = "plans_bench/bars.rs"]
mod bars;
#[path = "plans_bench/core.rs"]
mod core;
#[path = "plans_bench/peer.rs"]
mod peer;
#[path = "plans_bench/trace.rs"]
mod trace;
#[path = "plans_bench/whole.rs"]
mod whole;
#[path = "plans_bench/worktrees.rs"]
mod worktrees;

use std::{path::Path, process::Command, process::ExitCode};

use orchestra_process::{CHILD_COMMAND, child_main};
use orchestra_runner::supervise::{JOB_COMMAND, job_main};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == CHILD_COMMAND {
        return child_main(arguments);
    }
    if first == JOB_COMMAND {
        return job_main();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut bars = bars::Bars::default();
    let wants = |name: &str| first.is_empty() || first == name;
    if wants("core") {
        core::measure(&mut bars);
    }
    if wants("whole") {
        runtime.block_on(whole::measure(&mut bars));
    }
    if wants("worktrees") {
        runtime.block_on(worktrees::measure(&mut bars));
    }
    bars.print();
    ExitCode::SUCCESS
}

/// Runs git as a user does, at a time that is always the same, so that commits are.
fn git(root: &Path, words: &[&str]) -> String {
    const DATE: &str = "2026-01-01T00:00:00Z";
    let run = Command::new("git")
        .args(words)
        .current_dir(root)
        .env("GIT_AUTHOR_DATE", DATE)
        .env("GIT_COMMITTER_DATE", DATE)
        .output();
    let run = run.unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "git {words:?}: {said}");
    String::from_utf8(run.stdout).unwrap()
}

/// A repository with a file.
fn repository(root: &Path) {
    git(root, &["init", "-q", "-b", "main"]);
    git(root, &["config", "user.name", "A User"]);
    git(root, &["config", "user.email", "user@example.org"]);
    git(root, &["config", "gc.auto", "0"]);
    std::fs::write(root.join("README"), "read me\n").unwrap();
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "-m", "first"]);
}
