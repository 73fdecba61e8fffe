//! Size of a regular expression, and the steps of matching it, estimated from its text.

use std::{iter::Peekable, str::Chars};

/// States of a class of Unicode characters.
const UNICODE_CLASS: u64 = 200;

/// Steps at which an engine with backtracking gives up; that engine is used for look-around and
/// backreferences.
const BACKTRACKS: u64 = 20_000;

/// Steps of matching a text of `length` bytes.
pub(super) fn steps(pattern: &str, length: usize) -> u64 {
    let work = size(pattern).saturating_mul(super::length(length));
    let linear = work / 64 + 1;
    match backtracks(pattern) {
        true => linear.saturating_add(work.saturating_mul(8).min(BACKTRACKS) / 4),
        false => linear,
    }
}

/// Number of states, with counted repetitions expanded.
pub(super) fn size(pattern: &str) -> u64 {
    let mut chars = pattern.chars().peekable();
    let mut outer = Vec::new();
    let (mut sum, mut last) = (1_u64, 0_u64);
    while let Some(c) = chars.next() {
        last = match c {
            '(' => {
                outer.push(std::mem::replace(&mut sum, 0));
                0
            }
            ')' => {
                let group = sum.saturating_add(1);
                sum = outer.pop().unwrap_or(0);
                group
            }
            '{' => {
                let count = repetitions(&mut chars);
                // The first repetition is part of the sum.
                let more = last.saturating_mul(count.saturating_sub(1)).max(1);
                sum = sum.saturating_add(more);
                last = last.saturating_mul(count.max(1));
                continue;
            }
            '*' | '+' | '?' | '|' => {
                sum = sum.saturating_add(1);
                continue;
            }
            '[' => class(&mut chars),
            '\\' => escape(&mut chars),
            _ => 1,
        };
        sum = sum.saturating_add(last);
    }
    outer.into_iter().fold(sum, u64::saturating_add)
}

/// Largest number of `{n,m}`; 1 for a brace that is a literal.
fn repetitions(chars: &mut Peekable<Chars<'_>>) -> u64 {
    let (mut largest, mut number) = (1_u64, 0_u64);
    while let Some(c) = chars.next_if(|c| c.is_ascii_digit() || *c == ',' || *c == '}') {
        match c.to_digit(10) {
            Some(digit) => number = number.saturating_mul(10).saturating_add(digit.into()),
            None => number = 0,
        }
        largest = largest.max(number);
        if c == '}' {
            break;
        }
    }
    largest
}

fn class(chars: &mut Peekable<Chars<'_>>) -> u64 {
    let (mut size, mut length) = (0_u64, 0_u64);
    while let Some(c) = chars.next() {
        match c {
            ']' if length > 0 => break,
            '\\' => size = size.saturating_add(escape(chars)),
            _ => {}
        }
        length += 1;
    }
    size.saturating_add(length / 4 + 1)
}

fn escape(chars: &mut Peekable<Chars<'_>>) -> u64 {
    match chars.next() {
        Some('p' | 'P') => UNICODE_CLASS,
        Some(_) => 4,
        None => 1,
    }
}

fn backtracks(pattern: &str) -> bool {
    let around = ["(?=", "(?!", "(?<"];
    let mut pairs = pattern.as_bytes().windows(2);
    around.iter().any(|around| pattern.contains(around))
        || pairs.any(|pair| pair[0] == b'\\' && (pair[1].is_ascii_digit() || pair[1] == b'k'))
}
