//! A session as people read it, in Markdown.

use serde_json::{Map, Value};

use super::{Session, line::Line};
use crate::{message::Message, thinking::Split};

/// The whole session. `masked` replaces the secrets in the arguments of a call, before they become text.
#[must_use]
pub fn exported(session: &Session, masked: &dyn Fn(Value) -> Value) -> String {
    let header = session.header();
    let mut text = format!(
        "# {}\n\n{}, {}\n",
        title(&session.title()),
        header.created,
        header.model
    );
    for message in session.begun() {
        match message {
            Message::System(_) => {}
            Message::User(said) => person(&said, &mut text),
            Message::Assistant { text: said, calls } => {
                model(&said, &mut text);
                for one in calls {
                    call(&one.tool, &one.arguments, masked, &mut text);
                }
            }
            Message::Tool(answer) => {
                text.push_str(&format!("\n  answered:\n\n{}\n", fenced(&answer.text)));
            }
        }
    }
    for line in &session.lines {
        match line {
            Line::Said { text: said, .. } => person(said, &mut text),
            Line::Replied { text: said, .. } => model(&Split::of(said).answer(), &mut text),
            Line::Call(due) => call(&due.tool, &due.arguments, masked, &mut text),
            Line::Answered { outcome, .. } => {
                let (said, how) = match outcome {
                    super::line::OutcomeLine::Answered {
                        text, error: false, ..
                    } => (text.as_str(), "answered"),
                    super::line::OutcomeLine::Answered { text, .. } => (text.as_str(), "failed"),
                    super::line::OutcomeLine::Broken(why) => (why.as_str(), "broke"),
                    super::line::OutcomeLine::WantsConsent(rule) => {
                        (rule.as_str(), "waits for somebody who agrees")
                    }
                };
                text.push_str(&format!("\n  {how}:\n\n{}\n", fenced(said)));
            }
            Line::Model { model, .. } => text.push_str(&format!("\n*From here on: {model}*\n")),
            Line::End { how, .. } if how != "answered" => text.push_str(&format!("\n*{how}*\n")),
            _ => {}
        }
    }
    text
}

fn person(said: &str, text: &mut String) {
    text.push_str(&format!("\n## You\n\n{}\n", said.trim()));
}

fn model(said: &str, text: &mut String) {
    if !said.trim().is_empty() {
        text.push_str(&format!("\n## The model\n\n{}\n", said.trim()));
    }
}

fn call(
    tool: &str,
    arguments: &Map<String, Value>,
    masked: &dyn Fn(Value) -> Value,
    text: &mut String,
) {
    let arguments = masked(Value::Object(arguments.clone()));
    text.push_str(&format!("\n- called `{tool}` with `{arguments}`\n"));
}

/// The beginning of what was said first, in a line.
fn title(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    crate::untrusted::capped(line, 80).replace('\n', " ")
}

/// A text in a fence that it does not end.
fn fenced(text: &str) -> String {
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end())
}
