//! The answer on standard output as it comes, and what is beside it on standard error.

use std::{future::ready, pin::Pin, time::Duration};

use orchestra_chat::{Due, Face, Note, Outcome, Piece, Request, Verdict};

use super::{tally::Tally, terminal::notes};
use crate::{exit::Failure, output};

/// Prints the words of the model, or nothing.
pub(super) struct Plain {
    /// True if the text of the model is printed as it comes.
    shows: bool,
    /// Counts of the turn.
    pub(super) tally: Tally,
    /// True if the last output ended a line.
    at_line: bool,
    failed: Option<Failure>,
}

impl Plain {
    /// Prints the words as they come.
    pub(super) fn shown(tally: Tally) -> Self {
        Self::new(true, tally)
    }

    /// Prints nothing.
    pub(super) fn quiet(tally: Tally) -> Self {
        Self::new(false, tally)
    }

    fn new(shows: bool, tally: Tally) -> Self {
        Self {
            shows,
            tally,
            at_line: true,
            failed: None,
        }
    }

    fn print(&mut self, text: &str) {
        if self.failed.is_none() && !text.is_empty() {
            self.failed = output::raw(output::printable(text).as_bytes()).err();
            self.at_line = text.ends_with('\n');
        }
    }

    fn end_line(&mut self) {
        if !self.at_line {
            self.print("\n");
        }
    }

    /// Returns the error that ended the output, such as a closed pipe.
    pub(super) fn checked(&mut self) -> Result<(), Failure> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl Face for Plain {
    fn asked(&mut self, _request: &Request) {
        self.tally.ask();
    }

    fn says(&mut self, piece: &Piece) {
        if let (Piece::Text(text), true) = (piece, self.shows) {
            self.print(text);
        }
    }

    fn said(&mut self) {
        if self.shows {
            self.end_line();
        }
    }

    fn notes(&mut self, note: &Note) {
        self.tally.note(note);
        if self.shows
            && let Some(text) = notes::words(note)
        {
            output::complain(&output::printable(&text));
        }
    }

    fn called(&mut self, due: &Due, outcome: &Outcome, took: Duration) {
        self.tally.call(due, outcome, took);
        if self.shows {
            output::complain(&output::printable(&notes::called(due, outcome, took)));
        }
    }

    fn decides<'f>(
        &'f mut self,
        _due: &'f Due,
    ) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'f>> {
        // There is no person to ask.
        Box::pin(ready(Verdict::No))
    }
}
