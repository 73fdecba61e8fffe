//! Queries out of standard input: JSON, lines of JSON, or lines of text, as they come.

use std::{
    io::{self, BufRead as _, Read as _},
    thread,
};

use serde_json::Value;
use tokio::sync::mpsc;

/// The longest line of text, and the longest whole JSON.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Queries that are read before somebody takes them.
const AHEAD: usize = 64;

/// Members by which a query may be given.
const MEMBERS: [&str; 4] = ["query", "question", "prompt", "text"];

/// A query, or why what was read is none.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Query {
    /// What its writer calls it.
    pub(super) id: Option<Value>,
    /// What is asked.
    pub(super) text: Result<String, String>,
}

impl Query {
    fn broken(why: String) -> Self {
        Self {
            id: None,
            text: Err(why),
        }
    }

    /// What a value asks.
    fn of(value: Value) -> Self {
        let found = match &value {
            Value::String(text) => Some(text.clone()),
            Value::Object(members) => {
                let mut texts = MEMBERS
                    .iter()
                    .filter_map(|name| members.get(*name)?.as_str());
                texts.next().map(str::to_owned)
            }
            _ => None,
        };
        let id = value.get("id").cloned();
        let text = match found {
            Some(text) if text.trim().is_empty() => Err("the query is empty".to_owned()),
            Some(text) => Ok(text),
            None => Err(
                "not a query: expected a string, or an object such as {\"query\": \"…\"}"
                    .to_owned(),
            ),
        };
        Self { id, text }
    }
}

/// Reads standard input on a thread of its own, which ends with it or with the process.
pub(super) fn read() -> mpsc::Receiver<Query> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    thread::spawn(move || {
        let mut lines = Lines::default();
        lines.run(&mut io::stdin().lock(), &mut |query| {
            sender.blocking_send(query).is_ok()
        });
    });
    receiver
}

/// Reads queries out of lines.
#[derive(Debug, Default)]
struct Lines {
    /// JSON that has begun and does not end with its line.
    begun: Option<String>,
}

impl Lines {
    /// Gives every query to `take`, as long as that wants more.
    fn run(&mut self, from: &mut dyn io::BufRead, take: &mut dyn FnMut(Query) -> bool) {
        loop {
            let mut line = Vec::new();
            let read = from.take(MAX_BYTES as u64 + 1).read_until(b'\n', &mut line);
            let line = match read {
                Ok(0) => break,
                Ok(read) if read > MAX_BYTES => {
                    take(Query::broken(format!(
                        "a line exceeds {MAX_BYTES} bytes; the rest of the input is not read"
                    )));
                    return;
                }
                Ok(_) => String::from_utf8_lossy(&line).into_owned(),
                Err(error) => {
                    take(Query::broken(format!(
                        "standard input cannot be read: {error}"
                    )));
                    return;
                }
            };
            let line = line.strip_prefix('\u{feff}').unwrap_or(&line);
            if !self.line(line, take) {
                return;
            }
        }
        if let Some(begun) = self.begun.take() {
            whole(&begun, take);
        }
    }

    fn line(&mut self, line: &str, take: &mut dyn FnMut(Query) -> bool) -> bool {
        let is_whole = |line: &str| {
            line.trim_start().starts_with('{')
                && serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok()
        };
        // What is whole by itself is no part of an object that was begun and never ended.
        if let Some(begun) = self
            .begun
            .take_if(|begun| begun.starts_with('{') && is_whole(line))
        {
            let first = begun.lines().next().unwrap_or_default();
            let first: String = first.chars().take(80).collect();
            if !take(Query::broken(format!("incomplete JSON: {first}"))) {
                return false;
            }
        }
        if let Some(begun) = &mut self.begun {
            if begun.len() + line.len() > MAX_BYTES {
                take(Query::broken(format!(
                    "JSON of more than {MAX_BYTES} bytes"
                )));
                return false;
            }
            begun.push_str(line);
            return true;
        }
        let text = line.trim();
        if text.is_empty() {
            return true;
        }
        if !text.starts_with(['{', '[', '"']) {
            return take(Query::of(Value::from(text)));
        }
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Array(queries)) => queries.into_iter().all(|query| take(Query::of(query))),
            Ok(query) => take(Query::of(query)),
            // A line of text may begin so as well.
            Err(_) if is_text(text) => take(Query::of(Value::from(text))),
            // It goes on in the lines behind it.
            Err(error) if error.is_eof() => {
                self.begun = Some(line.trim_start().to_owned());
                true
            }
            Err(error) => take(Query::broken(format!("not valid JSON: {error}"))),
        }
    }
}

/// Whether what is no JSON was not meant to be: `"So," he said`, `[1] says`.
fn is_text(line: &str) -> bool {
    let within = line.strip_prefix('[').map(str::trim_start);
    line.starts_with('"')
        || within.is_some_and(|text| !text.is_empty() && !text.starts_with(['{', '[', '"', ']']))
}

/// JSON of several lines: one value behind the other.
fn whole(text: &str, take: &mut dyn FnMut(Query) -> bool) {
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let goes_on = match value {
            Ok(Value::Array(queries)) => queries.into_iter().all(|query| take(Query::of(query))),
            Ok(query) => take(Query::of(query)),
            Err(error) => {
                take(Query::broken(format!("not valid JSON: {error}")));
                false
            }
        };
        if !goes_on {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queries(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        Lines::default().run(&mut text.as_bytes(), &mut |query: Query| {
            let id = query.id.map(|id| format!("{id}: ")).unwrap_or_default();
            found.push(format!(
                "{id}{}",
                query.text.unwrap_or_else(|why| format!("! {why}"))
            ));
            true
        });
        found
    }

    #[test]
    fn every_form_is_understood() {
        for (text, expected) in [
            ("", vec![]),
            ("\n \n", vec![]),
            ("{\"query\": \"weather in NYC\"}", vec!["weather in NYC"]),
            (
                "{\"query\": \"a\"}\n{\"query\": \"b\", \"id\": 7}\n",
                vec!["a", "7: b"],
            ),
            ("[\"a\", {\"query\": \"b\"}]", vec!["a", "b"]),
            (
                "[\n  {\"query\": \"a\"},\n  {\"query\": \"b\"}\n]\n",
                vec!["a", "b"],
            ),
            (
                "{\n  \"query\": \"a\"\n}\n{\n  \"query\": \"b\"\n}",
                vec!["a", "b"],
            ),
            ("what is it?\nand why?\n", vec!["what is it?", "and why?"]),
            ("\u{feff}{\"question\": \"a\"}", vec!["a"]),
            ("\"a\"\n\"b\" is a letter\n", vec!["a", "\"b\" is a letter"]),
        ] {
            assert_eq!(queries(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_query_is_told_in_its_place() {
        let found = queries("[\"a\", 5, {\"q\": \"b\"}, \"\", \"c\"]");
        assert_eq!(
            (found.len(), found[0].as_str(), found[4].as_str()),
            (5, "a", "c")
        );
        assert!(found[1].starts_with("! not a query") && found[2].starts_with("! not a query"));
        assert_eq!(found[3], "! the query is empty");
        let found = queries("{\"query\": \"a\"}\n{broken}\n{\"query\": \"b\"}\n");
        assert_eq!((found[0].as_str(), found[2].as_str()), ("a", "b"));
        assert!(found[1].starts_with("! not valid JSON"));
        let found = queries("[\n\"a\",\n");
        assert!(found[0].starts_with("! not valid JSON"), "{found:?}");
    }
}
