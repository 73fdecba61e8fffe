//! An orchestrator of others, which speaks the plugin protocol as it always was and no MCP: it
//! answers as such orchestrators do, and notes what it was asked.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Instant, SystemTime},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orchestra_plugin::{
    certs::{CertDir, Identity},
    envelope::{PayloadOf, Request, RequestKind, Response, ResponseKind},
    generated::{
        ContentBlock, ListPromptsResponse, ListToolsResponse, PromptArgument, PromptDefinition,
        PromptGetRequest, PromptGetResponse, PromptMessage, StorageEntry, StorageListResponse,
        StorageReadRequest, StorageReadResponse, ToolDefinition, ToolRequest, ToolResponse,
    },
    quic::{Endpoint, Handler, Limits, Pace, Peer, Reply, Serving},
    structs::{self, Numbers, Style},
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::PATIENCE;

/// What it answers to the question how it is, as bytes: nobody need write its fields as we do.
const HEALTHY: &str = "0801120f6f7263686573747261746f72206f6b";

/// A call of a tool as it came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) peer: String,
    pub(crate) id: String,
    pub(crate) tool: String,
    /// `None` where the field was not set.
    pub(crate) arguments: Option<Value>,
    pub(crate) caller: String,
    pub(crate) session: String,
    pub(crate) provider: String,
    /// Bytes of fields that it does not know.
    pub(crate) unknown: usize,
}

/// What is known of the calls, shared with whoever answers them.
#[derive(Default)]
struct Notes {
    seen: Mutex<Vec<Seen>>,
    kinds: Mutex<Vec<RequestKind>>,
    changed: Condvar,
    /// How often it was asked how it is.
    came: AtomicUsize,
    /// Calls of `wait` that go on.
    waiting: AtomicUsize,
    /// Calls of `wait` that were given up.
    given_up: AtomicUsize,
    /// Lets calls of `gate` go.
    gate: tokio::sync::Notify,
    more_tools: Mutex<Vec<&'static str>>,
}

/// The orchestrator.
pub(crate) struct Foreign {
    runtime: Runtime,
    certs: PathBuf,
    notes: Arc<Notes>,
    address: SocketAddr,
    running: Option<(Endpoint, Serving)>,
}

impl Foreign {
    /// Listens at a free port, with certificates in a directory.
    pub(crate) fn start(certs: &Path) -> Self {
        let mut foreign = Self::nowhere(certs);
        foreign.come();
        foreign
    }

    /// Has a port, and does not listen there.
    pub(crate) fn nowhere(certs: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        // Given back at once; nobody else is likely to ask for it in the meantime.
        let taken = std::net::UdpSocket::bind(Endpoint::LOOPBACK).unwrap();
        let address = taken.local_addr().unwrap();
        identity(certs);
        Self {
            runtime,
            certs: certs.to_owned(),
            notes: Arc::default(),
            address,
            running: None,
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Listens, as soon as the port is free.
    pub(crate) fn come(&mut self) {
        let identity = identity(&self.certs);
        let _inside = self.runtime.enter();
        let end = Instant::now() + PATIENCE;
        let endpoint = loop {
            match Endpoint::bind(self.address, &identity, Pace::default()) {
                Ok(endpoint) => break endpoint,
                Err(error) => assert!(Instant::now() < end, "never free: {error}"),
            }
            std::thread::yield_now();
        };
        let handler = Arc::new(Answering(Arc::clone(&self.notes)));
        let serving = endpoint.serve(handler, Limits::default());
        self.running = Some((endpoint, serving));
    }

    /// Goes away without an answer to anybody's call.
    pub(crate) fn go(&mut self) {
        if let Some((endpoint, serving)) = self.running.take() {
            self.runtime.block_on(async {
                serving.stop(tokio::time::Instant::now()).await;
                endpoint.close().await;
            });
        }
    }

    /// The calls of tools so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.notes.seen.lock().unwrap().clone()
    }

    /// The last call of a tool.
    pub(crate) fn last(&self) -> Seen {
        self.seen().last().cloned().expect("a call")
    }

    /// How often it was asked something of a kind.
    pub(crate) fn asked(&self, kind: RequestKind) -> usize {
        let kinds = self.notes.kinds.lock().unwrap();
        kinds.iter().filter(|asked| **asked == kind).count()
    }

    /// Waits until somebody has come, which begins with this question.
    pub(crate) fn was_asked_how_it_is(&self) {
        self.until(|notes| notes.came.load(Ordering::SeqCst) > 0);
    }

    /// Waits until so many calls of `wait` go on.
    pub(crate) fn waits(&self, count: usize) {
        self.until(|notes| notes.waiting.load(Ordering::SeqCst) == count);
    }

    /// Waits until so many calls of `wait` were given up.
    pub(crate) fn gave_up(&self, count: usize) {
        self.until(|notes| notes.given_up.load(Ordering::SeqCst) == count);
    }

    /// Lets all calls of `gate` go on that have come.
    pub(crate) fn open_gate(&self) {
        self.notes.gate.notify_waiters();
    }

    /// Waits until so many calls of tools have come.
    pub(crate) fn has_seen(&self, count: usize) {
        self.until(|notes| notes.seen.lock().unwrap().len() >= count);
    }

    /// Has another tool from now on, which it tells nobody.
    pub(crate) fn learn(&self, tool: &'static str) {
        self.notes.more_tools.lock().unwrap().push(tool);
    }

    fn until(&self, is_so: impl Fn(&Notes) -> bool) {
        let end = Instant::now() + PATIENCE;
        let mut guard = self.notes.kinds.lock().unwrap();
        while !is_so(&self.notes) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it never came to be");
            let step = left.min(std::time::Duration::from_millis(50));
            guard = self.notes.changed.wait_timeout(guard, step).unwrap().0;
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.go();
    }
}

fn identity(certs: &Path) -> Identity {
    let directory = CertDir::open(certs).unwrap();
    directory.ensure_ca(SystemTime::now()).unwrap();
    let name = "orchestrator".parse().unwrap();
    directory.identity(&name, SystemTime::now()).unwrap()
}

struct Answering(Arc<Notes>);

/// A call that waits until it is given up.
struct Waiting<'a>(&'a Notes);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_all();
    }
}

impl Handler for Answering {
    fn handle<'a>(&'a self, peer: &'a Peer, request: Bytes, mut reply: Reply) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let notes = &*self.0;
            let request = Request::decode(&request).unwrap();
            if let Some(kind) = request.kind() {
                notes.kinds.lock().unwrap().push(kind);
            }
            if request.kind() != Some(RequestKind::ToolCall) {
                let _ = reply.answer(answer(notes, &request)).await;
                return;
            }
            let call: ToolRequest = request.message().unwrap();
            // Waits from here on, before anybody can see that the call has come.
            let gate = notes.gate.notified();
            notes.seen.lock().unwrap().push(seen(peer, &request, &call));
            notes.changed.notify_all();
            match call.tool_name.as_str() {
                "wait" => {
                    notes.waiting.fetch_add(1, Ordering::SeqCst);
                    let _waiting = Waiting(notes);
                    notes.changed.notify_all();
                    reply.cancelled().cancelled().await;
                    notes.given_up.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                "gate" => gate.await,
                _ => {}
            }
            let response = Response::new(request.request_id(), &called(&call)).encode();
            // Who does not wait any more is not told.
            let _ = reply.answer(response).await;
        })
    }
}

fn seen(peer: &Peer, request: &Request, call: &ToolRequest) -> Seen {
    let arguments = call.arguments.as_ref().map(|arguments| {
        let text = structs::decode(arguments, Style::Plain).unwrap();
        serde_json::from_str(&text).unwrap()
    });
    Seen {
        peer: peer.name().as_str().to_owned(),
        id: request.request_id().to_owned(),
        tool: call.tool_name.clone(),
        arguments,
        caller: call.caller_plugin.clone(),
        session: call.session_id.clone(),
        provider: call.provider.clone(),
        unknown: call.mcp_params.len() + call.revision.len(),
    }
}

fn done(result: &Value) -> ToolResponse {
    ToolResponse {
        success: true,
        result: Some(object(result)),
        ..ToolResponse::default()
    }
}

fn failed(code: &str, message: impl Into<String>) -> ToolResponse {
    ToolResponse {
        error_code: code.to_owned(),
        error_message: message.into(),
        ..ToolResponse::default()
    }
}

fn object(value: &Value) -> Bytes {
    structs::encode(value.to_string().as_bytes(), Numbers::default()).unwrap()
}

fn called(call: &ToolRequest) -> ToolResponse {
    match call.tool_name.as_str() {
        "create_feature" => done(&json!({"text": "Created FEAT-ABC: Add login page", "id": 7})),
        "echo" | "gate" => ToolResponse {
            success: true,
            result: call.arguments.clone(),
            ..ToolResponse::default()
        },
        "odd" => done(&json!({"b": [1, 2.5, true, null, {"k": "v"}], "h": "<x>"})),
        "nothing" => ToolResponse {
            success: true,
            ..ToolResponse::default()
        },
        "silent" => done(&json!({"text": ""})),
        "invalid" => failed("validation_error", ""),
        "broken" => failed("handler_error", "the file is not there"),
        tool => failed(
            "tool_not_found",
            format!("no plugin provides tool \"{tool}\""),
        ),
    }
}

fn answer(notes: &Notes, request: &Request) -> Bytes {
    let id = request.request_id();
    match request.kind() {
        Some(RequestKind::Health) => {
            notes.came.fetch_add(1, Ordering::SeqCst);
            let payload = bytes_of(HEALTHY);
            Response::raw(id, ResponseKind::Health, payload).encode()
        }
        Some(RequestKind::ListTools) => encoded(id, &tools(notes)),
        Some(RequestKind::ListPrompts) => encoded(id, &prompts()),
        Some(RequestKind::PromptGet) => encoded(id, &prompt(&request.message().unwrap())),
        Some(RequestKind::StorageList) => {
            let entry = |path: &str| StorageEntry {
                path: path.to_owned(),
                ..StorageEntry::default()
            };
            let entries = vec![entry("app/features/FEAT-ABC.md"), entry("app/project.md")];
            let listed = StorageListResponse {
                entries,
                problem: None,
            };
            encoded(id, &listed)
        }
        Some(RequestKind::StorageRead) => {
            let asked: StorageReadRequest = request.message().unwrap();
            let mut read = StorageReadResponse::default();
            if asked.path == "app/features/FEAT-ABC.md" {
                read.content = Bytes::from_static(b"# Login\n");
                read.version = 1;
            }
            encoded(id, &read)
        }
        _ => encoded(id, &failed("unknown_request", "unrecognized request type")),
    }
}

fn tools(notes: &Notes) -> ListToolsResponse {
    let tool = |name: &str| ToolDefinition {
        name: name.to_owned(),
        ..ToolDefinition::default()
    };
    let schema = json!({
        "type": "object",
        "properties": {"project_id": {"type": "string", "minLength": 1}},
        "required": ["project_id"],
    });
    let mut tools = vec![
        ToolDefinition {
            name: "create_feature".to_owned(),
            description: "Create a feature".to_owned(),
            input_schema: Some(object(&schema)),
            ..ToolDefinition::default()
        },
        tool("echo"),
        tool("wait"),
    ];
    tools.extend(
        notes
            .more_tools
            .lock()
            .unwrap()
            .iter()
            .map(|name| tool(name)),
    );
    ListToolsResponse { tools }
}

fn prompts() -> ListPromptsResponse {
    let prompt = PromptDefinition {
        name: "greet".to_owned(),
        description: "Greets".to_owned(),
        arguments: vec![PromptArgument {
            name: "whom".to_owned(),
            required: true,
            ..PromptArgument::default()
        }],
        ..PromptDefinition::default()
    };
    ListPromptsResponse {
        prompts: vec![prompt],
    }
}

fn prompt(asked: &PromptGetRequest) -> PromptGetResponse {
    let name = &asked.prompt_name;
    if name != "greet" {
        return PromptGetResponse {
            description: format!("no plugin provides prompt \"{name}\""),
            ..PromptGetResponse::default()
        };
    }
    let whom = asked.arguments.get("whom").cloned().unwrap_or_default();
    PromptGetResponse {
        description: "Greets".to_owned(),
        messages: vec![PromptMessage {
            role: "user".to_owned(),
            content: Some(ContentBlock {
                r#type: "text".to_owned(),
                text: format!("Hello {whom}"),
            }),
        }],
        ..PromptGetResponse::default()
    }
}

fn encoded<M: PayloadOf<ResponseKind>>(id: &str, message: &M) -> Bytes {
    Response::new(id, message).encode()
}

fn bytes_of(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap())
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] * 16 + pair[1])
        .collect()
}
