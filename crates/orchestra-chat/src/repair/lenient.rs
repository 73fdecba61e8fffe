//! Values as small models write them: JSON with the quotes, commas and words of other languages.
//!
//! Libraries that mend JSON make a value of any text. Here a value has to be told from a text, and where it ends
//! has to be known, so what is no value is refused. A value that is cut off, or that takes a guess to read, is
//! recognised and has a fault.

use orchestra_wire::large_integer;
use serde_json::{Map, Number, Value};

use super::Fault;

/// How deep values may be nested.
const DEPTH: usize = 64;

/// A value at the start of a text.
#[derive(Debug, PartialEq)]
pub(super) struct Read {
    pub(super) value: Value,
    /// Its length in bytes.
    pub(super) length: usize,
    pub(super) fault: Option<Fault>,
}

/// Reads the value that a text begins with.
pub(super) fn value(text: &str) -> Option<Read> {
    let mut reader = Reader::new(text);
    let value = reader.value(DEPTH)?;
    Some(Read {
        value,
        length: reader.at,
        fault: reader.fault,
    })
}

/// Reads a text that is one value, with blanks and a full stop or semicolon behind it.
pub(super) fn alone(text: &str) -> Option<Read> {
    let read = value(text)?;
    let rest = text[read.length..].trim();
    matches!(rest, "" | ";" | "." | ",").then_some(read)
}

/// Reads a text that is one value without a fault.
pub(super) fn whole(text: &str) -> Option<Value> {
    let read = value(text)?;
    (read.fault.is_none() && text[read.length..].trim().is_empty()).then_some(read.value)
}

/// Reads a text from its beginning.
pub(super) struct Reader<'t> {
    text: &'t str,
    pub(super) at: usize,
    /// First fault of what was read.
    pub(super) fault: Option<Fault>,
}

impl<'t> Reader<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            fault: None,
        }
    }

    /// Notes that the text ends within a value.
    pub(super) fn is_cut(&mut self) {
        self.fault.get_or_insert(Fault::Incomplete);
    }

    /// Notes that a reading is a guess.
    pub(super) fn guess(&mut self, why: &str) {
        self.fault
            .get_or_insert_with(|| Fault::Unreadable(why.to_owned()));
    }

    /// Takes the commas between two items. `is_first` means that no item was read yet.
    pub(super) fn commas(&mut self, is_first: bool, close: char) {
        let mut count = 0;
        self.blanks();
        while self.take(',') {
            count += 1;
            self.blanks();
        }
        let is_end = self.peek().is_none_or(|c| c == close);
        if count > usize::from(!is_first) || (count == 0 && !is_first && !is_end) {
            self.guess("a comma is missing, or there is one too many");
        }
    }

    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn take(&mut self, expected: char) -> bool {
        let is_there = self.peek() == Some(expected);
        if is_there {
            self.at += expected.len_utf8();
        }
        is_there
    }

    pub(super) fn take_text(&mut self, expected: &str) -> bool {
        let is_there = self.rest().starts_with(expected);
        if is_there {
            self.at += expected.len();
        }
        is_there
    }

    /// Passes over blanks and comments.
    pub(super) fn blanks(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            self.at += rest.len() - trimmed.len();
            let end = if trimmed.starts_with("//") || trimmed.starts_with('#') {
                trimmed.find('\n').unwrap_or(trimmed.len())
            } else if trimmed.starts_with("/*") {
                trimmed.find("*/").map_or(trimmed.len(), |end| end + 2)
            } else {
                return;
            };
            self.at += end;
        }
    }

    pub(super) fn value(&mut self, depth: usize) -> Option<Value> {
        self.blanks();
        match self.peek()? {
            '{' if depth > 0 => self.object(depth - 1),
            '[' if depth > 0 => self.list('[', ']', depth - 1),
            // A tuple of Python.
            '(' if depth > 0 => self.list('(', ')', depth - 1),
            c if closing(c).is_some() => self.string(Self::ends_text).map(Value::String),
            c if c == '-' || c == '+' || c == '.' || c.is_ascii_digit() => self.number(),
            c if c.is_alphabetic() => self.word(),
            _ => None,
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.take('{');
        let mut object = Map::new();
        loop {
            self.commas(object.is_empty(), '}');
            if self.take('}') {
                return Some(Value::Object(object));
            }
            if self.rest().is_empty() {
                self.is_cut();
                return Some(Value::Object(object));
            }
            let key = self.key()?;
            self.blanks();
            if self.rest().is_empty() {
                self.is_cut();
                return Some(Value::Object(object));
            }
            if self.take('=') {
                self.guess("`=` is in place of `:`");
            } else if !self.take(':') {
                return None;
            }
            self.blanks();
            if self.rest().is_empty() {
                self.is_cut();
                return Some(Value::Object(object));
            }
            let value = self.value(depth)?;
            if object.contains_key(&key) {
                self.guess(&format!("`{key}` occurs twice"));
            }
            object.insert(key, value);
            self.blanks();
            // A comma may be missing between two members, and nothing else.
            let goes_on = self
                .peek()
                .is_none_or(|c| matches!(c, ',' | '}') || closing(c).is_some());
            goes_on.then_some(())?;
        }
    }

    fn key(&mut self) -> Option<String> {
        if self.peek().is_some_and(|c| closing(c).is_some()) {
            return self.string(|_| true);
        }
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
        let rest = self.rest();
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        (length > 0).then(|| {
            self.at += length;
            rest[..length].to_owned()
        })
    }

    fn list(&mut self, open: char, close: char, depth: usize) -> Option<Value> {
        self.take(open);
        let mut list = Vec::new();
        loop {
            self.commas(list.is_empty(), close);
            if self.take(close) {
                return Some(Value::Array(list));
            }
            if self.rest().is_empty() {
                self.is_cut();
                return Some(Value::Array(list));
            }
            list.push(self.value(depth)?);
            self.blanks();
            let goes_on = self
                .peek()
                .is_none_or(|c| matches!(c, ',' | '{' | '[') || c == close || closing(c).is_some());
            goes_on.then_some(())?;
        }
    }

    /// A text in any quotes, which one of them ends where `ends` says so.
    fn string(&mut self, ends: fn(&Self) -> bool) -> Option<String> {
        for triple in ["\"\"\"", "'''"] {
            if self.take_text(triple) {
                let rest = self.rest();
                let end = rest.find(triple).unwrap_or_else(|| {
                    self.is_cut();
                    rest.len()
                });
                self.at += (end + triple.len()).min(rest.len());
                return Some(rest[..end].to_owned());
            }
        }
        let open = self.peek()?;
        let close = closing(open)?;
        self.at += open.len_utf8();
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            match c {
                '\\' => self.escape(&mut text)?,
                c if c == close && ends(self) => return Some(text),
                c => {
                    if c == close {
                        self.guess("a quote within a text is not escaped");
                    }
                    text.push(c);
                }
            }
        }
        self.is_cut();
        Some(text)
    }

    /// Whether what follows a quote is what follows a text: else it is a part of it.
    fn ends_text(&self) -> bool {
        let rest = self.rest().trim_start();
        let Some(next) = rest.chars().next() else {
            return true;
        };
        match next {
            // In a sentence a comma goes on with a word, not with a value or key.
            ',' => {
                let behind = rest[1..].trim_start();
                let behind = behind.chars().next();
                behind.is_none_or(|c| !c.is_alphabetic())
                    || begins_word_value(rest[1..].trim_start())
            }
            ':' | '}' | ']' | ')' | ';' | '<' | '`' | '=' => true,
            // Two texts without a comma between, on lines of their own.
            c => closing(c).is_some() && self.rest().starts_with(['\n', '\r']),
        }
    }

    fn escape(&mut self, text: &mut String) -> Option<()> {
        let Some(c) = self.peek() else {
            return Some(());
        };
        self.at += c.len_utf8();
        if !matches!(
            c,
            'n' | 't' | 'r' | 'b' | 'f' | 'u' | '\n' | '\\' | '/' | '"' | '\'' | '`'
        ) {
            self.guess("a text has an unknown escape");
        }
        match c {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'u' => text.push(self.unicode()),
            '\n' => {}
            c => text.push(c),
        }
        Some(())
    }

    fn unicode(&mut self) -> char {
        let first = self.unit().unwrap_or_default();
        let code = match first {
            0xd800..0xdc00 if self.take_text("\\u") => match self.unit() {
                Some(low @ 0xdc00..0xe000) => 0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00),
                _ => first,
            },
            _ => first,
        };
        char::from_u32(code).unwrap_or_else(|| {
            self.guess("a text has half a surrogate pair");
            '\u{fffd}'
        })
    }

    /// The four digits of an escape.
    fn unit(&mut self) -> Option<u32> {
        let digits = self.rest().get(..4);
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match unit {
            Some(_) => self.at += 4,
            None => self.guess("a text has an escape without four digits"),
        }
        unit
    }

    fn number(&mut self) -> Option<Value> {
        let rest = self.rest();
        let is_part =
            |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E' | '_');
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let text = rest[..length].replace('_', "");
        let text = text.trim_start_matches('+');
        let integer = text.parse::<i64>().map(Number::from).ok();
        let integer = integer.or_else(|| text.parse::<u64>().map(Number::from).ok());
        let number = integer.or_else(|| {
            let float: f64 = text.parse().ok()?;
            Number::from_f64(float)
        })?;
        if large_integer(text).is_some() {
            self.guess("an integer has more than 64 bits");
        }
        if serde_json::from_str::<Number>(text).is_err() {
            self.guess("a number is not as JSON has them");
        }
        self.at += length;
        Some(Value::Number(number))
    }

    /// `true`, `None` and the like.
    fn word(&mut self) -> Option<Value> {
        let rest = self.rest();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let value = match &rest[..length] {
            "true" | "True" | "TRUE" => Value::Bool(true),
            "false" | "False" | "FALSE" => Value::Bool(false),
            "null" | "None" | "nil" | "undefined" => Value::Null,
            _ => return None,
        };
        self.at += length;
        Some(value)
    }
}

/// Whether a text begins with a word that is a value, or with a key that has no quotes.
fn begins_word_value(text: &str) -> bool {
    let length = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let (word, behind) = text.split_at(length);
    let is_value = matches!(word, "true" | "True" | "false" | "False" | "null" | "None");
    is_value || behind.trim_start().starts_with([':', '='])
}

/// What closes a text that this opens.
const fn closing(quote: char) -> Option<char> {
    match quote {
        '"' | '\'' | '`' => Some(quote),
        '\u{201c}' | '\u{201d}' => Some('\u{201d}'),
        '\u{2018}' | '\u{2019}' => Some('\u{2019}'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, expected: Value) {
        assert_eq!(whole(text), Some(expected), "{text}");
    }

    #[test]
    fn what_is_json_is_read_as_it_is() {
        for text in [
            r#"{"a": [1, -2.5, 1e3, true, null, "x\n\"y\" \u00e4\ud83e\udd80"], "b": {}}"#,
            "[]",
            r#""text""#,
            "0",
            "18446744073709551615",
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            let found = whole(text).unwrap();
            assert_eq!(
                found.to_string().replace("1000.0", "1000"),
                expected.to_string().replace("1000.0", "1000")
            );
        }
    }

    #[test]
    fn other_ways_of_writing_are_understood() {
        check(
            "{'a': 'b', c: True, d: None,}",
            json!({"a": "b", "c": true, "d": null}),
        );
        check("{“a”: “b”}", json!({"a": "b"}));
        check(
            "{\"a\": \"well, it is\", \"b\": 'x'}",
            json!({"a": "well, it is", "b": "x"}),
        );
        check(
            "{\"a\": 1, // one\n # two\n \"b\": 2 /* three */}",
            json!({"a": 1, "b": 2}),
        );
        check("{\"a\": \"two\nlines\"}", json!({"a": "two\nlines"}));
        check("(1, 'a')", json!([1, "a"]));
        check("{\"a\": \"\"\"x\"y\"\"\"}", json!({"a": "x\"y"}));
    }

    #[test]
    fn value_that_is_cut_off_is_recognised_and_incomplete() {
        for (text, expected) in [
            ("{\"a\": {\"b\": [1, 2", json!({"a": {"b": [1, 2]}})),
            ("{\"a\": \"b", json!({"a": "b"})),
            ("{\"a\": 1, \"b\":", json!({"a": 1})),
            ("{\"a\": 1, \"b", json!({"a": 1})),
            ("{\"a\": \"\"\"b", json!({"a": "b"})),
            ("{", json!({})),
        ] {
            let read = alone(text).unwrap();
            assert_eq!(
                (read.value, read.fault),
                (expected, Some(Fault::Incomplete)),
                "{text}"
            );
            assert_eq!(whole(text), None, "{text}");
        }
    }

    #[test]
    fn value_that_takes_a_guess_is_recognised_and_unreadable() {
        for text in [
            "{\"a\": \"say \"hi\" to them\", \"b\": 1}",
            "{'a': 'it's here'}",
            "{\"a\": 1\n\"b\": 2}",
            "{\"a\": 1,, \"b\": 2}",
            "[1 [2]]",
            "{a=1}",
            "{\"a\": 1, \"a\": 2}",
            "{\"a\": \"\\q\"}",
            "{\"a\": \"\\u12\"}",
            "{\"a\": \"\\ud83e\"}",
            "{\"a\": .5}",
            "{\"a\": 05}",
            "{\"a\": 18446744073709551616}",
        ] {
            let read = alone(text).unwrap_or_else(|| panic!("{text}"));
            assert!(matches!(read.fault, Some(Fault::Unreadable(_))), "{text}");
            assert_eq!(whole(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for text in [
            "",
            "hello",
            "{hello there}",
            "{\"a\" 1}",
            "[a, b]",
            "-",
            "{\"a\": b}",
            "}",
        ] {
            assert_eq!(alone(text), None, "{text}");
        }
        let read = value("{\"a\": 1} and more").unwrap();
        assert_eq!((read.value, read.length), (json!({"a": 1}), 8));
        assert!(whole(&"[".repeat(10_000)).is_none());
        let wide = format!("[{}]", "1,".repeat(100_000));
        assert!(whole(&wide).is_some());
    }
}
