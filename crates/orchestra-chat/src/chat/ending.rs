//! How a turn ends.

use serde_json::{Map, Value};

use crate::request::{Trouble, Usage};

/// A turn that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// How it ended.
    pub how: End,
    /// The answer: the last words of the model, if it had any.
    pub text: String,
    /// What its server counted.
    pub usage: Usage,
    /// What that costs, where prices are known.
    pub cost: Option<f64>,
    /// How often tools were called and the model asked again.
    pub rounds: u32,
    /// The calls, in order.
    pub calls: Vec<Made>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// The model has answered.
    Answered,
    /// Its answer ended because nothing more fitted.
    Cut,
    /// It said nothing at all.
    Empty,
    /// The person has stopped it.
    Stopped,
    /// The model could not be asked.
    Failed(Trouble),
    /// The model makes the same call again and again.
    Loops {
        /// Of this tool.
        tool: String,
        /// So often.
        times: u32,
    },
    /// Something is used up.
    Spent(Spent),
}

/// What is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// Rounds of calls; the model has answered all the same.
    Rounds,
    /// Tokens.
    Tokens,
    /// Time.
    Time,
    /// Money.
    Money,
}

/// A call that was made, or refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// Its number in the turn, by which its times are known.
    pub number: Option<usize>,
    /// The tool.
    pub tool: String,
    /// The server of others whose tool it is.
    pub server: Option<String>,
    /// Its arguments, as they were made.
    pub arguments: Map<String, Value>,
    /// Whether it failed, or was not made.
    pub is_error: bool,
}

impl End {
    /// Whether there is an answer.
    #[must_use]
    pub const fn is_answer(&self) -> bool {
        matches!(
            self,
            Self::Answered | Self::Cut | Self::Spent(Spent::Rounds)
        )
    }

    /// Why there is none, or no whole one, in words.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        Some(match self {
            Self::Answered => return None,
            Self::Cut => "the answer ended because the context of the model is full".to_owned(),
            Self::Empty => "the model said nothing".to_owned(),
            Self::Stopped => "stopped".to_owned(),
            Self::Failed(trouble) => trouble.to_string(),
            Self::Loops { tool, times } => {
                format!("the model called `{tool}` {times} times with the same arguments")
            }
            Self::Spent(Spent::Rounds) => "the rounds of this turn are used up".to_owned(),
            Self::Spent(Spent::Tokens) => "the tokens of this turn are used up".to_owned(),
            Self::Spent(Spent::Time) => "the time of this turn is used up".to_owned(),
            Self::Spent(Spent::Money) => "the money of this turn is used up".to_owned(),
        })
    }
}
