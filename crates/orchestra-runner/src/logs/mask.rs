//! Secrets, which are on no log: they are replaced in the stream, wherever it is cut.

use memchr::memmem;

/// What stands in the place of a secret.
pub const MASK: &str = "***";

/// Shorter values hide nothing worth it, and would be found everywhere.
pub const MIN_SECRET_BYTES: usize = 4;

/// Lines of a secret of several lines that are as long as this are hidden on their own as well.
const MIN_SECRET_LINE_BYTES: usize = 12;

/// Replaces secrets in one stream of bytes.
#[derive(Debug, Clone, Default)]
pub struct Mask {
    /// Longest first.
    secrets: Vec<Vec<u8>>,
    /// Bytes that may be the beginning of a secret.
    pending: Vec<u8>,
    /// So many of them have been given away already, hidden.
    done: usize,
}

impl Mask {
    /// For these secrets. Those shorter than [`MIN_SECRET_BYTES`] are passed over.
    #[must_use]
    pub fn new<S: AsRef<[u8]>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for secret in secrets {
            let secret = secret.as_ref();
            if secret.len() >= MIN_SECRET_BYTES {
                all.push(secret.to_owned());
            }
            let lines = secret.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
            let long = lines.filter(|line| line.len() >= MIN_SECRET_LINE_BYTES);
            all.extend(long.map(<[u8]>::to_owned));
        }
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self {
            secrets: all,
            ..Self::default()
        }
    }

    /// Takes more of the stream, and gives what is certain.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.secrets.is_empty() {
            out.extend_from_slice(bytes);
            return;
        }
        self.pending.extend_from_slice(bytes);
        let held = self.held();
        self.give(held, out);
    }

    /// Gives the rest: the stream has ended.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let all = self.pending.len();
        self.give(all, out);
    }

    /// A text as a whole.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut mask = Self {
            secrets: self.secrets.clone(),
            ..Self::default()
        };
        let mut out = Vec::with_capacity(text.len());
        mask.push(text.as_bytes(), &mut out);
        mask.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Where that begins which may become a secret with what comes.
    fn held(&self) -> usize {
        let pending = &self.pending;
        let longest = self.secrets.iter().filter_map(|secret| {
            let most = (secret.len() - 1).min(pending.len());
            (1..=most)
                .rev()
                .find(|length| pending.ends_with(&secret[..*length]))
        });
        pending.len() - longest.max().unwrap_or(0)
    }

    /// Gives all before `held`, and the whole of each secret that begins before it.
    fn give(&mut self, held: usize, out: &mut Vec<u8>) {
        let mut at = self.done;
        for (begin, end) in self.found() {
            if end <= at {
                continue;
            }
            if begin > held {
                break;
            }
            if begin > at {
                out.extend_from_slice(&self.pending[at..begin]);
            }
            // What continues a secret that is hidden already is hidden with it.
            if begin >= at {
                out.extend_from_slice(MASK.as_bytes());
            }
            at = end;
        }
        if at < held {
            out.extend_from_slice(&self.pending[at..held]);
            at = held;
        }
        self.pending.drain(..held);
        self.done = at - held;
    }

    /// All places of all secrets, those that overlap as one, in order.
    fn found(&self) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for secret in &self.secrets {
            let mut from = 0;
            while let Some(at) = memmem::find(&self.pending[from..], secret) {
                found.push((from + at, from + at + secret.len()));
                // It may overlap with itself.
                from += at + 1;
            }
        }
        found.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::with_capacity(found.len());
        for (begin, end) in found {
            match merged.last_mut() {
                Some(last) if begin < last.1 => last.1 = last.1.max(end),
                _ => merged.push((begin, end)),
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(secrets: &[&str], pieces: &[&[u8]]) -> String {
        let mut mask = Mask::new(secrets);
        let mut out = Vec::new();
        for piece in pieces {
            mask.push(piece, &mut out);
        }
        mask.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn secrets_are_hidden_wherever_the_stream_is_cut() {
        let text = b"a hunter2 b hunter22 hunter2hunter2 hunter";
        for cut in 0..text.len() {
            let (first, second) = text.split_at(cut);
            assert_eq!(
                masked(&["hunter2", "hunter22"], &[first, second]),
                "a *** b *** ****** hunter"
            );
        }
        assert_eq!(masked(&["abcab"], &[b"abcabcab-"]), "***-");
        assert_eq!(
            masked(&["abcdefgh", "cdef"], &[b"abcdef", b"gh abcdef!"]),
            "*** ab***!"
        );
        assert_eq!(masked(&["abc"], &[b"abc is short"]), "abc is short");
    }

    #[test]
    fn a_secret_of_several_lines_is_hidden_line_by_line() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\n-----END KEY-----";
        assert_eq!(masked(&[key], &[b"x MIIEvQIBADANBgkq y"]), "x *** y");
        assert_eq!(masked(&[key], &[key.as_bytes()]), "***");
    }

    proptest! {
        #[test]
        fn no_cut_changes_what_is_given(
            text in "[ab]{0,40}",
            secrets in prop::collection::vec("[ab]{4,9}", 1..4),
            cuts in prop::collection::vec(0_usize..40, 0..6),
        ) {
            let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
            let whole = masked(&secrets, &[text.as_bytes()]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut at = 0;
            for cut in cuts {
                pieces.push(&text.as_bytes()[at..cut]);
                at = cut;
            }
            pieces.push(&text.as_bytes()[at..]);
            prop_assert_eq!(&masked(&secrets, &pieces), &whole);
            for secret in secrets {
                prop_assert!(!whole.contains(secret));
            }
        }
    }
}
