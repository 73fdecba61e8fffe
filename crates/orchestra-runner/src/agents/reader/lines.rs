//! Lines of bounded length, from pieces that are cut anywhere.

use std::mem;

/// The longest line that is read: agents print whole answers in one.
pub(super) const MAX_LINE_BYTES: usize = 1024 * 1024;

/// The line that has begun.
#[derive(Debug, Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
    is_too_long: bool,
}

impl Lines {
    /// Gives each whole line, without its end; says how many were too long and left out.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> u64 {
        let mut left_out = 0;
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&rest[..at], &rest[at + 1..]);
            rest = after;
            if self.is_too_long || self.begun.len() + line.len() > MAX_LINE_BYTES {
                left_out += 1;
                *self = Self::default();
            } else if self.begun.is_empty() {
                each(without_return(line));
            } else {
                self.begun.extend_from_slice(line);
                each(without_return(&mem::take(&mut self.begun)));
            }
        }
        if self.is_too_long || self.begun.len() + rest.len() > MAX_LINE_BYTES {
            self.is_too_long = true;
            self.begun = Vec::new();
        } else {
            self.begun.extend_from_slice(rest);
        }
        left_out
    }

    /// The last line, if it did not end and is not too long.
    pub(super) fn rest(self) -> Option<Vec<u8>> {
        let is_line = !self.is_too_long && !self.begun.is_empty();
        is_line.then(|| without_return(&self.begun).to_vec())
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn lines_that_are_too_long_are_left_out_and_not_held() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        let mut left_out = 0;
        for _ in 0..40 {
            left_out += lines.feed(&[b'x'; 100_000], |_| panic!("no line has ended"));
            assert!(lines.begun.capacity() <= 2 * MAX_LINE_BYTES);
        }
        left_out += lines.feed(b"\nnext\r\nlast", |line| seen.push(line.to_vec()));
        assert_eq!((left_out, seen), (1, vec![b"next".to_vec()]));
        assert_eq!(lines.rest().unwrap(), b"last");
    }

    proptest! {
        #[test]
        fn lines_are_the_same_wherever_they_are_cut(
            text in "[ab\n\r]{0,60}",
            cuts in vec(0..61_usize, 0..6),
        ) {
            let mut whole = Vec::new();
            Lines::default().feed(text.as_bytes(), |line| whole.push(line.to_vec()));
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut lines = Lines::default();
            let mut pieces = Vec::new();
            for cut in cuts.windows(2) {
                lines.feed(&text.as_bytes()[cut[0]..cut[1]], |line| pieces.push(line.to_vec()));
            }
            prop_assert_eq!(whole, pieces);
        }
    }
}
