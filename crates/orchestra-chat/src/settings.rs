//! How a conversation is held: what it may cost, who agrees to calls, and how much a model can be given.

use std::time::Duration;

/// Who agrees to calls that may change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Approval {
    /// A person is asked.
    Ask,
    /// All of them are agreed to.
    Yes,
    /// None of them is: nobody is there to ask.
    #[default]
    Deny,
}

/// What tokens cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// A million that are read.
    pub input: f64,
    /// A million that are written.
    pub output: f64,
}

impl Price {
    /// What so many tokens cost.
    #[must_use]
    pub fn of(&self, input: u64, output: u64) -> f64 {
        (self.input * input as f64 + self.output * output as f64) / 1_000_000.0
    }
}

/// What one turn may use up; where a limit is absent there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// How often tools may be called and the model be asked again.
    pub rounds: u32,
    /// Tokens, read and written.
    pub tokens: Option<u64>,
    /// Time, waiting for people not counted.
    pub time: Option<Duration>,
    /// Money, where prices are known.
    pub cost: Option<f64>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            rounds: 10,
            tokens: None,
            time: None,
            cost: None,
        }
    }
}

/// How much a model can be given at once, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The most that it is given, its answer included.
    pub most: usize,
    /// Kept free for its answer.
    pub answer: usize,
    /// The most that is spent on showing tools.
    pub tools: usize,
}

impl Context {
    /// Of a model that can be given so much.
    #[must_use]
    pub fn of(most: usize) -> Self {
        let most = most.max(Self::LEAST);
        Self {
            most,
            answer: (most / 4).min(4_096),
            tools: (most / 4).min(6_000),
        }
    }

    /// Less than any model in use can be given.
    pub const LEAST: usize = 2_048;
}

/// How a conversation is held.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What the model is told first, beside what it is told of tools.
    pub system: String,
    /// Who agrees to calls that may change something.
    pub approval: Approval,
    /// What a turn may use up.
    pub budget: Budget,
    /// What tokens cost, where that is known.
    pub price: Option<Price>,
    /// How much the model can be given.
    pub context: Context,
    /// More tools than this are not shown at once.
    pub most_tools: usize,
    /// Characters of an answer of a tool that the model is given.
    pub answer_chars: usize,
    /// Whether the model can be given images.
    pub sees: bool,
    /// Whether it can be given tools, as far as its server tells.
    pub takes_tools: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            system: "You are a helpful assistant.".to_owned(),
            approval: Approval::default(),
            budget: Budget::default(),
            price: None,
            context: Context::of(8_192),
            most_tools: 64,
            answer_chars: 12_000,
            sees: false,
            takes_tools: true,
        }
    }
}
