//! Talk of the program about itself, to stderr.

use std::{error::Error, fmt, io};

use anyhow::Context as _;
use tracing::field::{Field, Visit};
use tracing_subscriber::{
    EnvFilter,
    field::RecordFields,
    filter::LevelFilter,
    fmt::{FormatFields, format::Writer},
};

use crate::{
    commands::progress,
    config::{Origin, Setting},
    exit::Failure,
    output,
};

/// Checks a filter.
///
/// # Errors
/// When it cannot be understood.
pub(crate) fn check(filter: &str) -> anyhow::Result<()> {
    parse(filter).map(drop)
}

fn parse(filter: &str) -> anyhow::Result<EnvFilter> {
    let parsed = EnvFilter::builder()
        .parse(filter)
        .map_err(|error| {
            let text = format!("{:#}", anyhow::Error::new(error));
            anyhow::Error::msg(output::in_a_line(&text))
        })
        .and_then(|parsed| check_levels(filter).map(|()| parsed));
    // The configuration of a workspace can have it.
    parsed.with_context(|| format!("log filter `{}`", output::in_a_line(filter)))
}

/// Refuses a part of a filter without a level. The library takes `inof` as the name of a part, and
/// says nothing.
fn check_levels(filter: &str) -> anyhow::Result<()> {
    for part in filter.split(',').filter(|part| !part.is_empty()) {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
        anyhow::ensure!(
            !level.is_empty() && level.parse::<LevelFilter>().is_ok(),
            "`{}` is neither a level (off, error, warn, info, debug or trace) nor PART=LEVEL",
            output::in_a_line(part)
        );
    }
    Ok(())
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
        .with_writer(|| Aside)
        .with_ansi(ansi)
        .fmt_fields(OneLine)
        .try_init();
    Ok(())
}

/// Writes the message and the fields of a record on one line. A value may be the text of a server, a file or a
/// client, which must not forge a line or control the terminal.
struct OneLine;

impl<'writer> FormatFields<'writer> for OneLine {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut written = Fields {
            writer,
            is_first: true,
            result: Ok(()),
        };
        fields.record(&mut written);
        written.result
    }
}

/// Fields of a record that were written so far.
struct Fields<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    result: fmt::Result,
}

impl Fields<'_> {
    fn write(&mut self, field: &Field, value: &str) -> fmt::Result {
        // Masked before line breaks are escaped: some secrets have several lines.
        let value = output::in_a_line(&orchestra_secret::text(value));
        if !self.is_first {
            self.writer.write_char(' ')?;
        }
        self.is_first = false;
        let name = field.name();
        let name = name.strip_prefix("r#").unwrap_or(name);
        match (name, self.writer.has_ansi_escapes()) {
            ("message", _) => self.writer.write_str(&value),
            // The name in italics, the sign dimmed.
            (name, true) => write!(
                self.writer,
                "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m{value}"
            ),
            (name, false) => write!(self.writer, "{name}={value}"),
        }
    }
}

impl Visit for Fields<'_> {
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut causes = vec![value.to_string()];
        let mut cause = value.source();
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        self.result = self
            .result
            .and_then(|()| self.write(field, &causes.join(": ")));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.result = self
            .result
            .and_then(|()| self.write(field, &format!("{value:?}")));
    }
}

/// Stderr, beside what turns there.
struct Aside;

impl io::Write for Aside {
    /// Writes one record, its secrets masked.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let record = String::from_utf8_lossy(text);
        let masked = orchestra_secret::text(&record);
        progress::aside(|| io::stderr().write_all(masked.as_bytes()))?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_filter_has_a_level() {
        for filter in [
            "info",
            "OFF",
            "warn,orchestra_store=debug",
            "info,",
            "a::b=trace,warn",
            "a[span{x=1}]=debug",
        ] {
            check(filter).unwrap();
        }
        for filter in [
            "inof",
            "loud",
            "warn,orchestra_store",
            "orchestra_store=loud",
            "a=",
            "a[span{x=1}]",
        ] {
            let error = format!("{:#}", check(filter).unwrap_err());
            assert!(error.contains("log filter"), "{filter}: {error}");
        }
    }
}
