//! Result of one question, in one line.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use orchestra_chat::{Due, End, Ending, Note, Outcome, Spent, Usage};
use serde::Serialize;
use serde_json::{Map, Value};

/// Counts of a turn.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Number of requests to the model.
    asked: u32,
    /// Duration of each call, by its number.
    took: HashMap<usize, Duration>,
    /// Tools that were not called, because they may change something and the user did not agree.
    denied: BTreeSet<String>,
    /// True if the user refused such calls with `--deny`. Otherwise consent is missing, because there is no person to
    /// ask.
    is_chosen: bool,
}

impl Tally {
    /// Counts of a turn without a person to ask. `is_chosen`: whether the user passed `--deny`.
    pub(super) fn unattended(is_chosen: bool) -> Self {
        Self {
            is_chosen,
            ..Self::default()
        }
    }

    /// Counts a request to the model.
    pub(super) fn ask(&mut self) {
        self.asked += 1;
    }

    /// Counts a note.
    pub(super) fn note(&mut self, note: &Note) {
        if let Note::Denied { tool } = note {
            self.denied.insert(tool.clone());
        }
    }

    /// Counts a call that has ended.
    pub(super) fn call(&mut self, due: &Due, outcome: &Outcome, took: Duration) {
        // A call that waits for consent is repeated.
        if !matches!(outcome, Outcome::WantsConsent(_)) {
            self.took.insert(due.number, took);
        }
    }

    /// Names the tools that were not called, and the flag or setting that allows them.
    fn denied(&self, ending: &Ending) -> Option<String> {
        let denied: Vec<&str> = self.denied.iter().map(String::as_str).collect();
        let tools = denied.join(", ");
        if denied.is_empty() {
            return None;
        }
        if self.is_chosen {
            return Some(format!(
                "not called, because --deny refuses calls that may change something: {tools}"
            ));
        }
        let mut text = format!(
            "not called, because they may change something and there is no person to ask: {tools}; --yes allows every \
             call"
        );
        let is_of_server = ending.calls.iter().any(|call| {
            call.number.is_none() && call.server.is_some() && self.denied.contains(&call.tool)
        });
        if is_of_server {
            text.push_str(
                ", and \"trust\": true in the configuration of a server allows its tools that only read",
            );
        }
        Some(text)
    }

    /// Error of a turn none of whose calls was made, because consent was missing. A refusal that the user chose
    /// with `--deny` is no error.
    pub(super) fn refused(&self, ending: &Ending) -> Option<String> {
        if self.is_chosen {
            return None;
        }
        let is_made = ending.calls.iter().any(|call| call.number.is_some());
        let has_ended = matches!(
            ending.how,
            End::Answered | End::Cut | End::Empty | End::Loops { .. } | End::Spent(Spent::Rounds)
        );
        self.denied(ending).filter(|_| has_ended && !is_made)
    }

    /// Note about an answer.
    fn noted(&self, ending: &Ending) -> Option<String> {
        let why = ending.how.why().filter(|_| ending.how.is_answer());
        let denied = self
            .denied(ending)
            .filter(|_| self.refused(ending).is_none());
        let notes: Vec<String> = why.into_iter().chain(denied).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// The line of the question.
    pub(super) fn answered(&self, query: &str, ending: &Ending, took: Duration) -> Answered {
        let calls = ending.calls.iter().map(|call| CallOf {
            server: call.server.clone(),
            tool: call.tool.clone(),
            args: call.arguments.clone(),
            ms: call
                .number
                .and_then(|number| self.took.get(&number))
                .map(|took| millis(*took)),
            is_error: call.is_error,
        });
        let failed = ending.how.why().filter(|_| !ending.how.is_answer());
        let refused = self.refused(ending);
        Answered {
            id: None,
            is_refused: refused.is_some(),
            query: Some(query.to_owned()),
            answer: (!ending.text.trim().is_empty()).then(|| ending.text.clone()),
            tool_calls: calls.collect(),
            turns: self.asked,
            tokens: ending.usage.into(),
            cost: ending.cost,
            ms: millis(took),
            note: self.noted(ending),
            error: refused.or(failed),
        }
    }
}

/// One line for one question.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Answered {
    /// Id that its question gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Value>,
    /// The question; none where there was none in what was read.
    pub(super) query: Option<String>,
    /// The answer, if there is one.
    answer: Option<String>,
    /// The calls, in order.
    tool_calls: Vec<CallOf>,
    /// Number of requests to the model.
    turns: u32,
    /// Tokens that the model's server counted.
    tokens: Tokens,
    /// Cost, if prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    /// Duration in milliseconds.
    ms: f64,
    /// Note about the answer: it is not whole, or calls were not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Reason that there is no answer, or that none of its calls was made.
    pub(super) error: Option<String>,
    /// True if the error is missing consent.
    #[serde(skip)]
    pub(super) is_refused: bool,
}

#[derive(Debug, Clone, Serialize)]
struct CallOf {
    server: Option<String>,
    tool: String,
    args: Map<String, Value>,
    /// Duration in milliseconds; absent if the call was not made.
    ms: Option<f64>,
    is_error: bool,
}

/// Tokens of a turn.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Tokens {
    input: u64,
    output: u64,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        let Usage { input, output } = usage;
        Self { input, output }
    }
}

impl Answered {
    /// A question that did not come to a turn.
    pub(super) fn failed(query: Option<String>, error: String) -> Self {
        Self {
            id: None,
            query,
            answer: None,
            tool_calls: Vec::new(),
            turns: 0,
            tokens: Tokens::default(),
            cost: None,
            ms: 0.0,
            note: None,
            error: Some(error),
            is_refused: false,
        }
    }
}

/// Milliseconds, to a tenth.
pub(super) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}
