//! What jobs and plans may use up, and what they have used.
//!
//! Money is counted in millionths of a currency unit, so that sums are exact.

use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::Budget;
use crate::value::{Money, Whole};

/// Which limit of a budget is used up, if any: the first of tokens, money, wall time.
#[must_use]
pub fn exceeded(budget: &Budget, used: &Usage, wall_ms: u64) -> Option<Exceeded> {
    let checks = [
        (
            Measure::Tokens,
            budget.tokens.map(Whole::get),
            used.tokens(),
        ),
        (
            Measure::Cost,
            budget.cost.map(Money::micros),
            used.cost_micros,
        ),
        (Measure::Wall, budget.wall_ms.map(Whole::get), wall_ms),
    ];
    checks.into_iter().find_map(|(measure, limit, used)| {
        let limit = limit?;
        // Time runs on by itself: at the limit it is used up. Tokens and money may be spent whole.
        let over = if measure == Measure::Wall {
            used >= limit
        } else {
            used > limit
        };
        over.then_some(Exceeded {
            measure,
            limit,
            used,
        })
    })
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Measure {
    /// Tokens in and out.
    Tokens,
    /// Money in millionths.
    Cost,
    /// Wall time in milliseconds.
    Wall,
}

impl Measure {
    /// The field of a budget that limits it.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Tokens => "budget.tokens",
            Self::Cost => "budget.cost",
            Self::Wall => "budget.wallMs",
        }
    }
}

/// A limit that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Exceeded {
    /// Of what.
    pub measure: Measure,
    /// How much was allowed.
    pub limit: u64,
    /// How much was used when it was noticed.
    pub used: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.measure {
            Measure::Tokens => write!(f, "{} tokens used of {}", self.used, self.limit),
            Measure::Cost => write!(f, "cost {} of {}", Micros(self.used), Micros(self.limit)),
            Measure::Wall => write!(f, "{} ms of wall time used of {}", self.used, self.limit),
        }
    }
}

/// Millionths, written as a decimal number without rounding.
pub struct Micros(pub u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000);
        let short = text.trim_end_matches('0');
        f.write_str(short.strip_suffix('.').unwrap_or(short))
    }
}

/// What an agent has used, as far as it told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Usage {
    /// Tokens read, those from a cache included.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from a cache.
    pub cached_tokens: u64,
    /// Money in millionths.
    pub cost_micros: u64,
    /// Premium requests in thousandths, where an agent counts such.
    pub premium_millis: u64,
    /// Turns taken.
    pub turns: u64,
    /// Time spent waiting for a model.
    pub api_ms: u64,
}

impl Usage {
    /// Tokens in and out.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Whether nothing was used.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Both together; a sum that is too large stays at the largest number.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
            premium_millis: self.premium_millis.saturating_add(other.premium_millis),
            turns: self.turns.saturating_add(other.turns),
            api_ms: self.api_ms.saturating_add(other.api_ms),
        }
    }

    /// What is in this beyond the other; nothing is less than 0.
    #[must_use]
    pub const fn minus(&self, other: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(other.cached_tokens),
            cost_micros: self.cost_micros.saturating_sub(other.cost_micros),
            premium_millis: self.premium_millis.saturating_sub(other.premium_millis),
            turns: self.turns.saturating_sub(other.turns),
            api_ms: self.api_ms.saturating_sub(other.api_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up_when_more_is_spent_than_it_holds() {
        let budget = Budget {
            tokens: Whole::new(10),
            cost: Money::of_micros(1_500_000),
            wall_ms: None,
        };
        let ten = Usage {
            input_tokens: 6,
            output_tokens: 4,
            ..Usage::default()
        };
        assert_eq!(exceeded(&budget, &ten, u64::MAX), None);
        let more = ten.plus(&Usage {
            output_tokens: 1,
            ..Usage::default()
        });
        let words = exceeded(&budget, &more, 0).map(|e| e.to_string());
        assert_eq!(words.as_deref(), Some("11 tokens used of 10"));
        let dear = Usage {
            cost_micros: 2_000_001,
            ..Usage::default()
        };
        let words = exceeded(&budget, &dear, 0).map(|e| e.to_string());
        assert_eq!(words.as_deref(), Some("cost 2.000001 of 1.5"));
    }

    #[test]
    fn wall_time_is_used_up_at_its_limit() {
        let budget = Budget {
            wall_ms: Whole::new(5),
            ..Budget::default()
        };
        assert_eq!(exceeded(&budget, &Usage::default(), 4), None);
        assert!(exceeded(&budget, &Usage::default(), 5).is_some());
    }

    #[test]
    fn sums_do_not_overflow() {
        let most = Usage {
            input_tokens: u64::MAX,
            output_tokens: 1,
            ..Usage::default()
        };
        assert_eq!(most.plus(&most).tokens(), u64::MAX);
    }
}
