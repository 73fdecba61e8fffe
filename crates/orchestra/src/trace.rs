//! What is recorded of the messages between this program and servers of others.

use std::{
    io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;
use orchestra_mcp::client::tap::{Redactor, Tap, TapConfig, TapFile};

use crate::{exit::Failure, output};

/// What is recorded.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TraceFlags {
    /// Show a line on stderr for each message of a server: time, direction, server, id, method,
    /// bytes, ms
    #[arg(long)]
    trace: bool,
    /// Record whole messages of servers here, a line of JSON each, secrets masked; put aside at
    /// 64 MiB
    #[arg(long, value_name = "FILE")]
    trace_file: Option<PathBuf>,
    /// Mask in recordings what arguments of this name hold; more than one may be given
    #[arg(long, value_name = "NAME")]
    mask: Vec<String>,
}

impl TraceFlags {
    /// A tap, if one is wanted.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn open(&self) -> Result<Option<Tap>, Failure> {
        match self.trace || self.trace_file.is_some() {
            true => open(self.trace_file.as_deref(), self.trace, redactor(&self.mask)).map(Some),
            false => Ok(None),
        }
    }

    /// Whether something is recorded.
    pub(crate) const fn is_given(&self) -> bool {
        self.trace || self.trace_file.is_some()
    }
}

/// Begins a recording.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn open(file: Option<&Path>, shows: bool, redactor: Redactor) -> Result<Tap, Failure> {
    let tap = Tap::open(TapConfig {
        file: file.map(|file| TapFile::at(file.to_owned())),
        trace: shows.then(|| Box::new(io::stderr()) as _),
        redactor,
    });
    let file = file.unwrap_or_else(|| Path::new("stderr"));
    Ok(tap.with_context(|| format!("recording to {}", file.display()))?)
}

/// Ends a recording, and says what is missing in it.
pub(crate) fn finish(tap: &Tap) {
    let dropped = tap.finish().dropped;
    if dropped > 0 {
        let (messages, came) = match dropped {
            1 => ("message is", "it came"),
            _ => ("messages are", "they came"),
        };
        output::complain(&format!(
            "{dropped} {messages} not in the recording: {came} faster than could be written"
        ));
    }
}

/// Masks the secrets of our own environment, which servers may inherit, and marked arguments.
pub(crate) fn redactor(marked: &[String]) -> Redactor {
    let variables = std::env::vars_os();
    let variables = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let redactor = Redactor::default().environment(variables);
    marked
        .iter()
        .fold(redactor, |redactor, name| redactor.argument(name))
}
