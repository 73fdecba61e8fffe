//! `cargo xtask fuzz`: each fuzz target for a bounded time.

use anyhow::{Result, bail};

use crate::run;

/// Runs each target of `fuzz/` for `seconds`, on the stable toolchain (no sanitizer).
///
/// # Errors
/// When `cargo-fuzz` is missing, or a target finds something.
pub(crate) fn run(seconds: u32) -> Result<()> {
    if !run::root().join("fuzz/Cargo.toml").exists() {
        bail!("there are no fuzz targets: fuzz/Cargo.toml is missing");
    }
    if run::output(&mut run::cargo(["fuzz", "--version"])).is_err() {
        bail!("cargo-fuzz is missing: install it with `cargo install --locked cargo-fuzz`");
    }
    let targets = run::output(&mut run::cargo(["fuzz", "list"]))?;
    let time = format!("-max_total_time={seconds}");
    for target in targets.split_whitespace() {
        run::run(&mut run::cargo([
            "fuzz",
            "run",
            "--sanitizer",
            "none",
            target,
            "--",
            &time,
        ]))?;
    }
    Ok(())
}
