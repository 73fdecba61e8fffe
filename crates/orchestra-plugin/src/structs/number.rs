//! Numbers of JSON, read and written so that each double comes back bit for bit.

use std::fmt::Write as _;

use super::{StructError, Style};

/// From here on not every integer is a double.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_992.0;

/// From here on a number is written with an exponent, as JavaScript and Go do.
const MIN_EXPONENT: f64 = 1e21;

/// Below this a number is written with an exponent.
const MAX_NEGATIVE_EXPONENT: f64 = 1e-6;

/// Between these two, fractions are written without an exponent by everybody.
const FRACTION_FROM: f64 = 1e-4;
const FRACTION_TO: f64 = 1e15;

/// An integer of so many digits is always a double.
const SAFE_DIGITS: usize = 15;

/// A number as it stands in JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct Literal {
    /// How many bytes it has.
    pub(super) length: usize,
    /// The nearest double.
    pub(super) value: f64,
    /// Whether it is an integer that may not be a double.
    pub(super) doubtful: bool,
}

/// Reads the number at the front of `bytes`; `None` when none stands there. The value is infinite
/// when it is beyond the doubles.
pub(super) fn read(bytes: &[u8]) -> Option<Literal> {
    let negative = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(&bytes[negative..]);
    let starts_with_zero = bytes.get(negative) == Some(&b'0');
    if whole == 0 || (starts_with_zero && whole > 1) {
        return None;
    }
    let mut length = negative + whole;
    let mut integer = true;
    if bytes.get(length) == Some(&b'.') {
        let fraction = digits(&bytes[length + 1..]);
        if fraction == 0 {
            return None;
        }
        length += 1 + fraction;
        integer = false;
    }
    if let Some(b'e' | b'E') = bytes.get(length) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(&bytes[length + 1 + sign..]);
        if exponent == 0 {
            return None;
        }
        length += 1 + sign + exponent;
        integer = false;
    }
    if integer && whole <= SAFE_DIGITS {
        let magnitude = bytes[negative..length]
            .iter()
            .fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'))
            as f64;
        return Some(Literal {
            length,
            value: if negative == 1 { -magnitude } else { magnitude },
            doubtful: false,
        });
    }
    // The standard library rounds to the nearest double, which the short cuts of other parsers miss
    // by a bit now and then.
    let value = std::str::from_utf8(&bytes[..length]).ok()?.parse().ok()?;
    Some(Literal {
        length,
        value,
        doubtful: integer,
    })
}

/// Whether `value` is exactly the integer that is written as `literal`.
pub(super) fn is_exact(literal: &[u8], value: f64) -> bool {
    // Without a precision the standard library writes the shortest digits, with one all of them.
    format!("{value:.0}").as_bytes() == literal
}

/// Appends a number.
pub(super) fn put(out: &mut String, value: f64, style: Style) -> Result<(), StructError> {
    let magnitude = value.abs();
    let written = if !value.is_finite() {
        return Err(StructError::NotFinite);
    } else if value == 0.0 {
        out.push_str(if value.is_sign_negative() { "-0" } else { "0" });
        Ok(())
    } else if magnitude < MAX_SAFE_INTEGER && value as i64 as f64 == value {
        put_integer(out, value as i64);
        Ok(())
    } else if (FRACTION_FROM..FRACTION_TO).contains(&magnitude) {
        put_fraction(out, value);
        Ok(())
    } else if !(MAX_NEGATIVE_EXPONENT..MIN_EXPONENT).contains(&magnitude) {
        let start = out.len();
        let written = write!(out, "{value:e}");
        // Positive exponents have a sign, as JavaScript and Go write them.
        if let Some(at) = out[start..].find('e').map(|at| start + at + 1)
            && !out[at..].starts_with('-')
        {
            out.insert(at, '+');
        }
        written
    } else if magnitude >= MAX_SAFE_INTEGER && style == Style::Plain {
        write!(out, "{value:.0}")
    } else {
        write!(out, "{value}")
    };
    written.expect("writing to a string cannot fail");
    Ok(())
}

/// Appends an integer below 2⁵³. The formatter of the standard library takes several times as long.
fn put_integer(out: &mut String, value: i64) {
    let mut digits = [0; 16];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    while rest >= 100 {
        let pair = (rest % 100) as u8;
        rest /= 100;
        start -= 2;
        digits[start] = b'0' + pair / 10;
        digits[start + 1] = b'0' + pair % 10;
    }
    if rest >= 10 {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    start -= 1;
    digits[start] = b'0' + rest as u8;
    if value < 0 {
        out.push('-');
    }
    out.push_str(std::str::from_utf8(&digits[start..]).expect("digits are ASCII"));
}

/// Appends a number with a fraction that is neither large nor small, with the shortest digits that
/// read as the same number.
fn put_fraction(out: &mut String, value: f64) {
    let mut digits = [0; 32];
    let mut rest = &mut digits[..];
    serde_json::to_writer(&mut rest, &value).expect("no double has more than 24 characters");
    let left = rest.len();
    let written = &digits[..digits.len() - left];
    out.push_str(std::str::from_utf8(written).expect("digits are ASCII"));
}

fn digits(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(bytes.len())
}
