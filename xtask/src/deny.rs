//! Licences, sources and forbidden second versions, by `cargo-deny`.
//!
//! Advisories are left out: they need a database from the network that CI cannot count on.

use anyhow::Result;

use crate::{run, tools};

/// The version the configuration in `deny.toml` was written for.
const VERSION: &str = "0.20.2";

/// Runs `cargo-deny`.
///
/// # Errors
/// When it cannot be installed, or it objects.
pub(crate) fn run() -> Result<()> {
    let mut check = tools::cargo_command("cargo-deny", VERSION)?;
    // The check reads the manifests of every platform's packages, more than a build downloads.
    run::run(&mut run::cargo(["fetch", "--locked", "--quiet"]))?;
    check.args(["deny", "--offline", "check", "--hide-inclusion-graph"]);
    run::run(check.args(["bans", "licenses", "sources"]))
}
