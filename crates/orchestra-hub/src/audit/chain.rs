//! The chain of an audit file: each line names the hash of the one before it, whatever that is, so
//! that a line that was changed, removed or put in is found. How it begins and ends is noted in a
//! file beside it.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader},
    os::unix::fs::FileExt as _,
};

use sha2::{Digest as _, Sha256};

/// The most of a line that is looked into. Ours are far shorter.
pub(super) const MAX_LINE: usize = 64 * 1024;

/// How much is read at once on the way back to the beginning of the last line.
const STEP: usize = 4 * 1024;

/// SHA-256 of a line, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link([u8; 32]);

impl Link {
    /// What the first line of all names.
    pub(super) const BEGINNING: Self = Self([0; 32]);

    /// The hash of a line.
    pub(super) fn of(line: &[u8]) -> Self {
        Self(Sha256::digest(line).into())
    }

    /// Reads 64 hexadecimal digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let digit = |byte: u8| {
            char::from(byte)
                .to_digit(16)
                .and_then(|d| u8::try_from(d).ok())
        };
        let mut link = [0; 32];
        for (byte, pair) in link.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(link))
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A line of a file, as far as it is looked into.
#[derive(Default)]
pub(super) struct Line {
    /// Its first bytes.
    pub(super) text: Vec<u8>,
    /// How long it is.
    pub(super) length: usize,
}

/// The lines of a file, one after the other; however long one is, little is held of it.
pub(super) struct Lines<R>(BufReader<R>);

impl<R: io::Read> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self(BufReader::new(reader))
    }

    /// The next line with its hash, in the place of the one before; `None` at the end.
    pub(super) fn next(&mut self, line: &mut Line) -> io::Result<Option<Link>> {
        line.text.clear();
        line.length = 0;
        let mut hash = Sha256::new();
        let mut is_any = false;
        loop {
            let piece = self.0.fill_buf()?;
            if piece.is_empty() {
                break;
            }
            is_any = true;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let part = &piece[..end.unwrap_or(piece.len())];
            hash.update(part);
            line.length += part.len();
            let room = MAX_LINE - line.text.len();
            line.text.extend_from_slice(&part[..part.len().min(room)]);
            let taken = part.len() + usize::from(end.is_some());
            self.0.consume(taken);
            if end.is_some() {
                break;
            }
        }
        Ok(is_any.then(|| Link(hash.finalize().into())))
    }
}

/// The last line of the first `length` bytes of a file.
pub(super) struct Tail {
    pub(super) link: Link,
    /// Whoever wrote it ended before its end.
    pub(super) is_torn: bool,
}

/// Reads the end of a file; `None` where that is empty.
pub(super) fn tail(file: &File, length: u64) -> io::Result<Option<Tail>> {
    if length == 0 {
        return Ok(None);
    }
    let mut last = [0];
    file.read_exact_at(&mut last, length - 1)?;
    let is_torn = last[0] != b'\n';
    let end = if is_torn { length } else { length - 1 };
    let begin = line_before(file, end)?;
    let mut hash = Sha256::new();
    let mut piece = [0; STEP];
    let mut at = begin;
    while at < end {
        let wanted = usize::try_from(end - at).map_or(STEP, |left| left.min(STEP));
        file.read_exact_at(&mut piece[..wanted], at)?;
        hash.update(&piece[..wanted]);
        at += wanted as u64;
    }
    let link = Link(hash.finalize().into());
    Ok(Some(Tail { link, is_torn }))
}

/// Where the line begins that ends at `end`.
fn line_before(file: &File, end: u64) -> io::Result<u64> {
    let mut piece = [0; STEP];
    let mut at = end;
    while at > 0 {
        let wanted = usize::try_from(at).map_or(STEP, |left| left.min(STEP));
        at -= wanted as u64;
        file.read_exact_at(&mut piece[..wanted], at)?;
        if let Some(found) = piece[..wanted].iter().rposition(|byte| *byte == b'\n') {
            return Ok(at + found as u64 + 1);
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_last_line_is_found_however_long_it_is() {
        for (text, last, is_torn) in [
            ("a\n".to_owned(), "a", false),
            ("a\nbc\n".to_owned(), "bc", false),
            ("a\nbc".to_owned(), "bc", true),
            (
                format!("a\n{}\n", "x".repeat(3 * STEP)),
                &*"x".repeat(3 * STEP),
                false,
            ),
            (
                format!("a\n{}\n", "x".repeat(STEP - 1)),
                &*"x".repeat(STEP - 1),
                false,
            ),
            ("\n".to_owned(), "", false),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let tail = tail(&file, text.len() as u64).unwrap().unwrap();
            assert!(tail.link == Link::of(last.as_bytes()), "{text}");
            assert_eq!(tail.is_torn, is_torn, "{text}");
            let (mut lines, mut line) = (Lines::new(text.as_bytes()), Line::default());
            let mut found = None;
            while let Some(next) = lines.next(&mut line).unwrap() {
                found = Some((next, line.length));
            }
            assert!(found == Some((tail.link, last.len())), "{text}");
        }
        assert!(tail(&tempfile::tempfile().unwrap(), 0).unwrap().is_none());
    }

    #[test]
    fn a_link_is_64_digits() {
        let link = Link::of(b"a");
        assert!(Link::parse(&link.to_string()) == Some(link));
        assert_eq!(Link::BEGINNING.to_string(), "0".repeat(64));
        for wrong in ["", "0", &"g".repeat(64), &"é".repeat(32)] {
            assert!(Link::parse(wrong).is_none(), "{wrong}");
        }
    }
}
