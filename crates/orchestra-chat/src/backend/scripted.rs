//! A model that says what a script says: for tests, for a look at what a conversation is like, and for playing one
//! again.
//!
//! A script is JSON: a list of answers, of which the first that fits is given, each once, or `always`. What an answer
//! says may quote what was said before: `{{last}}` stands for the text of the last message.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{About, Backend, BoxFuture, Failure};
use crate::{
    message::Message,
    request::{Piece, Reply, Request, SaidCall, Trouble, Usage},
    tokens,
};

/// Answers of a script.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Script(Vec<Step>);

/// Why a text is no script.
#[derive(Debug, thiserror::Error)]
#[error("not a valid script of model replies: {0}")]
pub struct ScriptError(#[from] serde_json::Error);

/// One answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// The last message has to contain this, whatever its case.
    when: Option<String>,
    /// Words.
    #[serde(default)]
    text: String,
    /// Thoughts.
    #[serde(default)]
    thinking: String,
    /// Calls.
    #[serde(default)]
    calls: Vec<StepCall>,
    /// It takes so long, in milliseconds.
    #[serde(default)]
    wait_ms: u64,
    /// It may be given again.
    #[serde(default)]
    always: bool,
    /// It fails so: `unreachable`, `no-tools`, `cut` or `busy`.
    fails: Option<Fails>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepCall {
    name: String,
    #[serde(default = "no_arguments")]
    arguments: Value,
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Fails {
    Unreachable,
    NoTools,
    Cut,
    Busy,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// When the text is none.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Ok(serde_json::from_str(text)?)
    }
}

/// A model that follows a script.
#[derive(Debug, Clone)]
pub struct Scripted {
    script: Arc<Script>,
    given: Arc<Mutex<BTreeSet<usize>>>,
    model: Arc<str>,
}

impl Scripted {
    /// A model of this name that follows a script.
    #[must_use]
    pub fn new(script: Script, model: &str) -> Self {
        Self {
            script: Arc::new(script),
            given: Arc::default(),
            model: model.into(),
        }
    }

    fn next(&self, last: &str) -> Option<Step> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.to_lowercase();
        let fits = |(place, step): &(usize, &Step)| {
            let is_left = step.always || !given.contains(place);
            is_left
                && step
                    .when
                    .as_ref()
                    .is_none_or(|when| last.contains(&when.to_lowercase()))
        };
        let (place, step) = self.script.0.iter().enumerate().find(fits)?;
        given.insert(place);
        Some(step.clone())
    }
}

async fn followed(
    step: Option<Step>,
    request: Request,
    pieces: mpsc::Sender<Piece>,
) -> Result<Reply, Failure> {
    let Some(step) = step else {
        let what = "its script has no answer to this".to_owned();
        return Err(Trouble::Odd { what }.into());
    };
    if step.wait_ms > 0 {
        tokio::time::sleep(Duration::from_millis(step.wait_ms)).await;
    }
    let last = request.messages.last().map_or("", Message::text);
    let text = step.text.replace("{{last}}", last);
    if !step.thinking.is_empty() {
        let _ = pieces.send(Piece::Thinking(step.thinking.clone())).await;
    }
    // Word by word, as models do.
    for word in text.split_inclusive(' ') {
        let _ = pieces.send(Piece::Text(word.to_owned())).await;
    }
    let what = "as its script says".to_owned();
    let trouble = step.fails.map(|fails| match fails {
        Fails::Unreachable => Trouble::Unreachable { what },
        Fails::NoTools => Trouble::NoTools,
        Fails::Cut => Trouble::Cut { what },
        Fails::Busy => Trouble::Busy { what },
    });
    match trouble {
        Some(Trouble::NoTools) if request.tools.is_empty() => {}
        Some(trouble) => {
            return Err(Failure {
                trouble,
                said: text,
            });
        }
        None => {}
    }
    let calls = step.calls.into_iter().map(|call| SaidCall {
        id: None,
        name: call.name,
        arguments: call.arguments,
        is_thought: false,
    });
    let usage = Usage {
        input: request.estimate as u64,
        output: tokens::estimate(&text) as u64,
    };
    let places = std::iter::repeat((text.len(), text.len()));
    let mut reply = Reply {
        text,
        thinking: step.thinking,
        calls: calls.collect(),
        usage,
        is_cut: false,
        is_broken: false,
    };
    reply.mark_thought(places);
    Ok(reply)
}

impl Backend for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn about(&self) -> BoxFuture<Result<About, Trouble>> {
        Box::pin(std::future::ready(Ok(About {
            context: None,
            takes_tools: Some(true),
            sees: true,
        })))
    }

    fn models(&self) -> BoxFuture<Result<Vec<String>, Trouble>> {
        Box::pin(std::future::ready(Ok(vec![self.model.to_string()])))
    }

    fn ask(
        &self,
        request: Request,
        pieces: mpsc::Sender<Piece>,
    ) -> BoxFuture<Result<Reply, Failure>> {
        let last = request.messages.last().map_or("", Message::text);
        let step = self.next(last);
        Box::pin(followed(step, request, pieces))
    }
}
