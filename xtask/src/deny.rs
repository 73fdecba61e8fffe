//! Licences, sources and forbidden second versions, by `cargo-deny`.
//!
//! Advisories are left out: they need a database from the network that CI cannot count on.

use anyhow::Result;

use crate::{run, tools};

/// The version the configuration in `deny.toml` was written for.
const VERSION: &str = "0.20.2";

/// Installs `cargo-deny` below the target directory when it is missing there, and runs it.
///
/// # Errors
/// When it cannot be installed, or it objects.
pub(crate) fn run() -> Result<()> {
    let home = tools::directory().join("cargo-deny");
    let program = home.join("bin/cargo-deny");
    tools::once("cargo-deny", VERSION, || {
        let package = format!("cargo-deny@{VERSION}");
        // Unoptimised: it runs for a second, and building it takes longest.
        let quick = ["install", "--locked", "--quiet", "--debug", &package];
        let mut install = run::cargo(quick);
        install.arg("--root");
        run::run(install.arg(&home))
    })?;
    // The check reads the manifests of every platform's packages, more than a build downloads.
    run::run(&mut run::cargo(["fetch", "--locked", "--quiet"]))?;
    let mut check = std::process::Command::new(program);
    check
        .current_dir(run::root())
        .args(["--offline", "check", "bans", "licenses", "sources"]);
    run::run(&mut check)
}
