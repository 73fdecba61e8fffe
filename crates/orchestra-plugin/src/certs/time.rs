//! Times as certificates tell them: in whole seconds of UTC, with two digits of the year up to 2049
//! and four from then on.

use std::time::{Duration, SystemTime};

use super::der::{self, Value, tag};

/// Years of two digits are from 1950 on.
const FIRST_SHORT_YEAR: u64 = 1950;

/// The first year that needs four digits.
const FIRST_LONG_YEAR: u64 = 2050;

/// The first that cannot be told.
const FIRST_YEAR_BEYOND: u64 = 10_000;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Days of a year before each of its months, where it has no leap day.
const DAYS_BEFORE_MONTH: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// The time that a value tells. Times before 1970 are taken for its beginning.
pub(super) fn read(value: Value<'_>) -> Option<SystemTime> {
    let mut digits = value.content.strip_suffix(b"Z")?;
    let mut number = |length: usize| {
        let (first, rest) = digits.split_at_checked(length)?;
        digits = rest;
        first.iter().try_fold(0, |number, digit| {
            digit
                .is_ascii_digit()
                .then(|| number * 10 + u64::from(digit - b'0'))
        })
    };
    let year = match value.tag {
        tag::UTC_TIME => {
            let short: u64 = number(2)?;
            FIRST_SHORT_YEAR + (short + 100 - FIRST_SHORT_YEAR % 100) % 100
        }
        tag::GENERALIZED_TIME => number(4)?,
        _ => return None,
    };
    let (month, day) = (number(2)?, number(2)?);
    let (hour, minute, second) = (number(2)?, number(2)?, number(2)?);
    let is_time = (1..=12).contains(&month)
        && (1..=days_of_month(year, month)).contains(&day)
        && (hour < 24 && minute < 60 && second < 60)
        && digits.is_empty();
    if !is_time {
        return None;
    }
    let Some(days) = days_before_year(year) else {
        return Some(SystemTime::UNIX_EPOCH);
    };
    let days = days + days_before_month(year, month) + day - 1;
    let seconds = days * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// The value that tells a time; `None` before 1970 and after the year 9999. Parts of a second are
/// left out.
pub(super) fn write(time: SystemTime) -> Option<Vec<u8>> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let (days, second) = (since.as_secs() / DAY_SECONDS, since.as_secs() % DAY_SECONDS);
    // A year has 366 days at the most, so this is not beyond it, and a few steps are left to go.
    let mut year = 1970 + days / 366;
    while days_before_year(year + 1)? <= days {
        year += 1;
    }
    let day = days - days_before_year(year)?;
    let month = (1..=12)
        .rev()
        .find(|month| days_before_month(year, *month) <= day)?;
    let day = day - days_before_month(year, month) + 1;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    match year {
        ..FIRST_LONG_YEAR => {
            let text = format!("{:02}{rest}", year % 100);
            Some(der::value(tag::UTC_TIME, &[text.as_bytes()]))
        }
        FIRST_LONG_YEAR..FIRST_YEAR_BEYOND => {
            let text = format!("{year:04}{rest}");
            Some(der::value(tag::GENERALIZED_TIME, &[text.as_bytes()]))
        }
        _ => None,
    }
}

/// The days from the beginning of 1970 to that of a year; `None` for one before.
fn days_before_year(year: u64) -> Option<u64> {
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    let years = year.checked_sub(1970)?;
    Some(365 * years + leap_days(year - 1) - leap_days(1969))
}

fn days_before_month(year: u64, month: u64) -> u64 {
    let before = DAYS_BEFORE_MONTH.get(month as usize - 1);
    before.copied().unwrap_or_default() + u64::from(month > 2 && is_leap(year))
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        12 => 31,
        _ => days_before_month(year, month + 1) - days_before_month(year, month),
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::certs::der::Reader;

    fn seconds(tag: u8, text: &str) -> Option<u64> {
        let whole = der::value(tag, &[text.as_bytes()]);
        let time = read(Reader::new(&whole).any().unwrap())?;
        Some(
            time.duration_since(SystemTime::UNIX_EPOCH)
                .unwrap()
                .as_secs(),
        )
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (tag, text, wanted) in [
            (tag::UTC_TIME, "700101000000Z", 0),
            (tag::UTC_TIME, "000229120000Z", 951_825_600),
            (tag::UTC_TIME, "260101000000Z", 1_767_225_600),
            (tag::UTC_TIME, "491231235959Z", 2_524_607_999),
            (tag::UTC_TIME, "500101000000Z", 0),
            (tag::GENERALIZED_TIME, "19500101000000Z", 0),
            (tag::GENERALIZED_TIME, "20500101000000Z", 2_524_608_000),
            (tag::GENERALIZED_TIME, "21000228235959Z", 4_107_542_399),
            (tag::GENERALIZED_TIME, "21000301000000Z", 4_107_542_400),
            (tag::GENERALIZED_TIME, "99991231235959Z", 253_402_300_799),
        ] {
            assert_eq!(seconds(tag, text), Some(wanted), "{text}");
        }
        for bad in [
            "",
            "Z",
            "260101000000",
            "2601010000Z",
            "260229000000Z",
            "261301000000Z",
            "260001000000Z",
            "260100000000Z",
            "260101240000Z",
            "260101006000Z",
            "260101000060Z",
            "26010100000xZ",
            "2601010000000Z",
            "260101000000+0100",
        ] {
            assert_eq!(seconds(tag::UTC_TIME, bad), None, "{bad}");
        }
        assert_eq!(seconds(tag::INTEGER, "260101000000Z"), None);
    }

    #[test]
    fn what_has_no_form_is_not_written() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(write(before), None);
        let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
        assert!(write(last).is_some());
        assert_eq!(write(last + Duration::from_secs(1)), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(second in 0_u64..253_402_300_800) {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            let written = write(time).unwrap();
            prop_assert_eq!(read(Reader::new(&written).any().unwrap()), Some(time));
        }
    }
}
