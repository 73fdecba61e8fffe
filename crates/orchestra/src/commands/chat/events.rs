//! Events of a conversation as lines of JSON on standard output.

use std::{future::ready, pin::Pin, time::Duration};

use orchestra_chat::{Due, Face, Note, Outcome, Piece, Request, Verdict, session::words};
use serde_json::{Value, json};

use super::tally::{Tally, millis};
use crate::{exit::Failure, output};

/// Prints what happens in one turn.
pub(super) struct Events {
    /// The number of its query, from 0 on.
    number: usize,
    /// Counts of the turn.
    pub(super) tally: Tally,
    /// Error that ended the output.
    failed: Option<Failure>,
}

impl Events {
    /// Of the query of this number.
    pub(super) fn new(number: usize, tally: Tally) -> Self {
        Self {
            number,
            tally,
            failed: None,
        }
    }

    /// Prints an event.
    pub(super) fn tell(&mut self, event: &str, mut body: Value) {
        if self.failed.is_some() {
            return;
        }
        body["event"] = json!(event);
        body["number"] = json!(self.number);
        self.failed = output::json(&body).err();
    }

    /// Returns the error that ended the output, such as a closed pipe.
    pub(super) fn checked(&mut self) -> Result<(), Failure> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl Face for Events {
    fn asked(&mut self, request: &Request) {
        self.tally.ask();
        let tools: Vec<&str> = request.tools.iter().map(|tool| tool.name()).collect();
        self.tell(
            "request",
            json!({"messages": request.messages.len(), "tools": tools, "context": request.context}),
        );
    }

    fn says(&mut self, piece: &Piece) {
        match piece {
            Piece::Text(text) => self.tell("text", json!({"text": text})),
            Piece::Thinking(text) => self.tell("thinking", json!({"text": text})),
        }
    }

    fn notes(&mut self, note: &Note) {
        self.tally.note(note);
        self.tell("note", json!({"note": words(note)}));
    }

    fn calls(&mut self, due: &Due) {
        self.tell(
            "call",
            json!({
                "call": due.number, "server": due.server, "tool": due.call.tool, "args": due.call.arguments,
            }),
        );
    }

    fn called(&mut self, due: &Due, outcome: &Outcome, took: Duration) {
        self.tally.call(due, outcome, took);
        let mut told = match outcome {
            Outcome::Answered {
                text,
                images,
                is_error,
            } => {
                json!({"text": text, "images": images.len(), "is_error": is_error})
            }
            Outcome::Broken(why) => json!({"text": why, "is_error": true}),
            Outcome::WantsConsent(rule) => {
                json!({"text": rule, "is_error": true, "wants_consent": true})
            }
        };
        told["call"] = json!(due.number);
        told["ms"] = json!(millis(took));
        self.tell("result", told);
    }

    fn decides<'f>(
        &'f mut self,
        _due: &'f Due,
    ) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'f>> {
        // There is no person to ask.
        Box::pin(ready(Verdict::No))
    }
}
