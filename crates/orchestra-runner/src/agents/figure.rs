//! Figures in texts that others wrote: counts, times and money, or nothing when they cannot be meant.

/// The largest count that is believed: a thousand times more tokens than any run has used.
const MAX_COUNT: u64 = 1_000_000_000_000;

/// The most money that is believed, in whole units.
const MAX_MONEY: f64 = 1_000_000.0;

/// The longest time that is believed: a year.
const MAX_MS: u64 = 366 * 24 * 60 * 60 * 1_000;

/// The longest text that is looked at for one figure.
const MAX_CHARS: usize = 64;

/// A count as people write it: `45`, `1,234`, `614.6k`, `1.2m`. What follows a space is not read.
pub(super) fn count(text: &str) -> Option<u64> {
    let thousandths = thousandths(text)?;
    Some(thousandths.div_ceil(1_000)).filter(|count| *count <= MAX_COUNT)
}

/// As [`count`], in thousandths: `0.33` is 330.
pub(super) fn thousandths(text: &str) -> Option<u64> {
    let word = text.split_whitespace().next()?;
    if word.len() > MAX_CHARS {
        return None;
    }
    let (digits, times) = match word.char_indices().last()? {
        (at, 'k' | 'K') => (&word[..at], 1e3),
        (at, 'm' | 'M') => (&word[..at], 1e6),
        (at, 'b' | 'B') => (&word[..at], 1e9),
        _ => (word, 1.0),
    };
    let number = plain(digits)? * times;
    (number <= MAX_COUNT as f64).then_some((number * 1_000.0).round() as u64)
}

/// A count as JSON writes it.
pub(super) fn json_count(value: &serde_json::Value) -> Option<u64> {
    let count = match value.as_u64() {
        Some(count) => count,
        None => {
            let number = value.as_f64()?;
            let is_count = (0.0..=MAX_COUNT as f64).contains(&number) && number.fract() == 0.0;
            is_count.then_some(number as u64)?
        }
    };
    (count <= MAX_COUNT).then_some(count)
}

/// A number of JSON in thousandths.
pub(super) fn json_thousandths(value: &serde_json::Value) -> Option<u64> {
    let number = value.as_f64()?;
    let is_meant = (0.0..=MAX_COUNT as f64).contains(&number);
    is_meant.then_some((number * 1_000.0).round() as u64)
}

/// Milliseconds of JSON.
pub(super) fn json_ms(value: &serde_json::Value) -> Option<u64> {
    let number = value.as_f64()?;
    (0.0..=MAX_MS as f64)
        .contains(&number)
        .then_some(number.round() as u64)
}

/// Money of JSON, in millionths.
pub(super) fn json_money(value: &serde_json::Value) -> Option<u64> {
    micros(value.as_f64()?)
}

/// Money as people write it, in millionths: `0.0123`, `$1.50`.
pub(super) fn money(text: &str) -> Option<u64> {
    let word = text.split_whitespace().next()?;
    if word.len() > MAX_CHARS {
        return None;
    }
    micros(plain(word.trim_start_matches('$'))?)
}

/// A time as people write it, in milliseconds: `12s`, `4m 38s`, `1h 2m 3.5s`, `890ms`.
pub(super) fn time(text: &str) -> Option<u64> {
    if text.len() > MAX_CHARS {
        return None;
    }
    let mut ms = 0.0;
    for word in text.split_whitespace() {
        let units = [
            ("ms", 1.0),
            ("s", 1e3),
            ("m", 60e3),
            ("h", 3_600e3),
            ("d", 86_400e3),
        ];
        let part = units.iter().find_map(|(unit, times)| {
            let digits = word.strip_suffix(unit)?;
            Some(plain(digits)? * times)
        });
        ms += part?;
    }
    (ms > 0.0 || text.contains('0')).then_some(())?;
    (ms <= MAX_MS as f64).then_some(ms.round() as u64)
}

fn micros(money: f64) -> Option<u64> {
    (0.0..=MAX_MONEY)
        .contains(&money)
        .then_some((money * 1e6).round() as u64)
}

/// Digits, with commas between thousands and one point.
fn plain(digits: &str) -> Option<f64> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'.' || byte == b',';
    let has_digit = digits.bytes().any(|byte| byte.is_ascii_digit());
    if !has_digit || !digits.bytes().all(is_plain) {
        return None;
    }
    digits
        .replace(',', "")
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_read_as_people_write_them() {
        assert_eq!(count("45"), Some(45));
        assert_eq!(count("1,234"), Some(1_234));
        assert_eq!(count("614.6k"), Some(614_600));
        assert_eq!(count("1.2m (1.1m cached)"), Some(1_200_000));
        assert_eq!(thousandths("0.33"), Some(330));
        assert_eq!(money("$0.0123"), Some(12_300));
        assert_eq!(time("4m 38s"), Some(278_000));
        assert_eq!(time("2m 59.626s"), Some(179_626));
        assert_eq!(time("1h 2m 3s"), Some(3_723_000));
        assert_eq!(time("0s"), Some(0));
    }

    #[test]
    fn figures_that_cannot_be_meant_are_none() {
        for text in [
            "",
            "-1",
            "1e9",
            "NaN",
            "inf",
            "k",
            ".",
            "9999999999999m",
            "1_0",
            "٣",
        ] {
            assert_eq!(count(text), None, "{text}");
        }
        for value in [
            json!(-1),
            json!(1.5),
            json!(1e300),
            json!("3"),
            json!(null),
            json!(u64::MAX),
        ] {
            assert_eq!(json_count(&value), None, "{value}");
        }
        assert_eq!(json_count(&json!(3.0)), Some(3));
        assert_eq!(json_money(&json!(-0.1)), None);
        assert_eq!(json_money(&json!(1e12)), None);
        assert_eq!(json_ms(&json!(1e40)), None);
        assert_eq!(time("9999999d"), None);
        assert_eq!(time("soon"), None);
    }

    proptest! {
        #[test]
        fn no_text_breaks_them(text in "\\PC{0,80}") {
            let _ = (count(&text), thousandths(&text), money(&text), time(&text));
        }
    }
}
