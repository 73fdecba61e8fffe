//! What is remembered, for people.

use std::fmt::Write as _;

use serde_json::Value;

use super::desk::NO_PROJECT;
use crate::{
    commands::table,
    output::{in_a_line, printable},
};

/// The most characters of a text that stands in a line.
const LINE_CHARS: usize = 100;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn items(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["items"].as_array().into_iter().flatten()
}

/// The beginning of a text as part of a line.
fn brief(text: &str) -> String {
    let mut line = String::new();
    let mut left = LINE_CHARS;
    for word in text.split_whitespace() {
        let blank = usize::from(!line.is_empty());
        if left <= blank {
            line.push('…');
            break;
        }
        line.extend((blank > 0).then_some(' '));
        left -= blank;
        let (end, taken) = beginning(word, left);
        line.push_str(&word[..end]);
        left -= taken;
        if end < word.len() {
            line.push('…');
            break;
        }
    }
    in_a_line(&line)
}

/// Where the first so many characters of a word end, and how many it has of them.
fn beginning(word: &str, most: usize) -> (usize, usize) {
    let mut taken = 0;
    for (at, _) in word.char_indices() {
        if taken == most {
            return (at, taken);
        }
        taken += 1;
    }
    (word.len(), taken)
}

fn tags(value: &Value) -> String {
    let tags = value["tags"].as_array().into_iter().flatten();
    tags.filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn hits(answer: &Value) -> String {
    let mut shown = String::new();
    for item in items(answer) {
        let (summary, content) = (text(item, "summary"), text(item, "content"));
        let head = if summary.is_empty() { content } else { summary };
        // Writing to a text cannot fail.
        let _ = writeln!(
            shown,
            "{}  {:.3}  {}",
            in_a_line(text(item, "id")),
            item["score"].as_f64().unwrap_or_default(),
            brief(head)
        );
        let snippet = text(item, "snippet");
        let snippet = if snippet.is_empty() { content } else { snippet };
        if !snippet.is_empty() && snippet.trim() != head.trim() {
            let _ = writeln!(shown, "    {}", brief(snippet));
        }
        let why = match &item["why"] {
            Value::Array(reasons) => {
                let reasons = reasons.iter().filter_map(Value::as_str);
                reasons.collect::<Vec<_>>().join("; ")
            }
            why => why.as_str().unwrap_or_default().to_owned(),
        };
        if !why.is_empty() {
            let _ = writeln!(shown, "    found by: {}", brief(&why));
        }
    }
    shown
}

/// What is said where nothing was found or is listed.
pub(super) fn nothing(project: &str, is_empty: bool) -> String {
    let project = in_a_line(project);
    if is_empty {
        return format!(
            "no memories in {project}; `orchestra memory save TEXT` stores one, and `orchestra memory import \
             FILE` stores many"
        );
    }
    format!(
        "no memory in {project} matches; try other words, or list all: `orchestra memory list --project \
         {project} --state any`"
    )
}

pub(super) fn saved(answer: &Value) -> String {
    let id = in_a_line(text(answer, "id"));
    match answer["merged"].as_bool() {
        Some(true) => format!("merged with {id}, which has the same text\n"),
        _ => format!("saved {id}\n"),
    }
}

pub(super) fn list(answer: &Value) -> String {
    let rows: Vec<Vec<String>> = items(answer)
        .map(|item| {
            let mut end = String::new();
            if let Some(by) = item["superseded_by"].as_str() {
                end = format!("superseded by {by}");
            } else if let Some(at) = item["expires_at"].as_str() {
                end = format!("until {at}");
            }
            vec![
                text(item, "id").to_owned(),
                text(item, "created_at").to_owned(),
                brief(text(item, "summary")),
                tags(item),
                end,
            ]
        })
        .collect();
    let mut shown = table::lines(&["ID", "SAVED", "TEXT", "TAGS", "STATE"], &rows);
    if let Some(cursor) = answer["next_cursor"].as_str() {
        let (shown_count, total) = (rows.len(), &answer["total"]);
        let _ = writeln!(
            shown,
            "{shown_count} of {total}; --cursor {} shows the next ones",
            in_a_line(cursor)
        );
    }
    shown
}

/// The plain members of an object, one a line.
fn members(value: &Value, keys: &[&str]) -> String {
    let mut shown = String::new();
    for key in keys {
        let said = match &value[*key] {
            Value::String(said) => brief(said),
            Value::Array(_) => in_a_line(&tags(value)),
            _ => continue,
        };
        let _ = writeln!(shown, "{key}: {said}");
    }
    shown
}

pub(super) fn memory(answer: &Value) -> String {
    let keys = [
        "id",
        "project",
        "summary",
        "source",
        "source_id",
        "tags",
        "created_at",
        "updated_at",
        "expires_at",
        "superseded_by",
        "version",
    ];
    let content = printable(text(answer, "content"));
    format!("{}\n{content}\n", members(answer, &keys))
}

pub(super) fn session(answer: &Value) -> String {
    let keys = ["session_id", "project", "started_at", "ended_at"];
    let mut shown = members(answer, &keys);
    let _ = writeln!(shown, "\n{}", printable(text(answer, "summary")));
    for event in answer["events"].as_array().into_iter().flatten() {
        let (at, kind) = (text(event, "timestamp"), text(event, "type"));
        let _ = writeln!(
            shown,
            "{}  {}: {}",
            in_a_line(at),
            in_a_line(kind),
            brief(text(event, "summary"))
        );
    }
    shown
}

pub(super) fn forgotten(answer: &Value) -> String {
    let ids = answer["forgotten"].as_array().into_iter().flatten();
    let ids: Vec<&str> = ids.filter_map(Value::as_str).collect();
    format!("{} forgotten\n", in_a_line(&ids.join(", ")))
}

pub(super) fn stats(answer: &Value) -> String {
    if items(answer).next().is_none() {
        return format!("{NO_PROJECT}\n");
    }
    let keys = [
        "memories",
        "memory_bytes",
        "superseded",
        "expired",
        "sessions",
        "session_bytes",
    ];
    let rows: Vec<Vec<String>> = items(answer)
        .map(|item| {
            let mut row = vec![text(item, "project").to_owned()];
            row.extend(keys.map(|key| item[key].to_string()));
            row
        })
        .collect();
    table::lines(
        &[
            "PROJECT",
            "MEMORIES",
            "BYTES",
            "SUPERSEDED",
            "EXPIRED",
            "SESSIONS",
            "BYTES",
        ],
        &rows,
    )
}

#[cfg(test)]
mod tests {
    use super::{LINE_CHARS, brief};

    #[test]
    fn a_line_is_cut_by_its_characters() {
        assert_eq!(brief("a  b\nc"), "a b c");
        let whole = "é".repeat(LINE_CHARS);
        assert_eq!(brief(&whole), whole);
        for long in [
            "é".repeat(40_000),
            "to be ".repeat(8_000),
            format!("{whole} b"),
        ] {
            let line = brief(&long);
            assert!(line.ends_with('…'), "{line}");
            assert!(line.chars().count() <= LINE_CHARS + 1, "{line}");
        }
    }
}
