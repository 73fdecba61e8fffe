//! `cargo xtask eval`: how well things are found, by judged sets.
//!
//! The judge is a program of its own (`eval`), so that it runs optimised.

use std::process::Command;

use anyhow::Result;

use crate::{bench, run, tools};

/// Judges memory search; with the name of a ranker also tells what that one missed.
///
/// # Errors
/// When the judge cannot be built or run; on a CI machine also when the models cannot be had.
pub(crate) fn memory(ranker: Option<&str>) -> Result<()> {
    let mut judge = judge()?;
    judge.arg("eval/memory");
    add_models(&mut judge)?;
    run::run(judge.args(ranker))
}

/// Measures how quick memory is among very many texts.
///
/// # Errors
/// As [`memory`].
pub(crate) fn bench_memory() -> Result<()> {
    let mut judge = judge()?;
    judge.arg("bench");
    add_models(&mut judge)?;
    run::run(&mut judge)
}

/// Tells the judge of real models. Without them it leaves out what needs one, and says so.
fn add_models(judge: &mut Command) -> Result<()> {
    match tools::models() {
        Ok(models) => {
            judge.arg("--models").arg(models);
        }
        Err(error) if run::in_ci() => return Err(error),
        Err(error) => run::say(&format!("no embedding models: {error:#}")),
    }
    Ok(())
}

fn judge() -> Result<Command> {
    bench::build(&["--package", "orchestra-eval"])?;
    let mut judge = Command::new(bench::built("orchestra-eval"));
    judge.current_dir(run::root());
    Ok(judge)
}
