//! What is recorded of the messages between this program and servers of others.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Context as _;
use clap::Args;
use orchestra_mcp::client::tap::{Tap, TapConfig, TapFile, TapWatch, TraceForm};
use orchestra_secret::Masker;

use crate::{exit::Failure, output};

/// Recording of messages.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TraceFlags {
    /// Print a line on stderr for each message to or from an MCP server: time, direction, server, id, method,
    /// bytes, milliseconds
    #[arg(long)]
    trace: bool,
    /// File in which to record all messages to and from MCP servers, one line of JSON each, with secrets masked;
    /// rotated at 64 MiB
    #[arg(long, value_name = "FILE")]
    trace_file: Option<PathBuf>,
    /// Name of a tool argument whose values --trace-file masks, in addition to secrets; may be repeated
    #[arg(long, value_name = "NAME")]
    mask: Vec<String>,
    /// Form of the lines on stderr.
    #[arg(skip)]
    form: TraceForm,
    /// Switch for the lines on stderr, if they can be turned on and off.
    #[arg(skip)]
    switch: Option<Arc<AtomicBool>>,
}

impl TraceFlags {
    /// A tap, if one is wanted; `watch` is for those who look at it while it runs.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn open(&self, watch: Option<TapWatch>) -> Result<Option<Tap>, Failure> {
        let file = self.trace_file.as_deref();
        let shown: Option<Shown> = match &self.switch {
            Some(switch) => Some((Box::new(Switched(Arc::clone(switch))), self.form)),
            None if self.trace => Some((Box::new(io::stderr()), self.form)),
            None => None,
        };
        match shown.is_some() || file.is_some() || watch.is_some() {
            true => begun(file, shown, watch, masker(&self.mask)).map(Some),
            false => Ok(None),
        }
    }

    /// The same, where it may be switched on and off whether they are shown.
    pub(crate) fn switched(self) -> Self {
        let switch = Some(Arc::new(AtomicBool::new(self.trace)));
        Self { switch, ..self }
    }

    /// Switches it; whether they are shown now.
    pub(crate) fn switch(&self) -> bool {
        let flipped = self
            .switch
            .as_ref()
            .map(|switch| !switch.fetch_xor(true, Ordering::Relaxed));
        flipped.unwrap_or(self.trace)
    }

    /// The same with whole messages on stderr, with the names of their servers where there are several.
    pub(crate) fn whole(self, is_named: bool) -> Self {
        let form = match is_named {
            true => TraceForm::WholeNamed,
            false => TraceForm::Whole,
        };
        Self { form, ..self }
    }

    /// Those that were given.
    pub(crate) fn of(trace: bool, trace_file: Option<PathBuf>, mask: Vec<String>) -> Self {
        Self {
            trace,
            trace_file,
            mask,
            ..Self::default()
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
pub(crate) fn open(
    file: Option<&Path>,
    shown: Option<TraceForm>,
    masker: Masker,
) -> Result<Tap, Failure> {
    let shown = shown.map(|form| (Box::new(io::stderr()) as _, form));
    begun(file, shown, None, masker)
}

/// Where lines go, and what they say.
type Shown = (Box<dyn io::Write + Send>, TraceForm);

fn begun(
    file: Option<&Path>,
    shown: Option<Shown>,
    watch: Option<TapWatch>,
    masker: Masker,
) -> Result<Tap, Failure> {
    let (trace, form) = shown.unzip();
    let tap = Tap::open(TapConfig {
        file: file.map(|file| TapFile::at(file.to_owned())),
        trace,
        form: form.unwrap_or_default(),
        watch,
        masker,
    });
    let file = file.unwrap_or_else(|| Path::new("stderr"));
    Ok(tap.with_context(|| format!("recording to {}", file.display()))?)
}

/// Standard error, or nothing.
struct Switched(Arc<AtomicBool>);

impl io::Write for Switched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.load(Ordering::Relaxed) {
            true => io::stderr().write(bytes),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
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

/// Masker that also masks marked arguments.
pub(crate) fn masker(marked: &[String]) -> Masker {
    let masker = Masker::default();
    marked
        .iter()
        .fold(masker, |masker, name| masker.member(name))
}
