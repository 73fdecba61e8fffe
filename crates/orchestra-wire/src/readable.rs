//! JSON that no Rust type holds: halves of surrogate pairs and numbers beyond the range of floats. Both are JSON
//! (RFC 8259, sections 6 and 8.2), and requests are passed on with them as they came. They are replaced for a look at
//! them, and in all that clients read, because the parsers of several SDKs refuse them.

use std::borrow::Cow;

use memchr::memchr2;

/// Number of bytes of the escape of one unit of UTF-16.
const ESCAPE: usize = r"\u0000".len();

/// Number of digits of which each integer is a float, if only with rounding.
const MAX_DIGITS: usize = 308;

/// Number of digits of the smallest integer that has more than 64 bits.
const MIN_LARGE: usize = 19;

/// A JSON text whose strings are Unicode and whose numbers are finite: U+FFFD takes the place of half of a surrogate
/// pair, and the largest float that of a number beyond it. A text that is no JSON is changed in no useful way.
pub(crate) fn readable(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut replaced = String::new();
    // Everything before this offset is in `replaced`.
    let mut done = 0;
    let (mut at, mut in_string) = (0, false);
    while let Some(&byte) = bytes.get(at) {
        let (length, replacement) = match byte {
            byte if in_string && !matches!(byte, b'"' | b'\\') => {
                let length = memchr2(b'"', b'\\', &bytes[at..]);
                (length.unwrap_or(bytes.len() - at), None)
            }
            b'"' => {
                in_string = !in_string;
                (1, None)
            }
            b'\\' if in_string => escape(&json[at..]),
            b'-' | b'0'..=b'9' => number(&json[at..]),
            _ => (1, None),
        };
        if let Some(replacement) = replacement {
            replaced.push_str(&json[done..at]);
            replaced.push_str(replacement);
            done = at + length;
        }
        at += length;
    }
    match done {
        0 => Cow::Borrowed(json),
        _ => Cow::Owned(replaced + &json[done..]),
    }
}

/// Length of the escape at the beginning of a text, and its replacement where it is half of a pair.
fn escape(text: &str) -> (usize, Option<&'static str>) {
    match unit(text) {
        Some(0xd800..=0xdbff) if text.get(ESCAPE..).and_then(unit).is_some_and(is_second) => {
            (2 * ESCAPE, None)
        }
        Some(0xd800..=0xdfff) => (ESCAPE, Some(r"\ufffd")),
        Some(_) => (ESCAPE, None),
        // The escaped character may be a backslash or a quote.
        None => (2, None),
    }
}

fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

const fn is_second(unit: u16) -> bool {
    matches!(unit, 0xdc00..=0xdfff)
}

/// The first integer of a JSON text that has more than 64 bits; `None` where there is none. Most parsers read such an
/// integer as a float, which does not hold all of its digits.
#[must_use]
pub fn large_integer(json: &str) -> Option<&str> {
    let bytes = json.as_bytes();
    let (mut at, mut in_string) = (0, false);
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            byte if in_string && !matches!(byte, b'"' | b'\\') => {
                memchr2(b'"', b'\\', &bytes[at..]).unwrap_or(bytes.len() - at)
            }
            b'"' => {
                in_string = !in_string;
                1
            }
            // The escaped character may be a backslash or a quote.
            b'\\' => 2,
            b'-' | b'0'..=b'9' => {
                let length = length_of_number(&json[at..]);
                let number = &json[at..at + length];
                if is_large(number) {
                    return Some(number);
                }
                length
            }
            _ => 1,
        };
    }
    None
}

fn is_large(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    // A shorter one is no larger than 64 bits.
    digits.len() >= MIN_LARGE
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && number.parse::<i64>().is_err()
        && number.parse::<u64>().is_err()
}

fn length_of_number(text: &str) -> usize {
    let is_end = |byte: u8| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    text.bytes().position(is_end).unwrap_or(text.len())
}

/// Length of the number at the beginning of a text, and its replacement where no float is that large.
fn number(text: &str) -> (usize, Option<&'static str>) {
    let length = length_of_number(text);
    let digits = &text[..length];
    // Without an exponent, it takes many digits to reach the largest float.
    let is_short = length <= MAX_DIGITS && !digits.contains(['e', 'E']);
    let is_beyond = !is_short && digits.parse().is_ok_and(f64::is_infinite);
    let largest = match text.starts_with('-') {
        true => "-1.7976931348623157e308",
        false => "1.7976931348623157e308",
    };
    (length, is_beyond.then_some(largest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn halves_of_pairs_and_numbers_beyond_floats_are_replaced_and_nothing_else() {
        for (json, expected) in [
            (r#"["\ud800"]"#, r#"["\ufffd"]"#),
            (
                r#""\ud800\ud83e\udd80\uDC00x""#,
                r#""\ufffd\ud83e\udd80\ufffdx""#,
            ),
            (r#"{"\\ud800":"\\\udfff\n"}"#, r#"{"\\ud800":"\\\ufffd\n"}"#),
            (r#""\u00e9 \\""#, r#""\u00e9 \\""#),
            (r#"{"\udc00é":"1e400"}"#, r#"{"\ufffdé":"1e400"}"#),
            (
                "[1e400,-1E+999, 1e-400,1.5]",
                "[1.7976931348623157e308,-1.7976931348623157e308, 1e-400,1.5]",
            ),
        ] {
            assert_eq!(readable(json), expected);
            assert!(
                serde_json::from_str::<Value>(expected).is_ok(),
                "{expected}"
            );
        }
        let long = "9".repeat(400);
        assert_eq!(readable(&long), "1.7976931348623157e308");
    }

    #[test]
    fn integer_of_more_than_64_bits_is_found() {
        for (json, expected) in [
            (
                r#"{"n":18446744073709551616}"#,
                Some("18446744073709551616"),
            ),
            ("-9223372036854775809", Some("-9223372036854775809")),
            (
                r#"["\\\"", 1, 123456789012345678901234567890]"#,
                Some("123456789012345678901234567890"),
            ),
            (
                r#"[18446744073709551615, -9223372036854775808, 0, -0]"#,
                None,
            ),
            (r#"[123456789012345678901.0, 1e300, 1E+2]"#, None),
            (r#""é 18446744073709551616 \" 18446744073709551616""#, None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(large_integer(json), expected, "{json}");
        }
    }

    proptest! {
        #[test]
        fn every_json_text_becomes_readable(
            units in prop::collection::vec(any::<u16>(), 0..20),
            digits in "-?(0|[1-9][0-9]{0,400})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,5})?",
        ) {
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let json = format!("{{\"{escaped}\":[\"{escaped}\",{digits}]}}");
            let value: Value = serde_json::from_str(&readable(&json)).unwrap();
            let text = String::from_utf16_lossy(&units);
            prop_assert_eq!(value[&text][0].as_str(), Some(&*text));
        }

        #[test]
        fn no_text_panics(text in "(\\\\u[dD][89a-fA-F]{0,3}|\"|\\\\|-|[0-9eE.]|é|\\PC){0,30}") {
            let _ = readable(&text);
            let _ = large_integer(&text);
        }
    }
}
