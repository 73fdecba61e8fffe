//! Ollama: `POST /api/chat` and what stands beside it, as `docs/api.md` of ollama/ollama has them.
//!
//! A stream is one JSON object in each line, of which the last has `done: true`. A call has its arguments as an object
//! and no id before version 0.12; servers before 0.8 cannot stream while there are tools.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use orchestra_remote::{Endpoint, EndpointError, Fault};
use orchestra_wire::without_mark;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::mpsc;

use super::{
    About, Backend, BoxFuture, Failure, MAX_ANSWER, MAX_CALLS, Manner,
    lines::Lines,
    openai::{is_of_model, parts_of},
    parts::{count, failure, id, lenient, object_of, reported, several},
    trouble_of,
};
use crate::{
    exact,
    message::Message,
    request::{Piece, Reply, Request, SaidCall, Trouble, Usage},
    tool::{NAME_CHARS, Tool, legal},
};

/// Where it is unless it is said.
pub(crate) const USUAL: &str = "http://127.0.0.1:11434";

/// A model of an Ollama server.
#[derive(Debug, Clone)]
pub struct Ollama(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    endpoint: Endpoint,
    model: String,
    manner: Manner,
    /// Whether it is an old one, which cannot stream while there are tools.
    is_old: AtomicBool,
}

impl Ollama {
    /// A model of a server; what `OLLAMA_HOST` says is an address that may lack its scheme or port.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(
        host: &str,
        key: Option<&str>,
        model: &str,
        manner: Manner,
    ) -> Result<Self, EndpointError> {
        Ok(Self(Arc::new(Inner {
            endpoint: Endpoint::new(&address(host), key)?,
            model: model.to_owned(),
            manner,
            is_old: AtomicBool::new(false),
        })))
    }

    /// The server, as it may be shown.
    #[must_use]
    pub fn server(&self) -> &str {
        self.0.endpoint.server()
    }
}

/// The address that `OLLAMA_HOST` means.
fn address(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    if host.is_empty() {
        return USUAL.to_owned();
    }
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (name, path) = rest
        .split_once('/')
        .map_or((rest, ""), |(name, path)| (name, path));
    // Where a server listens on all addresses, it is asked on this machine.
    let name = match name {
        "0.0.0.0" | "[::]" => "127.0.0.1".to_owned(),
        name => name
            .replacen("0.0.0.0:", "127.0.0.1:", 1)
            .replacen("[::]:", "127.0.0.1:", 1),
    };
    let last = name.rsplit(']').next().unwrap_or(&name);
    let name = match last.contains(':') || scheme == "https" {
        true => name,
        false => format!("{name}:11434"),
    };
    let path = if path.is_empty() {
        String::new()
    } else {
        format!("/{path}")
    };
    format!("{scheme}://{name}{path}")
}

impl Inner {
    /// Masks the key and other secrets in the words of a trouble: some servers repeat what they were sent.
    fn masked(&self, trouble: Trouble) -> Trouble {
        trouble.map_text(|text| self.endpoint.masked(text))
    }

    /// What a refusal is to a conversation.
    fn trouble(&self, fault: Fault) -> Trouble {
        match fault {
            Fault::Unreachable(what) => Trouble::Unreachable {
                what: format!(
                    "{what}; is Ollama running at {}? `ollama serve` starts it",
                    self.endpoint.server()
                ),
            },
            Fault::Refused { status: 404, said }
                if said.contains("not found") && said.contains("model") =>
            {
                Trouble::NoModel {
                    model: self.model.clone(),
                    hint: format!("`ollama pull {}` fetches it", self.model),
                }
            }
            Fault::Refused { status: 400, said } if said.contains("does not support tools") => {
                Trouble::NoTools
            }
            other => trouble_of(other),
        }
    }

    async fn json(&self, path: &[&str], body: Option<Value>) -> Result<Value, Fault> {
        let body = body.map(|body| body.to_string().into_bytes());
        let answer = self.endpoint.ask(path, body, self.manner.brief()).await?;
        let whole = answer.whole(MAX_ANSWER).await?;
        serde_json::from_slice(without_mark(&whole))
            .map_err(|error| Fault::Broken(format!("its response is not valid JSON: {error}")))
    }

    async fn about(&self) -> Result<About, Trouble> {
        // Not every server says which version it is; one that does not is none of the old ones.
        if let Ok(version) = self.json(&["api", "version"], None).await {
            let version = version["version"].as_str().unwrap_or_default();
            self.is_old
                .store(is_before_streams(version), Ordering::Relaxed);
        }
        // Old servers know it by `name`.
        let asked = json!({"model": self.model, "name": self.model});
        let shown = self.json(&["api", "show"], Some(asked)).await;
        let shown = shown.map_err(|fault| self.trouble(fault))?;
        let can = |what: &str| {
            let all = shown["capabilities"].as_array()?;
            Some(all.iter().any(|one| one == what))
        };
        let facts = shown["model_info"].as_object().into_iter().flatten();
        let context = facts
            .filter(|(name, _)| name.ends_with(".context_length"))
            .find_map(|(_, length)| usize::try_from(length.as_u64()?).ok());
        Ok(About {
            context,
            takes_tools: can("tools"),
            sees: can("vision").unwrap_or_default(),
        })
    }

    fn body(&self, request: &Request, streams: bool) -> Value {
        let mut options = json!({"num_ctx": request.context});
        if let Some(temperature) = self.manner.temperature {
            options["temperature"] = json!(temperature);
        }
        if let Some(seed) = self.manner.seed {
            options["seed"] = json!(seed);
        }
        let told = request.messages.iter();
        let messages: Vec<Value> = told.map(|one| message(one, &request.tools)).collect();
        let mut body = json!({
            "model": self.model, "messages": messages, "stream": streams, "options": options,
        });
        if !request.tools.is_empty() {
            body["tools"] = super::offered(&request.tools);
        }
        body
    }

    async fn ask(&self, request: Request, pieces: mpsc::Sender<Piece>) -> Result<Reply, Failure> {
        let streams = request.tools.is_empty() || !self.is_old.load(Ordering::Relaxed);
        let body = self.body(&request, streams).to_string().into_bytes();
        let answer = self
            .endpoint
            .ask(&["api", "chat"], Some(body), self.manner.limits())
            .await;
        let answer = answer.map_err(|fault| self.trouble(fault))?;
        let mut lines = Lines::new(answer);
        let mut reply = Reply::default();
        // Lengths of the text before each call.
        let mut places = Vec::new();
        let failed = |trouble, reply: &Reply| Failure {
            trouble,
            said: reply.text.clone(),
        };
        loop {
            let line = match lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => {
                    let what = "it ended before it was done".to_owned();
                    let trouble = lines.fault().unwrap_or(Trouble::Cut { what });
                    return Err(failed(trouble, &reply));
                }
                Err(fault) => return Err(failed(self.trouble(fault), &reply)),
            };
            // A proxy puts some answers into events, and sends comments and other events between them.
            let line = match line.split_once(':') {
                Some(("data", data)) => data.trim(),
                Some(("" | "event" | "id" | "retry", _)) => continue,
                Some(("error", error)) => {
                    let trouble = reported(&Value::from(error.trim()));
                    return Err(failed(trouble, &reply));
                }
                _ => line.as_str(),
            };
            if line.is_empty() || line == "[DONE]" {
                continue;
            }
            let read = object_of(line)
                .and_then(|object| object.map(serde_json::from_str::<Part>).transpose());
            let part = match read {
                Ok(Some(part)) => part,
                Ok(None) => continue,
                Err(error) => {
                    let what = format!("a line of its answer is no part of one: {error}");
                    let trouble = lines.fault().unwrap_or(Trouble::Odd { what });
                    return Err(failed(trouble, &reply));
                }
            };
            let error = part.error.as_ref().or(part.errors.as_ref());
            if let Some(error) = error.or(part.detail.as_ref()) {
                let trouble = match reported(error) {
                    Trouble::Refused { said, .. } if said.contains("does not support tools") => {
                        Trouble::NoTools
                    }
                    trouble => trouble,
                };
                return Err(failed(trouble, &reply));
            }
            let is_done = part.done == Some(true);
            take(part, &mut reply, &pieces).await;
            places.resize(reply.calls.len(), (reply.text.len(), reply.text.len()));
            if is_done {
                reply.mark_thought(places);
                return Ok(reply);
            }
        }
    }
}

/// Takes a part of an answer in, and sends its words on.
async fn take(part: Part, reply: &mut Reply, pieces: &mpsc::Sender<Piece>) {
    let Said {
        role,
        content,
        thinking,
        tool_calls,
    } = part.message.unwrap_or_default();
    reply.is_broken |= !is_of_model(&role);
    let mut parts = Vec::new();
    parts_of(&thinking, true, &mut parts);
    parts_of(&content, false, &mut parts);
    for part in parts {
        match &part {
            Piece::Thinking(text) => reply.thinking.push_str(text),
            Piece::Text(text) => reply.text.push_str(text),
        }
        // Who listened may have gone.
        let _ = pieces.send(part).await;
    }
    for call in tool_calls {
        if reply.calls.len() < MAX_CALLS {
            reply.calls.push(SaidCall {
                id: call.id,
                name: call.function.name.unwrap_or_default(),
                arguments: call
                    .function
                    .arguments
                    .map_or(Value::Null, |raw| exact::value_or_text(raw.get())),
                is_thought: false,
            });
        }
    }
    if part.done == Some(true) {
        match part.done_reason.as_deref() {
            Some("length") => reply.is_cut = true,
            // Old servers send none.
            None | Some("" | "stop" | "tool_calls") => {}
            Some(_) => reply.is_broken = true,
        }
        reply.usage = Usage {
            input: part.prompt_eval_count,
            output: part.eval_count,
        };
    }
}

/// Whether a version of the server is one that cannot stream while there are tools: those before 0.8.
fn is_before_streams(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>());
    matches!((parts.next(), parts.next()), (Some(Ok(0)), Some(Ok(minor))) if minor < 8)
        && version != "0.0.0"
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
                json!({"function": {"name": shown(&call.tool), "arguments": call.arguments}})
            });
            json!({"role": "assistant", "content": text, "tool_calls": calls.collect::<Vec<_>>()})
        }
        Message::Tool(answer) => {
            let mut told =
                json!({"role": "tool", "content": answer.text, "tool_name": shown(&answer.tool)});
            if !answer.images.is_empty() {
                let images = answer.images.iter().map(|image| image.data.as_str());
                told["images"] = json!(images.collect::<Vec<_>>());
            }
            told
        }
    }
}

/// The name of a tool as models are shown it, of one that may not be there any more.
pub(super) fn shown(name: &str, tools: &[Arc<Tool>]) -> String {
    if let Some(tool) = tools.iter().find(|tool| tool.name() == name) {
        return tool.shown().to_owned();
    }
    let shown: String = name.chars().take(NAME_CHARS).map(legal).collect();
    if shown.is_empty() {
        "unknown".to_owned()
    } else {
        shown
    }
}

/// A line of a stream, or a whole answer.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Part {
    #[serde(deserialize_with = "lenient")]
    message: Option<Said>,
    #[serde(deserialize_with = "lenient")]
    done: Option<bool>,
    #[serde(deserialize_with = "lenient")]
    done_reason: Option<String>,
    #[serde(deserialize_with = "count")]
    prompt_eval_count: u64,
    #[serde(deserialize_with = "count")]
    eval_count: u64,
    #[serde(deserialize_with = "failure")]
    error: Option<Value>,
    #[serde(deserialize_with = "failure")]
    errors: Option<Value>,
    #[serde(deserialize_with = "failure")]
    detail: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Said {
    role: Value,
    content: Value,
    thinking: Value,
    #[serde(deserialize_with = "several")]
    tool_calls: Vec<ToldCall>,
}

#[derive(Deserialize)]
struct ToldCall {
    #[serde(default, deserialize_with = "id")]
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default, deserialize_with = "lenient")]
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
}

impl Backend for Ollama {
    fn name(&self) -> &'static str {
        "ollama"
    }

    fn model(&self) -> &str {
        &self.0.model
    }

    fn about(&self) -> BoxFuture<Result<About, Trouble>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let about = inner.about().await;
            about.map_err(|trouble| inner.masked(trouble))
        })
    }

    fn models(&self) -> BoxFuture<Result<Vec<String>, Trouble>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let found = inner.json(&["api", "tags"], None).await;
            let found = found.map_err(|fault| inner.masked(inner.trouble(fault)))?;
            let models = found["models"].as_array().into_iter().flatten();
            let names = models.filter_map(|model| model["name"].as_str());
            Ok(names.map(str::to_owned).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_lack_its_scheme_or_port() {
        for (host, expected) in [
            ("", USUAL),
            ("localhost", "http://localhost:11434"),
            ("box:8080", "http://box:8080"),
            ("http://box", "http://box:11434"),
            ("https://ollama.com", "https://ollama.com"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:5000", "http://127.0.0.1:5000"),
            ("[::1]", "http://[::1]:11434"),
            ("http://box:1/below/", "http://box:1/below"),
        ] {
            assert_eq!(address(host), expected, "{host}");
        }
    }

    #[test]
    fn old_servers_are_known_by_their_version() {
        for (version, is_old) in [
            ("0.1.32", true),
            ("0.7.1", true),
            ("0.8.0", false),
            ("0.12.3", false),
            ("1.0.0", false),
            ("0.0.0", false),
            ("", false),
            ("dev", false),
        ] {
            assert_eq!(is_before_streams(version), is_old, "{version}");
        }
    }
}
