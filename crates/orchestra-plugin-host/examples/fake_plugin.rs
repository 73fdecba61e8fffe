//! A plugin of many faults, for the tests: it guards its own children, and misbehaves as the mode
//! in its arguments says.

#![expect(clippy::unwrap_used, reason = "a fixture fails by panicking")]

use std::{
    collections::BTreeMap, fs::OpenOptions, io::Write as _, path::PathBuf, process::ExitCode,
    sync::Arc, time::SystemTime,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orchestra_plugin::{
    certs::CertDir,
    envelope::{PayloadOf, Request, RequestKind, Response, ResponseKind},
    generated::{
        BootResult, HealthResult, ListPromptsResponse, ListToolsResponse, Publish,
        RegistrationResult, ShutdownResult, StreamChunk, StreamEnd, StreamStart, ToolDefinition,
        ToolRequest, ToolResponse,
    },
    quic::{Endpoint, Handler, Limits, Pace, Peer, Reply},
    structs::{self, Numbers, Style},
};
use orchestra_process::{CHILD_COMMAND, child_main};
use rustix::process::Signal;

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
    runtime.block_on(run(flags));
    ExitCode::SUCCESS
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
}

fn answer<M: PayloadOf<ResponseKind>>(id: &str, message: &M) -> Bytes {
    Response::new(id, message).encode()
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

impl Fake {
    async fn tool(&self, request: &ToolRequest, reply: &Reply) -> Option<ToolResponse> {
        let arguments = request.arguments.clone().unwrap_or_default();
        let arguments = structs::decode(&arguments, Style::Plain).unwrap();
        Some(match request.tool_name.as_str() {
            "echo" => text(&arguments),
            "whole" => ToolResponse {
                success: true,
                result: request.arguments.clone(),
                ..ToolResponse::default()
            },
            "fail" => failure("handler_error", "it does not work"),
            "count" => {
                note(&self.tally, &format!("count {arguments}"));
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                text("counted")
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

    async fn drip(&self, id: &str, start: StreamStart, mut reply: Reply) {
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
            reply.send(answer(id, &chunk)).await.unwrap();
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
        reply.answer(answer(id, &end)).await.unwrap();
    }

    fn tools(&self) -> ListToolsResponse {
        let many = if self.mode == "many" { 10_000 } else { 0 };
        let names = ["echo", "whole", "fail", "count", "die", "hang", "drip"];
        let names = names.map(str::to_owned).into_iter();
        let names = names.chain((0..many).map(|number| format!("tool-{number:05}")));
        let tool = |name| ToolDefinition {
            name,
            description: "It does something.".to_owned(),
            ..ToolDefinition::default()
        };
        ListToolsResponse {
            tools: names.map(tool).collect(),
        }
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
                            ..RegistrationResult::default()
                        },
                    )
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
                Some(RequestKind::ListTools) => answer(&id, &self.tools()),
                Some(RequestKind::ListPrompts) => answer(&id, &ListPromptsResponse::default()),
                Some(RequestKind::ToolCall) => {
                    let call = request.message::<ToolRequest>().unwrap();
                    match self.tool(&call, &reply).await {
                        Some(result) => answer(&id, &result),
                        None => return,
                    }
                }
                Some(RequestKind::StreamStart) => {
                    let start = request.message::<StreamStart>().unwrap();
                    return self.drip(&id, start, reply).await;
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
