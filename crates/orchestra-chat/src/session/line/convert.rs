//! What the loop knows as lines, and back.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::{
    DIGITS, DueLine, ImageLine, Line, MessageLine, OutcomeLine, SaidLine, SettingsLine, ToolLine,
    TroubleLine, VerdictLine,
};
use crate::{
    chat::{End, Event, Note, Outcome, Verdict, Want},
    message::Message,
    request::{Reply, Request, SaidCall, Usage},
    settings::{Approval, Settings},
    tool::{Nature, Tools},
};

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Line {
    pub(in crate::session) fn settings(settings: &Settings) -> Self {
        let Settings {
            system,
            approval,
            budget,
            price,
            context,
            most_tools,
            answer_chars,
            sees,
            takes_tools,
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
            takes_tools: *takes_tools,
        })
    }

    pub(in crate::session) fn tools(tools: &Tools) -> Self {
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

    pub(in crate::session) fn before<'m>(messages: impl Iterator<Item = &'m Message>) -> Self {
        Self::Before {
            messages: messages.map(MessageLine::of).collect(),
        }
    }

    pub(in crate::session) fn event(event: &Event, at: Duration) -> Self {
        let at = millis(at);
        match event.clone() {
            Event::Said(text) => Self::Said { at, text },
            Event::Replied(Reply {
                text,
                thinking,
                calls,
                usage,
                is_cut,
                is_broken,
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
                             is_thought,
                         }| SaidLine {
                            id,
                            name,
                            arguments,
                            thought: is_thought,
                        },
                    )
                    .collect(),
                input: usage.input,
                output: usage.output,
                cut: is_cut,
                broken: is_broken,
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
    pub(in crate::session) fn as_event(&self) -> Option<(Event, Duration)> {
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
                broken,
            } => {
                let calls = calls.into_iter();
                let calls = calls.map(
                    |SaidLine {
                         id,
                         name,
                         arguments,
                         thought,
                     }| SaidCall {
                        id,
                        name,
                        arguments,
                        is_thought: thought,
                    },
                );
                let reply = Reply {
                    text,
                    thinking,
                    calls: calls.collect(),
                    usage: Usage { input, output },
                    is_cut: cut,
                    is_broken: broken,
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

    pub(in crate::session) fn want(want: &Want) -> Self {
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

    pub(in crate::session) const fn is_want(&self) -> bool {
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
        Note::Denied { tool } => format!("denied {tool}"),
        Note::Cut => "cut".to_owned(),
        Note::Concludes => "concludes".to_owned(),
    }
}

/// How a turn ended, in words that stay the same.
pub(in crate::session) fn how(end: &End) -> String {
    match end {
        End::Answered => "answered".to_owned(),
        end => end.why().unwrap_or_default(),
    }
}
