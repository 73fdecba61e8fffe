//! A face over a hub with one provider in memory, reached over QUIC.

use std::{
    collections::BTreeMap,
    future::pending,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orchestra_hub::{
    Annotations, Audit, AuditConfig, Catalog, Content, Cost, Hub, HubConfig, InputRequired,
    LongWork, Outcome, PromptArgument, PromptDescriptor, PromptResult, Provider, ProviderError,
    ProviderId, Request, Target, ToolDescriptor, ToolResult,
};
use orchestra_mcp::Server;
use orchestra_plugin::{
    certs::{CertDir, Identity},
    envelope::{self, PayloadOf, RequestKind, Response, ResponseKind},
    generated::{
        PluginManifest, StorageDeleteRequest, StorageDeleteResponse, StorageListRequest,
        StorageListResponse, StorageReadRequest, StorageReadResponse, StorageWriteRequest,
        StorageWriteResponse, ToolResponse,
    },
    ids::PluginId,
    quic::{Caller, CallerOptions, Endpoint, Limits, Pace, Serving, Target as Towards},
};
use orchestra_plugin_host::{
    events::{Deliver, EventLimits, Events},
    face::{Face, FaceOptions, Host, Permissions},
    link::{OrchestratorConnector, OrchestratorSpec},
    storage::{Answer, Storage, StorageError},
};
use orchestra_wire::RawJson;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::{Instant, timeout},
};

/// No wait of a test is longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The file of the audit log.
const AUDIT: &str = "audit.jsonl";

pub(crate) fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// A provider that does what the name of its tool says.
struct Tools {
    id: ProviderId,
    catalog: watch::Sender<Arc<Catalog>>,
    told: mpsc::UnboundedSender<String>,
}

/// The tools, in their order.
const TOOLS: [&str; 10] = [
    "echo",
    "who",
    "wait",
    "panic",
    "steps",
    "fail",
    "ask",
    "big",
    "data",
    "gpt__chat",
];

fn tool(name: &str) -> ToolDescriptor {
    ToolDescriptor {
        name: name.to_owned(),
        title: None,
        description: Some(format!("Does {name}.")),
        input_schema: RawJson::of(&json!({"type": "object"})).unwrap(),
        lean_schema: None,
        output_schema: None,
        annotations: Annotations::default(),
        group: "test".into(),
        cost: Cost::Quick,
        long: LongWork::Never,
        definition: None,
    }
}

fn text(text: impl Into<String>) -> Result<Outcome, ProviderError> {
    Ok(Outcome::Tool(ToolResult {
        content: vec![Content::Text(text.into())],
        ..ToolResult::default()
    }))
}

/// Tells when a call is dropped.
struct Dropped(mpsc::UnboundedSender<String>);

impl Drop for Dropped {
    fn drop(&mut self) {
        drop(self.0.send("dropped".to_owned()));
    }
}

impl Provider for Tools {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn serve(&self, request: Request) -> orchestra_hub::BoxFuture<Result<Outcome, ProviderError>> {
        let told = self.told.clone();
        Box::pin(async move {
            let cx = request.cx;
            let (name, arguments) = match request.target {
                Target::Tool { name, arguments } => (name, arguments),
                Target::Prompt { name, arguments } => {
                    let said = format!("{name} {arguments:?}");
                    let content = json!({"type": "text", "text": said});
                    let messages = RawJson::of(&json!([{"role": "user", "content": content}]));
                    return Ok(Outcome::Prompt(PromptResult {
                        description: Some("greets".into()),
                        messages: messages.unwrap(),
                    }));
                }
                _ => unreachable!("only tools and prompts are offered"),
            };
            match &*name {
                "who" => {
                    let params = cx.params.map(|params| params.as_str().to_owned());
                    let client = cx.caller.client.as_deref().unwrap_or_default();
                    let face = cx.caller.face;
                    text(json!({"face": face, "client": client, "trace": cx.trace, "params": params}).to_string())
                }
                "wait" => {
                    let _dropped = Dropped(told.clone());
                    told.send("waiting".to_owned()).unwrap();
                    pending().await
                }
                "panic" => panic!("told to"),
                "steps" => {
                    for step in 1..=3_u8 {
                        cx.progress
                            .progress(step.into(), Some(3.0), Some(&format!("step {step}")));
                        tokio::task::yield_now().await;
                    }
                    text("done")
                }
                "fail" => Ok(Outcome::Tool(ToolResult {
                    content: vec![Content::Text("it is wrong".into())],
                    is_error: true,
                    ..ToolResult::default()
                })),
                "ask" if cx.answers.is_none() => Ok(Outcome::InputRequired(InputRequired {
                    requests: RawJson::of(&json!({"name": {
                        "method": "elicitation/create",
                        "params": {"mode": "form", "message": "Who?",
                            "requestedSchema": {"type": "object", "properties": {}}},
                    }}))
                    .unwrap(),
                    state: Some("half".into()),
                    takes_errors: false,
                })),
                "big" => text("x".repeat(16 * 1024 * 1024)),
                "data" => Ok(Outcome::Tool(ToolResult {
                    structured: Some(RawJson::of(&json!({"n": 1})).unwrap()),
                    ..ToolResult::default()
                })),
                "gpt__chat" => text("I am gpt"),
                _ => text(arguments.as_str()),
            }
        })
    }
}

/// Admits whom it knows, and permits what it was told to.
pub(crate) struct Operator {
    pub(crate) permitted: Mutex<Permissions>,
    /// Whether it admits nobody any more.
    pub(crate) is_closed: AtomicBool,
    /// What happens once, just after it has made up its mind.
    pub(crate) meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Host for Operator {
    fn admit(&self, plugin: &PluginId, _: &PluginManifest) -> Result<Permissions, String> {
        let is_closed = self.is_closed.load(Ordering::SeqCst);
        match is_closed || plugin.as_str().starts_with("stranger") {
            true => Err(format!("{plugin} is not configured here")),
            false => {
                let permitted = self.permitted.lock().unwrap().clone();
                let meanwhile = self.meanwhile.lock().unwrap().take();
                if let Some(meanwhile) = meanwhile {
                    meanwhile();
                }
                Ok(permitted)
            }
        }
    }

    fn ai_tool(&self, provider: &str, tool: &str) -> Option<String> {
        match (provider, tool) {
            ("openai", "chat") => Some("gpt__chat".to_owned()),
            ("claude", "echo" | "talk") => Some("gpt__chat".to_owned()),
            _ => None,
        }
    }
}

/// Keeps documents of the type `markdown` in memory.
#[derive(Default)]
struct Memory(Mutex<BTreeMap<String, Bytes>>);

fn ready<T: Send + 'static>(result: Result<T, StorageError>) -> Answer<'static, T> {
    Box::pin(std::future::ready(result))
}

impl Storage for Memory {
    fn read(&self, request: StorageReadRequest) -> Answer<'_, StorageReadResponse> {
        assert_ne!(request.path, "panic", "told to");
        if request.path == "stuck" {
            return Box::pin(pending());
        }
        let found = self.0.lock().unwrap().get(&request.path).cloned();
        ready(match found {
            Some(content) => Ok(StorageReadResponse {
                content,
                version: 1,
                ..StorageReadResponse::default()
            }),
            None => Err(StorageError::NotFound { path: request.path }),
        })
    }

    fn write(&self, request: StorageWriteRequest) -> Answer<'_, StorageWriteResponse> {
        if !matches!(&*request.storage_type, "" | "markdown") {
            let storage_type = request.storage_type;
            return ready(Err(StorageError::NoStorage { storage_type }));
        }
        if request.path == "stuck" {
            return Box::pin(pending());
        }
        self.0.lock().unwrap().insert(request.path, request.content);
        ready(Ok(StorageWriteResponse {
            success: true,
            new_version: 1,
            ..StorageWriteResponse::default()
        }))
    }

    fn delete(&self, request: StorageDeleteRequest) -> Answer<'_, StorageDeleteResponse> {
        if request.path == "stuck" {
            return Box::pin(pending());
        }
        let success = self.0.lock().unwrap().remove(&request.path).is_some();
        ready(match success {
            true => Ok(StorageDeleteResponse {
                success,
                problem: None,
            }),
            false => Err(StorageError::NotFound { path: request.path }),
        })
    }

    fn list(&self, _: StorageListRequest) -> Answer<'_, StorageListResponse> {
        ready(Err(StorageError::Failed("no lists today".into())))
    }
}

/// Tells what it was to deliver, once it is let.
pub(crate) struct Delivery {
    told: mpsc::UnboundedSender<(PluginId, envelope::Request)>,
    pub(crate) gate: Semaphore,
    /// Whom it never delivers to.
    pub(crate) stuck: Mutex<Option<PluginId>>,
}

/// The same, as the face has it.
struct Shared(Arc<Delivery>);

impl Deliver for Shared {
    fn deliver(
        &self,
        plugin: &PluginId,
        event: envelope::Request,
    ) -> BoxFuture<'static, Result<(), String>> {
        let (delivery, plugin) = (self.0.clone(), plugin.clone());
        Box::pin(async move {
            let is_stuck = delivery.stuck.lock().unwrap().as_ref() == Some(&plugin);
            if is_stuck {
                return pending().await;
            }
            delivery.gate.acquire().await.unwrap().forget();
            delivery
                .told
                .send((plugin, event))
                .map_err(|e| e.to_string())
        })
    }

    fn reaches(&self, plugin: &PluginId) -> bool {
        plugin.as_str() != "alone"
    }
}

/// An orchestrator's face, and what happens behind it.
pub(crate) struct Rig {
    home: TempDir,
    dir: CertDir,
    pub(crate) face: Face,
    pub(crate) serving: Option<Serving>,
    address: SocketAddr,
    pub(crate) operator: Arc<Operator>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) delivered: mpsc::UnboundedReceiver<(PluginId, envelope::Request)>,
    pub(crate) told: mpsc::UnboundedReceiver<String>,
    catalog: Arc<Tools>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(
            FaceOptions::default(),
            EventLimits::default(),
            Limits::default(),
        )
    }

    pub(crate) fn with(options: FaceOptions, events: EventLimits, limits: Limits) -> Self {
        let home = TempDir::new().unwrap();
        let dir = CertDir::open(home.path().join("certs")).unwrap();
        dir.ensure_ca(SystemTime::now()).unwrap();
        let (sender, told) = mpsc::unbounded_channel();
        let catalog = Catalog {
            tools: TOOLS.iter().map(|name| tool(name)).collect(),
            prompts: vec![PromptDescriptor {
                name: "greet".into(),
                title: None,
                description: Some("Greets.".into()),
                arguments: vec![PromptArgument {
                    name: "whom".into(),
                    description: Some("Whom.".into()),
                    required: true,
                }],
                definition: None,
            }],
            ..Catalog::default()
        };
        let provider = Arc::new(Tools {
            id: ProviderId::parse("memory").unwrap(),
            catalog: watch::Sender::new(Arc::new(catalog)),
            told: sender,
        });
        let audit = AuditConfig::new(home.path().join(AUDIT));
        let hub = Hub::new(HubConfig {
            audit: Some(Audit::open(audit).unwrap()),
            ..HubConfig::default()
        });
        hub.register(provider.clone()).unwrap();
        let server = Server::builder(hub, "orchestra").version("9.9.9").build();
        let operator = Arc::new(Operator {
            permitted: Mutex::new(Permissions::all()),
            meanwhile: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        let (sender, delivered) = mpsc::unbounded_channel();
        let delivery = Arc::new(Delivery {
            told: sender,
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            stuck: Mutex::default(),
        });
        let events = Events::new(Arc::new(Shared(delivery.clone())), events);
        let storage = Arc::new(Memory::default());
        let face = Face::new(&server, operator.clone(), storage, events, options);
        let identity = identity(&dir, "orchestrator");
        let endpoint = Endpoint::bind(Endpoint::LOOPBACK, &identity, Pace::default()).unwrap();
        let serving = endpoint.serve(Arc::new(face.clone()), limits);
        Self {
            address: endpoint.address().unwrap(),
            home,
            dir,
            face,
            serving: Some(serving),
            operator,
            delivery,
            delivered,
            told,
            catalog: provider,
        }
    }

    /// Waits until the audit log has so many records that end in a way, and returns their kinds and names.
    pub(crate) async fn recorded(&self, outcome: &str, count: usize) -> Vec<(String, String)> {
        let path = self.home.path().join(AUDIT);
        let recorded = async {
            loop {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                // The last line may be half written.
                let whole = text.split_inclusive('\n');
                let whole = whole.filter(|line| line.ends_with('\n'));
                let records = whole.map(|line| serde_json::from_str::<Value>(line).unwrap());
                let ended = records.filter(|record| record["outcome"] == outcome);
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let named: Vec<_> = ended
                    .map(|record| (text(&record["kind"]), text(&record["name"])))
                    .collect();
                if named.len() >= count {
                    return named;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, recorded).await.unwrap()
    }

    /// Offers one tool more.
    pub(crate) fn offer(&self, name: &str) {
        let mut catalog = Catalog::clone(&self.catalog.catalog.borrow());
        catalog.tools.push(tool(name));
        self.catalog.catalog.send_replace(Arc::new(catalog));
    }

    pub(crate) fn peer(&self, name: &str) -> Peer {
        let identity = identity(&self.dir, name);
        let endpoint = Endpoint::outgoing(self.address, &identity, Pace::default()).unwrap();
        let target = Towards::named(self.address, "orchestrator".parse().unwrap());
        Peer(Caller::start(endpoint, target, CallerOptions::default()))
    }

    /// How this orchestrator is reached from another one.
    pub(crate) fn from(&self, other: &Self) -> OrchestratorConnector {
        OrchestratorConnector::new(OrchestratorSpec {
            address: self.address.to_string(),
            certs: self.home.path().join("certs"),
            expected: None,
            from: Some(other.face.reached().clone()),
        })
    }

    /// A bridge.
    pub(crate) fn bridge(&self) -> Peer {
        self.peer("transport.stdio-client")
    }

    /// A plugin that has registered, with what it needs.
    pub(crate) async fn plugin(&self, id: &str, manifest: PluginManifest) -> Peer {
        let peer = self.peer(&format!("{id}-client"));
        let manifest = PluginManifest {
            id: id.into(),
            ..manifest
        };
        let answer = peer.ask(&manifest).await;
        assert_eq!(hex(&answer.encode()), "52020801");
        peer
    }

    /// Waits for what the provider tells.
    pub(crate) async fn hear(&mut self, wanted: &str) {
        let heard = async { while self.told.recv().await.unwrap() != wanted {} };
        timeout(PATIENCE, heard).await.unwrap();
    }

    /// The next event that is delivered.
    pub(crate) async fn event(&mut self) -> (PluginId, envelope::Request) {
        timeout(PATIENCE, self.delivered.recv())
            .await
            .unwrap()
            .unwrap()
    }
}

fn identity(dir: &CertDir, name: &str) -> Identity {
    dir.identity(&name.parse().unwrap(), SystemTime::now())
        .unwrap()
}

/// Somebody who calls.
pub(crate) struct Peer(pub(crate) Caller);

impl Peer {
    /// Sends bytes and takes the one answer.
    pub(crate) async fn raw(&self, request: Bytes) -> Bytes {
        self.0.call(request, soon()).await.unwrap()
    }

    pub(crate) async fn ask<M: PayloadOf<RequestKind>>(&self, message: &M) -> Response {
        let request = envelope::Request::new("", message).encode();
        Response::decode(&self.raw(request).await).unwrap()
    }

    /// The answer, which is of a kind of its own.
    pub(crate) async fn get<M, A>(&self, message: &M) -> A
    where
        M: PayloadOf<RequestKind>,
        A: PayloadOf<ResponseKind>,
    {
        let answer = self.ask(message).await;
        answer
            .message()
            .unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    /// The code and message of the failure that is answered.
    pub(crate) async fn fails<M: PayloadOf<RequestKind>>(&self, message: &M) -> (String, String) {
        let answer: ToolResponse = self.get(message).await;
        assert!(!answer.success);
        (answer.error_code, answer.error_message)
    }

    /// All that is answered.
    pub(crate) async fn all<M: PayloadOf<RequestKind>>(&self, message: &M) -> Vec<Response> {
        let request = envelope::Request::new("s", message).encode();
        let mut answers = self.0.stream(request, soon()).await.unwrap();
        let mut all = Vec::new();
        while let Some(answer) = timeout(PATIENCE, answers.next()).await.unwrap().unwrap() {
            all.push(Response::decode(&answer).unwrap());
        }
        all
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Bytes {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

/// A JSON value as a `Struct`.
pub(crate) fn structure(value: &Value) -> Option<Bytes> {
    let json = value.to_string();
    Some(orchestra_plugin::structs::encode(json.as_bytes(), Default::default()).unwrap())
}

/// A `Struct` as a JSON value.
pub(crate) fn value(message: &[u8]) -> Value {
    let json = orchestra_plugin::structs::decode(message, Default::default()).unwrap();
    serde_json::from_str(&json).unwrap()
}
