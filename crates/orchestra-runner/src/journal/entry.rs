//! What is kept: events, and the checksums by which each is known to be what was written.

use std::fmt;

use orchestra_plan::ids::PlanId;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest as _, Sha256};

/// The longest id of a plan.
const MAX_KEY: usize = 64;
/// The longest key of a request that is asked again.
const MAX_ONCE: usize = 128;

/// The id of a plan as the journal knows it: also the name of its directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlanKey(String);

/// What is no id of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a plan's id must have 1 to 64 letters of a-z, digits and single `-` between them")]
pub struct PlanKeyError;

impl PlanKey {
    /// Reads an id.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, PlanKeyError> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = (1..=MAX_KEY).contains(&text.len());
        let ends = text.bytes().next().is_some_and(is_plain);
        if fits && ends && text.bytes().all(|byte| is_plain(byte) || byte == b'-') {
            return Ok(Self(text.to_owned()));
        }
        Err(PlanKeyError)
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<PlanId> for PlanKey {
    fn from(plan: PlanId) -> Self {
        Self(plan.to_string())
    }
}

impl fmt::Display for PlanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An event that is to be kept.
#[derive(Debug, Clone)]
pub struct Fresh {
    /// When it happened, in milliseconds since the Unix epoch.
    pub at: u64,
    /// What happened.
    pub body: Box<RawValue>,
}

impl Fresh {
    /// An event that happened `at`.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn new(at: u64, body: &impl Serialize) -> serde_json::Result<Self> {
        Ok(Self {
            at,
            body: to_raw_value(body)?,
        })
    }
}

/// An event that was kept.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Its place among all events of the workspace.
    pub seq: u64,
    /// Of which plan.
    pub plan: PlanKey,
    /// Its place among the events of its plan; the first has 1.
    pub number: u64,
    /// When it happened, in milliseconds since the Unix epoch.
    pub at: u64,
    /// What happened.
    pub body: Box<RawValue>,
}

/// What makes a request that is asked twice be done once: whoever asks chooses it at random.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnceKey(String);

impl OnceKey {
    /// Reads a key: 16 to 128 printable ASCII characters. `None` where it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (16..=MAX_ONCE).contains(&text.len());
        let is_key = fits && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_key.then(|| Self(text.to_owned()))
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Bytes of a checksum.
pub(super) const CHECK_BYTES: usize = 16;

/// The checksum of an event, in the database or in a file: of where it belongs as well as of what it says,
/// so that one in the place of another is found.
pub(super) fn check(kind: &str, plan: &str, number: u64, at: u64, json: &str) -> [u8; CHECK_BYTES] {
    let mut digest = Sha256::new();
    digest.update(format!("{kind}\n{plan}\n{number}\n{at}\n"));
    digest.update(json);
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&digest.finalize()[..CHECK_BYTES]);
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_lead_elsewhere_is_no_id() {
        for good in ["a", "0-1", "6c84fb90-12c4-11e1-840d-7b25c5ee775a"] {
            assert_eq!(PlanKey::parse(good).unwrap().as_str(), good);
        }
        let long = "a".repeat(65);
        for bad in ["", "-a", ".", "..", "a/b", "A", "a b", "ä", "a\0", &long] {
            assert_eq!(PlanKey::parse(bad), Err(PlanKeyError), "{bad:?}");
        }
    }

    #[test]
    fn a_checksum_is_of_the_place_and_of_the_text() {
        let one = check("event", "p", 1, 2, "{}");
        assert_eq!(one, check("event", "p", 1, 2, "{}"));
        for other in [
            check("line", "p", 1, 2, "{}"),
            check("event", "q", 1, 2, "{}"),
            check("event", "p", 2, 2, "{}"),
            check("event", "p", 1, 3, "{}"),
            check("event", "p", 1, 2, "{ }"),
        ] {
            assert_ne!(one, other);
        }
    }
}
