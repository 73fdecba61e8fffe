//! Metadata as YAML, written so that every reader takes it for what it is: whatever could pass for
//! another type is quoted, and nothing needs a rule of one version of YAML alone.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// From this depth on lists and mappings are written on one line: indenting would cost more than they
/// hold.
const FLOW_DEPTH: usize = 6;
/// How far a nested block is indented.
const INDENT: usize = 4;
/// How far what goes on behind `- ` is.
const ITEM: usize = 2;
/// Words that some version of YAML takes for no text.
const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// Writes fields as a block, each on lines of its own.
pub(super) fn write(fields: &Map<String, Value>) -> String {
    let mut out = String::new();
    mapping(&mut out, fields, 0, 0);
    out
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Writes a mapping; the first line is begun already where there is one.
fn mapping(out: &mut String, fields: &Map<String, Value>, indent: usize, depth: usize) {
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 || out.ends_with('\n') {
            pad(out, indent);
        }
        scalar(out, key);
        out.push(':');
        match value {
            Value::Object(fields) if !fields.is_empty() && depth < FLOW_DEPTH => {
                out.push('\n');
                mapping(out, fields, indent + INDENT, depth + 1);
            }
            Value::Array(items) if !items.is_empty() && depth < FLOW_DEPTH => {
                out.push('\n');
                list(out, items, indent + INDENT, depth + 1);
            }
            other => {
                out.push(' ');
                leaf(out, other, indent + INDENT);
            }
        }
    }
}

fn list(out: &mut String, items: &[Value], indent: usize, depth: usize) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 || out.ends_with('\n') {
            pad(out, indent);
        }
        out.push_str("- ");
        match item {
            Value::Object(fields) if !fields.is_empty() && depth < FLOW_DEPTH => {
                mapping(out, fields, indent + ITEM, depth + 1);
            }
            Value::Array(items) if !items.is_empty() && depth < FLOW_DEPTH => {
                list(out, items, indent + ITEM, depth + 1);
            }
            other => leaf(out, other, indent + INDENT),
        }
    }
}

/// Writes what begins on the line of its key, and ends the line.
fn leaf(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(text) if is_block(text) => {
            let whole = text.strip_suffix('\n');
            out.push_str(if whole.is_some() { "|\n" } else { "|-\n" });
            for line in whole.unwrap_or(text).split('\n') {
                if !line.is_empty() {
                    pad(out, indent);
                }
                out.push_str(line);
                out.push('\n');
            }
        }
        Value::String(text) => {
            scalar(out, text);
            out.push('\n');
        }
        other => {
            flow(out, other);
            out.push('\n');
        }
    }
}

/// Whether a text of several lines can stand as it is: neither its ends nor its lines are such that
/// readers might differ.
fn is_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let plain = |line: &str| {
        let clean = line.chars().all(|c| is_printable(c) || c == '\t');
        clean && (line.is_empty() || !line.trim().is_empty())
    };
    let begins = body.chars().next().is_some_and(|c| !c.is_whitespace());
    body.contains('\n') && begins && !body.ends_with('\n') && body.split('\n').all(plain)
}

fn scalar(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
    } else {
        quoted(out, text);
    }
}

/// Whether a text is one for every reader: it begins with a letter, is no word of YAML, and has no
/// character that could mean anything.
fn is_plain(text: &str) -> bool {
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let fits = match c {
            ':' => rest.peek().is_some_and(|next| *next != ' '),
            ' ' | '_' | '-' | '.' | '/' | '@' | '+' | '(' | ')' | ',' | ';' | '!' | '?' | '\'' => {
                true
            }
            c => c.is_alphanumeric(),
        };
        if !fits {
            return false;
        }
    }
    let begins = text.chars().next().is_some_and(char::is_alphabetic);
    begins && !text.ends_with(' ') && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether YAML takes a character as it is.
const fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}'
        | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_printable(c) => out.push(c),
            // All that is not printable is below U+10000.
            c => {
                // Writing into a text cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
        }
    }
    out.push('"');
}

/// Writes a value on one line.
fn flow(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(found) => number(out, found),
        Value::String(text) => quoted(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                flow(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                quoted(out, key);
                out.push_str(": ");
                flow(out, value);
            }
            out.push('}');
        }
    }
}

/// Integers as they are; what needs an exponent with a point and a sign, which the oldest readers
/// want.
fn number(out: &mut String, number: &Number) {
    let text = number.to_string();
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return out.push_str(&text);
    };
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['-', '+']) {
        ""
    } else {
        "+"
    };
    // Writing into a text cannot fail.
    let _ = write!(out, "{mantissa}{point}e{sign}{exponent}");
}
