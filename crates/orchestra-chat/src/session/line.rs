//! The lines of a session file. Only these are written and read; they are turned into what the loop knows by hand.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::{
    chat::{Due, End, Event, Note, Outcome, Verdict, Want},
    message::{Answer, Call, Image, Message},
    request::{Reply, Request, SaidCall, Trouble, Usage},
    settings::{Approval, Budget, Context, Price, Settings},
    tool::{Described, Nature, Tools},
};

/// The version of the form.
pub(super) const VERSION: u32 = 1;

/// Digits of a digest that are kept.
const DIGITS: usize = 12;

/// Why a session cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It cannot be read or written.
    #[error("the session {path} cannot be {what}")]
    Io {
        /// Which file.
        path: String,
        /// `read`, `written` or `made`.
        what: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is no session.
    #[error("line {number} of {path} is none of a session: {what}")]
    Form {
        /// Which file.
        path: String,
        /// Which line.
        number: usize,
        /// What is wrong.
        what: String,
    },
    /// A newer program wrote it.
    #[error(
        "{path} has version {found} of the form; {VERSION} is the newest that is known: update the program"
    )]
    Newer {
        /// Which file.
        path: String,
        /// Its version.
        found: u32,
    },
}

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

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Line {
    pub(super) fn settings(settings: &Settings) -> Self {
        let Settings {
            system,
            approval,
            budget,
            price,
            context,
            most_tools,
            answer_chars,
            sees,
        } = settings;
        Self::Settings(SettingsLine {
            system: system.clone(),
            approval: match approval {
                Approval::Ask => "ask",
                Approval::Yes => "yes",
                Approval::Deny => "deny",
            }
            .to_owned(),
            rounds: budget.rounds,
            tokens: budget.tokens,
            time_ms: budget.time.map(millis),
            cost: budget.cost,
            price: price.map(|price| [price.input, price.output]),
            context: [context.most, context.answer, context.tools],
            most_tools: *most_tools,
            answer_chars: *answer_chars,
            sees: *sees,
        })
    }

    pub(super) fn tools(tools: &Tools) -> Self {
        let tools = tools.all().iter().map(|tool| ToolLine {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            schema: tool.whole_schema().clone(),
            lean: Some(tool.schema().clone()),
            server: tool.server().map(str::to_owned),
            reads: tool.nature() == Nature::Reads,
        });
        Self::Tools {
            tools: tools.collect(),
        }
    }

    pub(super) fn before<'m>(messages: impl Iterator<Item = &'m Message>) -> Self {
        Self::Before {
            messages: messages.map(MessageLine::of).collect(),
        }
    }

    pub(super) fn event(event: &Event, at: Duration) -> Self {
        let at = millis(at);
        match event.clone() {
            Event::Said(text) => Self::Said { at, text },
            Event::Replied(Reply {
                text,
                thinking,
                calls,
                usage,
                is_cut,
            }) => Self::Replied {
                at,
                text,
                thinking,
                calls: calls
                    .into_iter()
                    .map(
                        |SaidCall {
                             id,
                             name,
                             arguments,
                         }| SaidLine {
                            id,
                            name,
                            arguments,
                        },
                    )
                    .collect(),
                input: usage.input,
                output: usage.output,
                cut: is_cut,
            },
            Event::Failed { trouble, said } => Self::Failed {
                at,
                trouble: TroubleLine::of(trouble),
                said,
            },
            Event::Decided { number, verdict } => Self::Decided {
                at,
                number,
                verdict: match verdict {
                    Verdict::Once => VerdictLine::Once,
                    Verdict::Always => VerdictLine::Always,
                    Verdict::No => VerdictLine::No,
                    Verdict::Edit(arguments) => VerdictLine::Edit(arguments),
                },
            },
            Event::Answered { number, outcome } => Self::Answered {
                at,
                number,
                outcome: match outcome {
                    Outcome::Answered {
                        text,
                        images,
                        is_error,
                    } => OutcomeLine::Answered {
                        text,
                        images: images.into_iter().map(ImageLine::of).collect(),
                        error: is_error,
                    },
                    Outcome::Broken(why) => OutcomeLine::Broken(why),
                    Outcome::WantsConsent(rule) => OutcomeLine::WantsConsent(rule),
                },
            },
            Event::Stopped { said } => Self::Stopped { at, said },
            Event::Late { said } => Self::Late { at, said },
        }
    }

    /// The event that a line is, and when it happened.
    pub(super) fn as_event(&self) -> Option<(Event, Duration)> {
        let (event, at) = match self.clone() {
            Self::Said { at, text } => (Event::Said(text), at),
            Self::Replied {
                at,
                text,
                thinking,
                calls,
                input,
                output,
                cut,
            } => {
                let calls = calls.into_iter();
                let calls = calls.map(
                    |SaidLine {
                         id,
                         name,
                         arguments,
                     }| SaidCall {
                        id,
                        name,
                        arguments,
                    },
                );
                let reply = Reply {
                    text,
                    thinking,
                    calls: calls.collect(),
                    usage: Usage { input, output },
                    is_cut: cut,
                };
                (Event::Replied(reply), at)
            }
            Self::Failed { at, trouble, said } => (
                Event::Failed {
                    trouble: trouble.into_trouble(),
                    said,
                },
                at,
            ),
            Self::Decided {
                at,
                number,
                verdict,
            } => {
                let verdict = match verdict {
                    VerdictLine::Once => Verdict::Once,
                    VerdictLine::Always => Verdict::Always,
                    VerdictLine::No => Verdict::No,
                    VerdictLine::Edit(arguments) => Verdict::Edit(arguments),
                };
                (Event::Decided { number, verdict }, at)
            }
            Self::Answered {
                at,
                number,
                outcome,
            } => {
                let outcome = match outcome {
                    OutcomeLine::Answered {
                        text,
                        images,
                        error,
                    } => Outcome::Answered {
                        text,
                        images: images.into_iter().map(ImageLine::into_image).collect(),
                        is_error: error,
                    },
                    OutcomeLine::Broken(why) => Outcome::Broken(why),
                    OutcomeLine::WantsConsent(rule) => Outcome::WantsConsent(rule),
                };
                (Event::Answered { number, outcome }, at)
            }
            Self::Stopped { at, said } => (Event::Stopped { said }, at),
            Self::Late { at, said } => (Event::Late { said }, at),
            _ => return None,
        };
        Some((event, Duration::from_millis(at)))
    }

    pub(super) fn want(want: &Want) -> Self {
        match want {
            Want::Ask(request) => Self::ask(request),
            Want::Approve(due) => Self::Approve(DueLine::of(due)),
            Want::Call(due) => Self::Call(DueLine::of(due)),
            Want::Tell(note) => Self::Note { note: words(note) },
            Want::End(ending) => Self::End {
                how: how(&ending.how),
                text: ending.text.clone(),
                input: ending.usage.input,
                output: ending.usage.output,
                rounds: ending.rounds,
            },
        }
    }

    fn ask(request: &Request) -> Self {
        Self::Ask {
            context: request.context,
            estimate: request.estimate,
            tools: request
                .tools
                .iter()
                .map(|tool| tool.name().to_owned())
                .collect(),
            messages: request.messages.iter().map(digest).collect(),
        }
    }

    pub(super) const fn is_want(&self) -> bool {
        matches!(
            self,
            Self::Ask { .. }
                | Self::Approve(_)
                | Self::Call(_)
                | Self::Note { .. }
                | Self::End { .. }
        )
    }
}

/// Who speaks, and a digest of what is said.
fn digest(message: &Message) -> String {
    let line = MessageLine::of(message);
    let who = match &line {
        MessageLine::System { .. } => "system",
        MessageLine::User { .. } => "user",
        MessageLine::Assistant { .. } => "assistant",
        MessageLine::Tool { .. } => "tool",
    };
    let text = serde_json::to_string(&line).unwrap_or_default();
    let digest = Sha256::digest(text);
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{who} {}", &digits[..DIGITS])
}

/// A note in words that stay the same.
#[must_use]
pub fn words(note: &Note) -> String {
    match note {
        Note::NoTools => "no-tools".to_owned(),
        Note::Chosen { shown, of } => format!("chosen {shown} of {of}"),
        Note::LeftOut(left_out) => format!(
            "left-out {} answers {} turns",
            left_out.answers, left_out.turns
        ),
        Note::TooLong => "too-long".to_owned(),
        Note::Again(trouble) => format!("again: {trouble}"),
        Note::Repaired { tool } => format!("repaired {tool}"),
        Note::Cut => "cut".to_owned(),
        Note::Concludes => "concludes".to_owned(),
    }
}

/// How a turn ended, in words that stay the same.
pub(super) fn how(end: &End) -> String {
    match end {
        End::Answered => "answered".to_owned(),
        end => end.why().unwrap_or_default(),
    }
}

impl SettingsLine {
    pub(super) fn into_settings(self) -> Settings {
        let [most, answer, tools] = self.context;
        Settings {
            system: self.system,
            approval: match self.approval.as_str() {
                "ask" => Approval::Ask,
                "yes" => Approval::Yes,
                _ => Approval::Deny,
            },
            budget: Budget {
                rounds: self.rounds,
                tokens: self.tokens,
                time: self.time_ms.map(Duration::from_millis),
                cost: self.cost,
            },
            price: self.price.map(|[input, output]| Price { input, output }),
            context: Context {
                most,
                answer,
                tools,
            },
            most_tools: self.most_tools,
            answer_chars: self.answer_chars,
            sees: self.sees,
        }
    }
}

impl ToolLine {
    pub(super) fn into_described(self) -> Described {
        Described {
            name: self.name,
            description: self.description,
            schema: self.schema,
            lean: self.lean,
            server: self.server,
            nature: if self.reads {
                Nature::Reads
            } else {
                Nature::Changes
            },
        }
    }
}

impl MessageLine {
    pub(super) fn of(message: &Message) -> Self {
        match message.clone() {
            Message::System(text) => Self::System { text },
            Message::User(text) => Self::User { text },
            Message::Assistant { text, calls } => Self::Assistant {
                text,
                calls: calls
                    .into_iter()
                    .map(
                        |Call {
                             id,
                             tool,
                             arguments,
                         }| CallLine {
                            id,
                            tool,
                            arguments,
                        },
                    )
                    .collect(),
            },
            Message::Tool(Answer {
                call,
                tool,
                text,
                images,
                is_error,
            }) => Self::Tool {
                call,
                tool,
                text,
                images: images.into_iter().map(ImageLine::of).collect(),
                error: is_error,
            },
        }
    }

    pub(super) fn into_message(self) -> Message {
        match self {
            Self::System { text } => Message::System(text),
            Self::User { text } => Message::User(text),
            Self::Assistant { text, calls } => Message::Assistant {
                text,
                calls: calls
                    .into_iter()
                    .map(
                        |CallLine {
                             id,
                             tool,
                             arguments,
                         }| Call {
                            id,
                            tool,
                            arguments,
                        },
                    )
                    .collect(),
            },
            Self::Tool {
                call,
                tool,
                text,
                images,
                error,
            } => Message::Tool(Answer {
                call,
                tool,
                text,
                images: images.into_iter().map(ImageLine::into_image).collect(),
                is_error: error,
            }),
        }
    }
}

impl ImageLine {
    fn of(image: Image) -> Self {
        let Image { mime, data } = image;
        Self { mime, data }
    }

    fn into_image(self) -> Image {
        let Self { mime, data } = self;
        Image { mime, data }
    }
}

impl DueLine {
    fn of(due: &Due) -> Self {
        Self {
            number: due.number,
            tool: due.call.tool.clone(),
            arguments: due.call.arguments.clone(),
            rule: due.rule.clone(),
            agreed: due.is_agreed,
        }
    }
}

impl TroubleLine {
    fn of(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unreachable { what } => Self::Unreachable { what },
            Trouble::NoModel { model, hint } => Self::NoModel { model, hint },
            Trouble::NoTools => Self::NoTools,
            Trouble::Slow { after } => Self::Slow {
                after_ms: millis(after),
            },
            Trouble::Cut { what } => Self::Cut { what },
            Trouble::Busy { what } => Self::Busy { what },
            Trouble::Refused { status, said } => Self::Refused { status, said },
            Trouble::Odd { what } => Self::Odd { what },
        }
    }

    fn into_trouble(self) -> Trouble {
        match self {
            Self::Unreachable { what } => Trouble::Unreachable { what },
            Self::NoModel { model, hint } => Trouble::NoModel { model, hint },
            Self::NoTools => Trouble::NoTools,
            Self::Slow { after_ms } => Trouble::Slow {
                after: Duration::from_millis(after_ms),
            },
            Self::Cut { what } => Trouble::Cut { what },
            Self::Busy { what } => Trouble::Busy { what },
            Self::Refused { status, said } => Trouble::Refused { status, said },
            Self::Odd { what } => Trouble::Odd { what },
        }
    }
}
