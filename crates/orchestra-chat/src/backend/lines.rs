//! Lines of an answer, as it comes in pieces that end anywhere.

use orchestra_remote::{Answer, Fault};

use super::{MAX_ANSWER, MAX_LINE};
use crate::request::Trouble;

/// Number of bytes of an answer after which no more lines are part of its beginning. No line is cut, since a part of a
/// key is not masked.
const MAX_BEGIN: usize = 300;

/// Beginnings of the lines of server-sent events.
const FIELDS: [&str; 6] = [":", "data:", "event:", "id:", "retry:", "error:"];

/// The lines of an answer.
#[derive(Debug)]
pub(super) struct Lines {
    answer: Answer,
    /// What has come and was not given.
    left: Vec<u8>,
    /// Up to where of it no line ends.
    looked: usize,
    all: usize,
    /// Its first lines.
    begin: String,
    is_over: bool,
}

impl Lines {
    pub(super) const fn new(answer: Answer) -> Self {
        Self {
            answer,
            left: Vec::new(),
            looked: 0,
            all: 0,
            begin: String::new(),
            is_over: false,
        }
    }

    /// The fault of an answer that is none of a model, as far as its beginning shows one.
    pub(super) fn fault(&self) -> Option<Trouble> {
        let is_field = |name: &&str| self.begin.starts_with(*name);
        match self.begin.chars().next() {
            None => Some(Trouble::Cut {
                what: "its body is empty".to_owned(),
            }),
            Some('<') => Some(Trouble::Odd {
                what: "it is an HTML page; check the URL of the server".to_owned(),
            }),
            Some('{') => None,
            Some(_) if FIELDS.iter().any(is_field) => None,
            Some(_) => Some(Trouble::Odd {
                what: format!("it is plain text: {}", self.begin),
            }),
        }
    }

    /// Notes the beginning of the answer.
    fn noted(&mut self, line: String) -> Option<String> {
        if self.begin.len() < MAX_BEGIN && !line.is_empty() {
            if !self.begin.is_empty() {
                self.begin.push(' ');
            }
            self.begin.push_str(&line);
        }
        (!line.is_empty()).then_some(line)
    }

    /// The next line that is not empty, without its end or a byte-order mark; `None` behind the last one.
    ///
    /// # Errors
    /// When the answer breaks off, is too long, or has a line that is.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Fault> {
        loop {
            let end = self.left[self.looked..]
                .iter()
                .position(|byte| matches!(byte, b'\n' | b'\r'));
            if let Some(end) = end.map(|end| end + self.looked) {
                let line: Vec<u8> = self.left.drain(..=end).collect();
                self.looked = 0;
                let line = text_of(&line);
                if let Some(line) = self.noted(line) {
                    return Ok(Some(line));
                }
                continue;
            }
            self.looked = self.left.len();
            if self.is_over {
                let line = text_of(&std::mem::take(&mut self.left));
                self.looked = 0;
                return Ok(self.noted(line));
            }
            match self.answer.chunk().await? {
                Some(chunk) => {
                    self.all += chunk.len();
                    if self.all > MAX_ANSWER || self.left.len() + chunk.len() > MAX_LINE {
                        return Err(Fault::TooLong(MAX_LINE));
                    }
                    self.left.extend_from_slice(&chunk);
                }
                None => self.is_over = true,
            }
        }
    }
}

fn text_of(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.trim_matches(|c: char| c == '\u{feff}' || c.is_whitespace())
        .to_owned()
}
