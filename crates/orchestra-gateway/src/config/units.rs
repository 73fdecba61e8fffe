//! Times and sizes as they are written, and names that are near each other.

use std::time::Duration;

/// A number of seconds.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

/// A time such as `500ms`, `30s` or `1h15m`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut sum = None;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        let part = Duration::try_from_secs_f64(number * seconds).ok()?;
        sum = Some(sum.unwrap_or(Duration::ZERO).checked_add(part)?);
        rest = behind;
    }
    sum
}

/// A size such as `64KiB`, `512 MiB`, `1GB` or `4096`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The name that was meant, when one is near enough.
#[must_use]
pub fn nearest<'a>(found: &str, known: &[&'a str]) -> Option<&'a str> {
    /// Longer names are not typed by hand.
    const MAX_CHARS: usize = 40;
    if found.len() > MAX_CHARS {
        return None;
    }
    let lower = found.to_ascii_lowercase();
    let distances = known
        .iter()
        .map(|name| (distance(&lower, &name.to_ascii_lowercase()), *name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + found.len() / 5).then_some(name)
}

/// How many characters must be changed, added, removed, or swapped with the next.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let first: Vec<usize> = (0..=other.len()).collect();
    let (mut before, mut row) = (first.clone(), first);
    for (place, c) in one.iter().enumerate() {
        let mut next = vec![place + 1];
        for (at, o) in other.iter().enumerate() {
            let changed = row[at] + usize::from(c != o);
            let mut least = changed.min(next[at] + 1).min(row[at + 1] + 1);
            let is_swapped = place > 0 && at > 0 && *c == other[at - 1] && one[place - 1] == *o;
            if is_swapped {
                least = least.min(before[at - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read_as_people_write_them() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(
                duration(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in [
            "",
            "s",
            "30",
            "30x",
            "-1s",
            "1s1",
            "1e400s",
            "99999999999999999999d",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
        for (text, size) in [
            ("4096", 4_096),
            ("64KiB", 65_536),
            ("512 mib", 512 << 20),
            ("1GB", 1_000_000_000),
        ] {
            assert_eq!(bytes(text), Some(size), "{text}");
        }
        for text in ["", "KiB", "1.5GiB", "99999999999GiB", "-1"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_that_was_mistyped_is_found() {
        let known = ["command", "args", "env", "timeout"];
        assert_eq!(nearest("comand", &known), Some("command"));
        assert_eq!(nearest("Arg", &known), Some("args"));
        assert_eq!(nearest("timeuot", &known), Some("timeout"));
        assert_eq!(nearest("agrs", &known), Some("args"));
        assert_eq!(nearest("colour", &known), None);
    }
}
