//! Whether a text can answer what a question wants: a time, a number, a name.

use super::query::{Asks, Query};

/// The most bytes of a text that are looked through for an answer.
const ANSWERED_WITHIN: usize = 1_024;

impl Query {
    /// Whether a text has what the question wants: a time, a number, a name.
    pub(super) fn is_answered_by(&self, content: &str) -> bool {
        if self.asks == Asks::Anything {
            return false;
        }
        let said = content.split_once(": ").map_or(content, |(_, said)| said);
        let said = &said[..said.floor_char_boundary(ANSWERED_WITHIN)];
        let mut words = said
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty());
        match self.asks {
            Asks::Anything => false,
            Asks::Time => words.any(|word| is_time(word) || starts_with_digit(word)),
            Asks::Number => words.any(|word| is_number(word) || starts_with_digit(word)),
            Asks::Person => words
                .skip(1)
                .any(|word| word.len() > 2 && word.chars().next().is_some_and(char::is_uppercase)),
        }
    }
}

fn starts_with_digit(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

fn is_time(word: &str) -> bool {
    const TIMES: &[&str] = &[
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "mondays",
        "tuesdays",
        "wednesdays",
        "thursdays",
        "fridays",
        "saturdays",
        "sundays",
        "january",
        "february",
        "march",
        "april",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "today",
        "tomorrow",
        "yesterday",
        "week",
        "month",
        "noon",
        "morning",
        "evening",
    ];
    TIMES.contains(&word.to_lowercase().as_str())
}

fn is_number(word: &str) -> bool {
    const NUMBERS: &[&str] = &[
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
        "thirty",
        "forty",
        "fifty",
        "sixty",
        "seventy",
        "eighty",
        "ninety",
        "hundred",
        "thousand",
        "million",
        "percent",
        "dozen",
        "once",
        "twice",
    ];
    NUMBERS.contains(&word.to_lowercase().as_str())
}
