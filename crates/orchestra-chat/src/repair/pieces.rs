//! What stands behind a mark: the calls in it, in every way in which they are written there.

use serde_json::{Map, Value};

use super::{Said, lenient, python, shapes};

/// What some put before the names of their tags.
const DSML: &str = "｜DSML｜";

/// What stands between a name and its arguments behind `Action:`, in small letters.
const ACTION_INPUT: &str = "action input:";

/// The calls of a piece.
pub(super) fn calls(mark: &str, inner: &str) -> Vec<Said> {
    match mark {
        "action:" => react(inner),
        "<function=" => function_tag(inner).into_iter().collect(),
        "<invoke " => invoke(inner).into_iter().collect(),
        "<｜dsml｜function_calls>" => of_nested(&inner.replace(DSML, "")),
        "<｜dsml｜invoke " => invoke(&inner.replace(DSML, "")).into_iter().collect(),
        "to=functions." | "to=tool." => harmony(inner).into_iter().collect(),
        "functools[" => of_value(&format!("[{inner}")),
        _ => {
            let inner = without_fence(inner.trim());
            for read in [of_nested, of_value, of_python, of_pairs] {
                let calls = read(inner);
                if !calls.is_empty() {
                    return calls;
                }
            }
            Vec::new()
        }
    }
}

/// Calls with marks of their own within.
fn of_nested(inner: &str) -> Vec<Said> {
    let nested = [
        "<function=",
        "<invoke ",
        "<tool_call>",
        "<|tool_call_begin|>",
        "<｜tool▁call▁begin｜>",
    ];
    let mut said = Vec::new();
    let mut left = inner;
    loop {
        let places = nested
            .iter()
            .filter_map(|mark| Some((left.find(mark)?, *mark)));
        let Some((at, mark)) = places.min() else {
            return said;
        };
        let behind = &left[at + mark.len()..];
        let again = behind.find(mark).unwrap_or(behind.len());
        let (piece, rest) = behind.split_at(again);
        left = rest;
        let found = match mark {
            "<function=" => function_tag(piece).into_iter().collect(),
            "<invoke " => invoke(piece).into_iter().collect(),
            "<tool_call>" => {
                let end = piece.find("</tool_call>").unwrap_or(piece.len());
                calls("", &piece[..end])
            }
            "<|tool_call_begin|>" => {
                section(piece, "<|tool_call_argument_begin|>", "<|tool_call_end|>")
            }
            _ => section(piece, "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
        };
        said.extend(found);
    }
}

/// `NAME<separator>{…}<end>`; where what stands first is `function`, the name comes behind the separator.
fn section(piece: &str, separator: &str, end: &str) -> Vec<Said> {
    let piece = &piece[..piece.find(end).unwrap_or(piece.len())];
    let Some((name, arguments)) = piece.split_once(separator) else {
        return of_value(piece);
    };
    let (name, arguments) = match name.trim() {
        "function" | "" => arguments
            .trim_start()
            .split_once('\n')
            .unwrap_or((arguments, "")),
        name => (name, arguments),
    };
    named(name, arguments).into_iter().collect()
}

/// `[{"name": …}]`, `{"name": …}`, or several one after the other.
fn of_value(inner: &str) -> Vec<Said> {
    let mut said = Vec::new();
    let mut left = inner.trim();
    while let Some((value, length)) = lenient::value(left) {
        said.extend(shapes::calls(&value));
        left =
            left[length..].trim_start_matches(|c: char| c.is_whitespace() || c == ';' || c == ',');
        if !left.starts_with(['{', '[']) {
            break;
        }
    }
    said
}

fn of_python(inner: &str) -> Vec<Said> {
    let calls = python::calls(inner).into_iter().flatten();
    calls.map(Said::written).collect()
}

/// A name and its arguments behind it: `NAME {…}`, `NAME[ARGS]{…}`, or marked one by one.
fn of_pairs(inner: &str) -> Vec<Said> {
    if inner.contains("<arg_key>") {
        return arg_keys(inner).into_iter().collect();
    }
    // What some have for quotes.
    let inner = inner.replace("<escape>", "\"").replace("<|\"|>", "\"");
    let inner = inner.strip_prefix("call:").unwrap_or(&inner);
    let mut said = Vec::new();
    let mut left = inner.trim();
    while !left.is_empty() {
        let length = left
            .find(|c: char| c.is_whitespace() || matches!(c, '{' | '[' | '<' | '('))
            .unwrap_or(left.len());
        let (name, behind) = left.split_at(length);
        let behind = behind.trim_start();
        let behind = behind.strip_prefix("[ARGS]").unwrap_or(behind).trim_start();
        if name.is_empty() || !(behind.is_empty() || behind.starts_with('{')) {
            return tagged(inner).into_iter().collect();
        }
        let Some((arguments, length)) = lenient::value(behind) else {
            // A name alone calls a tool without arguments.
            if behind.is_empty() && said.is_empty() {
                said.push(Said::new(name, Value::Null));
            }
            return said;
        };
        said.push(Said::new(name, arguments));
        left = behind[length..].trim_start();
        left = left
            .strip_prefix("[TOOL_CALLS]")
            .unwrap_or(left)
            .trim_start();
    }
    said
}

/// `NAME<arg_key>city</arg_key><arg_value>Rome</arg_value>`.
fn arg_keys(inner: &str) -> Option<Said> {
    let (name, mut left) = inner.split_once("<arg_key>")?;
    let mut arguments = Map::new();
    loop {
        let (key, behind) = left.split_once("</arg_key>")?;
        let (_, behind) = behind.split_once("<arg_value>")?;
        let (value, behind) = behind.split_once("</arg_value>").unwrap_or((behind, ""));
        arguments.insert(key.trim().to_owned(), of_text(value));
        match behind.split_once("<arg_key>") {
            Some((_, next)) => left = next,
            None => return Some(Said::new(name.trim(), Value::Object(arguments))),
        }
    }
}

/// `NAME>…</function>`, with arguments as JSON or as `<parameter=NAME>VALUE</parameter>`.
fn function_tag(inner: &str) -> Option<Said> {
    let (name, body) = inner.split_once('>').unwrap_or((inner, ""));
    let name = name.trim().trim_matches(['"', '\'']);
    let body = body.split("</function>").next().unwrap_or(body);
    if body.contains("<parameter=") {
        let mut arguments = Map::new();
        for part in body.split("<parameter=").skip(1) {
            let (key, value) = part.split_once('>')?;
            let value = value.split("</parameter>").next().unwrap_or(value);
            arguments.insert(
                key.trim().trim_matches(['"', '\'']).to_owned(),
                of_text(value),
            );
        }
        return Some(Said::new(name, Value::Object(arguments)));
    }
    named(name, body)
}

/// `name="NAME"><parameter name="city">Rome</parameter></invoke>`.
fn invoke(inner: &str) -> Option<Said> {
    let (head, body) = inner.split_once('>')?;
    let name = attribute(head, "name")?;
    let mut arguments = Map::new();
    for part in body.split("<parameter ").skip(1) {
        let (head, value) = part.split_once('>')?;
        let value = value.split("</parameter>").next().unwrap_or(value);
        arguments.insert(attribute(head, "name")?, of_text(value));
    }
    Some(Said::new(&name, Value::Object(arguments)))
}

fn attribute(head: &str, name: &str) -> Option<String> {
    let (_, behind) = head.split_once(&format!("{name}="))?;
    let quote = behind.chars().next().filter(|c| matches!(c, '"' | '\''));
    let value = match quote {
        Some(quote) => behind[1..].split(quote).next()?,
        None => behind.split_whitespace().next()?,
    };
    Some(value.to_owned())
}

/// `<name>NAME</name><arguments>…`, or `<NAME><city>Rome</city></NAME>`.
fn tagged(inner: &str) -> Option<Said> {
    let element = |text: &str, name: &str| -> Option<String> {
        let (_, behind) = text.split_once(&format!("<{name}>"))?;
        let value = behind.split(&format!("</{name}>")).next()?;
        Some(value.to_owned())
    };
    let names = ["name", "tool_name", "function_name"];
    if let Some(name) = names.iter().find_map(|name| element(inner, name)) {
        let bodies = ["arguments", "parameters", "args", "input"];
        let body = bodies.iter().find_map(|body| element(inner, body));
        let body = body.unwrap_or_default();
        return match lenient::whole(&body) {
            Some(arguments) => Some(Said::new(name.trim(), arguments)),
            None => Some(Said::new(name.trim(), Value::Object(elements(&body)))),
        };
    }
    let name = inner.trim().strip_prefix('<')?.split('>').next()?;
    let is_name = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || "_-.".contains(c));
    is_name.then_some(())?;
    let body = element(inner, name)?;
    Some(Said::new(name, Value::Object(elements(&body))))
}

/// The elements of a text, one beside the other.
fn elements(text: &str) -> Map<String, Value> {
    let mut found = Map::new();
    let mut left = text;
    while let Some((_, behind)) = left.split_once('<') {
        let Some((name, behind)) = behind.split_once('>') else {
            break;
        };
        let Some((value, rest)) = behind.split_once(&format!("</{name}>")) else {
            left = behind;
            continue;
        };
        found.insert(name.trim().to_owned(), of_text(value));
        left = rest;
    }
    found
}

/// `NAME <|constrain|>json<|message|>{…}`.
fn harmony(inner: &str) -> Option<Said> {
    let length = inner
        .find(|c: char| c.is_whitespace() || c == '<' || c == '{')
        .unwrap_or(inner.len());
    let (name, behind) = inner.split_at(length);
    let behind = behind
        .split_once("<|message|>")
        .map_or(behind, |(_, body)| body);
    named(name, behind)
}

/// A line with a name, and behind `Action Input:` its arguments; or a value that is the call.
fn react(inner: &str) -> Vec<Said> {
    let at = inner.to_ascii_lowercase().find(ACTION_INPUT);
    let Some(at) = at else {
        let said = of_value(without_fence(inner.trim()));
        if !said.is_empty() {
            return said;
        }
        return of_python(inner.trim().lines().next().unwrap_or_default());
    };
    let (first, behind) = (inner[..at].trim(), &inner[at + ACTION_INPUT.len()..]);
    let name = first.trim_matches(['`', '*', '"', '\'', ' ']);
    match name.is_empty() || name.contains(char::is_whitespace) {
        true => Vec::new(),
        false => named(name, without_fence(behind.trim()))
            .into_iter()
            .collect(),
    }
}

/// A name with what stands for its arguments; a text that is no value is its only argument.
fn named(name: &str, arguments: &str) -> Option<Said> {
    let arguments = without_fence(arguments.trim());
    let value = lenient::value(arguments).map(|(value, _)| value);
    let value = match value {
        Some(value @ (Value::Object(_) | Value::Array(_) | Value::String(_))) => value,
        _ if arguments.is_empty() => Value::Null,
        _ => Value::from(arguments.lines().next().unwrap_or_default().trim()),
    };
    let name = name.trim();
    (!name.is_empty()).then(|| Said::new(name, value))
}

/// A value that is written without quotes where it is no other.
fn of_text(text: &str) -> Value {
    let trimmed = text.trim();
    match lenient::whole(trimmed) {
        // What is written as a number may be meant as a text: the tool's schema says which.
        Some(value @ (Value::Object(_) | Value::Array(_))) => value,
        _ => Value::from(trimmed),
    }
}

/// What stands in a fence of Markdown, where that is all there is.
pub(super) fn without_fence(text: &str) -> &str {
    let Some(behind) = text.strip_prefix("```") else {
        return text;
    };
    let (language, body) = behind.split_once('\n').unwrap_or(("", behind));
    let is_language = language.chars().all(|c| c.is_alphanumeric() || c == '_');
    let body = if is_language { body } else { behind };
    body.rsplit_once("```")
        .map_or(body, |(body, _)| body)
        .trim()
}
