//! What the tests of the kit share: the sample plugin as a real process, the orchestrator that calls
//! it, and one that it calls back.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orchestra_plugin::{
    envelope::{PayloadOf, Request, RequestKind, Response},
    generated::{
        EventDelivery, PluginManifest, RegistrationResult, StorageDeleteRequest,
        StorageDeleteResponse, StorageListResponse, StorageProblem, StorageReadRequest,
        StorageReadResponse, StorageWriteRequest, StorageWriteResponse, Subscribe, ToolRequest,
        ToolResponse,
    },
    quic::{Caller, CallerOptions, Endpoint, Handler, Limits, Pace, Peer, Reply, Serving, Target},
    structs::{self, Numbers, Style},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
    sync::mpsc,
    time::{Instant, timeout},
};

use crate::quic_rig::{Authority, PATIENCE, soon};

/// The id of the sample.
pub(crate) const SAMPLE: &str = "tools.sample";

/// The sample's program, which is built with the tests.
pub(crate) fn program() -> PathBuf {
    example("sample")
}

/// The program of an example, which is built with the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let examples = test.ancestors().nth(2).unwrap().join("examples");
    let program = examples.join(name);
    assert!(
        program.exists(),
        "{} is built by `cargo build -p orchestra-plugin --examples`",
        program.display()
    );
    program
}

/// The command that starts the sample as an orchestrator does.
pub(crate) fn command(authority: &Authority) -> Command {
    command_of(authority, "sample")
}

/// The same for another example.
pub(crate) fn command_of(authority: &Authority, name: &str) -> Command {
    let mut command = Command::new(example(name));
    command
        .arg("--listen-addr=localhost:0")
        .arg(format!("--certs-dir={}", authority.dir.path().display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// The sample as a process, and the orchestrator's way to it.
pub(crate) struct Sample {
    pub(crate) child: Child,
    pub(crate) stderr: Lines<BufReader<ChildStderr>>,
    pub(crate) address: SocketAddr,
    pub(crate) caller: Caller,
}

impl Sample {
    pub(crate) async fn start(authority: &Authority, mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = timeout(PATIENCE, ready(&mut stderr)).await.unwrap();
        let caller = caller(authority, address, &format!("orchestrator-to-{SAMPLE}"));
        Self {
            child,
            stderr,
            address,
            caller,
        }
    }

    /// The sample without an orchestrator to call back.
    pub(crate) async fn alone(authority: &Authority) -> Self {
        Self::start(authority, command(authority)).await
    }

    pub(crate) async fn ask<Q: PayloadOf<RequestKind>>(&self, message: &Q) -> Response {
        ask(&self.caller, message).await
    }

    /// Calls a tool as old orchestrators do.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> ToolResponse {
        self.ask(&tool_request(tool, arguments))
            .await
            .message()
            .unwrap()
    }

    /// Calls a tool that has a text to say.
    pub(crate) async fn text(&self, tool: &str, arguments: &str) -> String {
        let response = self.call(tool, arguments).await;
        assert!(response.success, "{response:?}");
        let json = structs::decode(&response.result.unwrap(), Style::Plain).unwrap();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        match value.get("text") {
            Some(text) => text.as_str().unwrap().to_owned(),
            None => json,
        }
    }

    /// Waits for the end of the process.
    pub(crate) async fn code(&mut self) -> Option<i32> {
        let status = timeout(PATIENCE, self.child.wait()).await.unwrap();
        status.unwrap().code()
    }
}

/// A caller of some name.
pub(crate) fn caller(authority: &Authority, address: SocketAddr, name: &str) -> Caller {
    let identity = authority.identity(name);
    let endpoint = Endpoint::outgoing(address, &identity, Pace::default()).unwrap();
    let target = Target::named(address, SAMPLE.parse().unwrap());
    Caller::start(endpoint, target, CallerOptions::default())
}

pub(crate) async fn ask<Q: PayloadOf<RequestKind>>(caller: &Caller, message: &Q) -> Response {
    let request = Request::new("r-1", message);
    let answer = caller.call(request.encode(), soon()).await.unwrap();
    let response = Response::decode(&answer).unwrap();
    assert_eq!(response.request_id(), "r-1");
    response
}

pub(crate) fn tool_request(tool: &str, arguments: &str) -> ToolRequest {
    ToolRequest {
        tool_name: tool.to_owned(),
        arguments: Some(structs::encode(arguments.as_bytes(), Numbers::Nearest).unwrap()),
        ..ToolRequest::default()
    }
}

async fn ready(stderr: &mut Lines<BufReader<ChildStderr>>) -> SocketAddr {
    let line = stderr.next_line().await.unwrap().unwrap();
    let address = line
        .strip_prefix("READY ")
        .unwrap_or_else(|| panic!("{line}"));
    address.parse().unwrap()
}

/// An orchestrator for a plugin to call back.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    pub(crate) seen: mpsc::UnboundedReceiver<(String, Request)>,
    pub(crate) serving: Serving,
    endpoint: Endpoint,
}

/// What it answers.
#[derive(Clone, Default)]
pub(crate) struct Manners {
    /// The revision of the additions that it speaks.
    pub(crate) revision: u32,
    /// Why it refuses plugins.
    pub(crate) refusal: Option<&'static str>,
    /// How many registrations it has no time for.
    pub(crate) busy: usize,
}

impl Fake {
    pub(crate) fn start(authority: &Authority, at: SocketAddr, manners: Manners) -> Self {
        let identity = authority.identity("orchestrator");
        let endpoint = Endpoint::bind(at, &identity, Pace::default()).unwrap();
        let (sender, seen) = mpsc::unbounded_channel();
        let handler = Answering {
            busy: manners.busy.into(),
            manners,
            sender,
            documents: Mutex::default(),
        };
        Self {
            address: endpoint.address().unwrap(),
            seen,
            serving: endpoint.serve(Arc::new(handler), Limits::default()),
            endpoint,
        }
    }

    /// Waits for a request of a kind, and returns who made it.
    pub(crate) async fn hear(&mut self, kind: RequestKind) -> (String, Request) {
        let heard = async {
            loop {
                let seen = self.seen.recv().await.unwrap();
                if seen.1.kind() == Some(kind) {
                    return seen;
                }
            }
        };
        timeout(PATIENCE, heard).await.unwrap()
    }

    /// Goes away at once.
    pub(crate) async fn vanish(self) {
        self.endpoint.close().await;
        self.serving.stop(Instant::now()).await;
        drop(self.endpoint);
        // The socket is given back by a task of the endpoint's own.
        let free = async {
            while std::net::UdpSocket::bind(self.address).is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, free).await.unwrap();
    }
}

struct Answering {
    manners: Manners,
    busy: AtomicUsize,
    sender: mpsc::UnboundedSender<(String, Request)>,
    documents: Mutex<BTreeMap<String, (Bytes, i64)>>,
}

impl Handler for Answering {
    fn handle<'a>(&'a self, peer: &'a Peer, request: Bytes, mut reply: Reply) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let request = Request::decode(&request).unwrap();
            let answer = self.answer(&request);
            let _ = self.sender.send((peer.name().to_string(), request));
            reply.answer(answer.encode()).await.unwrap();
        })
    }
}

impl Answering {
    fn answer(&self, request: &Request) -> Response {
        let id = request.request_id();
        match request.kind().unwrap() {
            RequestKind::Register => {
                let _: PluginManifest = request.message().unwrap();
                let busy = |left: usize| left.checked_sub(1);
                if self.busy.try_update(SeqCst, SeqCst, busy).is_ok() {
                    let failure = ToolResponse {
                        error_code: "busy".to_owned(),
                        ..ToolResponse::default()
                    };
                    return Response::new(id, &failure);
                }
                let result = RegistrationResult {
                    accepted: self.manners.refusal.is_none(),
                    reject_reason: self.manners.refusal.unwrap_or_default().to_owned(),
                    revision: self.manners.revision,
                    features: Vec::new(),
                };
                Response::new(id, &result)
            }
            RequestKind::StorageRead => self.read(id, &request.message().unwrap()),
            RequestKind::StorageWrite => self.write(id, request.message().unwrap()),
            RequestKind::StorageList => Response::new(id, &StorageListResponse::default()),
            RequestKind::StorageDelete => {
                let asked: StorageDeleteRequest = request.message().unwrap();
                let was_there = self.documents.lock().unwrap().remove(&asked.path);
                let answer = StorageDeleteResponse {
                    success: was_there.is_some(),
                    problem: None,
                };
                Response::new(id, &answer)
            }
            RequestKind::ToolCall => {
                let call: ToolRequest = request.message().unwrap();
                let result = structs::encode(br#"{"text":"hello"}"#, Numbers::Nearest).unwrap();
                let response = ToolResponse {
                    success: call.tool_name == "greet",
                    result: Some(result),
                    error_code: "tool_not_found".to_owned(),
                    error_message: "no plugin provides it".to_owned(),
                    ..ToolResponse::default()
                };
                Response::new(id, &response)
            }
            RequestKind::Subscribe => {
                let subscribe: Subscribe = request.message().unwrap();
                if subscribe.topic == "secret" {
                    let failure = ToolResponse {
                        error_code: "not_permitted".to_owned(),
                        error_message: "name it in needs_events".to_owned(),
                        ..ToolResponse::default()
                    };
                    return Response::new(id, &failure);
                }
                let delivery = EventDelivery {
                    subscription_id: subscribe.subscription_id,
                    topic: subscribe.topic,
                    ..EventDelivery::default()
                };
                Response::new(id, &delivery)
            }
            _ => Response::empty(id),
        }
    }

    fn read(&self, id: &str, asked: &StorageReadRequest) -> Response {
        if asked.path == "secret.md" {
            let problem = StorageProblem {
                code: "forbidden".to_owned(),
                message: "not yours".to_owned(),
            };
            let answer = StorageReadResponse {
                problem: Some(problem),
                ..StorageReadResponse::default()
            };
            return Response::new(id, &answer);
        }
        let answer = match self.documents.lock().unwrap().get(&asked.path) {
            Some((content, version)) => StorageReadResponse {
                content: content.clone(),
                metadata: Some(Bytes::new()),
                version: *version,
                problem: None,
            },
            None => StorageReadResponse::default(),
        };
        Response::new(id, &answer)
    }

    fn write(&self, id: &str, asked: StorageWriteRequest) -> Response {
        let mut documents = self.documents.lock().unwrap();
        let now = documents
            .get(&asked.path)
            .map_or(0, |(_, version)| *version);
        if asked.expected_version >= 0 && asked.expected_version != now {
            let error = format!(
                "version conflict: expected {}, current {now}",
                asked.expected_version
            );
            let answer = StorageWriteResponse {
                error,
                ..StorageWriteResponse::default()
            };
            return Response::new(id, &answer);
        }
        documents.insert(asked.path, (asked.content, now + 1));
        let answer = StorageWriteResponse {
            success: true,
            new_version: now + 1,
            ..StorageWriteResponse::default()
        };
        Response::new(id, &answer)
    }
}
