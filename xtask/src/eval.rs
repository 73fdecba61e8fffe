//! `cargo xtask eval`: how well things are found, by judged sets.
//!
//! The judge is a program of its own (`eval`), so that it runs optimised.

use std::process::Command;

use anyhow::Result;

use crate::run;

/// Judges memory search; with the name of a ranker also tells what that one missed.
///
/// # Errors
/// When the judge cannot be built or run.
pub(crate) fn memory(ranker: Option<&str>) -> Result<()> {
    let mut judge = judge()?;
    judge.arg("eval/memory");
    run::run(judge.args(ranker))
}

/// Measures how quick memory is among very many texts.
///
/// # Errors
/// As [`memory`].
pub(crate) fn bench_memory() -> Result<()> {
    run::run(judge()?.arg("bench"))
}

fn judge() -> Result<Command> {
    let release = [
        "build",
        "--quiet",
        "--release",
        "--package",
        "orchestra-eval",
    ];
    run::run(&mut run::cargo(release))?;
    let mut judge = Command::new(run::target().join("release/orchestra-eval"));
    judge.current_dir(run::root());
    Ok(judge)
}
