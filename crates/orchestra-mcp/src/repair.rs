//! Repair of definitions, results and questions that servers send: a member that no client of the official
//! SDKs accepts is corrected or left out, and everything else stays as it came.
//!
//! The SDKs check a whole answer against the schema of the protocol, so one wrong member of one tool hides every tool.
//! `shapes` holds the table of what they accept, and `plain` makes JSON that their parsers read.
//! Nothing here logs or waits: the caller reports what was repaired.

mod blocks;
mod icons;
mod pattern;
mod plain;
mod questions;
mod schema;
mod shapes;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use orchestra_wire::{RawJson, Rope, write};
use reqwest::Url;
use serde_json::{Value, value::RawValue};

use shapes::{Need, Shape};

/// Maximum number of repairs that are reported for one value.
const MAX_REPORTED: usize = 8;

/// Longest path of a member that is reported, in bytes.
const MAX_PATH: usize = 120;

/// Definitions, results and questions that a client checks as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repairable {
    /// An item of `tools/list`.
    Tool,
    /// An item of `prompts/list`.
    Prompt,
    /// An item of `resources/list`.
    Resource,
    /// An item of `resources/templates/list`.
    Template,
    /// The result of `tools/call`.
    ToolResult,
    /// The result of `prompts/get`.
    PromptResult,
    /// The result of `resources/read`.
    ResourceResult,
    /// The result of `completion/complete`.
    Completion,
    /// The parameters of `elicitation/create`.
    Elicitation,
    /// The parameters of `sampling/createMessage`.
    Sampling,
}

/// Context of a value: facts that the value itself may lack.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'c> {
    /// The URI that was read, for contents without one.
    pub uri: Option<&'c str>,
    /// Prefix that makes an absolute URI of a resource's relative one.
    pub base: Option<&'c str>,
}

/// A value that clients accept, and what was changed for that.
#[derive(Debug)]
pub struct Repaired {
    /// The value; the same bytes where nothing was wrong.
    pub value: RawJson,
    /// One line for each repair; empty where nothing was wrong.
    pub repairs: Vec<String>,
}

/// Repairs a value. `None` when it lacks what identifies it, such as the name of a tool.
#[must_use]
pub fn repair(kind: Repairable, value: &RawJson, context: Context<'_>) -> Option<Repaired> {
    let mut notes = Notes::new(context);
    let plain = plain::plain(kind, value, &mut notes);
    let value = plain.as_ref().unwrap_or(value);
    let value = match fix(shapes::of(kind), value, &mut notes) {
        Fixed::Same => value.clone(),
        Fixed::Other(value) => value,
        Fixed::Gone => return None,
    };
    Some(Repaired {
        value,
        repairs: notes.finish(),
    })
}

/// Repairs the parameters of a question to a client. `None` when it has no such parameters, or cannot be repaired.
pub(crate) fn question(method: &str, params: &RawJson) -> Option<Repaired> {
    let kind = match method {
        "elicitation/create" => Repairable::Elicitation,
        "sampling/createMessage" => Repairable::Sampling,
        _ => return None,
    };
    repair(kind, params, Context::default())
}

/// Result of fitting a value to a shape.
enum Fixed {
    /// It fits as it is.
    Same,
    /// Another value that fits.
    Other(RawJson),
    /// It cannot be made to fit.
    Gone,
}

/// Repairs of one value, and where in it the current one is.
struct Notes<'c> {
    context: Context<'c>,
    path: Vec<String>,
    repairs: Vec<String>,
    unreported: usize,
    /// References of the schema at hand that lead nowhere, and names in it that validators refuse.
    unresolved: HashSet<String>,
    /// Whether clients compile it.
    is_compiled: bool,
    /// Whether its annotations for headers break the rules.
    has_wrong_headers: bool,
}

impl<'c> Notes<'c> {
    fn new(context: Context<'c>) -> Self {
        Self {
            context,
            path: Vec::new(),
            repairs: Vec::new(),
            unreported: 0,
            unresolved: HashSet::new(),
            is_compiled: false,
            has_wrong_headers: false,
        }
    }

    /// Runs `inner` one level deeper.
    fn within<T>(&mut self, key: impl Into<String>, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(key.into());
        let result = inner(self);
        self.path.pop();
        result
    }

    /// Records a repair at the current place.
    fn add(&mut self, what: &str) {
        if self.repairs.len() == MAX_REPORTED {
            self.unreported += 1;
            return;
        }
        let path = self.path.join(".");
        let end = path.floor_char_boundary(MAX_PATH);
        let path = match path.is_empty() {
            true => "it",
            false => &path[..end],
        };
        self.repairs.push(format!("{path} {what}"));
    }

    fn finish(mut self) -> Vec<String> {
        if self.unreported > 0 {
            self.repairs.push(format!("{} more", self.unreported));
        }
        self.repairs
    }
}

fn fix(shape: &Shape, value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let fits = match shape {
        Shape::Any => true,
        Shape::Text => is_text(value),
        Shape::Flag => matches!(value.as_str(), "true" | "false"),
        Shape::Number => number(value).is_some(),
        Shape::Fraction => number(value).is_some_and(|number| (0.0..=1.0).contains(&number)),
        Shape::Integer => return integer(value, notes),
        Shape::Token => is_text(value) || is_integer(value),
        Shape::Time => text(value).is_some_and(|text| is_time(&text)),
        Shape::Word(words) => text(value).is_some_and(|text| words.contains(&&*text)),
        Shape::Truth => return truth(value, notes),
        Shape::List(item) => return list(item, value, notes),
        Shape::Map(item) => return map(item, value, notes),
        Shape::Object(groups) => return object(groups, value, notes),
        Shape::By(fix) => return fix(value, notes),
    };
    match fits {
        true => Fixed::Same,
        false => Fixed::Gone,
    }
}

/// Fits a flag that some servers send as text or as a number.
fn truth(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let word = text(value).map(|text| text.to_ascii_lowercase());
    let flag = match word.as_deref().unwrap_or(value.as_str()) {
        "true" | "false" if word.is_none() => return Fixed::Same,
        "true" | "1" => "true",
        "false" | "0" => "false",
        _ => return Fixed::Gone,
    };
    notes.add("was no flag: rewritten");
    Fixed::Other(RawJson::from_static(flag))
}

/// Fits an integer. Some clients read no integer with a fraction or an exponent, even if its value is whole.
fn integer(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let Some(whole) = number(value).filter(|_| is_integer(value)) else {
        return Fixed::Gone;
    };
    let digits = value.as_str();
    if !digits.contains(['.', 'e', 'E']) && digits != "-0" {
        return Fixed::Same;
    }
    notes.add("was not written as an integer: rewritten");
    // Minus zero is zero.
    let digits = format!("{:.0}", whole + 0.0);
    Fixed::Other(RawJson::checked(digits.into()).unwrap_or_else(|_| RawJson::empty_object()))
}

/// Fits the flag of a failure.
fn failed(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let flag = value.parse::<Value>().ok();
    if !flag.is_none_or(|flag| !flag.is_boolean() && is_failure(&flag)) {
        return truth(value, notes);
    }
    notes.add("was no flag: rewritten");
    Fixed::Other(RawJson::from_static("true"))
}

/// Returns whether a flag of a result (`isError`) reports a failure: a word or a number of another meaning does.
pub(crate) fn is_failure(flag: &Value) -> bool {
    match flag {
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(word) => !["", "0", "false"].contains(&&*word.trim().to_ascii_lowercase()),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

fn list(shape: &Shape, value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let Some(items) = items(value) else {
        return Fixed::Gone;
    };
    let (mut fitting, mut changed) = (Vec::with_capacity(items.len()), false);
    for (at, item) in items.into_iter().enumerate() {
        notes.within(at.to_string(), |notes| match fix(shape, &item, notes) {
            Fixed::Same => fitting.push(item),
            Fixed::Other(other) => {
                changed = true;
                fitting.push(other);
            }
            Fixed::Gone => {
                changed = true;
                notes.add(&format!("is not {}: dropped", shape.expected()));
            }
        });
    }
    match changed {
        true => Fixed::Other(array(&fitting)),
        false => Fixed::Same,
    }
}

fn map(shape: &Shape, value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let Some(members) = value.members() else {
        return empty_object(value, notes);
    };
    let (mut object, mut changed) = (Object::default(), false);
    for member in members {
        let key = member.key;
        let fixed = notes.within(&*key, |notes| match fix(shape, &member.value, notes) {
            Fixed::Gone => {
                notes.add(&format!("is not {}: dropped", shape.expected()));
                Fixed::Gone
            }
            fixed => fixed,
        });
        changed |= object.put(key, &member.value, fixed);
    }
    match changed {
        true => Fixed::Other(object.finish()),
        false => Fixed::Same,
    }
}

fn object(groups: &[&[shapes::Member]], value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let known = || groups.iter().copied().flatten();
    let (value, mut changed) = match value.members() {
        Some(_) => (Cow::Borrowed(value), false),
        None => match empty_object(value, notes) {
            Fixed::Other(empty) => (Cow::Owned(empty), true),
            fixed => return fixed,
        },
    };
    let mut object = Object::default();
    let (mut seen, mut replaced) = (HashSet::new(), HashSet::new());
    let members: Vec<_> = value.members().into_iter().flatten().collect();
    // rmcp refuses an object with two members of one name. Most other parsers take the last one.
    let mut last = HashMap::new();
    for (at, member) in members.iter().enumerate() {
        if let Some(shape) = known().find(|known| known.name == member.key) {
            last.insert(shape.name, at);
        }
    }
    for (at, member) in members.into_iter().enumerate() {
        let Some(shape) = known().find(|known| known.name == member.key) else {
            object.put(member.key, &member.value, Fixed::Same);
            continue;
        };
        if last.get(shape.name) != Some(&at) {
            notes.within(shape.name, |notes| notes.add("occurs again: dropped"));
            changed = true;
            continue;
        }
        let fixed = notes.within(shape.name, |notes| {
            match fix(&shape.shape, &member.value, notes) {
                Fixed::Gone => {
                    let fate = match shape.need {
                        Need::Default(_) => {
                            replaced.insert(shape.name);
                            "replaced"
                        }
                        Need::Required | Need::Optional => "dropped",
                    };
                    notes.add(&format!("is not {}: {fate}", shape.shape.expected()));
                    Fixed::Gone
                }
                fixed => fixed,
            }
        });
        if !matches!(fixed, Fixed::Gone) {
            seen.insert(shape.name);
        }
        changed |= object.put(member.key, &member.value, fixed);
    }
    for member in known().filter(|member| !seen.contains(member.name)) {
        match member.need {
            Need::Optional => {}
            Need::Required => return Fixed::Gone,
            Need::Default(default) => {
                if !replaced.contains(member.name) {
                    notes.within(member.name, |notes| notes.add("was missing: added"));
                }
                object.put(member.name, &RawJson::from_static(default), Fixed::Same);
                changed = true;
            }
        }
    }
    match changed {
        true => Fixed::Other(object.finish()),
        false => Fixed::Same,
    }
}

/// Languages whose empty map is an empty array send `[]` for an object without members.
fn empty_object(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match items(value) {
        Some(items) if items.is_empty() => {
            notes.add("was an empty array: made an empty object");
            Fixed::Other(RawJson::empty_object())
        }
        _ => Fixed::Gone,
    }
}

/// An object that is put together member by member.
#[derive(Default)]
struct Object<'o> {
    members: Vec<(Cow<'o, str>, RawJson)>,
}

impl<'o> Object<'o> {
    /// Adds a member as it was fixed; returns whether that changed it.
    fn put(&mut self, key: impl Into<Cow<'o, str>>, value: &RawJson, fixed: Fixed) -> bool {
        let (value, changed) = match fixed {
            Fixed::Same => (value.clone(), false),
            Fixed::Other(other) => (other, true),
            Fixed::Gone => return true,
        };
        self.members.push((key.into(), value));
        changed
    }

    fn with(mut self, key: &'o str, value: &RawJson) -> Self {
        self.put(key, value, Fixed::Same);
        self
    }

    fn finish(self) -> RawJson {
        let mut rope = Rope::new();
        rope.push_byte(b'{');
        for (at, (key, value)) in self.members.iter().enumerate() {
            if at > 0 {
                rope.push_byte(b',');
            }
            write::string(&mut rope, key);
            rope.push_byte(b':');
            write::raw(&mut rope, value);
        }
        rope.push_byte(b'}');
        raw(rope)
    }
}

/// An array of values.
fn array(items: &[RawJson]) -> RawJson {
    let mut rope = Rope::new();
    rope.push_byte(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            rope.push_byte(b',');
        }
        write::raw(&mut rope, item);
    }
    rope.push_byte(b']');
    raw(rope)
}

/// A JSON string.
fn quoted(text: &str) -> RawJson {
    let mut rope = Rope::new();
    write::string(&mut rope, text);
    raw(rope)
}

fn raw(rope: Rope) -> RawJson {
    RawJson::checked(rope.into_vec().into()).unwrap_or_else(|_| RawJson::empty_object())
}

/// The elements of an array; `None` when it is none.
fn items(value: &RawJson) -> Option<Vec<RawJson>> {
    if !value.as_bytes().starts_with(b"[") {
        return None;
    }
    let items: Vec<&RawValue> = value.parse().ok()?;
    let frame = value.to_bytes();
    let item = |item| RawJson::from_frame(item, Some(&frame));
    Some(items.into_iter().map(item).collect())
}

fn is_text(value: &RawJson) -> bool {
    value.as_bytes().starts_with(b"\"")
}

/// A text; `None` for other values and for escapes that stand for no character.
fn text(value: &RawJson) -> Option<Cow<'_, str>> {
    let inner = value.as_str().strip_prefix('"')?.strip_suffix('"')?;
    match inner.contains('\\') {
        false => Some(Cow::Borrowed(inner)),
        true => value.parse().ok().map(Cow::Owned),
    }
}

fn number(value: &RawJson) -> Option<f64> {
    let number: f64 = value.parse().ok()?;
    number.is_finite().then_some(number)
}

/// Largest integer that JSON numbers of JavaScript hold exactly.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

fn is_integer(value: &RawJson) -> bool {
    number(value).is_some_and(|number| number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER)
}

/// Maximum hours of an offset, and digits behind the point of a second, that .NET reads.
const MAX_OFFSET: u32 = 14;
const MAX_FRACTION: usize = 16;

/// Returns whether a text is a date and time with an offset, as the TypeScript SDK checks it and .NET reads it.
fn is_time(text: &str) -> bool {
    let two = |part: &str, max: u32| {
        part.len() == 2
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && part.parse::<u32>().is_ok_and(|number| number <= max)
    };
    let Some((date, rest)) = text.split_once('T') else {
        return false;
    };
    let mut parts = date.split('-');
    let (Some(year), Some(month), Some(day), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let is_year = year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    let year: u32 = year.parse().unwrap_or(1);
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        "02" if is_leap => 29,
        "02" => 28,
        "04" | "06" | "09" | "11" => 30,
        _ => 31,
    };
    let is_date =
        is_year && year > 0 && two(month, 12) && month != "00" && two(day, days) && day != "00";
    let time = match rest.strip_suffix('Z') {
        Some(time) => Some(time),
        None => rest.rfind(['+', '-']).and_then(|at| {
            let (hours, minutes) = rest[at + 1..].split_once(':')?;
            let is_offset = two(hours, MAX_OFFSET) && two(minutes, 59);
            (is_offset && (hours < "14" || minutes == "00")).then(|| &rest[..at])
        }),
    };
    let mut parts = time.unwrap_or_default().splitn(3, ':');
    let (Some(hours), Some(minutes)) = (parts.next(), parts.next()) else {
        return false;
    };
    let seconds = parts.next().is_none_or(|seconds| {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
        let is_fraction =
            !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
        let is_fraction = is_fraction && fraction.len() <= MAX_FRACTION;
        two(whole, 59) && is_fraction
    });
    is_date && two(hours, 23) && two(minutes, 59) && seconds
}

/// Returns whether a URI is absolute, as the Python SDK checks it.
fn is_absolute(uri: &str) -> bool {
    Url::parse(uri).is_ok()
}
