//! How many tokens a text is for a model, nearly.
//!
//! Every model cuts texts in its own way, and none of them is at hand. What is counted here is what the usual
//! ones come to, rather more than less, and is put right by what a server says of its own count.

/// The most that a measured count may change an estimate: what is beyond is no other way of cutting but another
/// text than was sent.
const MOST: f64 = 2.5;

/// How much one measurement moves what is known.
const WEIGHT: f64 = 0.3;

/// Letters of a word of a European language that make one token.
const LETTERS: usize = 5;

/// What the text is, nearly.
#[must_use]
pub(crate) fn estimate(text: &str) -> usize {
    let (mut tokens, mut run) = (0, 0);
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            run += 1;
            continue;
        }
        tokens += of_run(run);
        run = 0;
        tokens += match c {
            // It belongs to the word behind it.
            ' ' => 0,
            // A mark, a letter of another alphabet, or a sign that stands for a word.
            c if c.len_utf8() <= 3 => 1,
            _ => 3,
        };
    }
    tokens + of_run(run)
}

const fn of_run(letters: usize) -> usize {
    letters.div_ceil(LETTERS)
}

/// How estimates of one model compare to what its server counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale(f64);

impl Default for Scale {
    fn default() -> Self {
        Self(1.0)
    }
}

impl Scale {
    /// An estimate as this model would count.
    #[must_use]
    pub(crate) fn of(self, estimate: usize) -> usize {
        let scaled = self.0 * estimate as f64;
        // It is far below what no longer fits.
        scaled.ceil() as usize
    }

    /// Takes in what a server counted where so much was estimated. A server that counts only what it had not
    /// seen before tells less, so only what says more than was known is taken at its word.
    pub(crate) fn learn(&mut self, estimate: usize, counted: u64) {
        if estimate == 0 || counted == 0 {
            return;
        }
        let found = (counted as f64 / estimate as f64).min(MOST);
        self.0 = match found > self.0 {
            true => found,
            false => (self.0 + (found - self.0) * WEIGHT).max(1.0),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_signs_and_scripts_are_counted() {
        for (text, tokens) in [
            ("", 0),
            ("hello world", 2),
            ("internationalisation", 4),
            ("{\"a\": 1}", 7),
            ("äöü", 3),
            ("天気はどう", 5),
            ("🦀", 3),
            ("a\n\nb", 4),
        ] {
            assert_eq!(estimate(text), tokens, "{text}");
        }
    }

    #[test]
    fn a_count_that_says_more_is_believed_at_once_and_one_that_says_less_slowly() {
        let mut scale = Scale::default();
        scale.learn(100, 150);
        assert_eq!(scale.of(100), 150);
        scale.learn(100, 100);
        assert!((100..150).contains(&scale.of(100)), "{}", scale.of(100));
        let mut odd = Scale::default();
        odd.learn(1, 1_000_000);
        assert_eq!(odd.of(100), 250);
        odd.learn(0, 5);
        odd.learn(5, 0);
        assert_eq!(odd.of(100), 250);
    }
}
