//! The lines of `events.jsonl`: the first says which plan and version it is, each of the others is an
//! event with the checksum of what stands there.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::SCHEMA;
use crate::hex::hex;
use crate::journal::{Kept, MAX_EVENT_BYTES, PlanKey, entry::check};

/// The longest line: an event and what stands around it.
const MAX_LINE: u64 = MAX_EVENT_BYTES as u64 + 1024;
/// So much of the end is looked at first.
const TAIL: u64 = 256 * 1024;

#[derive(Serialize, Deserialize)]
struct Header<'a> {
    schema: u32,
    plan: &'a str,
}

#[derive(Serialize)]
struct Written<'a> {
    seq: u64,
    number: u64,
    at: u64,
    event: &'a RawValue,
    check: &'a str,
}

#[derive(Deserialize)]
struct Read {
    seq: u64,
    number: u64,
    at: u64,
    event: Box<RawValue>,
    check: String,
}

/// What the file of a plan's events says, as far as it is whole.
#[derive(Debug, Clone)]
pub struct Exported {
    /// The events, without what was left out of them.
    pub events: Vec<Kept>,
    /// How many bytes of the file are whole.
    pub bytes: u64,
    /// Whether something came after them that is not.
    pub is_torn: bool,
}

pub(super) fn header(plan: &PlanKey) -> String {
    format!("{{\"schema\":{SCHEMA},\"plan\":\"{plan}\"}}\n")
}

/// The line of an event, of which `shown` is shown.
pub(super) fn line(event: &Kept, shown: &Value) -> io::Result<String> {
    let text = serde_json::value::to_raw_value(shown)?;
    let check = check(
        "line",
        event.plan.as_str(),
        event.number,
        event.at,
        text.get(),
    );
    let written = Written {
        seq: event.seq,
        number: event.number,
        at: event.at,
        event: &text,
        check: &hex(&check),
    };
    let mut line = serde_json::to_string(&written)?;
    line.push('\n');
    Ok(line)
}

/// The event of a line that is whole.
fn read_line(line: &[u8], plan: &PlanKey) -> Option<Kept> {
    let line = line.strip_suffix(b"\n")?;
    let read: Read = serde_json::from_slice(line).ok()?;
    let found = check(
        "line",
        plan.as_str(),
        read.number,
        read.at,
        read.event.get(),
    );
    (hex(&found) == read.check).then(|| Kept {
        seq: read.seq,
        plan: plan.clone(),
        number: read.number,
        at: read.at,
        body: read.event,
    })
}

/// Up to which event and byte the file of a plan is whole; `None` where it must be made anew.
pub(super) fn end_of(path: &Path, plan: &PlanKey) -> Option<(u64, u64)> {
    if let Some(end) = whole_end(path, plan) {
        return Some(end);
    }
    let mut last = 0;
    let (bytes, _) = read_each(path, plan, |event| last = event.number).ok()??;
    Some((last, bytes))
}

/// The same where the last line is whole, and the file so long that reading it all would take a while.
fn whole_end(path: &Path, plan: &PlanKey) -> Option<(u64, u64)> {
    let mut file = orchestra_fs::open(path).ok()??;
    let length = file.metadata().ok()?.len();
    let begin = length.checked_sub(TAIL)?;
    file.seek(SeekFrom::Start(begin)).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail).ok()?;
    let before_last = tail.len().checked_sub(1)?;
    let start = tail[..before_last]
        .iter()
        .rposition(|byte| *byte == b'\n')?
        + 1;
    let last = read_line(&tail[start..], plan)?;
    Some((last.number, length))
}

/// Reads the file of a plan's events, up to the first line that is not whole; `None` where there is none,
/// or none of this plan that this program can read.
///
/// # Errors
/// When the file cannot be read.
pub fn read_export(path: &Path, plan: &PlanKey) -> io::Result<Option<Exported>> {
    let mut events = Vec::new();
    let read = read_each(path, plan, |event| events.push(event))?;
    Ok(read.map(|(bytes, is_torn)| Exported {
        events,
        bytes,
        is_torn,
    }))
}

fn read_each(
    path: &Path,
    plan: &PlanKey,
    mut each: impl FnMut(Kept),
) -> io::Result<Option<(u64, bool)>> {
    let Some(file) = orchestra_fs::open(path)? else {
        return Ok(None);
    };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| {
        line.clear();
        reader.by_ref().take(MAX_LINE).read_until(b'\n', line)
    };
    let mut bytes = next(&mut line)? as u64;
    let is_ours = serde_json::from_slice::<Header<'_>>(&line)
        .is_ok_and(|header| header.schema == SCHEMA && header.plan == plan.as_str());
    if !is_ours || line.last() != Some(&b'\n') {
        return Ok(None);
    }
    let mut number = 0;
    loop {
        let length = next(&mut line)? as u64;
        let event = read_line(&line, plan);
        let Some(event) = event.filter(|event| event.number == number + 1) else {
            return Ok(Some((bytes, length > 0)));
        };
        number = event.number;
        bytes += length;
        each(event);
    }
}
