//! What agents used, as they themselves say it. Nothing is reckoned: a cost is a cost that a program
//! reported, and figures that no program could mean are not taken.

use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most models that are told apart; what comes after is counted under [`OTHERS`].
const MAX_MODELS: usize = 32;

/// What further models are counted under.
pub(super) const OTHERS: &str = "(others)";

/// What tokens are counted under when no model was named.
pub(super) const UNNAMED: &str = "(not named)";

/// Tokens of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// Read by the model anew.
    #[serde(default)]
    pub input: u64,
    /// Written by the model.
    #[serde(default)]
    pub output: u64,
    /// Read from what the provider had kept.
    #[serde(default)]
    pub cache_read: u64,
    /// Read, and kept by the provider.
    #[serde(default)]
    pub cache_write: u64,
    /// Of which the program does not say what they were.
    #[serde(default)]
    pub unsplit: u64,
}

impl Tokens {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.unsplit)
    }

    fn with(self, other: Self, with: fn(u64, u64) -> u64) -> Self {
        Self {
            input: with(self.input, other.input),
            output: with(self.output, other.output),
            cache_read: with(self.cache_read, other.cache_read),
            cache_write: with(self.cache_write, other.cache_write),
            unsplit: with(self.unsplit, other.unsplit),
        }
    }
}

/// What one run, or several, used. `None` is what was never reported, which is not nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Tokens by model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, Tokens>,
    /// Money, in millionths of the unit in which the program reckons (US dollars, as a rule).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Requests that count against a subscription, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub premium_milli: Option<u64>,
    /// Time spent waiting for models, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_ms: Option<u64>,
    /// Time the session took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ms: Option<u64>,
    /// Turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Lines that the program says it added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_added: Option<u64>,
    /// Lines that the program says it removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_removed: Option<u64>,
}

impl Usage {
    /// All tokens of all models.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let totals = self.models.values().map(Tokens::total);
        totals.fold(0, u64::saturating_add)
    }

    /// Whether nothing was reported.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts another run as well.
    pub fn add(&mut self, other: &Self) {
        for (model, tokens) in &other.models {
            self.add_tokens(model, *tokens);
        }
        self.figures(other, |ours, theirs| match (ours, theirs) {
            (None, theirs) => theirs,
            (ours, None) => ours,
            (Some(ours), Some(theirs)) => Some(ours.saturating_add(theirs)),
        });
    }

    /// What this run used, where its program reported the whole session of which `before` was
    /// used already. A figure that has become smaller is taken for one of this run alone.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |ours: u64, theirs: u64| if ours >= theirs { ours - theirs } else { ours };
        let mut run = self.clone();
        for (model, tokens) in &mut run.models {
            let before = before.models.get(model).copied().unwrap_or_default();
            *tokens = match tokens.total() >= before.total() {
                true => tokens.with(before, u64::saturating_sub),
                false => *tokens,
            };
        }
        run.figures(before, |ours, theirs| {
            ours.map(|ours| less(ours, theirs.unwrap_or_default()))
        });
        run
    }

    pub(super) fn add_tokens(&mut self, model: &str, tokens: Tokens) {
        let is_full = self.models.len() >= MAX_MODELS && !self.models.contains_key(model);
        let model = if is_full { OTHERS } else { model };
        let counted = self.models.entry(model.to_owned()).or_default();
        *counted = counted.with(tokens, u64::saturating_add);
    }

    fn figures(&mut self, other: &Self, with: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) {
        for (ours, theirs) in [
            (&mut self.cost_micros, other.cost_micros),
            (&mut self.premium_milli, other.premium_milli),
            (&mut self.api_ms, other.api_ms),
            (&mut self.session_ms, other.session_ms),
            (&mut self.turns, other.turns),
            (&mut self.lines_added, other.lines_added),
            (&mut self.lines_removed, other.lines_removed),
        ] {
            *ours = with(*ours, theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, cost: Option<u64>) -> Usage {
        let mut usage = Usage {
            cost_micros: cost,
            ..Usage::default()
        };
        let tokens = Tokens {
            input,
            output: 1,
            ..Tokens::default()
        };
        usage.add_tokens("m", tokens);
        usage
    }

    #[test]
    fn runs_add_up_and_what_was_not_said_stays_unsaid() {
        let mut all = usage(10, None);
        all.add(&usage(5, Some(7)));
        all.add(&usage(u64::MAX, Some(u64::MAX)));
        assert_eq!(all.models["m"].input, u64::MAX);
        assert_eq!(all.tokens(), u64::MAX);
        assert_eq!(all.cost_micros, Some(u64::MAX));
        assert_eq!(all.turns, None);
    }

    #[test]
    fn a_session_less_what_was_used_before_is_the_run() {
        let run = usage(30, Some(9)).since(&usage(10, Some(4)));
        assert_eq!(run.models["m"].input, 20);
        assert_eq!(run.cost_micros, Some(5));
        let anew = usage(3, Some(2)).since(&usage(10, Some(4)));
        assert_eq!((anew.models["m"].input, anew.cost_micros), (3, Some(2)));
    }

    #[test]
    fn models_without_number_are_counted_together() {
        let mut all = Usage::default();
        for model in 0..100 {
            let one = Tokens {
                input: 1,
                ..Tokens::default()
            };
            all.add_tokens(&format!("model {model}"), one);
        }
        assert_eq!(all.models.len(), MAX_MODELS + 1);
        assert_eq!(all.models[OTHERS].input, 68);
        assert_eq!(all.tokens(), 100);
    }
}
