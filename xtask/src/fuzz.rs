//! `cargo xtask fuzz`: each fuzz target for a bounded time.

use anyhow::{Result, bail};

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

/// Runs each target of `fuzz/` for `seconds`, on the stable toolchain (no sanitizer).
///
/// # Errors
/// When `cargo-fuzz` cannot be installed, or a target finds something.
pub(crate) fn run(seconds: u32) -> Result<()> {
    if !run::root().join("fuzz/Cargo.toml").exists() {
        bail!("there are no fuzz targets: fuzz/Cargo.toml is missing");
    }
    let targets = run::output(tools::subcommand(&FUZZ)?.arg("list"))?;
    let time = format!("-max_total_time={seconds}");
    for target in targets.split_whitespace() {
        let run = ["run", "--sanitizer", "none", target, "--", &time];
        run::run(tools::subcommand(&FUZZ)?.args(run))?;
    }
    Ok(())
}
