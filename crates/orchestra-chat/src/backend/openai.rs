//! Any server that takes `POST /chat/completions` as OpenAI defined it: many do, and most leave something out.
//!
//! A stream is made of server-sent events whose data is one object each, and ends with `[DONE]`. A call comes in
//! pieces that are put together by their index; its arguments are a text.

mod events;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use orchestra_remote::{Endpoint, EndpointError, Fault};
use orchestra_wire::without_mark;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::{
    About, Backend, BoxFuture, Failure, MAX_ANSWER, MAX_CALLS, Manner, lines::Lines, ollama::shown,
    trouble_of,
};
use crate::{
    exact,
    message::{Answer, Message},
    request::{Piece, Reply, Request, SaidCall, Trouble, Usage},
    tool::Tool,
};

use events::{Choice, Events, Part, Taken, ToldCall};

/// Maximum time to wait for usage and the end of the stream after a reason for the end of the answer.
const LAST_PARTS: Duration = Duration::from_secs(1);

/// Values of `finish_reason` of an answer for which there was no more room.
const CUT: [&str; 3] = ["length", "max_tokens", "model_length"];

/// Values of `finish_reason` of an answer that ends with whole calls.
const CALLED: [&str; 2] = ["tool_calls", "function_call"];

/// Values of `finish_reason` of an answer that the model finished, in lower case, as several servers write them.
const FINISHED: [&str; 11] = [
    "stop",
    "tool_calls",
    "function_call",
    "tool_call",
    "tool_use",
    "end_turn",
    "stop_sequence",
    "eos",
    "eos_token",
    "complete",
    "completed",
];

/// A model of such a server.
#[derive(Debug, Clone)]
pub struct OpenAi(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    endpoint: Endpoint,
    model: String,
    manner: Manner,
    /// The server does not know how to tell what was used.
    tells_nothing: AtomicBool,
}

impl OpenAi {
    /// A model of a server, whose address usually ends with `/v1`.
    ///
    /// # Errors
    /// When the address is none, or a key would go over a network where others can read it.
    pub fn new(
        url: &str,
        key: Option<&str>,
        model: &str,
        manner: Manner,
    ) -> Result<Self, EndpointError> {
        Ok(Self(Arc::new(Inner {
            endpoint: Endpoint::new(url, key)?,
            model: model.to_owned(),
            manner,
            tells_nothing: AtomicBool::new(false),
        })))
    }

    /// The server, as it may be shown.
    #[must_use]
    pub fn server(&self) -> &str {
        self.0.endpoint.server()
    }
}

impl Inner {
    /// Masks the key and other secrets in the words of a trouble: some servers repeat what they were sent.
    fn masked(&self, trouble: Trouble) -> Trouble {
        trouble.map_text(|text| self.endpoint.masked(text))
    }

    fn trouble(&self, fault: Fault) -> Trouble {
        match fault {
            Fault::Unreachable(what) => Trouble::Unreachable {
                what: format!("{what} ({})", self.endpoint.server()),
            },
            Fault::Refused { status: 404, said } => Trouble::NoModel {
                model: self.model.clone(),
                hint: format!("the server says: {said}; its address usually ends with /v1"),
            },
            Fault::Refused {
                status: 400 | 422 | 501,
                said,
            } if refuses_tools(&said) => Trouble::NoTools,
            other => trouble_of(other),
        }
    }

    async fn models(&self) -> Result<Vec<String>, Trouble> {
        let answer = self
            .endpoint
            .ask(&["models"], None, self.manner.limits())
            .await;
        let answer = answer.map_err(|fault| self.trouble(fault))?;
        let whole = answer
            .whole(MAX_ANSWER)
            .await
            .map_err(|fault| self.trouble(fault))?;
        let found: Value =
            serde_json::from_slice(without_mark(&whole)).map_err(|error| Trouble::Odd {
                what: format!("its list of models is not valid JSON: {error}"),
            })?;
        // Some have a list alone, or that of Ollama.
        let lists = [&found["data"], &found["models"], &found];
        let models = lists.into_iter().find_map(Value::as_array);
        let names = models
            .into_iter()
            .flatten()
            .filter_map(|model| model["id"].as_str().or_else(|| model["name"].as_str()));
        Ok(names.map(str::to_owned).collect())
    }

    fn body(&self, request: &Request) -> Value {
        let mut messages: Vec<Value> = Vec::new();
        // Nothing may stand between the answers to one message.
        let mut seen: Vec<Value> = Vec::new();
        for one in &request.messages {
            match one {
                Message::Tool(answer) if !answer.images.is_empty() => {
                    seen.push(images(answer, &request.tools))
                }
                Message::Tool(_) => {}
                _ => messages.append(&mut seen),
            }
            messages.push(message(one, &request.tools));
        }
        messages.append(&mut seen);
        let mut body = json!({"model": self.model, "messages": messages, "stream": true});
        if !self.tells_nothing.load(Ordering::Relaxed) {
            body["stream_options"] = json!({"include_usage": true});
        }
        if let Some(temperature) = self.manner.temperature {
            body["temperature"] = json!(temperature);
        }
        if let Some(seed) = self.manner.seed {
            body["seed"] = json!(seed);
        }
        if !request.tools.is_empty() {
            body["tools"] = super::offered(&request.tools);
        }
        body
    }

    async fn ask(&self, request: Request, pieces: mpsc::Sender<Piece>) -> Result<Reply, Failure> {
        let send = async || {
            let body = self.body(&request).to_string().into_bytes();
            self.endpoint
                .ask(&["chat", "completions"], Some(body), self.manner.limits())
                .await
        };
        let answer = match send().await {
            Err(Fault::Refused {
                status: 400 | 422,
                said,
            }) if said.contains("stream_options") => {
                self.tells_nothing.store(true, Ordering::Relaxed);
                send().await
            }
            answer => answer,
        };
        let answer = answer.map_err(|fault| self.trouble(fault))?;
        let mut reading = Reading::default();
        let mut lines = Lines::new(answer);
        let mut events = Events::default();
        let mut until: Option<Instant> = None;
        loop {
            let is_last = reading.end == End::Last;
            let line = match is_last {
                // Usage may follow, and some servers leave the connection open without `[DONE]`.
                true => {
                    let until = *until.get_or_insert_with(|| Instant::now() + LAST_PARTS);
                    timeout_at(until, lines.next()).await.unwrap_or(Ok(None))
                }
                false => lines.next().await,
            };
            let line = match line {
                Ok(line) => line,
                // All of it has come.
                Err(_) if is_last => break,
                Err(fault) => return Err(reading.failed(self.trouble(fault))),
            };
            let Some(line) = line else { break };
            match events.take(&line) {
                Taken::Nothing => {}
                Taken::End => {
                    reading.end = End::Last;
                    break;
                }
                Taken::Part(part) => reading.take(*part, &pieces).await,
                Taken::Trouble(odd @ Trouble::Odd { .. }) => {
                    return Err(reading.failed(lines.fault().unwrap_or(odd)));
                }
                Taken::Trouble(trouble) => return Err(reading.failed(trouble)),
            }
        }
        let is_done = matches!(reading.end, End::Possible | End::Last);
        match is_done && !events.is_within() {
            true => Ok(reading.reply()),
            false => {
                let what = "it ended before it was done".to_owned();
                Err(reading.failed(lines.fault().unwrap_or(Trouble::Cut { what })))
            }
        }
    }
}

/// Whether a refusal is about tools.
fn refuses_tools(said: &str) -> bool {
    let said = said.to_lowercase();
    let refuses = ["not support", "unsupported", "enable-auto-tool-choice"];
    let is_unknown = ["unknown", "unrecognized", "not permitted"];
    let any = |words: &[&str]| words.iter().any(|words| said.contains(words));
    let is_member = any(&["'tools'", "\"tools\"", "`tools`", ": tools"]);
    said.contains("tool") && (any(&refuses) || (is_member && any(&is_unknown)))
}

/// End of an answer, as far as its reasons show it: some servers send one with each part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum End {
    /// No reason has come.
    #[default]
    Unreported,
    /// The first reason came with the first text or call.
    Possible,
    /// The first reason came after text or calls without one.
    Last,
    /// More of the answer came after a reason. Only `[DONE]` ends it.
    Unknown,
}

/// What was read of an answer.
#[derive(Default)]
struct Reading {
    reply: Reply,
    /// The id of the answer, once a part with a choice names one.
    id: Option<String>,
    calls: Vec<SaidPieces>,
    /// Where the call is that a server counts so.
    places: BTreeMap<usize, usize>,
    end: End,
    /// Whether the server reported the end of the calls.
    has_called: bool,
    /// Set when the server reports that the model finished; more text or another call clears it.
    is_finished: bool,
    /// Whether the server reported any other end, or a text that is not of the model.
    is_broken: bool,
}

/// What has come of a call.
#[derive(Default)]
struct SaidPieces {
    id: Option<String>,
    name: String,
    arguments: String,
    /// Lengths of the text of the answer before its first and its last piece.
    place: (usize, usize),
}

impl SaidPieces {
    /// Whether a piece begins another call than this one.
    fn is_before(
        &self,
        id: Option<&str>,
        name: Option<&str>,
        more: &str,
        index: Option<usize>,
    ) -> bool {
        let has_other_id = id.is_some() && self.id.is_some() && self.id.as_deref() != id;
        let is_whole = || exact::value(&self.arguments).is_ok_and(|value| value.is_object());
        let has_begun = !self.name.is_empty() && !self.arguments.is_empty();
        let is_again = match name {
            Some(name) if name != self.name => {
                has_begun || (index.is_none() && !self.name.is_empty())
            }
            Some(_) if more.is_empty() => index.is_none() && !self.name.is_empty() && !has_begun,
            Some(_) => has_begun && is_whole(),
            None => false,
        };
        has_other_id || is_again
    }
}

impl Reading {
    async fn take(&mut self, part: Part, pieces: &mpsc::Sender<Piece>) {
        if let Some(usage) = part.usage {
            self.reply.usage = Usage {
                input: usage.prompt_tokens,
                output: usage.completion_tokens,
            };
        }
        let Some(choice) = part.choices.into_iter().find(Choice::is_first) else {
            return;
        };
        // A part of another answer never joins this one.
        let id = part.id.filter(|id| !id.is_empty());
        if id.is_some() && self.id.is_some() && id != self.id {
            return;
        }
        self.id = id.or(self.id.take());
        // An answer that does not stream is whole.
        let is_whole = choice.message.is_some() && choice.delta.is_none();
        let said = choice.delta.or(choice.message).unwrap_or_default();
        self.is_broken |= !is_of_model(&said.role);
        let thinking = [said.reasoning_content, said.reasoning, said.thinking];
        let thinking = thinking.iter().flatten().filter_map(Value::as_str);
        let thinking = { thinking }.find(|thinking| !thinking.is_empty());
        let thinking = thinking.map(|thinking| Piece::Thinking(thinking.to_owned()));
        let mut parts: Vec<Piece> = thinking.into_iter().collect();
        parts_of(&said.content, false, &mut parts);
        let is_empty =
            parts.is_empty() && said.tool_calls.is_empty() && said.function_call.is_none();
        let had_begun = self.has_begun();
        if !is_empty {
            self.is_finished = false;
            if self.end != End::Unreported {
                self.end = End::Unknown;
            }
        }
        for part in parts {
            match &part {
                Piece::Text(text) => self.reply.text.push_str(text),
                Piece::Thinking(text) => self.reply.thinking.push_str(text),
            }
            // Who listened may have gone.
            let _ = pieces.send(part).await;
        }
        for call in said.tool_calls {
            self.take_call(call);
        }
        // Servers older than `tools` have one call, which is counted by nothing.
        if let Some(function) = said.function_call {
            self.take_call(ToldCall {
                index: Some(0),
                id: None,
                function: Some(function),
            });
        }
        // Some servers send an empty reason with each piece.
        let reason = choice.finish_reason.filter(|reason| {
            let reason = reason.trim();
            !reason.is_empty() && !reason.eq_ignore_ascii_case("null")
        });
        let is_whole = is_whole && part.is_whole;
        self.is_finished |= is_whole;
        if let Some(reason) = reason.map(|reason| reason.trim().to_ascii_lowercase()) {
            let is_cut = CUT.contains(&reason.as_str());
            let is_finished = FINISHED.contains(&reason.as_str());
            self.reply.is_cut |= is_cut;
            self.is_finished |= is_finished;
            self.is_broken |= !is_cut && !is_finished;
            self.has_called = CALLED.contains(&reason.as_str());
            // Servers that send no `[DONE]` end with this.
            if self.end == End::Unreported {
                self.end = match had_begun {
                    true => End::Last,
                    false => End::Possible,
                };
            }
        }
        if is_whole {
            self.end = End::Last;
        }
    }

    /// Returns whether any text or call has come.
    fn has_begun(&self) -> bool {
        !self.reply.text.is_empty() || !self.calls.is_empty()
    }

    fn take_call(&mut self, call: ToldCall) {
        let function = call.function.unwrap_or_default();
        let id = call.id.filter(|id| !id.is_empty());
        let name = function.name.filter(|name| !name.is_empty());
        let more = function.arguments.map_or_else(String::new, |raw| {
            // Some send the arguments as an object.
            serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
        });
        let by_id = id.as_ref().and_then(|id| {
            let has_id = |begun: &SaidPieces| begun.id.as_ref() == Some(id);
            self.calls.iter().position(has_id)
        });
        let last = match call.index {
            Some(index) => self.places.get(&index).copied(),
            None => self.calls.len().checked_sub(1),
        };
        // Some servers count all calls alike, and some do not count them.
        let (new_id, new_name) = (id.as_deref(), name.as_deref());
        let is_other =
            |place: &usize| self.calls[*place].is_before(new_id, new_name, &more, call.index);
        let last = last.filter(|place| !is_other(place));
        let known = match call
            .index
            .is_none_or(|index| self.places.contains_key(&index))
        {
            true => by_id.or(last),
            false => None,
        };
        let place = known.unwrap_or(self.calls.len());
        if place >= MAX_CALLS {
            return;
        }
        if place == self.calls.len() {
            let at = self.reply.text.len();
            self.calls.push(SaidPieces {
                place: (at, at),
                ..SaidPieces::default()
            });
        }
        if let Some(index) = call.index {
            self.places.insert(index, place);
        }
        let begun = &mut self.calls[place];
        begun.id = id.or(begun.id.take());
        // Some send the whole name with every piece.
        if let Some(name) = name.filter(|name| begun.name != *name) {
            match name.starts_with(&begun.name) {
                // As far as it has come.
                true => begun.name = name,
                false => begun.name.push_str(&name),
            }
        }
        begun.arguments.push_str(&more);
        begun.place.1 = self.reply.text.len();
    }

    fn reply(self) -> Reply {
        let Self {
            mut reply,
            mut calls,
            has_called,
            is_finished,
            is_broken,
            ..
        } = self;
        reply.is_broken = is_broken || !(is_finished || reply.is_cut);
        let is_empty = |call: &SaidPieces| call.name.is_empty() && call.arguments.is_empty();
        calls.retain(|call| !is_empty(call));
        let places: Vec<(usize, usize)> = calls.iter().map(|call| call.place).collect();
        let calls = calls.into_iter().map(|call| SaidCall {
            id: call.id,
            name: call.name,
            arguments: match call.arguments.trim().is_empty() && has_called {
                // A whole call without arguments.
                true => Value::Null,
                false => exact::value_or_text(&call.arguments),
            },
            is_thought: false,
        });
        reply.calls = calls.collect();
        reply.mark_thought(places);
        reply
    }

    fn failed(self, trouble: Trouble) -> Failure {
        Failure {
            trouble,
            said: self.reply.text,
        }
    }
}

/// Returns whether the role of a message is the model's; servers may leave it out.
pub(super) fn is_of_model(role: &Value) -> bool {
    match role.as_str().map(str::trim) {
        Some(role) => {
            let own = ["", "assistant", "model", "ai"];
            own.iter().any(|own| role.eq_ignore_ascii_case(own))
        }
        None => role.is_null(),
    }
}

/// Adds the parts of a content: a text, a part, or a list of both. A part of a type that is neither text nor thinking
/// is dropped.
pub(super) fn parts_of(content: &Value, is_thinking: bool, parts: &mut Vec<Piece>) {
    match content {
        Value::String(text) if text.is_empty() => {}
        Value::String(text) if is_thinking => parts.push(Piece::Thinking(text.clone())),
        Value::String(text) => parts.push(Piece::Text(text.clone())),
        Value::Array(list) => {
            for part in list {
                parts_of(part, is_thinking, parts);
            }
        }
        Value::Object(_) => {
            let kind = match &content["type"] {
                Value::Null => "text".to_owned(),
                kind => kind.as_str().unwrap_or_default().to_ascii_lowercase(),
            };
            let is_thinking = is_thinking || kind.contains("think") || kind.contains("reason");
            if is_thinking || kind == "text" || kind == "output_text" {
                parts_of(&content["text"], is_thinking, parts);
                parts_of(&content["thinking"], true, parts);
                parts_of(&content["reasoning"], true, parts);
            }
        }
        _ => {}
    }
}

fn message(message: &Message, tools: &[Arc<Tool>]) -> Value {
    let shown = |name: &str| shown(name, tools);
    match message {
        Message::System(text) => json!({"role": "system", "content": text}),
        Message::User(text) => json!({"role": "user", "content": text}),
        Message::Assistant { text, calls } if calls.is_empty() => {
            json!({"role": "assistant", "content": text})
        }
        Message::Assistant { text, calls } => {
            let calls = calls.iter().map(|call| {
                let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
                json!({
                    "id": call.id, "type": "function",
                    "function": {"name": shown(&call.tool), "arguments": arguments},
                })
            });
            json!({"role": "assistant", "content": text, "tool_calls": calls.collect::<Vec<_>>()})
        }
        Message::Tool(answer) => {
            json!({"role": "tool", "tool_call_id": answer.call, "content": answer.text})
        }
    }
}

/// The images of an answer, which no tool may give by itself there.
fn images(answer: &Answer, tools: &[Arc<Tool>]) -> Value {
    let text = format!("The images that {} answered:", shown(&answer.tool, tools));
    let mut parts = vec![json!({"type": "text", "text": text})];
    parts.extend(answer.images.iter().map(|image| {
        let url = format!("data:{};base64,{}", image.mime, image.data);
        json!({"type": "image_url", "image_url": {"url": url}})
    }));
    json!({"role": "user", "content": parts})
}

impl Backend for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn model(&self) -> &str {
        &self.0.model
    }

    fn about(&self) -> BoxFuture<Result<About, Trouble>> {
        // There is nothing to ask for it.
        Box::pin(std::future::ready(Ok(About::default())))
    }

    fn models(&self) -> BoxFuture<Result<Vec<String>, Trouble>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let models = inner.models().await;
            models.map_err(|trouble| inner.masked(trouble))
        })
    }

    fn ask(
        &self,
        request: Request,
        pieces: mpsc::Sender<Piece>,
    ) -> BoxFuture<Result<Reply, Failure>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let reply = inner.ask(request, pieces).await;
            reply.map_err(|failure| Failure {
                trouble: inner.masked(failure.trouble),
                ..failure
            })
        })
    }
}
