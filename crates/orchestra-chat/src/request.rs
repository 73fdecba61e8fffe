//! What a model is asked, and what it says: the same for every kind of server.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    message::Message,
    repair::{self, Fault, Recognised},
    thinking::Split,
    tool::Tool,
};

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct Request {
    /// The conversation as it is given to the model.
    pub messages: Vec<Message>,
    /// The tools that it may call.
    pub tools: Vec<Arc<Tool>>,
    /// How many tokens it has to have room for, its answer included.
    pub context: usize,
    /// How many tokens are estimated for what is sent.
    pub estimate: usize,
}

/// A call as a server of a model told it.
#[derive(Debug, Clone, PartialEq)]
pub struct SaidCall {
    /// Its id there, where it has one.
    pub id: Option<String>,
    /// The name that the model said.
    pub name: String,
    /// Its arguments: the JSON value that the server sent, or the text where that is not JSON.
    pub arguments: Value,
    /// True if the call arrived inside thinking in the text of the answer. Such a call is not made.
    pub is_thought: bool,
}

/// What a model answered, whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    /// Its text. Some servers send the thinking of the model in it.
    pub text: String,
    /// Its thinking, where the server sends that in a field of its own.
    pub thinking: String,
    /// The calls that its server told as calls.
    pub calls: Vec<SaidCall>,
    /// What it used.
    pub usage: Usage,
    /// Whether it ended because nothing more fitted.
    pub is_cut: bool,
    /// Whether its server did not report that the model finished it. No call of it is made.
    pub is_broken: bool,
}

impl Reply {
    /// Marks the calls that arrived within thinking. Each place holds the lengths of the text before the first and the
    /// last piece of a call.
    pub(crate) fn mark_thought(&mut self, places: impl IntoIterator<Item = (usize, usize)>) {
        let split = Split::of(&self.text);
        for (call, (first, last)) in self.calls.iter_mut().zip(places) {
            call.is_thought = split.is_thinking(first, last);
        }
    }

    /// The calls that are printed in its answer, and the rest of that; `None` where there are none.
    pub(crate) fn printed(&self, tools: &[Arc<Tool>]) -> Option<Recognised> {
        let mut found = Recognised::default();
        let mut is_surrounded = false;
        for part in Split::of(&self.text).parts {
            let more = repair::recognised(&part, tools).unwrap_or_else(|| Recognised {
                calls: Vec::new(),
                text: part,
            });
            is_surrounded |= match found.calls.is_empty() {
                true => !more.calls.is_empty() && !repair::is_nothing(&found.text),
                false => !repair::is_nothing(&more.text),
            };
            found.calls.extend(more.calls);
            found.text.push_str(&more.text);
        }
        for call in found.calls.iter_mut().filter(|_| is_surrounded) {
            call.arguments.clear();
            call.fault.get_or_insert(Fault::Surrounded);
        }
        (!found.calls.is_empty()).then_some(found)
    }
}

/// What an answer has used, as its server counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens that were read.
    pub input: u64,
    /// Tokens that were written.
    pub output: u64,
}

impl Usage {
    /// Both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
        }
    }
}

/// A part of an answer, as it comes.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Words.
    Text(String),
    /// Thoughts.
    Thinking(String),
}

/// Why a model has not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Its server cannot be reached, or the connection broke.
    Unreachable {
        /// What happened.
        what: String,
    },
    /// There is no such model.
    NoModel {
        /// Its name.
        model: String,
        /// What the person can do.
        hint: String,
    },
    /// The model cannot be given tools.
    NoTools,
    /// It took too long to begin, or to go on.
    Slow {
        /// How long was waited.
        after: Duration,
    },
    /// The answer broke off.
    Cut {
        /// What happened.
        what: String,
    },
    /// The server refuses for now.
    Busy {
        /// What it said.
        what: String,
    },
    /// The server refuses.
    Refused {
        /// Its status.
        status: u16,
        /// What it said.
        said: String,
    },
    /// The server answered what cannot be understood.
    Odd {
        /// What is wrong.
        what: String,
    },
}

impl Trouble {
    /// Applies a function to the words of the server.
    #[must_use]
    pub(crate) fn map_text(self, map: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Cut { what } => Self::Cut { what: map(&what) },
            Self::Busy { what } => Self::Busy { what: map(&what) },
            Self::Refused { status, said } => Self::Refused {
                status,
                said: map(&said),
            },
            Self::Odd { what } => Self::Odd { what: map(&what) },
            // Their words are not of the server, or were masked with its refusal.
            Self::Unreachable { .. } | Self::NoModel { .. } | Self::NoTools | Self::Slow { .. } => {
                self
            }
        }
    }

    /// Whether asking again may help.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Cut { .. } | Self::Busy { .. }
        )
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { what } => {
                write!(f, "cannot reach the model server: {what}")
            }
            Self::NoModel { model, hint } => write!(f, "there is no model `{model}`; {hint}"),
            Self::NoTools => f.write_str("the model does not support tools"),
            Self::Slow { after } => {
                write!(f, "the model sent nothing for {} seconds", after.as_secs())
            }
            Self::Cut { what } => write!(f, "the response of the model was interrupted: {what}"),
            Self::Busy { what } => write!(f, "the model server refuses requests for now: {what}"),
            Self::Refused { status, said } => {
                write!(f, "the model server refused the request ({status}): {said}")
            }
            Self::Odd { what } => {
                write!(f, "cannot parse the response of the model server: {what}")
            }
        }
    }
}
