//! What a person is told beside the words of the model.

use std::time::Duration;

use orchestra_chat::{Due, Ending, Note, Outcome, capped};
use orchestra_secret::Masker;
use serde_json::{Map, Value};

use crate::output;

/// Letters of arguments that are shown beside a call.
const ARGUMENT_CHARS: usize = 80;

/// Letters of a reason.
const REASON_CHARS: usize = 300;

/// A note in words; none for one that no person needs.
pub(in crate::commands::chat) fn words(note: &Note) -> Option<String> {
    Some(match note {
        Note::NoTools => "the model does not support tools; continuing without them".to_owned(),
        // It is told of those that it may find, which is nothing new.
        Note::Chosen { shown: 0, .. } => return None,
        Note::Chosen { shown, of } => format!("{shown} of {of} tools are shown to the model"),
        Note::LeftOut(left_out) => {
            let many = |number: usize, one: &str| match number {
                0 => None,
                1 => Some(format!("1 {one}")),
                number => Some(format!("{number} {one}s")),
            };
            let parts = [many(left_out.turns, "old turn"), many(left_out.answers, "answer of a tool")];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            let parts = parts.join(" and ").replace("answer of a tools", "answers of tools");
            format!("{parts} left out or shortened, so that the rest fits; --context makes room for more")
        }
        Note::TooLong => {
            "the input exceeds the context of the model, which may see only a part of it; --context sets a larger context"
                .to_owned()
        }
        Note::Again(trouble) => format!("{trouble}; asked again"),
        Note::Repaired { .. } => return None,
        Note::Denied { tool } => {
            format!("✗ {tool} was not called: it may change something, and there is no consent to that")
        }
        Note::Cut => "the answer ended because the context of the model is full".to_owned(),
        Note::Concludes => "no more tools are called in this turn; the model answers with the results so far".to_owned(),
    })
}

/// A call in a line.
pub(in crate::commands::chat) fn call(due: &Due) -> String {
    format!("{} {}", due.call.tool, arguments(&due.call.arguments))
}

/// A call that has ended, in a line.
pub(in crate::commands::chat) fn called(due: &Due, outcome: &Outcome, took: Duration) -> String {
    let took = seconds(took);
    let call = call(due);
    match outcome {
        Outcome::Answered {
            is_error: false, ..
        } => format!("✓ {call} {took}"),
        Outcome::Answered { text, .. } | Outcome::Broken(text) => {
            format!("✗ {call} {took}: {}", reason(text))
        }
        Outcome::WantsConsent(rule) => {
            format!("? {call}: {} requires consent", reason(rule))
        }
    }
}

/// What a turn used up, in a line.
pub(in crate::commands::chat) fn used(ending: &Ending, took: Duration) -> String {
    let mut parts = Vec::new();
    match ending.calls.len() {
        0 => {}
        1 => parts.push("1 call".to_owned()),
        many => parts.push(format!("{many} calls")),
    }
    let usage = ending.usage;
    if usage.input + usage.output > 0 {
        parts.push(format!("{} tokens in, {} out", usage.input, usage.output));
    }
    if let Some(cost) = ending.cost {
        parts.push(format!("{cost:.4}"));
    }
    parts.push(seconds(took));
    parts.join(" · ")
}

/// Arguments in a line, with secrets masked.
fn arguments(arguments: &Map<String, Value>) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    let mut shown = Value::Object(arguments.clone());
    Masker::default().json(&mut shown);
    let text = output::in_a_line(&shown.to_string());
    match text.chars().count() > ARGUMENT_CHARS {
        true => format!("{}…", text.chars().take(ARGUMENT_CHARS).collect::<String>()),
        false => text,
    }
}

fn reason(text: &str) -> String {
    output::in_a_line(&capped(&orchestra_secret::text(text), REASON_CHARS))
}

/// A time as people say it.
fn seconds(time: Duration) -> String {
    match time.as_millis() {
        millis if millis < 1_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}
