//! Days and months that a query names.

use orchestra_board::Timestamp;

/// The seconds of a day.
const DAY: i64 = 86_400;

/// A day or a month, of one year or of any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    year: Option<i64>,
    month: u32,
    day: Option<u32>,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

impl Span {
    /// Whether a time lies in it.
    pub(super) fn has(self, at: Timestamp) -> bool {
        let (year, month, day) = civil(at.unix_seconds().div_euclid(DAY));
        self.month == month
            && self.year.is_none_or(|wanted| wanted == year)
            && self.day.is_none_or(|wanted| wanted == day)
    }
}

/// The days and months that a text names: `2026-02-19`, `19 February`, `May 12th, 2026`, `in June`,
/// `yesterday`, `today`. `may` alone is a word like others.
pub(super) fn named(text: &str, now: Timestamp) -> Vec<Span> {
    let small = text.to_lowercase();
    let words: Vec<&str> = small
        .split(|c: char| !c.is_alphanumeric() && c != '-')
        .filter(|word| !word.is_empty())
        .collect();
    let mut spans = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| words.get(at)).copied();
        let [next, after] = [1, 2].map(|step| words.get(at + step).copied());
        let days_ago = match *word {
            "today" => Some(0),
            "yesterday" => Some(1),
            _ => None,
        };
        if let Some(ago) = days_ago {
            let (year, month, day) = civil(now.unix_seconds().div_euclid(DAY) - ago);
            spans.push(Span {
                year: Some(year),
                month,
                day: Some(day),
            });
        } else if let Some(span) = iso(word) {
            spans.push(span);
        } else if let Some(month) = month(word) {
            let day = before.and_then(day).or_else(|| next.and_then(day));
            let year = next.and_then(year).or_else(|| after.and_then(year));
            if *word != "may" || day.is_some() || year.is_some() || before == Some("in") {
                spans.push(Span { year, month, day });
            }
        }
    }
    spans
}

fn iso(word: &str) -> Option<Span> {
    let mut parts = word.split('-');
    let year = parts.next().and_then(year)?;
    let month = parts
        .next()?
        .parse()
        .ok()
        .filter(|m| (1..=12).contains(m))?;
    let day = parts.next().and_then(day);
    Some(Span {
        year: Some(year),
        month,
        day,
    })
}

fn month(word: &str) -> Option<u32> {
    let place = MONTHS.iter().position(|name| {
        word == *name
            || (word.len() == 3 && word.is_ascii() && *name != "may" && name.starts_with(word))
    })?;
    u32::try_from(place + 1).ok()
}

fn day(word: &str) -> Option<u32> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let number = digits.parse().ok()?;
    (digits.len() <= 2 && (1..=31).contains(&number)).then_some(number)
}

fn year(word: &str) -> Option<i64> {
    let number = word.parse().ok()?;
    (word.len() == 4 && (1970..=2200).contains(&number)).then_some(number)
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
fn civil(days: i64) -> (i64, u32, u32) {
    // Years begin in March here, so that the leap day is the last of one.
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let small = |number: i64| u32::try_from(number).unwrap_or_default();
    (year, small(month), small(day))
}

#[cfg(test)]
mod tests {
    use orchestra_board::Timestamp;

    use super::{civil, named};

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("a time")
    }

    #[test]
    fn days_are_counted_as_the_calendar_does() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(-1), (1969, 12, 31));
        assert_eq!(civil(20_512), (2026, 2, 28));
        assert_eq!(civil(20_513), (2026, 3, 1));
        assert_eq!(civil(19_782), (2024, 2, 29));
    }

    #[test]
    fn days_and_months_are_found() {
        let now = at("2026-05-13T12:00:00Z");
        let check = |text: &str, hit: &str, miss: &str| {
            let spans = named(text, now);
            assert!(
                spans.iter().any(|span| span.has(at(hit))),
                "{text}: {spans:?}"
            );
            assert!(
                !spans.iter().any(|span| span.has(at(miss))),
                "{text}: {spans:?}"
            );
        };
        check("on 12 May", "2026-05-12T08:00:00Z", "2026-05-13T08:00:00Z");
        check(
            "May 12th, 2026",
            "2026-05-12T08:00:00Z",
            "2025-05-12T08:00:00Z",
        );
        check("in June", "2024-06-30T23:59:59Z", "2024-07-01T00:00:00Z");
        check("2026-02-19", "2026-02-19T00:00:00Z", "2026-02-20T00:00:00Z");
        check("yesterday", "2026-05-12T23:00:00Z", "2026-05-13T00:00:00Z");
        assert!(named("it may rain, decisions were made", now).is_empty());
        assert!(named("9999999999-99 99 -- 0-0-0 \u{0} 32 may", now).is_empty());
    }
}
