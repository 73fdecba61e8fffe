//! A record as a line of the audit file.

use std::{
    borrow::Cow,
    io::{self, Write as _},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use orchestra_secret::is_invisible;
use serde::{Deserialize, Serialize};

use super::{Record, chain::Link};
use crate::metrics::micros;

/// Maximum length of a text of a record.
const MAX_TEXT_BYTES: usize = 256;

/// The line of a record.
#[derive(Serialize)]
struct Row<'a> {
    unix_ms: u128,
    face: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    kind: &'a str,
    name: &'a str,
    argument_bytes: usize,
    result_bytes: usize,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<&'a str>,
    micros: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
    /// Records that this program lost since its last one.
    #[serde(skip_serializing_if = "is_zero")]
    lost: u64,
    prev: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What of a line is looked at again.
#[derive(Deserialize)]
pub(super) struct Read<'a> {
    unix_ms: u64,
    #[serde(borrow)]
    prev: Option<Cow<'a, str>>,
}

impl Read<'_> {
    /// What it follows, as it says; `None` where it says nothing, as those did that were written
    /// before there was a chain.
    pub(super) fn prev(&self) -> Option<&str> {
        self.prev.as_deref()
    }
}

/// Understands a line; `None` when it is no record.
pub(super) fn read(text: &[u8]) -> Option<Read<'_>> {
    serde_json::from_slice(text).ok()
}

/// When the record of a line was made.
pub(super) fn moment(text: &[u8]) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(read(text)?.unix_ms))
}

/// Appends the line of a record that follows the line with the hash `prev`.
pub(super) fn push(lines: &mut Vec<u8>, record: &Record, lost: u64, prev: Link) -> io::Result<()> {
    let excerpt = |text: &str| orchestra_secret::excerpt(text, MAX_TEXT_BYTES);
    let client = record.client.as_deref().map(excerpt);
    let remark = record.remark.as_deref().map(excerpt);
    let row = Row {
        unix_ms: record
            .ended
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_millis(),
        face: record.face,
        client: client.as_deref(),
        provider: record.provider.as_deref(),
        kind: record.kind,
        name: &excerpt(&record.name),
        argument_bytes: record.argument_bytes,
        result_bytes: record.result_bytes,
        outcome: record.end.name(),
        remark: remark.as_deref(),
        micros: micros(record.elapsed),
        trace: record.trace.as_deref().and_then(trace_id),
        lost,
        prev: prev.to_string(),
    };
    for c in serde_json::to_string(&row)?.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(lines, "\\u{unit:04x}")?;
            }
        } else {
            lines.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    lines.push(b'\n');
    Ok(())
}

/// Returns whether a character that JSON does not escape controls a terminal, turns the direction of text or cannot be
/// seen. All such characters are in strings.
const fn is_hidden(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}') || is_invisible(c)
}

/// The id of the trace in a `traceparent` (W3C Trace Context, 3.2): 32 small hexadecimal digits that
/// are not all zero; `None` when that is not one.
fn trace_id(traceparent: &str) -> Option<&str> {
    let mut parts = traceparent.split('-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let (parent, flags) = (parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        text.len() == length && text.bytes().all(digit)
    };
    let is_one = is_hex(version, 2) && is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
    // Newer versions may say more behind it, this one may not.
    let is_whole = version != "ff" && (version != "00" || parts.next().is_none());
    (is_one && is_whole && trace.contains(|c| c != '0')).then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_trace_is_taken_where_there_is_one() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let good = format!("00-{trace}-00f067aa0ba902b7-01");
        assert_eq!(trace_id(&good), Some(trace));
        assert_eq!(trace_id(&format!("cc{}-more", &good[2..])), Some(trace));
        for wrong in [
            "",
            trace,
            &good.to_uppercase(),
            &format!("{good}-more"),
            &format!("ff{}", &good[2..]),
            &good.replace(trace, &"0".repeat(32)),
        ] {
            assert_eq!(trace_id(wrong), None, "{wrong}");
        }
    }
}
