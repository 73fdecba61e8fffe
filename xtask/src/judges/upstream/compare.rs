//! Comparison of two recordings of a server. Texts are compared byte for byte, objects whatever the order of their
//! members.
//!
//! In 2026-07-28 a result names the program that sent it, which is the gateway for a client of the gateway: this member
//! of answers alone is always left out. A server whose answers differ from run to run has a rule for it in the list.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::Value;

/// Each list of a recording, and the member that names its items.
const LISTS: [(&str, &str); 4] = [
    ("tools", "name"),
    ("prompts", "name"),
    ("resources", "uri"),
    ("templates", "uriTemplate"),
];

/// Member of `_meta` with name and version of the server.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Maximum number of characters of a value in a difference.
const MAX_VALUE: usize = 120;

/// A difference between two runs of a server that does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// `async NAME: ` before the message of an error, which is there only when the function NAME had to wait.
    Frames,
    /// A date with a time, as in `2026-11-29T12:00:00`.
    Times,
}

/// Result of a comparison.
#[derive(Debug)]
pub(super) struct Comparison {
    /// Number of tools directly and through the gateway.
    pub(super) tools: (usize, usize),
    /// Number of equal answers, and of all.
    pub(super) answers: (usize, usize),
    pub(super) differences: Vec<String>,
    /// Duration of both recordings.
    pub(super) seconds: f32,
}

impl Rule {
    /// Parses the name of a rule.
    ///
    /// # Errors
    /// When there is no such rule.
    pub(super) fn parse(name: &str) -> Result<Self> {
        match name {
            "frames" => Ok(Self::Frames),
            "times" => Ok(Self::Times),
            _ => bail!("unknown rule {name:?}: there are frames, times"),
        }
    }

    fn apply(self, text: &str) -> String {
        match self {
            Self::Frames => without_frames(text),
            Self::Times => without_times(text),
        }
    }
}

/// Compares a recording through the gateway with the direct one.
pub(super) fn compare(mut direct: Value, mut through: Value, rules: &[Rule]) -> Comparison {
    for recording in [&mut direct, &mut through] {
        normalise(&mut recording["answers"], rules);
    }
    let mut differences = Vec::new();
    for (list, key) in LISTS {
        let (direct, through) = (by_name(&direct, list, key), by_name(&through, list, key));
        for (name, item) in &direct {
            match through.get(name) {
                Some(other) => differ(&format!("{list} {name}: "), item, other, &mut differences),
                None => differences.push(format!("{list} {name}: missing through the gateway")),
            }
        }
        for name in through.keys().filter(|name| !direct.contains_key(*name)) {
            differences.push(format!("{list} {name}: only through the gateway"));
        }
    }
    let count = |recording: &Value, list: &str| recording[list].as_array().map_or(0, Vec::len);
    let all = count(&direct, "answers");
    let mut equal = 0;
    for number in 0..all {
        let before = differences.len();
        let place = format!("answer {}: ", number + 1);
        let answers = [&direct, &through].map(|recording| &recording["answers"][number]);
        differ(&place, answers[0], answers[1], &mut differences);
        equal += usize::from(differences.len() == before);
    }
    Comparison {
        tools: (count(&direct, "tools"), count(&through, "tools")),
        answers: (equal, all),
        differences,
        seconds: 0.0,
    }
}

/// Indexes the items of a list by their names.
fn by_name<'r>(recording: &'r Value, list: &str, key: &str) -> BTreeMap<&'r str, &'r Value> {
    let items = recording[list].as_array().into_iter().flatten();
    let named = items.map(|item| (item[key].as_str().unwrap_or_default(), item));
    named.collect()
}

/// Adds a line for each place at which two values differ.
fn differ(place: &str, direct: &Value, through: &Value, differences: &mut Vec<String>) {
    match (direct, through) {
        (Value::Object(one), Value::Object(two)) => {
            for (name, value) in one {
                let place = format!("{place}/{name}");
                match two.get(name) {
                    Some(other) => differ(&place, value, other, differences),
                    None => differences.push(format!("{place} missing: {}", short(value))),
                }
            }
            for (name, value) in two.iter().filter(|(name, _)| !one.contains_key(*name)) {
                differences.push(format!("{place}/{name} added: {}", short(value)));
            }
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            for (number, (value, other)) in one.iter().zip(two).enumerate() {
                differ(&format!("{place}/{number}"), value, other, differences);
            }
        }
        _ if direct == through => {}
        _ => {
            let (direct, through) = (short(direct), short(through));
            differences.push(format!("{place} {direct} became {through}"));
        }
    }
}

/// Formats the beginning of a value as JSON.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Applies the rules to each text, and leaves out the name of the server.
fn normalise(value: &mut Value, rules: &[Rule]) {
    match value {
        Value::String(text) => {
            for rule in rules {
                *text = rule.apply(text);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalise(item, rules)),
        Value::Object(members) => {
            if let Some(Value::Object(meta)) = members.get_mut("_meta") {
                meta.remove(SERVER_INFO);
                if meta.is_empty() {
                    members.remove("_meta");
                }
            }
            members
                .values_mut()
                .for_each(|member| normalise(member, rules));
        }
        _ => {}
    }
}

/// Removes the names of asynchronous functions before messages of errors.
fn without_frames(text: &str) -> String {
    const BEFORE: &str = "Error: async ";
    let mut parts = text.split(BEFORE);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let message = part.split_once(": ").filter(|(name, _)| {
            let mut characters = name.chars();
            characters.all(|character| character.is_alphanumeric() || "._".contains(character))
        });
        match message {
            Some((_, message)) => result.push_str(&format!("Error: {message}")),
            None => result.push_str(&format!("{BEFORE}{part}")),
        }
    }
    result
}

/// Replaces each date with a time by `TIME`.
fn without_times(text: &str) -> String {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let is_time = |bytes: &[u8]| {
        let mut pairs = FORM.iter().zip(bytes);
        bytes.len() == FORM.len()
            && pairs.all(|(form, byte)| match form {
                b'0' => byte.is_ascii_digit(),
                form => form == byte,
            })
    };
    let mut result = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if rest.as_bytes().get(..FORM.len()).is_some_and(is_time) {
            result.push_str("TIME");
            rest = &rest[FORM.len()..];
        } else {
            result.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn recording(tool: Value, answer: Value) -> Value {
        json!({"tools": [tool], "prompts": [], "resources": [], "templates": [], "answers": [answer]})
    }

    #[test]
    fn equal_recordings_have_no_difference() {
        let one = recording(json!({"name": "a", "b": 1}), json!({"result": {}}));
        let other = recording(json!({"b": 1, "name": "a"}), json!({"result": {}}));
        let comparison = compare(one, other, &[]);
        assert_eq!(comparison.tools, (1, 1));
        assert_eq!(comparison.answers, (1, 1));
        assert!(comparison.differences.is_empty(), "{comparison:?}");
    }

    #[test]
    fn each_difference_names_its_place_and_both_values() {
        let one = recording(
            json!({"name": "a", "inputSchema": {"type": "object", "x": 1}, "d": [1, 2]}),
            json!({"result": {"content": [{"text": "yes"}]}}),
        );
        let other = recording(
            json!({"name": "a", "inputSchema": {"type": "object", "y": 2}, "d": [1]}),
            json!({"error": {"code": 1}}),
        );
        let mut comparison = compare(one, other, &[]);
        assert_eq!(comparison.answers, (0, 1));
        // The order of members depends on the features that other crates select.
        comparison.differences.sort();
        assert_eq!(
            comparison.differences,
            [
                "answer 1: /error added: {\"code\":1}",
                "answer 1: /result missing: {\"content\":[{\"text\":\"yes\"}]}",
                "tools a: /d [1,2] became [1]",
                "tools a: /inputSchema/x missing: 1",
                "tools a: /inputSchema/y added: 2",
            ]
        );
    }

    #[test]
    fn missing_and_added_tools_are_differences() {
        let tool = |name: &str| recording(json!({"name": name}), json!({}));
        let comparison = compare(tool("a"), tool("b"), &[]);
        assert_eq!(
            comparison.differences,
            [
                "tools a: missing through the gateway",
                "tools b: only through the gateway"
            ]
        );
    }

    #[test]
    fn name_of_the_server_does_not_count_in_answers() {
        let answer = |name: &str| json!({"result": {"_meta": {SERVER_INFO: {"name": name}}}});
        let one = recording(json!({"name": "a"}), answer("git"));
        let other = recording(json!({"name": "a"}), answer("orchestra"));
        assert!(compare(one, other, &[]).differences.is_empty());
    }

    #[test]
    fn frames_are_left_out_only_before_messages_of_errors() {
        for (text, expected) in [
            ("Error: async start.now: no file", "Error: no file"),
            (
                "a: Error: async b: c Error: async d: e",
                "a: Error: c Error: e",
            ),
            (
                "Error: async calls fail: here",
                "Error: async calls fail: here",
            ),
            ("async a: b", "async a: b"),
        ] {
            assert_eq!(without_frames(text), expected);
        }
    }

    #[test]
    fn times_count_only_without_the_rule() {
        let answer = |time: &str| {
            recording(
                json!({"name": "a"}),
                json!({"text": format!("ü {time}+00:00")}),
            )
        };
        let [one, other] = ["2026-11-29T05:47:41", "2026-11-30T00:00:00"].map(answer);
        assert!(
            !compare(one.clone(), other.clone(), &[])
                .differences
                .is_empty()
        );
        assert!(compare(one, other, &[Rule::Times]).differences.is_empty());
        assert_eq!(without_times("at 2026-11-29 12:00"), "at 2026-11-29 12:00");
    }
}
