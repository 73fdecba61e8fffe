//! Reading lines: pages by cursor, the last ones, and those that contain something.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use super::{Line, Stream, segments::Segments, write::LINES};

/// Most lines of a page.
pub const MAX_PAGE: usize = 5_000;

/// Most bytes of texts of a page; a page has one line at least.
const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Most bytes of a file of lines that are looked at; whoever writes them writes fewer.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Which lines.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Those with a larger number.
    pub after: Option<u64>,
    /// So many at most; [`MAX_PAGE`] unless said, and never more.
    pub limit: Option<usize>,
    /// The last of all instead of the first after something.
    pub tail: bool,
    /// Of this phase.
    pub phase: Option<String>,
    /// Of this run of it.
    pub run: Option<u32>,
    /// Of this stream.
    pub stream: Option<Stream>,
    /// That contain this, whatever the case of its letters.
    pub contains: Option<String>,
}

/// Some lines of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The lines, in the order of their numbers.
    pub lines: Vec<Line>,
    /// What to give as `after` to go on. It is the number up to which was looked, so that a search
    /// goes on behind what it has found nothing in.
    pub next: u64,
    /// Whether there is more behind them now.
    pub more: bool,
    /// How many lines between `after` (or the beginning) and the last one here are kept no more.
    pub omitted: u64,
}

impl Query {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE)
    }

    fn wants(&self, line: &Line, needle: Option<&str>) -> bool {
        let phase = self.phase.as_ref().is_none_or(|phase| *phase == line.phase);
        let run = self.run.is_none_or(|run| run == line.run);
        let stream = self.stream.is_none_or(|stream| stream == line.stream);
        phase
            && run
            && stream
            && needle.is_none_or(|needle| line.text.to_lowercase().contains(needle))
    }

    fn needle(&self) -> Option<String> {
        self.contains.as_deref().map(str::to_lowercase)
    }
}

/// Lines of the attempt whose directory this is. No directory and no file is a log without lines.
/// Lines that are not whole are passed over.
///
/// # Errors
/// When a file is there that cannot be read.
pub fn read(directory: &Path, query: &Query) -> io::Result<Page> {
    let segments = Segments::new(directory, LINES);
    match query.tail {
        true => read_tail(&segments, query),
        false => read_after(&segments, query),
    }
}

/// The last line of a run that its command said, if it is among the last of each file.
///
/// # Errors
/// When a file is there that cannot be read.
pub fn last_line(directory: &Path, phase: &str, run: u32) -> io::Result<Option<Line>> {
    let segments = Segments::new(directory, LINES);
    for number in segments.present()?.into_iter().rev() {
        let bytes = last_bytes(&segments, number)?;
        let mut lines = bytes.rsplit(|byte| *byte == b'\n').filter_map(parse);
        let is_of =
            |line: &Line| line.phase == phase && line.run == run && line.stream != Stream::Runner;
        if let Some(line) = lines.find(is_of) {
            return Ok(Some(line));
        }
    }
    Ok(None)
}

fn read_after(segments: &Segments, query: &Query) -> io::Result<Page> {
    let after = query.after.unwrap_or(0);
    let needle = query.needle();
    let mut page = Page {
        next: after,
        ..Page::default()
    };
    let mut bytes_left = MAX_PAGE_BYTES;
    let present = segments.present()?;
    for (place, number) in present.iter().enumerate() {
        // Whatever is in this file comes before the first line of the next.
        if let Some(following) = present.get(place + 1)
            && first_number(segments, *following)?.is_some_and(|first| first <= after + 1)
        {
            continue;
        }
        let bytes = content_after(segments, *number, after)?;
        for line in bytes.split(|byte| *byte == b'\n').filter_map(parse) {
            if line.seq <= page.next {
                continue;
            }
            let wanted = query.wants(&line, needle.as_deref());
            let is_full = page.lines.len() >= query.limit()
                || (line.text.len() > bytes_left && !page.lines.is_empty());
            if wanted && is_full {
                page.more = true;
                return Ok(page);
            }
            page.omitted += line.seq - page.next - 1;
            page.next = line.seq;
            if wanted {
                bytes_left = bytes_left.saturating_sub(line.text.len());
                page.lines.push(line);
            }
        }
    }
    Ok(page)
}

fn read_tail(segments: &Segments, query: &Query) -> io::Result<Page> {
    let after = query.after.unwrap_or(0);
    let needle = query.needle();
    let mut page = Page {
        next: after,
        ..Page::default()
    };
    let mut bytes_left = MAX_PAGE_BYTES;
    'files: for number in segments.present()?.into_iter().rev() {
        let bytes = content(segments, number)?;
        for line in bytes.rsplit(|byte| *byte == b'\n').filter_map(parse) {
            if line.seq <= after {
                break 'files;
            }
            page.next = page.next.max(line.seq);
            if !query.wants(&line, needle.as_deref()) {
                continue;
            }
            if page.lines.len() >= query.limit() || line.text.len() > bytes_left {
                break 'files;
            }
            bytes_left -= line.text.len();
            page.lines.push(line);
        }
    }
    page.lines.reverse();
    Ok(page)
}

fn parse(line: &[u8]) -> Option<Line> {
    match line {
        [] => None,
        _ => serde_json::from_slice(line).ok(),
    }
}

/// Opens one of the files, unless it was the oldest and went meanwhile.
fn open(segments: &Segments, number: u64) -> io::Result<Option<File>> {
    match File::open(segments.path(number)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn content(segments: &Segments, number: u64) -> io::Result<Vec<u8>> {
    content_after(segments, number, 0)
}

/// What a file holds, from some place before which there are no lines with a number above `after`.
fn content_after(segments: &Segments, number: u64, after: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut file) = open(segments, number)? {
        let from = match after {
            0 => 0,
            _ => position(&mut file, after)?,
        };
        file.seek(SeekFrom::Start(from))?;
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The end of a file; its first line may not be whole.
fn last_bytes(segments: &Segments, number: u64) -> io::Result<Vec<u8>> {
    /// Room for the longest line, and for many of others.
    const MOST: u64 = 256 * 1024;
    let mut bytes = Vec::new();
    if let Some(mut file) = open(segments, number)? {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MOST)))?;
        file.take(MOST).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The number of the first line of a file.
fn first_number(segments: &Segments, number: u64) -> io::Result<Option<u64>> {
    let Some(file) = open(segments, number)? else {
        return Ok(None);
    };
    let mut line = Vec::new();
    BufReader::new(file.take(MAX_FILE_BYTES)).read_until(b'\n', &mut line)?;
    Ok(parse(line.trim_ascii_end()).map(|line| line.seq))
}

/// A place in a file of lines before which there are none with a number above `after`.
fn position(file: &mut File, after: u64) -> io::Result<u64> {
    /// What is near enough.
    const NEAR: u64 = 32 * 1024;
    /// Room for some lines. Where it is too little, more is read than is needed.
    const LOOK: u64 = 4 * 1024;
    let (mut low, mut high) = (0, file.metadata()?.len());
    let mut bytes = Vec::new();
    while high - low > NEAR {
        let middle = low + (high - low) / 2;
        file.seek(SeekFrom::Start(middle))?;
        bytes.clear();
        file.take(LOOK).read_to_end(&mut bytes)?;
        let mut ends = memchr::memchr_iter(b'\n', &bytes);
        let line = ends.next().zip(ends.next());
        let seen = line.and_then(|(begin, end)| {
            let line = parse(&bytes[begin + 1..end])?;
            Some((middle + begin as u64 + 1, line.seq))
        });
        match seen {
            Some((begin, seq)) if seq <= after && begin < high => low = begin,
            _ => high = middle,
        }
    }
    Ok(low)
}
