//! What small models make of calls: printed as text in a dozen ways, with other names than were offered, and with
//! texts for numbers. What is meant is found out where it is clear.
//!
//! The forms are those that models document or were seen to print: marks of their own (`<tool_call>`, `[TOOL_CALLS]`,
//! `<|python_tag|>`, …), tags, JSON in fences or by itself, and Python. Behind a mark everything counts as a call. By
//! itself a value is one only where it names a tool that there is, has arguments that this takes, and is not shown as
//! an example.

mod fit;
mod lenient;
mod marked;
mod names;
mod pieces;
mod plain;
mod python;
mod shapes;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::tool::Tool;

/// Longest text in which calls are looked for.
const MAX_BYTES: usize = 64 * 1024;

/// How many names are told of that are like one that there is not.
const LIKE: usize = 5;

/// A call as it was said.
#[derive(Debug, Clone, PartialEq)]
struct Said {
    name: String,
    /// Its arguments by name; or all of them in a text, or nothing.
    named: Value,
    /// Those without a name.
    positional: Vec<Value>,
    /// Its name is the key that its arguments stand under, as it may be with any object.
    by_key: bool,
}

impl Said {
    fn new(name: &str, named: Value) -> Self {
        Self {
            name: name.to_owned(),
            named,
            positional: Vec::new(),
            by_key: false,
        }
    }

    fn written(call: python::Written) -> Self {
        Self {
            name: call.name,
            named: Value::Object(call.named),
            positional: call.positional,
            by_key: false,
        }
    }
}

/// A call that was made out.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    /// The tool, as the hub calls it; what was said where there is none such.
    pub tool: String,
    /// Its arguments, as the tool takes them where that is clear.
    pub arguments: Map<String, Value>,
}

/// What was found in a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recognised {
    /// The calls, in order.
    pub calls: Vec<Repaired>,
    /// The text without them.
    pub text: String,
}

/// The calls that are printed in a text; `None` where there are none.
#[must_use]
pub fn recognised(text: &str, tools: &[Arc<Tool>]) -> Option<Recognised> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let found = marked::found(text, tools).or_else(|| plain::found(text, tools))?;
    let calls = found.said.iter().map(|said| repaired_of(said, tools));
    let calls: Vec<Repaired> = calls.collect();
    (!calls.is_empty()).then_some(Recognised {
        calls,
        text: found.rest,
    })
}

/// A call that a server of a model told as one: its name and arguments put right.
#[must_use]
pub fn repaired(name: &str, arguments: &Value, tools: &[Arc<Tool>]) -> Repaired {
    repaired_of(&Said::new(name, arguments.clone()), tools)
}

fn repaired_of(said: &Said, tools: &[Arc<Tool>]) -> Repaired {
    match names::nearly(&said.name, tools) {
        Some(tool) => Repaired {
            tool: tool.name().to_owned(),
            arguments: fit::arguments(tool, &said.named, &said.positional),
        },
        None => Repaired {
            tool: said.name.clone(),
            arguments: said.named.as_object().cloned().unwrap_or_default(),
        },
    }
}

/// What a model is told that calls a tool which there is not.
#[must_use]
pub fn no_such_tool(name: &str, tools: &[Arc<Tool>]) -> String {
    let like = names::like(name, tools, LIKE);
    let name: String = name.chars().take(100).collect();
    match like.is_empty() {
        true => format!("There is no tool `{name}`, and none can be called now. Answer without."),
        false => format!(
            "There is no tool `{name}`. Tools that there are: {}. Call one of these, or answer without.",
            like.join(", ")
        ),
    }
}

/// Where in an answer a text stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// It is in a fence of Markdown that was shown.
    pub(crate) in_fence: bool,
    /// Nothing stands before it.
    pub(crate) is_beginning: bool,
    /// It goes on with a line of which something was shown.
    pub(crate) is_mid_line: bool,
}

/// Up to where a text that still comes may be shown: what follows may become a call.
pub(crate) fn shown_until(text: &str, tools: &[Arc<Tool>], place: Place) -> usize {
    if tools.is_empty() || text.len() > MAX_BYTES {
        return text.len();
    }
    marked::free_until(text, place.is_mid_line).min(plain::free_until(text, tools, place))
}

/// What begins a call that is printed, but for words that a sentence may have as well.
pub(crate) fn marks() -> impl Iterator<Item = &'static str> {
    marked::begins()
}

/// Calls found in a text, and the rest of it.
struct Found {
    said: Vec<Said>,
    rest: String,
}
