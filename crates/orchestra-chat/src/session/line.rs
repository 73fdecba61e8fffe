//! The lines of a session file. Only these are written and read; they are turned into what the loop knows by hand.

mod convert;
mod parts;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use convert::words;

/// The version of the form.
pub(super) const VERSION: u32 = 1;

/// Digits of a digest that are kept.
const DIGITS: usize = 12;
/// What a session is of: its first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The version of the form.
    pub version: u32,
    /// What it is called.
    pub id: String,
    /// When it began (RFC 3339).
    pub created: String,
    /// Which kind of server has the model.
    pub backend: String,
    /// The model.
    pub model: String,
    /// Of which session it is a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_of: Option<String>,
}

impl Header {
    /// The version of the form that is written.
    pub const VERSION: u32 = VERSION;
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(super) enum Line {
    /// What the session is of.
    Session(Header),
    /// How it is held from here on.
    Settings(SettingsLine),
    /// Another model from here on.
    Model { backend: String, model: String },
    /// The tools from here on.
    Tools { tools: Vec<ToolLine> },
    /// What was said before.
    Before { messages: Vec<MessageLine> },
    /// It was gone on with by another program: what was learned and is not written here was forgotten.
    Resumed,
    /// An event.
    Said { at: u64, text: String },
    /// An event.
    Replied {
        at: u64,
        text: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        thinking: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<SaidLine>,
        input: u64,
        output: u64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cut: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        broken: bool,
    },
    /// An event.
    Failed {
        at: u64,
        trouble: TroubleLine,
        said: String,
    },
    /// An event.
    Decided {
        at: u64,
        number: usize,
        verdict: VerdictLine,
    },
    /// An event.
    Answered {
        at: u64,
        number: usize,
        outcome: OutcomeLine,
    },
    /// An event.
    Stopped { at: u64, said: String },
    /// An event.
    Late { at: u64, said: String },
    /// A want.
    Ask {
        context: usize,
        estimate: usize,
        tools: Vec<String>,
        /// Who speaks, and a digest of what is said.
        messages: Vec<String>,
    },
    /// A want.
    Approve(DueLine),
    /// A want.
    Call(DueLine),
    /// A want.
    Note { note: String },
    /// A want.
    End {
        how: String,
        text: String,
        input: u64,
        output: u64,
        rounds: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SettingsLine {
    system: String,
    approval: String,
    rounds: u32,
    tokens: Option<u64>,
    time_ms: Option<u64>,
    cost: Option<f64>,
    price: Option<[f64; 2]>,
    context: [usize; 3],
    most_tools: usize,
    answer_chars: usize,
    sees: bool,
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    takes_tools: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ToolLine {
    name: String,
    description: String,
    schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lean: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    reads: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SaidLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: String,
    arguments: Value,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "kebab-case")]
pub(super) enum MessageLine {
    System {
        text: String,
    },
    User {
        text: String,
    },
    Assistant {
        text: String,
        calls: Vec<CallLine>,
    },
    Tool {
        call: String,
        tool: String,
        text: String,
        images: Vec<ImageLine>,
        error: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CallLine {
    id: String,
    tool: String,
    arguments: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ImageLine {
    mime: String,
    data: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(super) enum TroubleLine {
    Unreachable { what: String },
    NoModel { model: String, hint: String },
    NoTools,
    Slow { after_ms: u64 },
    Cut { what: String },
    Busy { what: String },
    Refused { status: u16, said: String },
    Odd { what: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum VerdictLine {
    Once,
    Always,
    No,
    Edit(Map<String, Value>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OutcomeLine {
    Answered {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<ImageLine>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        error: bool,
    },
    Broken(String),
    WantsConsent(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DueLine {
    number: usize,
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    agreed: bool,
}
