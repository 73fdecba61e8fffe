//! `cargo xtask fuzz`: each fuzz target for a bounded time.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{run, tools};

/// The version that is installed when it is needed.
const VERSION: &str = "0.13.2";

/// Runs each target of `fuzz/` for `seconds`, on the stable toolchain (no sanitizer).
///
/// # Errors
/// When `cargo-fuzz` cannot be installed, or a target finds something.
pub(crate) fn run(seconds: u32) -> Result<()> {
    if !run::root().join("fuzz/Cargo.toml").exists() {
        bail!("there are no fuzz targets: fuzz/Cargo.toml is missing");
    }
    let targets = run::output(cargo_fuzz()?.arg("list"))?;
    let time = format!("-max_total_time={seconds}");
    for target in targets.split_whitespace() {
        let run = ["run", "--sanitizer", "none", target, "--", &time];
        run::run(cargo_fuzz()?.args(run))?;
    }
    Ok(())
}

fn cargo_fuzz() -> Result<Command> {
    let mut command = tools::cargo_command("cargo-fuzz", VERSION)?;
    command.arg("fuzz");
    Ok(command)
}
