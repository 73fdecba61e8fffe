//! Calls without a mark: a value, a fence or Python by itself that is meant as a call.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Fault, Found, Place, Said, Wait, fit, lenient,
    marked::{is_nothing, without_templates},
    names,
    pieces::{calls_of, leading, without_fence},
    python,
};
use crate::tool::Tool;

/// Words before a value by which it is shown rather than meant.
const SHOWN: [&str; 18] = [
    "example",
    "e.g.",
    "for instance",
    "such as",
    "looks like",
    "look like",
    "like this",
    "would be",
    "would return",
    "syntax",
    "schema",
    "definition",
    "you can",
    "you could",
    "you would",
    "you should",
    "sample",
    "documentation",
];

/// So much of the text before a value is looked at.
const BEFORE: usize = 400;

/// The longest remark behind a call at the beginning of a text.
const REMARK: usize = 200;

/// Length of a value that is held back until it names a tool.
const PATIENCE: usize = 300;

/// The calls of a text that has no marks.
pub(super) fn found(text: &str, tools: &[Arc<Tool>]) -> Option<Found> {
    let text = text.trim();
    of_beginning(text, tools)
        .or_else(|| of_python(text, tools))
        .or_else(|| of_name(text, tools))
        .or_else(|| of_end(text, tools))
}

/// Values that a text begins with, and hardly anything behind them. Where a remark is, they have a fault.
fn of_beginning(text: &str, tools: &[Arc<Tool>]) -> Option<Found> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let (said, left) = leading(text);
    let is_alone = is_nothing(left.trim_matches(['.', ';', ' ', '\n']));
    let is_meant = |said: &Said| is_meant(said, tools) && (is_alone || !said.by_key);
    let is_remark = is_alone || (left.len() <= REMARK && !left.contains("```") && !shows(left));
    (!said.is_empty() && is_remark && said.iter().all(is_meant)).then(|| {
        let fault = (!is_alone).then_some(Fault::Surrounded);
        let said = said.into_iter().map(|said| said.with(fault.clone()));
        Found {
            said: said.collect(),
            rest: left.trim().to_owned(),
        }
    })
}

/// A text that is nothing but calls of Python.
fn of_python(text: &str, tools: &[Arc<Tool>]) -> Option<Found> {
    let calls = python::calls(text)?;
    let said: Vec<Said> = calls.into_iter().map(Said::written).collect();
    said.iter()
        .all(|said| is_meant(said, tools))
        .then(|| Found {
            said,
            rest: String::new(),
        })
}

/// A text that is nothing but the name of a tool and an object.
fn of_name(text: &str, tools: &[Arc<Tool>]) -> Option<Found> {
    let open = text.find('{')?;
    let name = text[..open].trim().trim_end_matches(':').trim_end();
    let read = lenient::alone(&text[open..]).filter(|read| read.value.is_object())?;
    let said = Said::new(name, read.value).with(read.fault);
    (!name.contains(char::is_whitespace) && is_meant(&said, tools)).then(|| Found {
        said: vec![said],
        rest: String::new(),
    })
}

/// A fence or a value at the end of a text, behind words that do not show it as an example.
fn of_end(text: &str, tools: &[Arc<Tool>]) -> Option<Found> {
    let (before, inner) = match text.ends_with("```") {
        true => {
            let open = text[..text.len() - 3].rfind("```")?;
            // Within one line, the text is a code span.
            text[open..].contains('\n').then_some(())?;
            (&text[..open], without_fence(&text[open..]))
        }
        // One that was not closed, or a value on lines of its own.
        false => match text
            .rfind("\n```")
            .or_else(|| text.starts_with("```").then_some(0))
        {
            Some(open) if text[open..].matches("```").count() == 1 => {
                (&text[..open], without_fence(text[open..].trim_start()))
            }
            _ => {
                let open = line_that_opens(text)?;
                (&text[..open], &text[open..])
            }
        },
    };
    // Of several fences, none is the call that is meant.
    if shows(before) || before.contains("```") {
        return None;
    }
    let fault = (!is_nothing(&without_templates(before))).then_some(Fault::Surrounded);
    let said: Vec<Said> = match lenient::alone(inner) {
        Some(read) => calls_of(read, ""),
        None => {
            let calls = python::calls(inner)?;
            calls.into_iter().map(Said::written).collect()
        }
    };
    let is_meant = |said: &Said| is_meant(said, tools) && !said.by_key;
    (!said.is_empty() && said.iter().all(is_meant)).then(|| Found {
        said: { said.into_iter() }
            .map(|said| said.with(fault.clone()))
            .collect(),
        rest: before.trim().to_owned(),
    })
}

/// The first line that begins with a value which goes to the end.
fn line_that_opens(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let begins = at + line.len() - line.trim_start().len();
        if text[begins..].starts_with(['{', '[']) {
            return lenient::alone(&text[begins..]).map(|_| begins);
        }
        at += line.len();
    }
    None
}

/// Returns whether words present the following value as an example.
pub(super) fn shows(before: &str) -> bool {
    let mut from = before.len().saturating_sub(BEFORE);
    while !before.is_char_boundary(from) {
        from += 1;
    }
    let words = before[from..].to_lowercase();
    SHOWN.iter().any(|shown| words.contains(shown))
}

/// Whether what was said is a call of a tool that there is, with nothing that it does not take.
fn is_meant(said: &Said, tools: &[Arc<Tool>]) -> bool {
    let Some(tool) = names::meant(&said.name, tools) else {
        return false;
    };
    if !matches!(
        said.named,
        Value::Object(_) | Value::Null | Value::String(_) | Value::Array(_)
    ) {
        return false;
    }
    let own: Vec<&str> = tool.arguments().collect();
    // Tools that say nothing of their arguments take any.
    let takes_any = own.is_empty() && tool.whole_schema()["properties"].is_null();
    match fit::arguments(tool, &said.named, &said.positional) {
        Ok(given) => takes_any || given.keys().all(|key| own.contains(&key.as_str())),
        Err(_) => true,
    }
}

/// Up to where a text that still comes is surely no such call.
pub(super) fn free_until(text: &str, tools: &[Arc<Tool>], place: Place) -> usize {
    let mut at = 0;
    let mut in_fence = place.in_fence;
    for line in text.split_inclusive('\n') {
        let begins = at + line.len() - line.trim_start().len();
        let rest = &text[begins..];
        if at == 0 && place.is_mid_line {
            at += line.len();
            continue;
        }
        if in_fence {
            in_fence = !rest.starts_with("```");
            at += line.len();
            continue;
        }
        if let Some(behind) = rest.strip_prefix("```") {
            if holds_fence(behind, tools) {
                return begins;
            }
            in_fence = true;
        } else if may_open(rest, tools) && may_name(rest, tools) {
            return begins;
        }
        at += line.len();
    }
    // A fence that is being opened.
    let last = text.rfind('\n').map_or(0, |at| at + 1);
    let line = text[last..].trim_start();
    let is_line = last > 0 || !place.is_mid_line;
    if is_line && !in_fence && !line.is_empty() && "```".starts_with(line) {
        return text.len() - line.len();
    }
    if place.is_beginning
        && last == 0
        && may_be_python(text.trim_start().trim_start_matches('['), tools)
    {
        return text.len() - text.trim_start().len();
    }
    text.len()
}

/// Returns the wait of a text that is held back from its beginning.
pub(super) fn wait(held: &str, tools: &[Arc<Tool>], place: Place) -> Wait {
    // A value or call of Python that has begun does not become another text.
    let has_begun = held.contains(['{', '(', '"']) && names_tool(held, tools);
    if !has_begun || place.is_mid_line {
        return Wait::Any;
    }
    if let Some(behind) = held.strip_prefix("```") {
        let has_body = behind.contains('\n') && !behind.contains("```");
        return match has_body {
            true => Wait::For("```"),
            false => Wait::Any,
        };
    }
    let is_line = place.is_beginning && !held.contains('\n');
    match held.starts_with(['{', '[']) {
        true => Wait::End,
        false if is_line => Wait::For("\n"),
        false => Wait::Any,
    }
}

/// Whether a text begins as a value does that is a call: a link of Markdown does not.
fn may_open(text: &str, tools: &[Arc<Tool>]) -> bool {
    match text.strip_prefix('[').map(str::trim_start) {
        Some(inner) => {
            inner.is_empty() || inner.starts_with(['{', '"']) || may_be_python(inner, tools)
        }
        None => text.starts_with('{'),
    }
}

/// Whether a fence may hold a call, by its language and what it begins with.
fn holds_fence(behind: &str, tools: &[Arc<Tool>]) -> bool {
    let Some((language, body)) = behind.split_once('\n') else {
        // The language is still coming.
        let languages = [
            "json",
            "python",
            "py",
            "tool_code",
            "tool_call",
            "xml",
            "text",
        ];
        return languages
            .iter()
            .any(|language| language.starts_with(behind.trim()));
    };
    let body = body.trim_start();
    // It has ended, and more comes behind it.
    if let Some((inner, behind)) = body.split_once("```") {
        let is_over = !behind.trim().is_empty();
        return !is_over && (may_name(inner, tools) || may_be_python(inner, tools));
    }
    match language.trim() {
        "json" | "" | "xml" | "text" | "tool_call" | "tool_code" => {
            body.is_empty() || may_name(body, tools) || may_be_python(body, tools)
        }
        "python" | "py" => body.is_empty() || may_be_python(body, tools),
        _ => false,
    }
}

/// Whether a value names a tool, or may still come to it.
fn may_name(text: &str, tools: &[Arc<Tool>]) -> bool {
    text.len() < PATIENCE || names_tool(text, tools)
}

fn names_tool(text: &str, tools: &[Arc<Tool>]) -> bool {
    tools
        .iter()
        .any(|tool| text.contains(tool.shown()) || text.contains(tool.name()))
}

/// Whether a text begins with a call of a tool, or may still come to it.
fn may_be_python(text: &str, tools: &[Arc<Tool>]) -> bool {
    let text = text.strip_prefix("print(").unwrap_or(text);
    let begins = |name: &str| match text.strip_prefix(name) {
        Some(behind) => {
            let behind = behind.trim_start();
            let object = behind.strip_prefix(':').map_or(behind, str::trim_start);
            object.is_empty() || object.starts_with('{') || behind.starts_with('(')
        }
        None => !text.is_empty() && name.starts_with(text),
    };
    tools
        .iter()
        .any(|tool| begins(tool.shown()) || begins(tool.name()))
}
