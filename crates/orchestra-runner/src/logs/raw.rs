//! What a command printed, byte for byte.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use super::{
    Bounds,
    segments::{ByteWriter, Segments},
};

/// Writes what a run prints; both streams as they come.
#[derive(Debug)]
pub struct Raw(ByteWriter);

/// What is kept of what a run printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawContent {
    /// How much was printed.
    pub total: u64,
    /// The first bytes.
    pub head: Vec<u8>,
    /// How many bytes are left out behind them.
    pub omitted: u64,
    /// The last bytes.
    pub tail: Vec<u8>,
}

impl Raw {
    /// For a run called `name` in the directory of an attempt. Nothing is made before there is
    /// something to write.
    #[must_use]
    pub fn new(directory: &Path, name: &str, bounds: Bounds) -> Self {
        Self(ByteWriter::new(segments(directory, name), bounds))
    }

    /// Appends.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write(bytes)
    }
}

fn segments(directory: &Path, name: &str) -> Segments {
    Segments::new(directory, &format!("{name}.raw"))
}

/// How many bytes a run has printed, by the files that are there.
pub(crate) fn raw_length(directory: &Path, name: &str, bounds: Bounds) -> u64 {
    let segments = segments(directory, name);
    let Some(last) = segments.present().ok().and_then(|all| all.last().copied()) else {
        return 0;
    };
    let length = std::fs::metadata(segments.path(last)).map_or(0, |found| found.len());
    begin_of(last, bounds) + length
}

const fn begin_of(number: u64, bounds: Bounds) -> u64 {
    match number {
        0 => 0,
        _ => bounds.head + (number - 1) * bounds.piece(),
    }
}

/// What is kept of what a run printed, at most `most` bytes from each end. `bounds` are those that it
/// was written with.
///
/// # Errors
/// When a file cannot be read.
pub fn raw_content(
    directory: &Path,
    name: &str,
    bounds: Bounds,
    most: u64,
) -> io::Result<RawContent> {
    let segments = segments(directory, name);
    let present = segments.present()?;
    let total = raw_length(directory, name, bounds);
    let mut content = RawContent {
        total,
        ..RawContent::default()
    };
    if let Ok(file) = File::open(segments.path(0)) {
        file.take(most.min(bounds.head))
            .read_to_end(&mut content.head)?;
    }
    let head = content.head.len() as u64;
    // Never the same byte twice.
    let mut at = total.saturating_sub(most).max(head);
    for number in present {
        let begin = begin_of(number, bounds);
        let end = match number {
            0 => bounds.head,
            _ => begin + bounds.piece(),
        };
        if end <= at {
            continue;
        }
        let Ok(mut file) = File::open(segments.path(number)) else {
            continue;
        };
        if content.tail.is_empty() {
            at = at.max(begin);
        }
        file.seek(SeekFrom::Start(at.saturating_sub(begin)))?;
        file.take(total.saturating_sub(at))
            .read_to_end(&mut content.tail)?;
        at = end;
    }
    content.omitted = total.saturating_sub(head + content.tail.len() as u64);
    Ok(content)
}
