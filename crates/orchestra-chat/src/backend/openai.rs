//! Any server that takes `POST /chat/completions` as OpenAI defined it: many do, and most leave something out.
//!
//! A stream is made of server-sent events whose data is one object each, and ends with `[DONE]`. A call comes in
//! pieces that are put together by their index; its arguments are a text.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use orchestra_remote::{Endpoint, EndpointError, Fault};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    About, Backend, BoxFuture, Failure, MAX_ANSWER, MAX_CALLS, Manner, lines::Lines, ollama::shown,
    trouble_of,
};
use crate::{
    message::{Answer, Message},
    request::{Piece, Reply, Request, SaidCall, Trouble, Usage},
    tool::Tool,
};

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
        let found: Value = serde_json::from_slice(&whole).map_err(|error| Trouble::Odd {
            what: format!("its list of models is no JSON: {error}"),
        })?;
        let models = found["data"].as_array().into_iter().flatten();
        let names = models.filter_map(|model| model["id"].as_str());
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
        loop {
            let line = match lines.next().await {
                Ok(line) => line,
                // All of it has come.
                Err(_) if reading.is_done => break,
                Err(fault) => return Err(reading.failed(self.trouble(fault))),
            };
            let Some(line) = line else { break };
            let data = match line.strip_prefix("data:") {
                Some(data) => data.trim(),
                // A server that does not stream answers with one object.
                None if line.starts_with('{') => line.as_str(),
                // A comment, or the name of an event.
                None => continue,
            };
            if data == "[DONE]" {
                reading.is_done = true;
                break;
            }
            let part: Part = match serde_json::from_str(data) {
                Ok(part) => part,
                Err(error) => {
                    let what = format!("a part of its answer cannot be read: {error}");
                    return Err(reading.failed(Trouble::Odd { what }));
                }
            };
            if let Some(error) = part.error {
                let what = match &error["message"] {
                    Value::String(text) => text.clone(),
                    _ => error.to_string(),
                };
                return Err(reading.failed(Trouble::Busy { what }));
            }
            reading.take(part, &pieces).await;
        }
        match reading.is_done {
            true => Ok(reading.reply()),
            false => {
                let what = "it ended before it was done".to_owned();
                Err(reading.failed(Trouble::Cut { what }))
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

/// What was read of an answer.
#[derive(Default)]
struct Reading {
    reply: Reply,
    calls: Vec<SaidPieces>,
    /// Where the call is that a server counts so.
    places: BTreeMap<usize, usize>,
    is_done: bool,
}

/// What has come of a call.
#[derive(Default)]
struct SaidPieces {
    id: Option<String>,
    name: String,
    arguments: String,
}

impl Reading {
    async fn take(&mut self, part: Part, pieces: &mpsc::Sender<Piece>) {
        if let Some(usage) = part.usage {
            self.reply.usage = Usage {
                input: usage.prompt_tokens.unwrap_or_default(),
                output: usage.completion_tokens.unwrap_or_default(),
            };
        }
        let Some(choice) = part.choices.unwrap_or_default().into_iter().next() else {
            return;
        };
        let said = choice.delta.or(choice.message).unwrap_or_default();
        let thinking = said.reasoning_content.or(said.reasoning);
        if let Some(thinking) = thinking.filter(|text| !text.is_empty()) {
            self.reply.thinking.push_str(&thinking);
            // Who listened may have gone.
            let _ = pieces.send(Piece::Thinking(thinking)).await;
        }
        if let Some(text) = said.content.filter(|text| !text.is_empty()) {
            self.reply.text.push_str(&text);
            let _ = pieces.send(Piece::Text(text)).await;
        }
        for call in said.tool_calls.unwrap_or_default() {
            self.take_call(call);
        }
        if let Some(reason) = choice.finish_reason {
            self.reply.is_cut = reason == "length";
            // Servers that send no `[DONE]` end with this.
            self.is_done = true;
        }
    }

    fn take_call(&mut self, call: ToldCall) {
        let function = call.function.unwrap_or_default();
        let id = call.id.filter(|id| !id.is_empty());
        // Servers that count nothing begin a new one with a name, and some count all of them alike.
        let place = match call.index {
            Some(index) => self.places.get(&index).copied(),
            None if function.name.is_some() => None,
            None => self.calls.len().checked_sub(1),
        };
        let is_other = |begun: &SaidPieces| {
            let other_id = id.is_some() && begun.id.is_some() && begun.id != id;
            let other_name = !begun.arguments.is_empty()
                && (function.name.as_ref())
                    .is_some_and(|name| !name.is_empty() && *name != begun.name);
            other_id || other_name
        };
        let place = place.filter(|place| !is_other(&self.calls[*place]));
        let place = place.unwrap_or(self.calls.len());
        if place >= MAX_CALLS {
            return;
        }
        if place == self.calls.len() {
            self.calls.push(SaidPieces::default());
        }
        if let Some(index) = call.index {
            self.places.insert(index, place);
        }
        let begun = &mut self.calls[place];
        begun.id = id.or(begun.id.take());
        if let Some(more) = function.name {
            // Some send the whole name with every piece.
            if begun.name != more {
                begun.name.push_str(&more);
            }
        }
        match function.arguments {
            Some(Value::String(more)) => begun.arguments.push_str(&more),
            Some(Value::Null) | None => {}
            Some(other) => begun.arguments.push_str(&other.to_string()),
        }
    }

    fn reply(self) -> Reply {
        let Self {
            mut reply, calls, ..
        } = self;
        let calls = calls.into_iter().filter(|call| !call.name.is_empty());
        reply.calls = calls
            .map(|call| SaidCall {
                id: call.id,
                name: call.name,
                arguments: serde_json::from_str(&call.arguments)
                    .unwrap_or(Value::String(call.arguments)),
            })
            .collect();
        reply
    }

    fn failed(self, trouble: Trouble) -> Failure {
        Failure {
            trouble,
            said: self.reply.text,
        }
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

#[derive(Deserialize, Default)]
struct Part {
    choices: Option<Vec<Choice>>,
    usage: Option<Used>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Said>,
    message: Option<Said>,
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct Said {
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<ToldCall>>,
}

#[derive(Deserialize)]
struct ToldCall {
    index: Option<usize>,
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize, Default)]
struct Function {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct Used {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
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
        Box::pin(async move { inner.models().await })
    }

    fn ask(
        &self,
        request: Request,
        pieces: mpsc::Sender<Piece>,
    ) -> BoxFuture<Result<Reply, Failure>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.ask(request, pieces).await })
    }
}
