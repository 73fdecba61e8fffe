//! What models cost: tokens and money, counted exactly.

use std::fmt;

use crate::{IssueId, Slug, Timestamp};

/// Money in billionths of the unit the caller counts in, so that sums do not drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cost(u64);

/// A number that cannot be usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// Not a finite number from 0 to a million.
    #[error("cost must be a number from 0 to 1000000")]
    Cost,
    /// More than a billion tokens at once.
    #[error("token counts must be whole numbers from 0 to 1000000000")]
    Tokens,
}

/// One request to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageEntry {
    /// Who runs the model; counts only when this entry opens a session.
    pub provider: Option<String>,
    /// The model; counts only when this entry opens a session.
    pub model: Option<String>,
    /// Tokens in.
    pub input_tokens: u64,
    /// Tokens out.
    pub output_tokens: u64,
    /// What it cost.
    pub cost: Cost,
    /// What it was made for, where somebody said so.
    pub of: Option<UsageOf>,
}

/// What a request to a model was made for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageOf {
    /// The project.
    pub project: Slug,
    /// The issue in it.
    pub issue: Option<IssueId>,
}

/// Sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTotals {
    /// Tokens in.
    pub input: u64,
    /// Tokens out.
    pub output: u64,
    /// Cost.
    pub cost: Cost,
}

/// A stretch of use, from its first request until it is ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSession {
    /// Who runs the model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it was ended.
    pub ended_at: Option<Timestamp>,
    /// Its sums.
    pub totals: UsageTotals,
}

impl Cost {
    const PER_UNIT: f64 = 1e9;

    /// Takes an amount in whole units.
    ///
    /// # Errors
    /// When it is negative, not finite, or over a million.
    pub fn from_units(units: f64) -> Result<Self, UsageError> {
        if !(units.is_finite() && (0.0..=1e6).contains(&units)) {
            return Err(UsageError::Cost);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be in range"
        )]
        Ok(Self((units * Self::PER_UNIT).round() as u64))
    }

    /// Takes billionths of a unit.
    #[must_use]
    pub const fn from_billionths(billionths: u64) -> Self {
        Self(billionths)
    }

    /// Billionths of a unit.
    #[must_use]
    pub const fn billionths(self) -> u64 {
        self.0
    }

    /// Whole units, for answers.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shown, not summed")]
    pub fn units(self) -> f64 {
        self.0 as f64 / Self::PER_UNIT
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.units())
    }
}

impl UsageEntry {
    /// The most tokens one entry may count, each way.
    pub const MAX_TOKENS: u64 = 1_000_000_000;

    /// Takes a token count as JSON numbers give it; a fraction is dropped.
    ///
    /// # Errors
    /// When it is negative, not finite, or over [`UsageEntry::MAX_TOKENS`].
    pub fn tokens(count: f64) -> Result<u64, UsageError> {
        #[expect(clippy::cast_precision_loss, reason = "a billion is exact")]
        if !(count.is_finite() && (0.0..=Self::MAX_TOKENS as f64).contains(&count)) {
            return Err(UsageError::Tokens);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be in range"
        )]
        Ok(count as u64)
    }
}

impl UsageTotals {
    /// Adds other sums; no sum goes over the largest number.
    pub fn add(&mut self, more: &Self) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
        self.cost = Cost(self.cost.0.saturating_add(more.cost.0));
    }
}

#[cfg(test)]
mod tests {
    use super::{Cost, UsageEntry, UsageError, UsageTotals};

    #[test]
    fn sums_do_not_drift() {
        let mut totals = UsageTotals::default();
        for cost in [0.1, 0.2] {
            let cost = Cost::from_units(cost).expect("a cost");
            totals.add(&UsageTotals {
                input: 1,
                output: 2,
                cost,
            });
        }
        assert_eq!(totals.cost.to_string(), "0.3");
        assert_eq!((totals.input, totals.output), (2, 4));
    }

    #[test]
    fn impossible_numbers_are_refused() {
        for number in [-1.0, f64::NAN, f64::INFINITY, 1e12] {
            assert_eq!(Cost::from_units(number), Err(UsageError::Cost));
            assert_eq!(UsageEntry::tokens(number), Err(UsageError::Tokens));
        }
    }
}
