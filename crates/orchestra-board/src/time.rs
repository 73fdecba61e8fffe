//! Points in time, in whole seconds: what files and answers show, so that both sides agree.

use std::fmt;

/// Seconds since the Unix epoch, shown as RFC 3339 in UTC (`2026-02-14T13:55:45Z`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

/// Text that is not a point in time.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a time such as 2026-02-14T13:55:45Z")]
pub struct TimeError {
    text: String,
    #[source]
    source: jiff::Error,
}

/// The last second of the year 9999, the last that RFC 3339 can write.
const LAST_SECOND: i64 = 253_402_207_200;

impl Timestamp {
    /// A point in time by its distance from the Unix epoch; times outside the years 1970 to 9999
    /// are moved to the nearest one inside.
    #[must_use]
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Self(seconds.clamp(0, LAST_SECOND))
    }

    /// Seconds since the Unix epoch.
    #[must_use]
    pub const fn unix_seconds(self) -> i64 {
        self.0
    }

    /// This time plus `seconds`.
    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self::from_unix_seconds(self.0.saturating_add(seconds))
    }

    /// Parses RFC 3339; a fraction of a second is dropped.
    ///
    /// # Errors
    /// When `text` is not RFC 3339.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        text.parse::<jiff::Timestamp>()
            .map(|time| Self::from_unix_seconds(time.as_second()))
            .map_err(|source| TimeError {
                text: text.chars().take(40).collect(),
                source,
            })
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time =
            jiff::Timestamp::from_second(self.0).expect("construction keeps the value in range");
        write!(f, "{time}")
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn shows_and_parses_whole_seconds_in_utc() {
        let time = Timestamp::parse("2026-02-14T13:55:45Z").expect("a time");
        assert_eq!(time.to_string(), "2026-02-14T13:55:45Z");
        assert_eq!(
            Timestamp::parse("2026-02-14T14:55:45.9+01:00").expect("a time"),
            time
        );
        assert!(Timestamp::parse("yesterday").is_err());
        assert_eq!(
            Timestamp::from_unix_seconds(i64::MIN).to_string(),
            "1970-01-01T00:00:00Z"
        );
        assert!(
            Timestamp::from_unix_seconds(i64::MAX)
                .to_string()
                .starts_with("9999-12-")
        );
    }
}
