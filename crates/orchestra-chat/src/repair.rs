//! What small models make of calls: printed as text in a dozen ways, with other names than were offered, and with
//! texts for numbers. What is meant is found out where it is clear.
//!
//! The forms are those that models document or were seen to print: marks of their own (`<tool_call>`, `[TOOL_CALLS]`,
//! `<|python_tag|>`, …), tags, JSON in fences or by itself, and Python. Behind a mark everything counts as a call. By
//! itself a value is one only where it names a tool that there is, has arguments that this takes, and is not shown as
//! an example. A call is only made where the answer is nothing but calls, or `Thought: …` before an `Action:`.
//!
//! Only calls that are whole are made. What ends too early or takes a guess to read is recognised all the same, and has
//! a [`Fault`], which the model is given as the result of the call.

mod fit;
mod lenient;
mod marked;
mod names;
mod pieces;
mod plain;
mod python;
mod shapes;

use std::{fmt, sync::Arc};

use serde_json::{Map, Value};

use crate::{thinking::Fence, tool::Tool};

/// Longest text in which calls are looked for.
const MAX_BYTES: usize = 64 * 1024;

/// How many names are told of that are like one that there is not.
const LIKE: usize = 5;

/// Name of a call whose own name cannot be read.
const UNNAMED: &str = "unknown";

/// Reason not to make a call: its text is not certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The text ends before the call does.
    Incomplete,
    /// The text is not JSON, or not the form that it begins as.
    Unreadable(String),
    /// The arguments are a value, but not an object.
    NotAnObject,
    /// There are no arguments, and the tool requires some, or the text may end too early.
    Missing,
    /// The call is in a code fence behind other text, as an example is.
    Quoted,
    /// Other text is behind the call, on its line, or around it.
    Surrounded,
    /// The call is part of the thinking.
    Thought,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete => f.write_str("the call is incomplete: its text ends too early"),
            Self::Unreadable(why) => write!(f, "the call cannot be read: {why}"),
            Self::NotAnObject => f.write_str("the arguments are not a JSON object"),
            Self::Missing => {
                f.write_str("the arguments are missing; `{}` calls the tool without any")
            }
            Self::Quoted => f.write_str(
                "the call is in a code fence with other text, like an example; write it without the fence",
            ),
            Self::Surrounded => f.write_str(
                "other text is around the call, as around a quotation; repeat the call alone if you mean it",
            ),
            Self::Thought => f.write_str(
                "the call is within the thinking, which is not part of the answer; call tools after the thinking",
            ),
        }
    }
}

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
    /// Its arguments are the members beside its name, as the members of any object are.
    is_beside: bool,
    fault: Option<Fault>,
}

impl Said {
    fn new(name: &str, named: Value) -> Self {
        Self {
            name: name.to_owned(),
            named,
            positional: Vec::new(),
            by_key: false,
            is_beside: false,
            fault: None,
        }
    }

    /// A call of which nothing can be read.
    fn unreadable(fault: Fault) -> Self {
        Self::new("", Value::Null).with(Some(fault))
    }

    /// The same with a fault, unless it has one already.
    fn with(mut self, fault: Option<Fault>) -> Self {
        self.fault = self.fault.or(fault);
        self
    }

    fn written(call: python::Written) -> Self {
        Self {
            positional: call.positional,
            fault: call.fault,
            ..Self::new(&call.name, Value::Object(call.named))
        }
    }
}

/// A call that was made out.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    /// The tool, as the hub calls it; what was said where there is none such.
    pub tool: String,
    /// Its arguments, as the tool takes them where that is clear; none where it has a fault.
    pub arguments: Map<String, Value>,
    /// Reason not to make it.
    pub fault: Option<Fault>,
}

impl Repaired {
    /// The same call as part of the thinking.
    pub(crate) fn thought(self) -> Self {
        Self {
            arguments: Map::new(),
            fault: Some(Fault::Thought),
            ..self
        }
    }
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
    let fence = Fence::of(&marked::without_templates(text));
    let calls = found.said.into_iter().map(|said| {
        // Only servers write an empty list in place of an object.
        let is_list = match &said.named {
            Value::Array(_) => true,
            Value::String(text) => text.trim_start().starts_with('['),
            _ => false,
        };
        let call = repaired_of(&said.with(is_list.then_some(Fault::NotAnObject)), tools);
        match fence {
            Fence::No => call,
            // It may be behind the fence, where it has the fault of what is before it.
            Fence::Closed if call.fault.is_some() => call,
            Fence::Closed | Fence::Whole => call.thought(),
        }
    });
    let calls: Vec<Repaired> = calls.collect();
    (!calls.is_empty()).then_some(Recognised {
        calls,
        text: found.rest,
    })
}

/// Returns whether a text holds nothing but blanks and marks of templates.
pub(crate) fn is_nothing(text: &str) -> bool {
    marked::is_nothing(text)
}

/// A call that a model server reports as a call: its name and arguments put right. `null` and an empty list are a whole
/// call without arguments, an empty text may be the beginning of some.
#[must_use]
pub fn repaired(name: &str, arguments: &Value, tools: &[Arc<Tool>]) -> Repaired {
    let takes_none = |tool: &Arc<Tool>| {
        let required = tool.whole_schema()["required"].as_array();
        required.is_none_or(Vec::is_empty)
    };
    let is_nothing = arguments.is_null() || arguments.as_array().is_some_and(Vec::is_empty);
    let arguments = match is_nothing && names::nearly(name, tools).is_some_and(takes_none) {
        true => Value::Object(Map::new()),
        false => arguments.clone(),
    };
    repaired_of(&Said::new(name, arguments), tools)
}

fn repaired_of(said: &Said, tools: &[Arc<Tool>]) -> Repaired {
    let tool = names::nearly(&said.name, tools);
    let arguments = match (&said.fault, tool) {
        (Some(fault), _) => Err(fault.clone()),
        (None, Some(tool)) => {
            fit::arguments(tool, &said.named, &said.positional).and_then(|given| {
                let is_own = |name: &&String| tool.arguments().any(|own| own == *name);
                match given.keys().find(|name| said.is_beside && !is_own(name)) {
                    Some(other) => Err(Fault::Unreadable(format!("`{other}` is not an argument"))),
                    None => Ok(given),
                }
            })
        }
        (None, None) => Ok(said.named.as_object().cloned().unwrap_or_default()),
    };
    let name = match said.name.is_empty() {
        true => UNNAMED,
        false => &said.name,
    };
    let (arguments, fault) = match arguments {
        Ok(arguments) => (arguments, None),
        Err(fault) => (Map::new(), Some(fault)),
    };
    Repaired {
        tool: tool.map_or(name, |tool| tool.name()).to_owned(),
        arguments,
        fault,
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

/// The text for which a held text waits before it has to be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Any text.
    Any,
    /// A text such as the end of a fence.
    For(&'static str),
    /// The end of the answer.
    End,
}

impl Wait {
    /// Returns the wait of a text that is held back from its beginning.
    pub(crate) fn of(held: &str, tools: &[Arc<Tool>], place: Place) -> Self {
        match held.is_empty() {
            true => Self::Any,
            false if marked::begins_with(held, place.is_mid_line) => Self::End,
            false => plain::wait(held, tools, place),
        }
    }

    /// Returns whether a held text has to be looked at again. `looked` is the length up to which it was.
    pub(crate) fn is_over(self, held: &str, looked: usize) -> bool {
        let has_come = match self {
            Self::Any => true,
            Self::For(end) => {
                let from = looked.saturating_sub(end.len() - 1);
                let mut parts = held.as_bytes()[from..].windows(end.len());
                parts.any(|part| part == end.as_bytes())
            }
            Self::End => false,
        };
        has_come || held.len() > MAX_BYTES
    }
}

/// Marks that begin a printed call, in lower case.
pub(crate) fn marks() -> impl Iterator<Item = &'static str> {
    marked::begins()
}

/// Places of a mark in a text; both are in lower case.
pub(crate) fn places<'t>(folded: &'t str, mark: &'t str) -> impl Iterator<Item = usize> + 't {
    marked::places(folded, mark)
}

/// Calls found in a text, and the rest of it.
struct Found {
    said: Vec<Said>,
    rest: String,
}
