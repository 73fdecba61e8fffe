//! Numbers that are more than numbers: points in time, and the count of attempts.

use std::{fmt, num::NonZeroU32, time::Duration};

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since the start of 1970, UTC. It is always handed in.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(transparent)]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct Millis(u64);

impl Millis {
    /// The point in time that is this many milliseconds after the start of 1970.
    #[must_use]
    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// The milliseconds.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The point in time that is `wait` later, or the last there is.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// The point in time that was `time` earlier, or the first there is.
    #[must_use]
    pub fn before(self, time: Duration) -> Self {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(millis))
    }

    /// How long it has been since `earlier`; nothing when the clock went back.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which execution of a job this is, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(transparent)]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct AttemptNumber(NonZeroU32);

impl AttemptNumber {
    /// The first attempt.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// The attempt of this number; `None` for 0.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// The number, from 1.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The attempt after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for AttemptNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
