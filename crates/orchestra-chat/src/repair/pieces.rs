//! Calls behind a mark, in every form in which models write them there.

use serde_json::{Map, Value};

use super::{
    Fault, Said, lenient,
    marked::{is_nothing, without_templates},
    python, shapes,
};

/// Prefix of tag names of some models.
const DSML: &str = "｜DSML｜";

/// Text between a name and its arguments behind `Action:`, in lower case.
const ACTION_INPUT: &str = "action input:";

/// The calls of a piece. `is_closed` means that its end mark is present.
pub(super) fn calls(mark: &str, inner: &str, is_closed: bool) -> Vec<Said> {
    let said = match mark {
        "action:" => return react(inner),
        "<function=" => function_tag(inner, is_closed).into_iter().collect(),
        "<invoke " => invoke(inner, is_closed).into_iter().collect(),
        "<｜dsml｜function_calls>" => of_nested(&inner.replace(DSML, "")),
        "<｜dsml｜invoke " => invoke(&inner.replace(DSML, ""), is_closed)
            .into_iter()
            .collect(),
        "to=functions." | "to=tool." => harmony(inner).into_iter().collect(),
        "functools[" => of_value(&format!("[{inner}")),
        _ => of_any(inner, is_closed),
    };
    let begins = inner.trim_start();
    if said.is_empty() && begins.starts_with(['{', '[']) {
        let fault = match lenient::value(begins) {
            Some(read) => read.fault.unwrap_or_else(|| {
                Fault::Unreadable("there is no name of a tool in it".to_owned())
            }),
            None => Fault::Unreadable("it is neither JSON nor another known form".to_owned()),
        };
        return vec![Said::unreadable(fault)];
    }
    said
}

fn of_any(inner: &str, is_closed: bool) -> Vec<Said> {
    let inner = without_fence(inner.trim());
    // Marks within a value are a part of its texts.
    let readers: [fn(&str) -> Vec<Said>; 2] = match inner.starts_with(['{', '[']) {
        true => [of_value, of_python],
        false => [of_nested, of_python],
    };
    let found = readers.iter().map(|read| read(inner));
    match found.into_iter().find(|said| !said.is_empty()) {
        Some(said) => said,
        None => of_pairs(inner, is_closed),
    }
}

/// The calls that a value is, with the fault of the value and of what follows directly behind it.
pub(super) fn calls_of(read: lenient::Read, behind: &str) -> Vec<Said> {
    let is_apart = behind.starts_with(|c: char| c.is_whitespace() || ";,.<".contains(c));
    let fault = match behind.is_empty() || is_apart {
        true => read.fault,
        false => read.fault.or_else(|| Some(followed())),
    };
    let said = shapes::calls(&read.value).into_iter();
    // A value that is cut off seems to contain something else too.
    let said = said.map(|said| match &fault {
        Some(_) => Said {
            fault: fault.clone(),
            ..said
        },
        None => said,
    });
    said.collect()
}

fn followed() -> Fault {
    Fault::Unreadable("other text follows it".to_owned())
}

/// The fault of what follows a call: only blanks, punctuation and marks of templates may.
fn fault_of_rest(rest: &str) -> Option<Fault> {
    let rest = rest.trim_matches(|c: char| c.is_whitespace() || ";,.`".contains(c));
    (!is_nothing(&without_tokens(&without_templates(rest)))).then(followed)
}

/// A text without tokens of templates, such as `<|eot_id|>`.
fn without_tokens(text: &str) -> String {
    let mut parts = text.split("<|");
    let mut left = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        left.push_str(part.split_once("|>").map_or(part, |(_, behind)| behind));
    }
    left
}

/// The fault of a call whose end is not there.
fn unless_closed(is_closed: bool) -> Option<Fault> {
    (!is_closed).then_some(Fault::Incomplete)
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
            "<function=" => function_tag(piece, false).into_iter().collect(),
            "<invoke " => invoke(piece, false).into_iter().collect(),
            "<tool_call>" => {
                let (inner, is_closed) = until(piece, "</tool_call>");
                calls("", inner, is_closed)
            }
            "<|tool_call_begin|>" => {
                section(piece, "<|tool_call_argument_begin|>", "<|tool_call_end|>")
            }
            _ => section(piece, "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
        };
        said.extend(found);
    }
}

/// The text before an end, and whether the end is there.
fn until<'t>(text: &'t str, end: &str) -> (&'t str, bool) {
    match text.split_once(end) {
        Some((before, _)) => (before, true),
        None => (text, false),
    }
}

/// `NAME<separator>{…}<end>`; where what stands first is `function`, the name comes behind the separator.
fn section(piece: &str, separator: &str, end: &str) -> Vec<Said> {
    let (piece, is_closed) = until(piece, end);
    let Some((name, arguments)) = piece.split_once(separator) else {
        return match of_value(piece) {
            said if said.is_empty() => {
                vec![Said::unreadable(Fault::Incomplete)]
            }
            said => said,
        };
    };
    let (name, arguments) = match name.trim() {
        "function" | "" => arguments
            .trim_start()
            .split_once('\n')
            .unwrap_or((arguments, "")),
        name => (name, arguments),
    };
    named(name, arguments, is_closed).into_iter().collect()
}

/// The calls of the values that a text begins with, one after the other, and the rest of the text.
pub(super) fn leading(text: &str) -> (Vec<Said>, &str) {
    let mut said = Vec::new();
    let mut left = text;
    while let Some(read) = lenient::value(left) {
        let behind = &left[read.length..];
        let calls = calls_of(read, behind);
        if calls.is_empty() {
            break;
        }
        said.extend(calls);
        left = behind.trim_start_matches(|c: char| c.is_whitespace() || c == ';' || c == ',');
        if !left.starts_with(['{', '[']) {
            break;
        }
    }
    (said, left)
}

/// `[{"name": …}]`, `{"name": …}`, or several one after the other.
fn of_value(inner: &str) -> Vec<Said> {
    let (mut said, left) = leading(inner.trim());
    if let Some(last) = said.pop() {
        said.push(last.with(fault_of_rest(left)));
    }
    said
}

fn of_python(inner: &str) -> Vec<Said> {
    let calls = python::calls(inner).into_iter().flatten();
    calls.map(Said::written).collect()
}

/// A name and its arguments behind it: `NAME {…}`, `NAME[ARGS]{…}`, or marked one by one.
fn of_pairs(inner: &str, is_closed: bool) -> Vec<Said> {
    if inner.contains("<arg_key>") {
        return arg_keys(inner, is_closed).into_iter().collect();
    }
    // Quotes of some models.
    let inner = inner.replace("<escape>", "\"").replace("<|\"|>", "\"");
    let inner = inner.strip_prefix("call:").unwrap_or(&inner);
    let mut said: Vec<Said> = Vec::new();
    let mut left = inner.trim();
    while !left.is_empty() {
        let length = left
            .find(|c: char| c.is_whitespace() || matches!(c, '{' | '[' | '<' | '('))
            .unwrap_or(left.len());
        let (name, behind) = left.split_at(length);
        let behind = behind.trim_start();
        let behind = behind.strip_prefix("[ARGS]").unwrap_or(behind).trim_start();
        if name.is_empty() || !(behind.is_empty() || behind.starts_with('{')) {
            return match said.pop() {
                // Text after the first is no call of this form.
                Some(last) => {
                    said.push(last.with(Some(followed())));
                    said
                }
                None => tagged(inner, is_closed).into_iter().collect(),
            };
        }
        let Some(read) = lenient::value(behind) else {
            // A name alone calls a tool without arguments.
            if behind.is_empty() {
                said.push(Said::new(name, Value::Null).with(unless_closed(is_closed)));
            } else {
                let why = "its arguments are not JSON".to_owned();
                said.push(Said::new(name, Value::Null).with(Some(Fault::Unreadable(why))));
            }
            return said;
        };
        left = behind[read.length..].trim_start();
        left = left
            .strip_prefix("[TOOL_CALLS]")
            .unwrap_or(left)
            .trim_start();
        said.push(Said::new(name, read.value).with(read.fault));
    }
    said
}

/// `NAME<arg_key>city</arg_key><arg_value>Rome</arg_value>`.
fn arg_keys(inner: &str, is_closed: bool) -> Option<Said> {
    let (name, mut left) = inner.split_once("<arg_key>")?;
    let mut arguments = Map::new();
    let mut fault = unless_closed(is_closed);
    loop {
        let pair = left.split_once("</arg_key>");
        let pair = pair.and_then(|(key, behind)| Some((key, behind.split_once("<arg_value>")?.1)));
        let Some((key, behind)) = pair else {
            fault = Some(Fault::Incomplete);
            break;
        };
        let (value, is_closed) = until(behind, "</arg_value>");
        fault = fault.or(unless_closed(is_closed));
        fault = fault.or(inserted(&mut arguments, key, value));
        match behind[value.len()..].split_once("<arg_key>") {
            Some((_, next)) => left = next,
            None => break,
        }
    }
    Some(Said::new(name.trim(), Value::Object(arguments)).with(fault))
}

/// Inserts an argument. Returns the fault where it is there already.
fn inserted(arguments: &mut Map<String, Value>, name: &str, text: &str) -> Option<Fault> {
    let name = name.trim().trim_matches(['"', '\'']);
    let before = arguments.insert(name.to_owned(), of_text(text));
    before.map(|_| Fault::Unreadable(format!("`{name}` occurs twice")))
}

/// `NAME>…</function>`, with arguments as JSON or as `<parameter=NAME>VALUE</parameter>`.
fn function_tag(inner: &str, is_closed: bool) -> Option<Said> {
    let (name, body) = inner.split_once('>').unwrap_or((inner, ""));
    let name = name.trim().trim_matches(['"', '\'']);
    let (body, has_end) = until(body, "</function>");
    let is_closed = is_closed || has_end;
    if !body.contains("<parameter=") {
        return named(name, body, is_closed);
    }
    let parts = body.split("<parameter=").skip(1);
    let parts = parts.map(|part| part.split_once('>'));
    Some(parameters(name, parts, is_closed))
}

/// A call whose arguments are parts of a name and a value, which `</parameter>` ends.
fn parameters<'t, N: AsRef<str>>(
    name: &str,
    parts: impl Iterator<Item = Option<(N, &'t str)>>,
    is_closed: bool,
) -> Said {
    let mut arguments = Map::new();
    let mut fault = unless_closed(is_closed);
    for part in parts {
        let Some((key, value)) = part else {
            fault = fault.or(Some(Fault::Incomplete));
            continue;
        };
        let (value, is_closed) = until(value, "</parameter>");
        fault = fault.or(unless_closed(is_closed));
        fault = fault.or(inserted(&mut arguments, key.as_ref(), value));
    }
    Said::new(name, Value::Object(arguments)).with(fault)
}

/// `name="NAME"><parameter name="city">Rome</parameter></invoke>`.
fn invoke(inner: &str, is_closed: bool) -> Option<Said> {
    let Some((head, body)) = inner.split_once('>') else {
        return Some(Said::unreadable(Fault::Incomplete));
    };
    let name = attribute(head, "name")?;
    let (body, has_end) = until(body, "</invoke>");
    let parts = body.split("<parameter ").skip(1).map(|part| {
        let (head, value) = part.split_once('>')?;
        Some((attribute(head, "name")?, value))
    });
    Some(parameters(&name, parts, is_closed || has_end))
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
fn tagged(inner: &str, is_closed: bool) -> Option<Said> {
    // The content of an element, and the text behind its end.
    let element = |name: &str| {
        let (_, behind) = inner.split_once(&format!("<{name}>"))?;
        let end = behind.split_once(&format!("</{name}>"));
        Some(end.map_or((behind, None), |(content, rest)| (content, Some(rest))))
    };
    let fault = |rest: Option<&str>| match rest {
        Some(_) if is_closed => None,
        Some(rest) => fault_of_rest(rest),
        None => Some(Fault::Incomplete),
    };
    let names = ["name", "tool_name", "function_name"];
    if let Some((name, behind_name)) = names.iter().find_map(|name| element(name)) {
        let bodies = ["arguments", "parameters", "args", "input"];
        let body = bodies.iter().find_map(|body| element(body));
        let (body, behind_body) = body.unwrap_or_default();
        let ends = behind_name.zip(behind_body);
        let rest = ends.and_then(|(name, body)| [name, body].into_iter().min_by_key(|s| s.len()));
        let body = body.trim();
        let said = match body.starts_with(['{', '[']) {
            true => named(name, body, true)?,
            false => of_elements(name.trim(), body),
        };
        return Some(said.with(fault(rest)));
    }
    let name = inner.trim().strip_prefix('<')?.split('>').next()?;
    let is_name = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || "_-.".contains(c));
    is_name.then_some(())?;
    let (body, rest) = element(name)?;
    Some(of_elements(name, body).with(fault(rest)))
}

/// A call whose arguments are elements, one beside the other.
fn of_elements(name: &str, text: &str) -> Said {
    let mut arguments = Map::new();
    let mut fault = None;
    let mut left = text;
    while let Some((_, behind)) = left.split_once('<') {
        let element = behind.split_once('>').and_then(|(name, behind)| {
            let (value, rest) = behind.split_once(&format!("</{name}>"))?;
            Some((name, value, rest))
        });
        let Some((name, value, rest)) = element else {
            fault = fault.or(Some(Fault::Incomplete));
            break;
        };
        fault = fault.or(inserted(&mut arguments, name, value));
        left = rest;
    }
    Said::new(name, Value::Object(arguments)).with(fault)
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
    named(name, behind, false)
}

/// A line with a name, and behind `Action Input:` its arguments; or a value that is the call.
fn react(inner: &str) -> Vec<Said> {
    let at = inner.to_ascii_lowercase().find(ACTION_INPUT);
    let Some(at) = at else {
        let said = of_value(without_fence(inner.trim()));
        if !said.is_empty() {
            return said;
        }
        let (line, more) = inner.trim().split_once('\n').unwrap_or((inner.trim(), ""));
        let said = of_python(line).into_iter();
        return said.map(|said| said.with(fault_of_rest(more))).collect();
    };
    let (first, behind) = (inner[..at].trim(), &inner[at + ACTION_INPUT.len()..]);
    let name = first.trim_matches(['`', '*', '"', '\'', ' ']);
    let behind = without_fence(behind.trim());
    match name.is_empty() || name.contains(char::is_whitespace) {
        true => Vec::new(),
        false => named(name, behind, false).into_iter().collect(),
    }
}

/// A name with the JSON of its arguments. A name alone is whole where its end is there.
fn named(name: &str, arguments: &str, is_closed: bool) -> Option<Said> {
    let arguments = without_fence(arguments.trim());
    let name = name.trim();
    if name.is_empty() {
        return None;
    }
    Some(match lenient::value(arguments) {
        Some(read) => {
            let rest = fault_of_rest(&arguments[read.length..]);
            Said::new(name, read.value).with(read.fault).with(rest)
        }
        None if arguments.is_empty() => Said::new(name, Value::Null).with(unless_closed(is_closed)),
        None => Said::new(name, Value::from(arguments)),
    })
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
    match body.rsplit_once("```") {
        // Text behind the fence is no part of it.
        Some((_, after)) if !is_nothing(&without_tokens(&without_templates(after))) => text,
        Some((body, _)) => body.trim(),
        None => body.trim(),
    }
}
