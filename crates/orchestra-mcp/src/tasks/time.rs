//! Moments as tasks tell them: ISO 8601, in UTC, to the millisecond.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

/// A moment in ISO 8601.
pub(super) struct Iso(pub(super) SystemTime);

impl fmt::Display for Iso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
        let millisecond = since.subsec_millis();
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z"
        )
    }
}

/// The Gregorian date so many days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Counted in years that begin in March, so that the leap day is the last one; 400 years are
    // 146 097 days, and 1970 begins 719 468 days after the March of the year 0.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 {
        (month + 3, year)
    } else {
        (month - 9, year + 1)
    };
    (era * 400 + year, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_are_told_in_utc() {
        let check = |millis: u64, expected: &str| {
            let moment = UNIX_EPOCH + Duration::from_millis(millis);
            assert_eq!(Iso(moment).to_string(), expected);
        };
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_399_999, "2000-02-28T23:59:59.999Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(1_795_330_800_123, "2026-11-22T07:00:00.123Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let mut before = date(0);
        for days in 1..200_000 {
            let day = date(days);
            let next_day = day == (before.0, before.1, before.2 + 1);
            let next_month = day == (before.0, before.1 + 1, 1) && before.2 >= 28;
            let next_year = day == (before.0 + 1, 1, 1) && before.1 == 12 && before.2 == 31;
            assert!(next_day || next_month || next_year, "{before:?} {day:?}");
            before = day;
        }
    }
}
