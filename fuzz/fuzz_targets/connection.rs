//! A connection fed a list of operations: lines of clients good and bad, outcomes in any order and
//! of any kind, notices, time. Nothing panics, every output is whole lines of JSON-RPC, and when all
//! jobs are home nothing is left.

#![cfg_attr(feature = "link", no_main)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use orchestra_hub::{
    Annotations, BoxFuture, Catalog, Content, Cost, Hub, HubConfig, HubNotice, InputRequired,
    LongWork, Outcome, PromptDescriptor, Provider, ProviderError, ProviderId, Request,
    ResourceDescriptor, ToolDescriptor, ToolResult,
};
use orchestra_mcp::{
    Connection, Emit, Job, Lifetime, Limits, Server, Step, TaskLimits, TaskTurn, TaskWork,
};
use orchestra_wire::{Line, Method, RawJson, RequestId, Rope};
use serde_json::{Value, json};
use tokio::sync::watch;

#[derive(Arbitrary, Debug)]
enum Operation {
    Bytes(Vec<u8>),
    Request {
        id: u8,
        method: u8,
        stateless: bool,
        capabilities: u8,
        in_batch: bool,
    },
    Initialize(u8),
    Initialized,
    Cancel(u8),
    Answer {
        id: u8,
        error: bool,
    },
    Outcome {
        job: u8,
        kind: u8,
    },
    Ready,
    Notice(u8),
    Wait(u16),
    /// A call that waits becomes a task.
    Work(u8),
    /// The call of a task ends, and whoever runs it does what is next.
    WorkOutcome {
        work: u8,
        kind: u8,
    },
    /// The client is told of a task.
    Tell,
}

struct Silent;

impl Emit for Silent {
    fn emit(&self, _request: Option<&RequestId>, message: Rope) {
        check(&message.into_vec());
    }
}

struct Nothing {
    id: ProviderId,
    catalog: watch::Sender<Arc<Catalog>>,
}

impl Provider for Nothing {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn serve(&self, _request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        Box::pin(async { Err(ProviderError::Cancelled) })
    }
}

fuzz_target!(|operations: Vec<Operation>| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let _context = runtime.enter();
    let mut world = World::new();
    for operation in operations.into_iter().take(200) {
        world.apply(operation);
    }
    world.finish();
});

struct World {
    connection: Connection,
    now: Instant,
    jobs: Vec<Job>,
    /// Tasks whose calls run, and those that wait.
    works: Vec<TaskWork>,
    waiting: Vec<TaskWork>,
    /// Their ids.
    tasks: Vec<String>,
}

impl World {
    fn new() -> Self {
        let hub = Hub::new(HubConfig::default());
        let provider = Nothing {
            id: ProviderId::parse("nothing").expect("an id"),
            catalog: watch::Sender::new(Arc::new(catalog())),
        };
        hub.register(Arc::new(provider)).expect("a fresh hub");
        let limits = Limits {
            running: 3,
            queued: 4,
            listens: 2,
            ..Limits::default()
        };
        let tasks = TaskLimits {
            count: 4,
            bytes: 1_000,
            keep: Duration::from_secs(1_000),
            ..TaskLimits::default()
        };
        let server = Server::builder(hub, "fuzz").limits(limits).tasks(tasks);
        let server = server.build();
        let attachment = Arc::new(server.attach("fuzz"));
        let connection = Connection::new(server, attachment, Arc::new(Silent), Lifetime::Stream);
        Self {
            connection,
            now: Instant::now(),
            jobs: Vec::new(),
            works: Vec::new(),
            waiting: Vec::new(),
            tasks: vec!["x".into()],
        }
    }

    fn apply(&mut self, operation: Operation) {
        let mut out = Rope::new();
        match operation {
            Operation::Bytes(bytes) => self.line(&bytes, &mut out),
            Operation::Request {
                id,
                method,
                stateless,
                capabilities,
                in_batch,
            } => {
                let task = &self.tasks[usize::from(capabilities >> 3) % self.tasks.len()];
                let request = request(id, method, stateless, capabilities, task);
                let line = if in_batch {
                    json!([request, request, 1])
                } else {
                    request
                };
                self.line(line.to_string().as_bytes(), &mut out);
            }
            Operation::Initialize(version) => {
                let versions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "x"];
                let version = versions[usize::from(version) % versions.len()];
                let line = json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
                    "protocolVersion": version,
                    "capabilities": {"elicitation": {}, "sampling": {}}
                }});
                self.line(line.to_string().as_bytes(), &mut out);
            }
            Operation::Initialized => {
                let line = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
                self.line(line, &mut out);
            }
            Operation::Cancel(id) => {
                let line = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id % 16}});
                self.line(line.to_string().as_bytes(), &mut out);
            }
            Operation::Answer { id, error } => {
                let key = if error { "error" } else { "result" };
                let line = json!({"jsonrpc": "2.0", "id": id % 16, key: {"action": "accept"}});
                self.line(line.to_string().as_bytes(), &mut out);
            }
            Operation::Outcome { job, kind } => {
                if !self.jobs.is_empty() {
                    let job = self.jobs.swap_remove(usize::from(job) % self.jobs.len());
                    self.home(&job, kind, &mut out);
                }
            }
            Operation::Ready => {
                self.jobs.extend(self.connection.next_ready());
            }
            Operation::Notice(kind) => self.connection.on_notice(&notice(kind), &mut out),
            Operation::Wait(seconds) => {
                self.now += Duration::from_secs(seconds.into());
                self.connection.on_time(self.now, &mut out);
                let next = self.connection.next_deadline();
                assert!(next.is_none_or(|next| next > self.now));
                self.take_turns();
            }
            Operation::Work(job) => {
                if !self.jobs.is_empty() {
                    let job = self.jobs.swap_remove(usize::from(job) % self.jobs.len());
                    match self.connection.become_task(&job.ticket, self.now, &mut out) {
                        Some(work) => self.works.push(work),
                        None => self.jobs.push(job),
                    }
                }
            }
            Operation::WorkOutcome { work, kind } => {
                if !self.works.is_empty() {
                    let mut work = self.works.swap_remove(usize::from(work) % self.works.len());
                    work.settle(outcome(kind), self.now);
                    self.waiting.push(work);
                }
                self.take_turns();
            }
            Operation::Tell => self.connection.on_task_changed(self.now, &mut out),
        }
        let bytes = out.into_vec();
        check(&bytes);
        self.note_tasks(&bytes);
    }

    /// Whoever runs a task does what is next.
    fn take_turns(&mut self) {
        for mut work in std::mem::take(&mut self.waiting) {
            match work.turn(self.now) {
                TaskTurn::Call(_) => self.works.push(work),
                TaskTurn::Wait(_, until) => {
                    assert!(until > self.now);
                    self.waiting.push(work);
                }
                TaskTurn::Over => {}
            }
        }
        // What is over is kept for a while, and never more than there is room for.
        assert!(self.works.len() + self.waiting.len() <= 4);
    }

    fn note_tasks(&mut self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n') {
            let value: Value = serde_json::from_slice(line).unwrap_or_default();
            if value["result"]["resultType"] == "task" && self.tasks.len() < 32 {
                let id = value["result"]["taskId"].as_str().expect("an id");
                self.tasks.push(id.to_owned());
            }
        }
    }

    fn line(&mut self, bytes: &[u8], out: &mut Rope) {
        let step = self
            .connection
            .on_line(&Line::Borrowed(bytes), self.now, out);
        self.follow(step);
    }

    fn home(&mut self, job: &Job, kind: u8, out: &mut Rope) {
        let step = self
            .connection
            .on_outcome(&job.ticket, outcome(kind), self.now, out);
        self.follow(step);
    }

    fn follow(&mut self, step: Step) {
        match step {
            Step::Nothing | Step::Watch | Step::Flush => {}
            Step::Run(job) => self.jobs.push(job),
            Step::RunAll(jobs) => self.jobs.extend(jobs),
        }
        // Jobs that run beside each other: three, and those that were asked for again.
        assert!(self.jobs.len() <= 3 + 256);
    }

    fn finish(mut self) {
        let mut out = Rope::new();
        for _ in 0..10_000 {
            let job = self.jobs.pop().or_else(|| self.connection.next_ready());
            let Some(job) = job else { break };
            self.home(&job, 0, &mut out);
        }
        assert!(self.jobs.is_empty());
        assert!(!self.connection.has_queue());
        self.connection.cancel_all();
        assert!(self.connection.is_idle());
        self.connection.close(&mut out);
        check(&out.into_vec());
    }
}

/// Whole lines, each one JSON-RPC message or a batch of them.
fn check(bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    assert_eq!(bytes.last(), Some(&b'\n'));
    for line in bytes[..bytes.len() - 1].split(|byte| *byte == b'\n') {
        let value: Value = serde_json::from_slice(line)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(line)));
        let messages = value.as_array().cloned().unwrap_or_else(|| vec![value]);
        assert!(!messages.is_empty());
        for message in messages {
            assert_eq!(message["jsonrpc"], "2.0");
            if message.get("method").is_none() {
                assert!(message.get("result").is_some() != message.get("error").is_some());
            }
        }
    }
}

fn request(id: u8, method: u8, stateless: bool, capabilities: u8, task: &str) -> Value {
    let method = Method::ALL[usize::from(method) % Method::ALL.len()].name();
    let mut capability = json!({});
    if capabilities & 1 != 0 {
        capability["elicitation"] = json!({});
    }
    if capabilities & 2 != 0 {
        capability["sampling"] = json!({});
    }
    if capabilities & 4 != 0 {
        capability["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    }
    let mut params = json!({
        "taskId": task, "inputResponses": {"1.a": {}, "2.a": {}, "1.b": {}, "x": []},
        "name": "t", "arguments": {}, "uri": "test://r", "level": "info",
        "notifications": {"toolsListChanged": true, "resourceSubscriptions": ["test://r"],
            "taskIds": if capabilities & 4 != 0 { json!([task, "y"]) } else { json!([]) }},
        "ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}
    });
    if stateless {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capability
        });
    }
    json!({"jsonrpc": "2.0", "id": id % 16, "method": method, "params": params})
}

fn outcome(kind: u8) -> Result<Outcome, ProviderError> {
    let ask = |requests: Value, state: bool| {
        let requests = RawJson::of(&requests).expect("JSON");
        Ok(Outcome::InputRequired(InputRequired {
            requests,
            state: state.then(|| "s".into()),
            takes_errors: false,
        }))
    };
    match kind % 8 {
        0 => Ok(Outcome::Tool(ToolResult {
            content: vec![Content::Text("\u{1}\"\n".into())],
            ..ToolResult::default()
        })),
        1 => ask(
            json!({"a": {"method": "elicitation/create", "params": {}}}),
            false,
        ),
        2 => ask(
            json!({"a": {"method": "sampling/createMessage"}, "b": {"method": "elicitation/create"}}),
            true,
        ),
        3 => ask(json!({}), true),
        4 => ask(json!([1]), false),
        5 => Err(ProviderError::Cancelled),
        6 => Err(ProviderError::Unknown {
            kind: "resource",
            name: "x".into(),
        }),
        _ => Ok(Outcome::Raw(RawJson::empty_object())),
    }
}

fn notice(kind: u8) -> HubNotice {
    match kind % 3 {
        0 => HubNotice::CatalogChanged {
            tools: true,
            prompts: true,
            resources: true,
        },
        1 => HubNotice::ResourceUpdated("test://r".into()),
        _ => HubNotice::Lagged,
    }
}

fn catalog() -> Catalog {
    Catalog {
        tools: vec![ToolDescriptor {
            name: "t".into(),
            title: None,
            description: None,
            input_schema: RawJson::empty_object(),
            lean_schema: None,
            output_schema: None,
            annotations: Annotations::default(),
            group: "fuzz".into(),
            definition: None,
            cost: Cost::Quick,
            long: LongWork::May,
        }],
        prompts: vec![PromptDescriptor {
            name: "p".into(),
            title: None,
            description: None,
            arguments: Vec::new(),
            definition: None,
        }],
        resources: vec![ResourceDescriptor {
            uri: "test://r".into(),
            name: "r".into(),
            title: None,
            description: None,
            mime_type: None,
            definition: None,
        }],
        ..Catalog::default()
    }
}

#[cfg(not(feature = "link"))]
fn main() {}
