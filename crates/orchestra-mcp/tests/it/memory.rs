//! A provider for tests in this process, and servers over it in memory.

use std::{
    future::pending,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use orchestra_hub::{
    Annotations, BoxFuture, Catalog, Content, Cost, Hub, HubConfig, InputRequired, LongWork,
    Notice, Outcome, Provider, ProviderError, ProviderId, Request, ResourceDescriptor,
    SkillDescriptor, SkillFile, Target, ToolDescriptor, ToolResult,
};
use orchestra_mcp::{Limits, Server, TaskLimits, post::Post, stream};
use orchestra_wire::RawJson;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    sync::{Notify, mpsc, watch},
    time::timeout,
};

pub(crate) const TOOLS: usize = 15;

/// The one resource.
pub(crate) const WATCHED: &str = "test://watched";

/// The directories of the skills.
pub(crate) const SKILLS: [&str; 3] = ["one", "three", "two"];

/// What the tools of the provider share with their test.
pub(crate) struct Shared {
    /// Names of calls in the order of their first poll.
    pub(crate) order: Mutex<Vec<String>>,
    /// Lets the calls of `gate` go on.
    pub(crate) gate: Notify,
    pub(crate) dropped: AtomicUsize,
    /// What the provider tells without being asked.
    pub(crate) notices: mpsc::Sender<Notice>,
}

struct TestProvider {
    id: ProviderId,
    catalog: watch::Sender<Arc<Catalog>>,
    shared: Arc<Shared>,
    notices: Mutex<Option<mpsc::Receiver<Notice>>>,
}

impl Shared {
    /// Waits until the hub has taken every notice.
    pub(crate) async fn notices_are_taken(&self) {
        while self.notices.capacity() < self.notices.max_capacity() {
            tokio::task::yield_now().await;
        }
    }
}

/// Counts when a call is dropped before its end.
struct CountDrop(Arc<Shared>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Panics when it is dropped.
struct PanicOnDrop;

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

impl Future for PanicOnDrop {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Provider for TestProvider {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        let shared = Arc::clone(&self.shared);
        let (name, arguments) = match request.target {
            Target::Tool { name, arguments } => (name, arguments),
            Target::Complete { .. } => return Box::pin(async { Ok(question()) }),
            _ => return Box::pin(async { Err(ProviderError::InvalidParams("only tools".into())) }),
        };
        if name == "panic_at_once" {
            panic!("at once");
        }
        Box::pin(async move {
            shared
                .order
                .lock()
                .unwrap()
                .push(arguments.as_str().to_owned());
            match name.as_str() {
                "gate" | "must" => shared.gate.notified().await,
                "gate_ask" => {
                    shared.gate.notified().await;
                    let answers = request.cx.answers.map(|answers| answers.responses);
                    let Some(answers) = answers else {
                        return Ok(question());
                    };
                    return Ok(said(answers.as_str()));
                }
                "never" | "heavy" => {
                    let _count = CountDrop(shared);
                    pending::<()>().await;
                }
                "ask" => return Ok(question()),
                "roots" => {
                    return Ok(match request.cx.answers {
                        Some(answers) => said(answers.responses.as_str()),
                        None => question_for_roots(),
                    });
                }
                "ask_once" if request.cx.answers.is_none() => return Ok(question()),
                "report" => {
                    request.cx.progress.progress(1.0, Some(2.0), None);
                    shared.gate.notified().await;
                    request.cx.progress.progress(2.0, Some(2.0), None);
                }
                "yield" => tokio::task::yield_now().await,
                "panic" => panic!("polled"),
                "panic_on_drop" => PanicOnDrop.await,
                "panic_later" => {
                    tokio::task::yield_now().await;
                    panic!("later");
                }
                _ => {}
            }
            Ok(said(arguments.as_str()))
        })
    }

    fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        self.notices.lock().unwrap().take()
    }
}

fn said(text: &str) -> Outcome {
    Outcome::Tool(ToolResult {
        content: vec![Content::Text(text.to_owned())],
        ..ToolResult::default()
    })
}

/// A form that the client has to fill in.
fn question() -> Outcome {
    let form = json!({"message": "well?", "requestedSchema": {"type": "object", "properties": {}}});
    let requests = json!({"form": {"method": "elicitation/create", "params": form}});
    Outcome::InputRequired(InputRequired {
        requests: RawJson::of(&requests).unwrap(),
        state: None,
        takes_errors: false,
    })
}

fn question_for_roots() -> Outcome {
    Outcome::InputRequired(InputRequired {
        requests: RawJson::of(&json!({"r": {"method": "roots/list"}})).unwrap(),
        state: None,
        takes_errors: false,
    })
}

pub(crate) fn server_with(limits: Limits) -> (Server, Arc<Shared>) {
    server_keeping(limits, TaskLimits::default())
}

/// A server all of whose tools but `echo` may become tasks.
pub(crate) fn server_keeping(limits: Limits, tasks: TaskLimits) -> (Server, Arc<Shared>) {
    let names = [
        "echo",
        "gate",
        "never",
        "yield",
        "panic",
        "panic_later",
        "panic_at_once",
        "panic_on_drop",
        "ask",
        "ask_once",
        "roots",
        "heavy",
        "report",
        "must",
        "gate_ask",
    ];
    let offered = names.map(|name| ToolDescriptor {
        name: name.into(),
        title: None,
        description: None,
        input_schema: RawJson::of(&json!({"type": "object"})).unwrap(),
        lean_schema: None,
        output_schema: None,
        annotations: Annotations::default(),
        group: "test".into(),
        definition: None,
        cost: if name == "heavy" {
            Cost::Heavy
        } else {
            Cost::Quick
        },
        long: match name {
            "echo" => LongWork::Never,
            "must" => LongWork::Must,
            _ => LongWork::May,
        },
    });
    let (notices, receiver) = mpsc::channel(1_000);
    let shared = Arc::new(Shared {
        order: Mutex::default(),
        gate: Notify::new(),
        dropped: AtomicUsize::new(0),
        notices,
    });
    let catalog = Catalog {
        tools: offered.into(),
        resources: vec![ResourceDescriptor {
            uri: WATCHED.into(),
            name: "watched".into(),
            title: None,
            description: None,
            mime_type: None,
            definition: None,
        }],
        skills: Some(SKILLS.map(skill).into()),
        ..Catalog::default()
    };
    let provider = TestProvider {
        id: ProviderId::parse("test").unwrap(),
        catalog: watch::Sender::new(Arc::new(catalog)),
        shared: Arc::clone(&shared),
        notices: Mutex::new(Some(receiver)),
    };
    let hub = Hub::new(HubConfig {
        calls_per_caller: 10_000,
        calls_per_provider: 10_000,
        ..HubConfig::default()
    });
    hub.register(Arc::new(provider)).unwrap();
    let server = Server::builder(hub, "test").limits(limits).tasks(tasks);
    (server.build(), shared)
}

pub(crate) fn server(limits: Limits) -> Server {
    server_with(limits).0
}

fn skill(name: &str) -> SkillDescriptor {
    let root = format!("skill://memory/{name}");
    let front = json!({"name": name, "description": "Does nothing."});
    let file = SkillFile::of(format!("{root}/SKILL.md"), None, b"");
    SkillDescriptor::new(&root, front.as_object().unwrap(), vec![file]).unwrap()
}

pub(crate) async fn post(post: &Post, request: &Value) -> Option<Value> {
    let answer = post.handle(request.to_string().as_bytes()).await?;
    Some(serde_json::from_slice(&answer).unwrap())
}

/// A client at the other end of a stream in memory.
pub(crate) struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Client {
    pub(crate) fn connect(server: &Server) -> Self {
        let (stream, _task) = stream::in_memory(server, "test");
        let (input, output) = tokio::io::split(stream);
        Self {
            lines: BufReader::new(input).lines(),
            output,
        }
    }

    pub(crate) async fn send(&mut self, line: &str) {
        self.output
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    /// Opens a session whose client fills in forms.
    pub(crate) async fn initialize(&mut self, revision: &str) {
        self.initialize_with(revision, json!({"elicitation": {}}))
            .await;
    }

    /// Opens a session whose client has some capabilities.
    pub(crate) async fn initialize_with(&mut self, revision: &str, capabilities: Value) {
        let params = json!({"protocolVersion": revision, "capabilities": capabilities});
        let request =
            json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params});
        self.send(&request.to_string()).await;
        assert_eq!(self.next().await.unwrap()["id"], "init");
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
    }

    pub(crate) async fn tool(&mut self, id: usize, name: &str) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {"n": id}}});
        self.send(&request.to_string()).await;
    }

    pub(crate) async fn end(&mut self) {
        self.output.shutdown().await.unwrap();
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = timeout(Duration::from_secs(30), self.lines.next_line()).await;
        let line = line.expect("the server answers").unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }
}
