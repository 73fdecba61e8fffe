//! Talk of the program about itself, to stderr.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// Starts logging to stderr with a filter such as `info` or `orchestra_store=debug`.
///
/// # Errors
/// When the filter cannot be understood.
pub(crate) fn start(filter: &str) -> Result<(), Failure> {
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|error| Failure::usage_text(format!("log filter `{filter}`: {error}")))?;
    let ansi = io::IsTerminal::is_terminal(&io::stderr());
    // A second start in one process can only happen in tests, where the first one stands.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(ansi)
        .try_init();
    Ok(())
}
