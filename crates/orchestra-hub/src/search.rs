//! The toolset `search`: two tools that reach all others, for models whose context is dear.

use std::{cmp::Reverse, fmt, sync::OnceLock};

use orchestra_wire::{RawJson, Revision};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{json, value::RawValue};

use crate::{
    Annotations, Content, Cost, LongWork, Outcome, Target, ToolDescriptor, ToolResult,
    arguments::parse_arguments,
    listing::{self, Listing},
    view::View,
};

const FIND: &str = "find_tools";
const CALL: &str = "call_tool";

/// Names of the tools of this toolset.
pub const TOOLS: [&str; 2] = [FIND, CALL];

/// Tools that one search answers unless told otherwise, and at most.
const DEFAULT_LIMIT: usize = 10;
const MAX_LIMIT: usize = 50;

/// What a call in this toolset turns out to be.
pub(crate) enum Resolved {
    /// The call of another tool.
    Inner(Target),
    /// Answered here.
    Answer(Outcome),
    /// Neither of the two tools.
    NotOurs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindArguments {
    query: Option<String>,
    limit: Option<Limit>,
    cursor: Option<Cursor>,
}

/// How many tools one page holds: 1 to [`MAX_LIMIT`].
struct Limit(usize);

/// How many tools the pages before held, written in decimal.
struct Cursor(usize);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallArguments<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Found<'a> {
    items: Vec<FoundTool<'a>>,
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct FoundTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: &'a RawValue,
}

pub(crate) fn descriptors() -> &'static [ToolDescriptor; 2] {
    static BOTH: OnceLock<[ToolDescriptor; 2]> = OnceLock::new();
    BOTH.get_or_init(|| {
        let find = json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words to look for; without, all are listed."},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
                "cursor": {"type": "string", "description": "next_cursor of the page before."}
            }
        });
        let call = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "arguments": {"type": "object"}
            },
            "required": ["name"]
        });
        [
            descriptor(
                FIND,
                "Find tools by words; answers names, descriptions and schemas.",
                &find,
            ),
            descriptor(CALL, "Call a tool found with find_tools.", &call),
        ]
    })
}

fn descriptor(name: &str, description: &str, schema: &serde_json::Value) -> ToolDescriptor {
    ToolDescriptor {
        name: name.to_owned(),
        title: None,
        description: Some(description.to_owned()),
        input_schema: RawJson::of(schema).expect("a JSON value has a JSON form"),
        lean_schema: None,
        output_schema: None,
        annotations: annotations(name),
        group: "search".into(),
        cost: Cost::Quick,
        long: LongWork::Never,
        definition: None,
    }
}

/// Searching reads the catalog; a call may be of any tool, also of one that starts commands.
fn annotations(name: &str) -> Annotations {
    let calls = name == CALL;
    Annotations {
        read_only: Some(!calls),
        destructive: calls.then_some(true),
        idempotent: calls.then_some(false),
        open_world: Some(calls),
    }
}

pub(crate) fn listing(revision: Revision) -> Listing {
    Listing::of(descriptors(), revision, listing::tool)
}

pub(crate) fn resolve(view: &View, name: &str, arguments: &RawJson) -> Resolved {
    match name {
        FIND => match parse_arguments::<FindArguments>(arguments) {
            Ok(arguments) => Resolved::Answer(find(view, &arguments)),
            Err(error) => Resolved::Answer(failure(error)),
        },
        CALL => match parse_arguments::<CallArguments<'_>>(arguments) {
            Ok(inner) => Resolved::Inner(Target::Tool {
                name: inner.name,
                arguments: inner
                    .arguments
                    .map_or_else(RawJson::empty_object, RawJson::from_raw),
            }),
            Err(error) => Resolved::Answer(failure(error)),
        },
        _ => Resolved::NotOurs,
    }
}

/// The tool that a call of `call_tool` is for.
pub(crate) fn inner_name(name: &str, arguments: &RawJson) -> Option<String> {
    if name != CALL {
        return None;
    }
    let inner = parse_arguments::<CallArguments<'_>>(arguments);
    inner.ok().map(|inner| inner.name)
}

fn failure(text: String) -> Outcome {
    Outcome::Tool(ToolResult {
        content: vec![Content::Text(text)],
        is_error: true,
        ..ToolResult::default()
    })
}

fn find(view: &View, arguments: &FindArguments) -> Outcome {
    let query = arguments.query.as_deref().unwrap_or_default();
    let words: Vec<String> = query
        .split_whitespace()
        .map(str::to_lowercase)
        .take(16)
        .collect();
    let mut hits: Vec<(Reverse<usize>, &ToolDescriptor)> = view
        .reachable()
        .map(|tool| (Reverse(score(tool, &words)), tool))
        .filter(|(score, _)| words.is_empty() || score.0 > 0)
        .collect();
    // Stable, so that equal scores keep the catalog's order.
    orchestra_sort::sort_by_key(&mut hits, |(score, _)| *score);
    let limit = arguments
        .limit
        .as_ref()
        .map_or(DEFAULT_LIMIT, |most| most.0);
    let start = arguments.cursor.as_ref().map_or(0, |cursor| cursor.0);
    let end = start.saturating_add(limit);
    let items = hits.iter().skip(start).take(limit).filter_map(|(_, tool)| {
        let input_schema = tool.input_schema.parse().ok()?;
        Some(FoundTool {
            name: &tool.name,
            description: tool.description.as_deref(),
            input_schema,
        })
    });
    let found = Found {
        items: items.collect(),
        total: hits.len(),
        next_cursor: (end < hits.len()).then(|| end.to_string()),
    };
    let text = RawJson::of(&found).expect("texts, numbers and raw values have a JSON form");
    Outcome::Tool(ToolResult {
        content: vec![Content::Text(text.as_str().to_owned())],
        ..ToolResult::default()
    })
}

/// How well a tool fits: three for a word in its name, one for a word in its description.
fn score(tool: &ToolDescriptor, words: &[String]) -> usize {
    let name = tool.name.to_lowercase();
    let description = tool
        .description
        .as_deref()
        .unwrap_or_default()
        .to_lowercase();
    let score = |word: &String| {
        3 * usize::from(name.contains(word)) + usize::from(description.contains(word))
    };
    words.iter().map(score).sum()
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LimitVisitor)
    }
}

struct LimitVisitor;

impl de::Visitor<'_> for LimitVisitor {
    type Value = Limit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 1 to {MAX_LIMIT}")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Limit, E> {
        match usize::try_from(number) {
            Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => Ok(Limit(limit)),
            _ => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
        }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Limit, E> {
        Err(E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    /// JSON has one kind of number: some callers write a whole one with a fraction of zero.
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Limit, E> {
        if number.fract() == 0.0 && (1.0..=MAX_LIMIT as f64).contains(&number) {
            Ok(Limit(number as usize))
        } else {
            Err(E::invalid_value(de::Unexpected::Float(number), &self))
        }
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The first page.
        if text.is_empty() {
            return Ok(Self(0));
        }
        text.parse().map(Self).map_err(|_| {
            let unexpected = de::Unexpected::Str(&text);
            de::Error::invalid_value(unexpected, &"a next_cursor of find_tools")
        })
    }
}
