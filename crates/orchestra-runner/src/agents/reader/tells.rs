//! What is known of runs by what a program prints, and what is not.

use super::{Form, Output};

/// What is known of the use of an agent's runs by what its program prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tells {
    /// By which session a run can be gone on with.
    pub session: bool,
    /// Tokens.
    pub tokens: bool,
    /// Money.
    pub cost: bool,
    /// How full its context is while it runs.
    pub context: bool,
}

impl Output {
    /// What can be read of it at all.
    pub(in crate::agents) fn tells(&self) -> Tells {
        let mut tells = Tells::default();
        match &self.form {
            Form::None => {}
            Form::Json(events) | Form::JsonLines(events) => {
                events.iter().for_each(|event| event.tells(&mut tells));
            }
            Form::Text(patterns) => patterns
                .iter()
                .for_each(|pattern| pattern.tells(&mut tells)),
        }
        tells
    }
}
