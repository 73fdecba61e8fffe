//! Lines of text.
//!
//! A pattern is the beginning of a line, with captures in braces: `Total usage est: {premium}
//! Premium`. White space of any length is one space. A capture goes up to what follows it in the
//! pattern, or to the end of the line; one that holds no figure makes the pattern not match. Of the
//! patterns of a profile, the first that matches a line is taken.

use super::{
    Figure, Tells, Told,
    text::{LineText, OutputError, check_text},
};
use crate::agents::{figure, usage::Tokens};

/// The longest line of text that is looked at.
const MAX_LINE_BYTES: usize = 4_096;

/// What a capture holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Capture {
    Anything,
    Session,
    Model,
    Input,
    Output,
    CacheRead,
    CacheWrite,
    Figure(Figure),
}

const CAPTURES: [(&str, Capture); 14] = [
    ("_", Capture::Anything),
    ("session", Capture::Session),
    ("model", Capture::Model),
    ("input", Capture::Input),
    ("output", Capture::Output),
    ("cache_read", Capture::CacheRead),
    ("cache_write", Capture::CacheWrite),
    ("cost_usd", Capture::Figure(Figure::Cost)),
    ("premium", Capture::Figure(Figure::Premium)),
    ("api_time", Capture::Figure(Figure::Api)),
    ("session_time", Capture::Figure(Figure::Session)),
    ("turns", Capture::Figure(Figure::Turns)),
    ("lines_added", Capture::Figure(Figure::LinesAdded)),
    ("lines_removed", Capture::Figure(Figure::LinesRemoved)),
];

/// A pattern: text, then captures with the text that ends each.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern {
    begins: String,
    captures: Vec<(Capture, String)>,
    adds: bool,
    last: bool,
}

impl Pattern {
    pub(super) fn parse(line: &LineText) -> Result<Self, OutputError> {
        check_text(&line.pattern)?;
        let fault = |what: String| OutputError::Pattern {
            pattern: line.pattern.clone(),
            what,
        };
        let normal = line
            .pattern
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let mut parts = normal.split('{');
        let begins = parts.next().unwrap_or_default().to_owned();
        let mut captures: Vec<(Capture, String)> = Vec::new();
        for part in parts {
            let Some((name, follows)) = part.split_once('}') else {
                return Err(fault("has a brace that is not closed".to_owned()));
            };
            let capture = CAPTURES.iter().find(|(known, _)| *known == name);
            let Some((_, capture)) = capture else {
                let known: Vec<_> = CAPTURES.iter().map(|(name, _)| *name).collect();
                return Err(fault(format!(
                    "names `{name}`; there are: {}",
                    known.join(", ")
                )));
            };
            if captures
                .last()
                .is_some_and(|(_, follows)| follows.is_empty())
            {
                return Err(fault(
                    "has two captures with nothing between them".to_owned(),
                ));
            }
            captures.push((*capture, follows.to_owned()));
        }
        if begins.is_empty()
            && captures
                .iter()
                .all(|(_, follows)| follows.trim().is_empty())
        {
            return Err(fault("would match every line".to_owned()));
        }
        Ok(Self {
            begins,
            captures,
            adds: line.adds,
            last: line.last,
        })
    }

    /// Adds what such a line tells.
    pub(super) fn tells(&self, tells: &mut Tells) {
        for (capture, _) in &self.captures {
            tells.session |= *capture == Capture::Session;
            tells.tokens |= *capture == Capture::Input;
            tells.cost |= *capture == Capture::Figure(Figure::Cost);
        }
    }

    /// What the captures hold, if the line begins like this.
    fn captured<'a>(&self, line: &'a str) -> Option<Vec<(Capture, &'a str)>> {
        let mut rest = line.strip_prefix(self.begins.as_str())?;
        let mut found = Vec::with_capacity(self.captures.len());
        for (capture, follows) in &self.captures {
            let (text, after) = match follows.is_empty() {
                true => (rest, ""),
                false => rest.split_once(follows.as_str())?,
            };
            let is_nothing = text.trim().is_empty() && *capture != Capture::Anything;
            if is_nothing {
                return None;
            }
            found.push((*capture, text.trim()));
            rest = after;
        }
        Some(found)
    }

    /// Whether it matched, and all its figures were figures.
    fn read(&self, line: &str, told: &mut Told<'_>) -> bool {
        let Some(captured) = self.captured(line) else {
            return false;
        };
        let mut tokens = Tokens::default();
        let (mut model, mut has_tokens) = (None, false);
        let mut figures = Vec::new();
        for (capture, text) in &captured {
            let mut count = |place: fn(&mut Tokens) -> &mut u64| {
                has_tokens = true;
                figure::count(text).map(|count| *place(&mut tokens) = count)
            };
            let read = match capture {
                Capture::Anything | Capture::Session => Some(()),
                Capture::Model => {
                    model = Some(*text);
                    Some(())
                }
                Capture::Input => count(|tokens| &mut tokens.input),
                Capture::Output => count(|tokens| &mut tokens.output),
                Capture::CacheRead => count(|tokens| &mut tokens.cache_read),
                Capture::CacheWrite => count(|tokens| &mut tokens.cache_write),
                Capture::Figure(figure) => {
                    value(*figure, text).map(|value| figures.push((*figure, value)))
                }
            };
            if read.is_none() {
                return false;
            }
        }
        if has_tokens {
            if !self.adds && model.is_none() {
                told.forget_tokens();
            }
            told.tokens(model, tokens);
        } else if let Some(model) = model {
            told.model(model);
        }
        for (figure, value) in figures {
            told.figure(figure, Some(value), self.adds);
        }
        for (capture, text) in captured {
            if capture == Capture::Session {
                told.session(text);
            }
        }
        if self.last {
            told.last();
        }
        true
    }
}

fn value(figure: Figure, text: &str) -> Option<u64> {
    match figure {
        Figure::Cost => figure::money(text),
        Figure::Premium => figure::thousandths(text),
        Figure::Api | Figure::Session => figure::time(text),
        Figure::Turns | Figure::LinesAdded | Figure::LinesRemoved => figure::count(text),
    }
}

/// What a line says, by the first pattern that it matches.
pub(super) fn read(patterns: &[Pattern], line: &[u8], told: &mut Told<'_>) {
    if line.len() > MAX_LINE_BYTES {
        return;
    }
    let line = without_escapes(&String::from_utf8_lossy(line));
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = patterns.iter().any(|pattern| pattern.read(&line, told));
}

/// A line without the sequences by which terminals are steered (ECMA-48).
fn without_escapes(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        if char != '\u{1b}' {
            plain.push(char);
        } else if chars.next_if_eq(&'[').is_some() {
            let is_end = |char: &char| ('\u{40}'..='\u{7e}').contains(char);
            while chars.next_if(|char| !is_end(char)).is_some() {}
            chars.next();
        }
    }
    plain
}
