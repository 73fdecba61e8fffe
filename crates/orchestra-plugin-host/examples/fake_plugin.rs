//! A plugin of many faults, for the tests: it guards its own children, and misbehaves as the mode
//! in its arguments says.

#![expect(clippy::unwrap_used, reason = "a fixture fails by panicking")]

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::Write as _,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orchestra_mcp::client::{Connector, Launcher};
use orchestra_plugin::{
    certs::CertDir,
    envelope::{PayloadOf, Request, RequestKind, Response, ResponseKind},
    field::Fields,
    generated::{
        BootResult, ContentBlock, HealthResult, ListPromptsResponse, ListToolsResponse, McpRequest,
        McpResponse, PromptDefinition, PromptGetResponse, PromptMessage, Publish,
        RegistrationResult, ShutdownResult, StreamCancel, StreamChunk, StreamEnd, StreamStart,
        ToolDefinition, ToolRequest, ToolResponse,
    },
    quic::{Endpoint, Handler, Limits, Pace, Peer, Reply},
    structs::{self, Numbers, Style},
};
use orchestra_plugin_host::link::{PluginConnector, PluginSpec};
use orchestra_process::{CHILD_COMMAND, child_main};
use rustix::process::Signal;
use tokio::sync::watch;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == CHILD_COMMAND) {
        arguments.next();
        return child_main(arguments);
    }
    let flags: BTreeMap<String, String> = arguments
        .filter_map(|word| {
            let word = word.into_string().unwrap();
            let (name, value) = word.strip_prefix("--")?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    match flags.get("host") {
        Some(home) => runtime.block_on(host(PathBuf::from(home))),
        None => runtime.block_on(run(flags)),
    }
    ExitCode::SUCCESS
}

/// An orchestrator with one plugin, which is this program: for those who kill orchestrators.
async fn host(home: PathBuf) {
    let program = std::env::current_exe().unwrap();
    let id = "fake.plugin".parse().unwrap();
    let mut spec = PluginSpec::new(id, &program, home.join("certs"));
    spec.process.launcher = Some(Launcher::new(&program, [CHILD_COMMAND]));
    let tally = format!("--tally={}", home.join("tally").display());
    let words = ["--mode=ignore-shutdown", "--id=fake.plugin", &tally];
    spec.process.args.extend(words.map(Into::into));
    let connected = PluginConnector::new(spec).connect().await.unwrap();
    say("connected\n");
    connected.link.ended().await;
}

fn say(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

async fn run(flags: BTreeMap<String, String>) {
    let flag = |name: &str| flags.get(name).cloned().unwrap_or_default();
    let (mode, id) = (flag("mode"), flag("id"));
    let tally = PathBuf::from(flag("tally"));
    note(&tally, &format!("pid {}", std::process::id()));
    let certs = CertDir::open(flag("certs-dir")).unwrap();
    let identity = certs.identity(&id.parse().unwrap(), SystemTime::now());
    let identity = identity.unwrap();
    let endpoint = Endpoint::bind(Endpoint::LOOPBACK, &identity, Pace::default()).unwrap();
    let fake = Fake {
        mode: mode.clone(),
        tally,
        changes: AtomicUsize::new(0),
        meeting: watch::Sender::new(0),
    };
    let _serving = endpoint.serve(Arc::new(fake), Limits::default());
    say("a line of its own\n");
    match mode.as_str() {
        "no-ready" => {}
        "elsewhere" => say("READY 192.0.2.1:4433\n"),
        "no-address" => say("READY soon\n"),
        "dies" => {
            say("the last words\n");
            std::process::exit(7);
        }
        _ => say(&format!("READY {}\n", endpoint.address().unwrap())),
    }
    if mode == "flood" {
        let line = format!("{}\n", "x".repeat(1023));
        (0..1024).for_each(|_| say(&line));
    }
    if mode == "ignore-shutdown" {
        let kind = tokio::signal::unix::SignalKind::terminate();
        let mut terminated = tokio::signal::unix::signal(kind).unwrap();
        loop {
            terminated.recv().await;
        }
    }
    std::future::pending::<()>().await;
}

/// Appends a line to a file, in one write.
fn note(path: &PathBuf, line: &str) {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

struct Fake {
    mode: String,
    tally: PathBuf,
    /// How often its tools have changed.
    changes: AtomicUsize,
    /// How many wait for each other.
    meeting: watch::Sender<u64>,
}

fn answer<M: PayloadOf<ResponseKind>>(id: &str, message: &M) -> Bytes {
    Response::new(id, message).encode()
}

/// The fields of a message that only a later schema has, as they came, so that they can be seen to
/// have come.
fn later_fields(message: &Bytes) -> Vec<u8> {
    let fields = Fields::new(message).map(Result::unwrap);
    let later = fields.filter(|field| (50..100).contains(&field.number));
    later
        .flat_map(|field| message[field.start..field.end].to_vec())
        .collect()
}

fn with_fields(response: &Response, fields: &[u8]) -> Response {
    let payload = [&response.payload()[..], fields].concat();
    Response::raw(
        response.request_id(),
        response.kind().unwrap(),
        payload.into(),
    )
}

fn text(text: &str) -> ToolResponse {
    let json = serde_json::json!({ "text": text }).to_string();
    ToolResponse {
        success: true,
        result: Some(structs::encode(json.as_bytes(), Numbers::default()).unwrap()),
        ..ToolResponse::default()
    }
}

fn failure(code: &str, message: &str) -> ToolResponse {
    ToolResponse {
        error_code: code.to_owned(),
        error_message: message.to_owned(),
        ..ToolResponse::default()
    }
}

/// The only resource that there is.
fn resource(asked: &McpRequest) -> McpResponse {
    let text = std::str::from_utf8(&asked.params).unwrap();
    let found = match asked.method.as_str() {
        "resources/list" => {
            serde_json::json!({"resources": [{"uri": "fake://one", "name": "one"}]})
        }
        "resources/read" if text.contains("fake://one") => {
            serde_json::json!({"contents": [{"uri": "fake://one", "text": "the text"}]})
        }
        _ => {
            let error = serde_json::json!({"code": -32602, "message": "resource not found"});
            return McpResponse {
                error: error.to_string().into(),
                ..McpResponse::default()
            };
        }
    };
    McpResponse {
        result: found.to_string().into(),
        ..McpResponse::default()
    }
}

impl Fake {
    async fn tool(&self, request: &ToolRequest, reply: &Reply) -> Option<ToolResponse> {
        let arguments = request.arguments.clone().unwrap_or_default();
        let arguments = structs::decode(&arguments, Style::Plain).unwrap();
        Some(match request.tool_name.as_str() {
            "echo" => text(&arguments),
            "who" => {
                let params: serde_json::Value =
                    serde_json::from_slice(&request.mcp_params).unwrap_or_default();
                let told = serde_json::json!({
                    "caller": request.caller_plugin,
                    "session": request.session_id,
                    "meta": params["_meta"]["orchestra/sessionId"],
                });
                text(&told.to_string())
            }
            "whole" => ToolResponse {
                success: true,
                result: request.arguments.clone(),
                ..ToolResponse::default()
            },
            "drip" if self.mode == "ours" => text("not in chunks"),
            "fail" => failure("handler_error", "it does not work"),
            name @ ("count" | "repeat") => {
                note(&self.tally, &format!("{name} {arguments}"));
                tokio::time::sleep(Duration::from_millis(5)).await;
                text("counted")
            }
            "renew" => {
                let changes = self.changes.fetch_add(1, Ordering::SeqCst) + 1;
                text(&changes.to_string())
            }
            "meet" => {
                // Everyone waits for everyone.
                self.meeting.send_modify(|there| *there += 1);
                let mut meeting = self.meeting.subscribe();
                let of: serde_json::Value = serde_json::from_str(&arguments).unwrap();
                let of = of["of"].as_u64().unwrap();
                meeting.wait_for(|there| *there >= of).await.unwrap();
                text("met")
            }
            "shout" => {
                // More than the system keeps of what nobody reads.
                let line = format!("{}\n", "x".repeat(1_023));
                (0..1_024).for_each(|_| say(&line));
                text("said")
            }
            "die" => {
                rustix::process::kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
                return std::future::pending().await;
            }
            "hang" => {
                note(&self.tally, "hangs");
                reply.cancelled().cancelled().await;
                note(&self.tally, "cancelled");
                return None;
            }
            name => failure("tool_not_found", &format!("tool \"{name}\" not found")),
        })
    }

    /// Answers in chunks until it is told to stop.
    async fn pour(&self, id: &str, start: StreamStart, mut reply: Reply) {
        for sequence in 0.. {
            let chunk = StreamChunk {
                stream_id: start.stream_id.clone(),
                data: Bytes::from_static(b"drop "),
                content_type: "text/plain".to_owned(),
                sequence,
            };
            if reply.send(answer(id, &chunk)).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        note(&self.tally, "stopped");
    }

    /// Answers in chunks, and fails after the first or says at its end what is not so.
    async fn spill(&self, id: &str, start: StreamStart, mut reply: Reply) {
        let chunk = StreamChunk {
            stream_id: start.stream_id.clone(),
            data: Bytes::from_static(b"half of it"),
            content_type: "text/plain".to_owned(),
            sequence: 0,
        };
        reply.send(answer(id, &chunk)).await.unwrap();
        let is_lie = start.tool_name == "lie";
        let end = StreamEnd {
            stream_id: start.stream_id,
            success: is_lie,
            error_code: if is_lie { "" } else { "handler_error" }.to_owned(),
            error_message: if is_lie { "" } else { "it broke half way" }.to_owned(),
            total_chunks: 2,
            ..StreamEnd::default()
        };
        reply.answer(answer(id, &end)).await.unwrap();
    }

    async fn drip(&self, id: &str, start: StreamStart, extra: &[u8], mut reply: Reply) {
        match start.tool_name.as_str() {
            "pour" => return self.pour(id, start, reply).await,
            "spill" | "lie" => return self.spill(id, start, reply).await,
            _ => {}
        }
        let stream_id = start.stream_id;
        let failed = start.tool_name != "drip";
        for (sequence, data) in ["one ", "two ", "three"].into_iter().enumerate() {
            if failed {
                break;
            }
            let chunk = StreamChunk {
                stream_id: stream_id.clone(),
                data: Bytes::from_static(data.as_bytes()),
                content_type: "text/plain".to_owned(),
                sequence: i64::try_from(sequence).unwrap(),
            };
            let chunk = Response::new(id, &chunk);
            let chunk = with_fields(&chunk, extra).encode();
            reply.send(chunk).await.unwrap();
        }
        let end = StreamEnd {
            stream_id,
            success: !failed,
            error_code: if failed { "tool_not_found" } else { "" }.to_owned(),
            error_message: if failed {
                "streaming tool not found"
            } else {
                ""
            }
            .to_owned(),
            total_chunks: if failed { 0 } else { 3 },
            ..StreamEnd::default()
        };
        let end = Response::new(id, &end);
        reply
            .answer(with_fields(&end, extra).encode())
            .await
            .unwrap();
    }

    fn tools(&self) -> ListToolsResponse {
        let many = if self.mode == "many" { 10_000 } else { 0 };
        let changes = self.changes.load(Ordering::SeqCst);
        let names = [
            "echo", "whole", "fail", "count", "die", "hang", "drip", "renew", "who",
        ];
        let names = names.map(str::to_owned).into_iter();
        let names = names.chain((0..many).map(|number| format!("tool-{number:05}")));
        let changing = (self.mode == "changing")
            .then(|| format!("generation-{}-{changes}", std::process::id()));
        let tool = |name| ToolDefinition {
            name,
            description: "It does something.".to_owned(),
            ..ToolDefinition::default()
        };
        let mut tools: Vec<_> = names.chain(changing).map(tool).collect();
        // What may run twice without harm says so.
        let definition = serde_json::json!({
            "name": "repeat", "inputSchema": {"type": "object"},
            "annotations": {"idempotentHint": true, "readOnlyHint": true},
        });
        tools.push(ToolDefinition {
            mcp_definition: definition.to_string().into(),
            ..tool("repeat".to_owned())
        });
        if self.mode == "ours" {
            // It says so of one that does not as well.
            let meta = serde_json::json!({"orchestra/streaming": true});
            for tool in &mut tools {
                if matches!(&*tool.name, "drip" | "echo") {
                    let definition = serde_json::json!({
                        "name": tool.name, "inputSchema": {"type": "object"}, "_meta": meta,
                    });
                    tool.mcp_definition = definition.to_string().into();
                }
            }
        }
        ListToolsResponse { tools }
    }
}

impl Handler for Fake {
    fn handle<'a>(&'a self, _: &'a Peer, request: Bytes, mut reply: Reply) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let request = Request::decode(&request).unwrap();
            let id = match (self.mode.as_str(), request.kind()) {
                ("wrong-id", Some(RequestKind::ToolCall)) => "another".to_owned(),
                _ => request.request_id().to_owned(),
            };
            let bytes = match request.kind() {
                Some(RequestKind::Register) => {
                    let refused = self.mode == "refuse";
                    answer(
                        &id,
                        &RegistrationResult {
                            accepted: !refused,
                            reject_reason: if refused { "not today" } else { "" }.to_owned(),
                            revision: u32::from(self.mode == "ours"),
                            features: vec!["resources".to_owned()],
                        },
                    )
                }
                Some(RequestKind::Boot) if self.mode == "never-boots" => {
                    return std::future::pending().await;
                }
                Some(RequestKind::Boot) => {
                    let failed = self.mode == "boot-error";
                    answer(
                        &id,
                        &BootResult {
                            ready: !failed,
                            error: if failed { "no database" } else { "" }.to_owned(),
                        },
                    )
                }
                Some(RequestKind::Shutdown) => {
                    note(&self.tally, "shutdown");
                    if self.mode == "ignore-shutdown" {
                        std::future::pending::<()>().await;
                    }
                    answer(&id, &ShutdownResult { clean: true })
                }
                Some(RequestKind::Health) => answer(
                    &id,
                    &HealthResult {
                        status: if self.mode == "unwell" { 3 } else { 2 },
                        message: "so so".to_owned(),
                        ..HealthResult::default()
                    },
                ),
                Some(RequestKind::Mcp) if self.mode == "ours" => {
                    answer(&id, &resource(&request.message().unwrap()))
                }
                Some(RequestKind::ListTools) => answer(&id, &self.tools()),
                Some(RequestKind::ListPrompts) => {
                    let named = (self.mode == "greets").then(|| PromptDefinition {
                        name: "greet".to_owned(),
                        ..PromptDefinition::default()
                    });
                    let prompts = named.into_iter().collect();
                    answer(&id, &ListPromptsResponse { prompts })
                }
                Some(RequestKind::PromptGet) => {
                    let greeting = PromptGetResponse {
                        description: "greets".to_owned(),
                        messages: vec![PromptMessage {
                            role: "user".to_owned(),
                            content: Some(ContentBlock {
                                r#type: "text".to_owned(),
                                text: "hello".to_owned(),
                            }),
                        }],
                        ..PromptGetResponse::default()
                    };
                    let extra = later_fields(&request.payload());
                    with_fields(&Response::new(id.as_str(), &greeting), &extra).encode()
                }
                Some(RequestKind::ToolCall) => {
                    let call = request.message::<ToolRequest>().unwrap();
                    let result = match self.tool(&call, &reply).await {
                        Some(result) => {
                            let extra = later_fields(&request.payload());
                            with_fields(&Response::new(id.as_str(), &result), &extra).encode()
                        }
                        None => return,
                    };
                    if self.mode == "twice" {
                        let _ = reply.send(result.clone()).await;
                    }
                    if self.mode == "huge" && call.tool_name == "echo" {
                        // As a Go plugin, which writes nothing of a frame that is too large.
                        let _ = reply.finish();
                        return;
                    }
                    if self.mode == "nonsense" {
                        // A frame, and no message.
                        let _ = reply.answer(Bytes::from_static(&[0xff; 9])).await;
                        return;
                    }
                    result
                }
                Some(RequestKind::StreamCancel) => {
                    let cancel = request.message::<StreamCancel>().unwrap();
                    assert!(cancel.stream_id.starts_with("stream-"));
                    note(&self.tally, "cancel of a stream");
                    Response::empty(id).encode()
                }
                Some(RequestKind::StreamStart) => {
                    let start = request.message::<StreamStart>().unwrap();
                    let extra = later_fields(&request.payload());
                    return self.drip(&id, start, &extra, reply).await;
                }
                Some(RequestKind::Publish) if self.mode != "deaf" => {
                    let event = request.message::<Publish>().unwrap();
                    note(&self.tally, &format!("event {}", event.event_type));
                    Response::empty(id.as_str()).encode()
                }
                _ => answer(
                    &id,
                    &failure("unknown_request", "unrecognized request type"),
                ),
            };
            // Who does not wait any more is not told.
            let _ = reply.answer(bytes).await;
        })
    }
}
