//! `cargo xtask fuzz`: each fuzz target for a bounded time.

use anyhow::Result;

use crate::{
    run,
    tools::{self, Tool},
};

const FUZZ: Tool = Tool {
    package: "cargo-fuzz",
    program: "cargo-fuzz",
    version: "0.13.2",
    wheel: None,
    features: &[],
};

/// Time for each target, where the caller names none.
pub(crate) const SECONDS: u32 = 60;

/// Runs each target of `fuzz/` for `seconds`, on the stable toolchain (no sanitizer).
///
/// # Errors
/// When `cargo-fuzz` cannot be installed, or a target finds something.
pub(crate) fn run(seconds: u32) -> Result<()> {
    let targets = run::output(tools::subcommand(&FUZZ)?.arg("list"))?;
    let time = format!("-max_total_time={seconds}");
    for target in targets.split_whitespace() {
        let mut fuzz = tools::subcommand(&FUZZ)?;
        fuzz.args(["run", "--sanitizer", "none", "--features", "link"]);
        fuzz.envs(run::BACKTRACES);
        run::run(fuzz.args([target, "--", &time]))?;
    }
    Ok(())
}
