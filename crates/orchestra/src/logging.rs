//! Talk of the program about itself, to stderr.

use std::io;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::{
    config::{Origin, Setting},
    exit::Failure,
};

/// Checks a filter.
///
/// # Errors
/// When it cannot be understood.
pub(crate) fn check(filter: &str) -> anyhow::Result<()> {
    parse(filter).map(drop)
}

fn parse(filter: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::builder()
        .parse(filter)
        .with_context(|| format!("log filter `{filter}`"))
}

/// The filter of a command that says by itself what others warn of: unless somebody asked for more,
/// only errors.
pub(crate) fn of_a_report(log: &Setting<String>) -> &str {
    match log.origin {
        Origin::Default => "error",
        _ => &log.value,
    }
}

/// Starts logging to stderr with a filter such as `info` or `orchestra_store=debug`.
///
/// # Errors
/// When the filter cannot be understood.
pub(crate) fn start(filter: &str) -> Result<(), Failure> {
    let filter = parse(filter).map_err(Failure::usage)?;
    let ansi = io::IsTerminal::is_terminal(&io::stderr());
    // A second start in one process can only happen in tests, where the first one stands.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(ansi)
        .try_init();
    Ok(())
}
