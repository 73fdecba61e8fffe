//! A server of a model on this machine, which says what it is told to, in the wire formats that the servers of models
//! have, and notes what it was asked.
//!
//! Ollama as its documents had it in two versions: `docs/api.md` of ollama/ollama at 01e52d24 (0.5: tools and streams
//! exclude each other, an answer is one object, calls have no id), and `docs/capabilities/{streaming,tool-calling}.mdx`
//! at 0c5e44f4 (0.12: calls come in a stream, with an index, beside thoughts). OpenAI's `POST /chat/completions` as its
//! API reference has it: `chat.completion.chunk` objects in server-sent events.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// What it was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// `GET /api/tags`.
    pub(crate) what: String,
    /// The head, as it came.
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// What it says.
#[derive(Debug, Clone)]
pub(crate) enum Say {
    /// An answer with a status.
    Whole(u16, Value),
    /// Pieces, one after the other.
    Stream(Vec<String>),
    /// Bytes, which may end within a letter.
    Bytes(Vec<Vec<u8>>),
    /// The same, and then the connection breaks.
    Cut(Vec<String>),
    /// The same, and then nothing more.
    Hang(Vec<String>),
    /// Pieces, each so long after the other.
    Slowly(Duration, Vec<String>),
    /// An answer of this content coding.
    Coded(&'static str),
    /// The connection breaks before anything is said.
    Nothing,
}

/// The server.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    /// Starts one that answers by what it is asked, and how often that was asked before.
    pub(crate) fn start(answer: impl Fn(&Asked, usize) -> Say + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (seen, answer) = (Arc::clone(&asked), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &seen, &*answer));
            }
        });
        Self { address, asked }
    }

    /// An Ollama of this version, whose model says one after the other.
    pub(crate) fn ollama(version: &'static str, says: Vec<Say>) -> Self {
        Self::start(move |asked, times| match asked.what.as_str() {
            "POST /api/chat" => says.get(times).cloned().unwrap_or_else(|| {
                let lines = Ollama(version).words(&["I have nothing more to say."]);
                Say::Stream(lines)
            }),
            _ => Ollama(version).about(&asked.what, &asked.body),
        })
    }

    /// A server that takes what OpenAI's takes, whose model says one after the other.
    pub(crate) fn openai(says: Vec<Say>) -> Self {
        Self::start(move |asked, times| match asked.what.as_str() {
            "POST /v1/chat/completions" => says
                .get(times)
                .cloned()
                .unwrap_or_else(|| Say::Stream(OpenAi.words(&["I have nothing more to say."]))),
            "GET /v1/models" => Say::Whole(
                200,
                json!({"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": "us"}]}),
            ),
            _ => Say::Whole(404, json!({"error": {"message": "Not Found", "code": 404}})),
        })
    }

    /// What it was asked to say.
    pub(crate) fn chats(&self) -> Vec<Asked> {
        let asked = self.asked.lock().expect("no panic").clone();
        let is_chat =
            |asked: &Asked| asked.what.ends_with("/chat") || asked.what.ends_with("/completions");
        asked.into_iter().filter(is_chat).collect()
    }

    /// Everything that it was asked.
    #[allow(dead_code, reason = "not every test looks at all of it")]
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }
}

/// The shapes of a version of Ollama.
pub(crate) struct Ollama(pub(crate) &'static str);

impl Ollama {
    fn is_old(&self) -> bool {
        self.0.starts_with("0.5")
    }

    pub(crate) fn about(&self, what: &str, body: &Value) -> Say {
        match what {
            "GET /api/version" => Say::Whole(200, json!({"version": self.0})),
            "GET /api/tags" => Say::Whole(
                200,
                json!({"models": [{
                    "name": "tiny:latest", "modified_at": "2023-11-04T14:56:49.277302595-07:00",
                    "size": 3_825_819_519_u64, "digest": "fe938a131f40", "details": {"format": "gguf", "family": "llama"},
                }]}),
            ),
            "POST /api/show" => {
                let model = body["model"].as_str().unwrap_or_default();
                if model.starts_with("missing") {
                    return Say::Whole(404, json!({"error": format!("model '{model}' not found")}));
                }
                let mut shown = json!({
                    "modelfile": "", "parameters": "", "template": "{{ .Prompt }}",
                    "details": {"format": "gguf", "family": "llama", "parameter_size": "1.2B"},
                    "model_info": {"general.architecture": "llama", "llama.context_length": 8_192},
                });
                if !self.is_old() {
                    shown["capabilities"] = match model.starts_with("blind") {
                        true => json!(["completion"]),
                        false => json!(["completion", "tools", "vision"]),
                    };
                }
                Say::Whole(200, shown)
            }
            _ => Say::Whole(404, json!({"error": "not found"})),
        }
    }

    /// Words, a line each.
    pub(crate) fn words(&self, pieces: &[&str]) -> Vec<String> {
        let mut lines: Vec<String> = pieces
            .iter()
            .map(|piece| self.line(&json!({"role": "assistant", "content": piece})))
            .collect();
        lines.push(self.last(None));
        lines
    }

    /// Calls, behind words that may be empty.
    pub(crate) fn calls(&self, words: &str, calls: &[(&str, Value)]) -> Vec<String> {
        if self.is_old() {
            let calls: Vec<Value> = calls
                .iter()
                .map(
                    |(name, arguments)| json!({"function": {"name": name, "arguments": arguments}}),
                )
                .collect();
            return vec![self.last(Some(
                json!({"role": "assistant", "content": words, "tool_calls": calls}),
            ))];
        }
        let mut lines =
            vec![self.line(&json!({"role": "assistant", "content": words, "thinking": "I see. "}))];
        for (index, (name, arguments)) in calls.iter().enumerate() {
            lines.push(
                self.line(&json!({"role": "assistant", "content": "", "tool_calls": [{
                    "id": format!("call_{index}"),
                    "function": {"index": index, "name": name, "arguments": arguments},
                }]})),
            );
        }
        lines.push(self.last(None));
        lines
    }

    pub(crate) fn line(&self, message: &Value) -> String {
        let line = json!({
            "model": "tiny", "created_at": "2025-07-07T20:22:19.184789Z", "message": message, "done": false,
        });
        format!("{line}\n")
    }

    /// The last line, or a whole answer.
    pub(crate) fn last(&self, message: Option<Value>) -> String {
        let mut line = json!({
            "model": "tiny", "created_at": "2025-07-07T20:22:19.19314Z", "done_reason": "stop", "done": true,
            "total_duration": 182_242_375, "load_duration": 41_295_167, "prompt_eval_count": 169,
            "prompt_eval_duration": 24_573_166, "eval_count": 15, "eval_duration": 115_959_084,
        });
        match (message, self.is_old()) {
            (Some(message), _) => line["message"] = message,
            // The old ones end a stream without one.
            (None, true) => {}
            (None, false) => line["message"] = json!({"role": "assistant", "content": ""}),
        }
        format!("{line}\n")
    }
}

/// The shapes of OpenAI's chunks.
pub(crate) struct OpenAi;

impl OpenAi {
    /// Words, an event each.
    pub(crate) fn words(&self, pieces: &[&str]) -> Vec<String> {
        let mut events = vec![self.event(&json!({"role": "assistant", "content": ""}), None)];
        events.extend(
            pieces
                .iter()
                .map(|piece| self.event(&json!({"content": piece}), None)),
        );
        events.push(self.event(&json!({}), Some("stop")));
        events.extend(self.end());
        events
    }

    /// Calls, whose arguments come in pieces of a text.
    pub(crate) fn calls(&self, calls: &[(&str, Value)]) -> Vec<String> {
        let mut events = vec![self.event(&json!({"role": "assistant", "content": null}), None)];
        for (index, (name, arguments)) in calls.iter().enumerate() {
            events.push(self.event(
                &json!({"tool_calls": [{
                    "index": index, "id": format!("call_{index}"), "type": "function",
                    "function": {"name": name, "arguments": ""},
                }]}),
                None,
            ));
            let text: Vec<char> = arguments.to_string().chars().collect();
            for piece in text.chunks(5) {
                let piece: String = piece.iter().collect();
                events.push(self.event(
                    &json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
                    None,
                ));
            }
        }
        events.push(self.event(&json!({}), Some("tool_calls")));
        events.extend(self.end());
        events
    }

    pub(crate) fn event(&self, delta: &Value, reason: Option<&str>) -> String {
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_694_268_190, "model": "tiny",
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}], "usage": null,
        });
        format!("data: {chunk}\n\n")
    }

    pub(crate) fn end(&self) -> [String; 2] {
        let usage = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_694_268_190, "model": "tiny",
            "choices": [], "usage": {"prompt_tokens": 169, "completion_tokens": 15, "total_tokens": 184},
        });
        [format!("data: {usage}\n\n"), "data: [DONE]\n\n".to_owned()]
    }
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked, usize) -> Say) {
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader) {
        let times = {
            let mut seen = seen.lock().expect("no panic");
            let times = seen.iter().filter(|one| one.what == asked.what).count();
            seen.push(asked.clone());
            times
        };
        let stream = reader.get_mut();
        let goes_on = match answer(&asked, times) {
            Say::Nothing => false,
            Say::Whole(status, body) => {
                let body = body.to_string();
                let head = format!(
                    "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all(format!("{head}{body}").as_bytes()).is_ok()
            }
            Say::Coded(coding) => {
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: 1\r\n\r\n\x1f"
                );
                stream.write_all(head.as_bytes()).is_ok()
            }
            Say::Stream(pieces) => {
                said(stream, &pieces, Duration::ZERO) && stream.write_all(b"0\r\n\r\n").is_ok()
            }
            Say::Bytes(pieces) => {
                said_bytes(stream, &pieces, Duration::ZERO)
                    && stream.write_all(b"0\r\n\r\n").is_ok()
            }
            Say::Slowly(pause, pieces) => {
                said(stream, &pieces, pause) && stream.write_all(b"0\r\n\r\n").is_ok()
            }
            Say::Cut(pieces) => {
                said(stream, &pieces, Duration::ZERO);
                false
            }
            Say::Hang(pieces) => {
                said(stream, &pieces, Duration::ZERO);
                // Until whoever waits goes.
                let _ = reader.read(&mut [0; 1]);
                false
            }
        };
        if !goes_on {
            return;
        }
    }
}

/// Says pieces, each as a chunk of its own; whether somebody listens.
fn said(stream: &mut TcpStream, pieces: &[String], pause: Duration) -> bool {
    let pieces: Vec<Vec<u8>> = pieces
        .iter()
        .map(|piece| piece.as_bytes().to_vec())
        .collect();
    said_bytes(stream, &pieces, pause)
}

fn said_bytes(stream: &mut TcpStream, pieces: &[Vec<u8>], pause: Duration) -> bool {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut is_heard = stream.write_all(head).is_ok();
    for piece in pieces {
        thread::sleep(pause);
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        is_heard &= stream.write_all(&chunk).is_ok();
    }
    is_heard
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if head[before..].trim().is_empty() {
            break;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = vec![0; length.unwrap_or_default()];
    reader.read_exact(&mut body).ok()?;
    let what = head.lines().next()?.rsplit_once(' ')?.0.to_owned();
    Some(Asked {
        what,
        head,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}
