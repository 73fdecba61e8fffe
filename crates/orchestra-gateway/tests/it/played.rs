//! A server that its test plays, in the era that the test says, and a gateway with it behind a hub.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use orchestra_gateway::{
    Gateway, GatewayOptions, Reach,
    config::{
        Connections, Flavour, HttpConfig, InheritEnv, Origin, Place, ServerConfig, Source,
        StdioConfig, Template, Transport, Trust,
    },
    hints::Hints,
};
use orchestra_hub::{
    Attachment, BoxFuture, Caller, Catalog, Content, Cx, Hub, HubConfig, HubNotice, ListKind,
    Outcome, ProviderError, Request, Target, ToolResult, Toolset,
};
use orchestra_mcp::client::{
    Agreed, Answer, ClientError, Connected, Connector, Crash, Incoming, Link, Outgoing, Root,
    ServerMessage, TransportType,
};
use orchestra_wire::{ErrorCode, RawJson, RequestId, Revision, RpcError};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, Semaphore, mpsc, watch},
    time::timeout,
};

/// How long anything may take here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a server says to a call.
type Say = Box<dyn Fn(&str, &Value) -> Answer + Send + Sync>;

/// A server, over as many connections as are opened.
pub(crate) struct Played {
    pub(crate) tools: Mutex<Vec<Value>>,
    pub(crate) instructions: Mutex<String>,
    /// Resources and templates that it lists in addition.
    pub(crate) resources: Mutex<(Vec<Value>, Vec<Value>)>,
    pub(crate) say: Mutex<Say>,
    /// Methods and parameters that came, without those of the handshake and lists.
    pub(crate) heard: Mutex<Vec<(String, Value)>>,
    /// It speaks the newest era alone, with tasks; else that of sessions.
    pub(crate) is_stateless: AtomicBool,
    /// It speaks both eras: each connection the one of its first request.
    pub(crate) speaks_both: AtomicBool,
    /// Nobody gets in.
    pub(crate) is_away: AtomicBool,
    /// Its prompts cannot be listed.
    pub(crate) has_broken_prompts: AtomicBool,
    /// Who asks which era it speaks is not answered.
    pub(crate) ignores_probes: AtomicBool,
    /// Whoever wants in waits.
    pub(crate) is_held: watch::Sender<bool>,
    /// Its tools cannot be listed.
    pub(crate) is_mute: AtomicBool,
    pub(crate) connects: AtomicUsize,
    /// Lets the tool `wait` go on.
    pub(crate) gate: Semaphore,
    /// Capabilities of the client in each greeting of a session.
    pub(crate) greetings: Mutex<Vec<Value>>,
    /// Tools that are listed in a session whose client offers roots, and in no other.
    pub(crate) tools_with_roots: Mutex<Vec<Value>>,
    /// One entry per call of a tool: the client of its session offers roots.
    pub(crate) calls_with_roots: Mutex<Vec<bool>>,
    /// It asks for the roots of a session when that begins and when they change.
    pub(crate) asks_for_roots: AtomicBool,
    /// It lists each root of a session as a resource, and a tool named `at-` and the end of its URI.
    pub(crate) lists_roots: AtomicBool,
    /// Number of answers to questions for roots.
    pub(crate) roots_answers: AtomicUsize,
    /// One entry per call of a tool: the answer to the last question for roots of its session.
    pub(crate) roots_of_calls: Mutex<Vec<Value>>,
    /// Headers of the last call.
    pub(crate) headers: Mutex<Vec<(String, String)>>,
    /// How often the tools were listed.
    pub(crate) lists: AtomicUsize,
    /// How often they could not be listed.
    pub(crate) failed_lists: AtomicUsize,
    /// Lists of tools are answered later, as they are now.
    pub(crate) holds_lists: watch::Sender<bool>,
    links: Mutex<Vec<(mpsc::Sender<Incoming>, watch::Sender<bool>)>>,
}

struct Door(Arc<Played>);

struct Line {
    server: Arc<Played>,
    ended: watch::Sender<bool>,
    /// Whether its first request was one of the newest era.
    began_stateless: OnceLock<bool>,
    /// The client of the session offers roots.
    has_roots: AtomicBool,
    asks: mpsc::Sender<Incoming>,
    roots: Arc<AskedRoots>,
}

/// Answers of the client of a session to requests for roots.
#[derive(Default)]
struct AskedRoots {
    last: Mutex<Value>,
    answered: Notify,
}

pub(crate) fn said(text: &str) -> Answer {
    Ok(raw(&json!({"content": [{"type": "text", "text": text}]})))
}

pub(crate) fn raw(value: &Value) -> RawJson {
    RawJson::of(value).unwrap()
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("Does {name}."), "inputSchema": {"type": "object"}})
}

impl Played {
    pub(crate) fn new(tools: Vec<Value>) -> Arc<Self> {
        Arc::new(Self {
            tools: Mutex::new(tools),
            instructions: Mutex::new("Be kind.".to_owned()),
            say: Mutex::new(Box::new(|method, params| {
                said(&format!("{method} {params}"))
            })),
            resources: Mutex::default(),
            heard: Mutex::default(),
            is_stateless: AtomicBool::new(false),
            speaks_both: AtomicBool::new(false),
            is_away: AtomicBool::new(false),
            has_broken_prompts: AtomicBool::new(false),
            ignores_probes: AtomicBool::new(false),
            is_held: watch::Sender::new(false),
            is_mute: AtomicBool::new(false),
            connects: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            greetings: Mutex::default(),
            tools_with_roots: Mutex::default(),
            calls_with_roots: Mutex::default(),
            asks_for_roots: AtomicBool::new(false),
            lists_roots: AtomicBool::new(false),
            roots_answers: AtomicUsize::new(0),
            roots_of_calls: Mutex::default(),
            headers: Mutex::default(),
            lists: AtomicUsize::new(0),
            failed_lists: AtomicUsize::new(0),
            holds_lists: watch::Sender::new(false),
            links: Mutex::default(),
        })
    }

    pub(crate) fn say(&self, say: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static) {
        *self.say.lock().unwrap() = Box::new(say);
    }

    pub(crate) fn heard(&self, method: &str) -> Vec<Value> {
        let heard = self.heard.lock().unwrap();
        let of = heard.iter().filter(|(name, _)| name == method);
        of.map(|(_, params)| params.clone()).collect()
    }

    /// Tells something by itself.
    pub(crate) fn tell(&self, method: &str, params: Option<Value>) {
        for (link, _) in self.links.lock().unwrap().iter() {
            let message = ServerMessage::Notification {
                method: method.to_owned(),
                params: params.as_ref().map(raw),
            };
            let _ = link.try_send(Incoming {
                message,
                related: None,
            });
        }
    }

    /// Asks for roots over all connections.
    pub(crate) fn ask_for_roots(&self) {
        for (link, _) in self.links.lock().unwrap().iter() {
            let _ = link.try_send(question_for_roots());
        }
    }

    pub(crate) fn change_tools(&self, tools: Vec<Value>) {
        *self.tools.lock().unwrap() = tools;
        self.tell("notifications/tools/list_changed", None);
    }

    /// Number of connections that have not ended.
    pub(crate) fn open_connections(&self) -> usize {
        let links = self.links.lock().unwrap();
        links.iter().filter(|(_, ended)| !*ended.borrow()).count()
    }

    /// Ends all connections as a crash does.
    pub(crate) fn crash(&self) {
        for (_, ended) in self.links.lock().unwrap().drain(..) {
            ended.send_replace(true);
        }
    }

    async fn answer(
        &self,
        method: &str,
        params: Value,
        began_stateless: bool,
        (has_roots, roots): (bool, Vec<String>),
    ) -> Answer {
        let capabilities = json!({
            "tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": {},
            "logging": {}, "completions": {},
        });
        let is_stateless = match self.speaks_both.load(Ordering::SeqCst) {
            true => began_stateless,
            false => self.is_stateless.load(Ordering::SeqCst),
        };
        match method {
            "server/discover" if is_stateless => {
                let mut capabilities = capabilities;
                capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
                Ok(raw(&json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
                })))
            }
            "initialize" if is_stateless => Err(RpcError::method_not_found(method)),
            "initialize" => {
                let capabilities_of_client = params["capabilities"].clone();
                self.greetings.lock().unwrap().push(capabilities_of_client);
                let instructions = self.instructions.lock().unwrap().clone();
                Ok(raw(&json!({
                    "protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "serverInfo": {"name": "played", "version": "1"}, "instructions": instructions,
                })))
            }
            "server/discover" => {
                self.heard.lock().unwrap().push((method.to_owned(), params));
                if self.ignores_probes.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                Err(RpcError::method_not_found(method))
            }
            "ping" => Ok(RawJson::empty_object()),
            "tools/list" if self.is_mute.load(Ordering::SeqCst) => {
                self.failed_lists.fetch_add(1, Ordering::SeqCst);
                let text = "the index is broken";
                Err(RpcError::new(ErrorCode::INTERNAL_ERROR, text))
            }
            "tools/list" => {
                self.lists.fetch_add(1, Ordering::SeqCst);
                let mut tools = self.tools.lock().unwrap().clone();
                if has_roots {
                    tools.extend(self.tools_with_roots.lock().unwrap().clone());
                }
                let mut holds = self.holds_lists.subscribe();
                let _ = holds.wait_for(|holds| !holds).await;
                let ends = roots.iter().filter_map(|uri| uri.rsplit('/').next());
                tools.extend(ends.map(|end| tool(&format!("at-{end}"))));
                Ok(raw(&json!({ "tools": tools })))
            }
            "prompts/list" if self.has_broken_prompts.load(Ordering::SeqCst) => Err(RpcError::new(
                ErrorCode::INTERNAL_ERROR,
                "the index is broken",
            )),
            "prompts/list" => Ok(raw(&json!({"prompts": [{"name": "p.q", "icons": []}]}))),
            "resources/list" => {
                let mut all = vec![json!({"uri": "x://one", "name": "one", "size": 7})];
                all.extend(roots.iter().map(|uri| json!({"uri": uri, "name": uri})));
                all.extend(self.resources.lock().unwrap().0.clone());
                Ok(raw(&json!({ "resources": all })))
            }
            "resources/templates/list" => {
                let templates = self.resources.lock().unwrap().1.clone();
                Ok(raw(&json!({ "resourceTemplates": templates })))
            }
            _ => {
                let heard = (method.to_owned(), params.clone());
                self.heard.lock().unwrap().push(heard);
                if method == "subscriptions/listen" {
                    std::future::pending::<()>().await;
                }
                if params["name"] == "wait" {
                    self.gate.acquire().await.unwrap().forget();
                }
                self.say.lock().unwrap()(method, &params)
            }
        }
    }
}

impl Connector for Door {
    fn transport(&self) -> TransportType {
        TransportType::Stdio
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let server = Arc::clone(&self.0);
        Box::pin(async move {
            server.connects.fetch_add(1, Ordering::SeqCst);
            let mut held = server.is_held.subscribe();
            let _ = held.wait_for(|held| !held).await;
            if server.is_away.load(Ordering::SeqCst) {
                let what = "nobody is there".to_owned();
                return Err(ClientError::Unreachable { what });
            }
            let (sender, incoming) = mpsc::channel(100);
            let ended = watch::Sender::new(false);
            let asks = sender.clone();
            server.links.lock().unwrap().push((sender, ended.clone()));
            let link = Arc::new(Line {
                server,
                ended,
                began_stateless: OnceLock::new(),
                has_roots: AtomicBool::new(false),
                asks,
                roots: Arc::default(),
            });
            Ok(Connected { link, incoming })
        })
    }
}

fn crashed() -> ClientError {
    ClientError::Crashed(Arc::new(Crash {
        signal: Some(9),
        ..Crash::default()
    }))
}

/// The URIs in an answer to a question for roots.
fn uris(roots: &Value) -> Vec<String> {
    let roots = roots["roots"].as_array().into_iter().flatten();
    roots
        .filter_map(|root| Some(root["uri"].as_str()?.to_owned()))
        .collect()
}

fn question_for_roots() -> Incoming {
    let message = ServerMessage::Request {
        id: RequestId::from_number(900),
        method: "roots/list".to_owned(),
        params: None,
    };
    let related = None;
    Incoming { message, related }
}

impl Line {
    fn ask_for_roots(&self) {
        self.asks.try_send(question_for_roots()).unwrap();
    }
}

impl Link for Line {
    fn request(&self, request: Outgoing) -> BoxFuture<Result<Answer, ClientError>> {
        let server = Arc::clone(&self.server);
        let ended = self.ended();
        let is_stateless = || request.method != "initialize";
        let began_stateless = *self.began_stateless.get_or_init(is_stateless);
        let params = request.params.as_ref();
        let params: Value = params.map_or(Value::Null, |params| params.parse().unwrap());
        if request.method == "initialize" {
            let has_roots = params["capabilities"]["roots"].is_object();
            self.has_roots.store(has_roots, Ordering::SeqCst);
        }
        let has_roots = self.has_roots.load(Ordering::SeqCst);
        let roots = Arc::clone(&self.roots);
        let is_call = request.method == "tools/call";
        let asks = is_call && params["name"] == "where";
        if asks || is_call && params["name"] == "hasty" {
            self.ask_for_roots();
        }
        Box::pin(async move {
            if let Some(departure) = &request.departure {
                assert!(departure.leave(), "nobody has given it up");
            }
            if request.method == "tools/call" {
                *server.headers.lock().unwrap() = request.headers;
                server.calls_with_roots.lock().unwrap().push(has_roots);
                if asks {
                    roots.answered.notified().await;
                }
                let last = roots.last.lock().unwrap().clone();
                server.roots_of_calls.lock().unwrap().push(last);
            }
            let listed = match server.lists_roots.load(Ordering::SeqCst) {
                true => uris(&roots.last.lock().unwrap()),
                false => Vec::new(),
            };
            let roots = (has_roots, listed);
            let answer = server.answer(&request.method, params, began_stateless, roots);
            tokio::select! {
                // A process that has ended answers nothing.
                biased;
                error = ended => Err(error),
                answer = answer => Ok(answer),
            }
        })
    }

    fn notify(&self, method: &str, params: Option<RawJson>) -> BoxFuture<Result<(), ClientError>> {
        let is_change = matches!(
            method,
            "notifications/initialized" | "notifications/roots/list_changed"
        );
        let may_ask = self.server.asks_for_roots.load(Ordering::SeqCst);
        if is_change && may_ask && self.has_roots.load(Ordering::SeqCst) {
            self.ask_for_roots();
        }
        let params = params.map(|params| params.parse().unwrap());
        let heard = (method.to_owned(), params.unwrap_or_default());
        self.server.heard.lock().unwrap().push(heard);
        Box::pin(async { Ok(()) })
    }

    fn respond(&self, id: RequestId, answer: Answer) -> BoxFuture<Result<(), ClientError>> {
        let (roots, server) = (Arc::clone(&self.roots), Arc::clone(&self.server));
        Box::pin(async move {
            if id == RequestId::from_number(900) {
                server.roots_answers.fetch_add(1, Ordering::SeqCst);
                let answer: Value = match answer {
                    Ok(answer) => answer.parse().unwrap(),
                    Err(error) => json!({"error": error.message}),
                };
                *roots.last.lock().unwrap() = answer;
                roots.answered.notify_one();
            }
            Ok(())
        })
    }

    fn agreed(&self, _agreed: Agreed) -> BoxFuture<()> {
        Box::pin(async {})
    }

    fn ended(&self) -> BoxFuture<ClientError> {
        let mut ended = self.ended.subscribe();
        Box::pin(async move {
            let _ = ended.wait_for(|ended| *ended).await;
            crashed()
        })
    }

    fn close(&self) -> BoxFuture<()> {
        self.ended.send_replace(true);
        Box::pin(async {})
    }
}

fn root(uri: &Template) -> Root {
    Root {
        uri: uri.written().to_owned(),
        name: None,
    }
}

/// A configuration in which nothing is set.
pub(crate) fn config(name: &str) -> ServerConfig {
    let origin = Origin {
        file: Path::new("mcp.json").into(),
        place: Place::START,
        source: Source::User,
        trust: Trust::Trusted,
        directory: ".".into(),
    };
    let transport = Transport::Stdio(StdioConfig {
        command: Template::new(name),
        args: Vec::new(),
        cwd: None,
        env: std::collections::BTreeMap::new(),
        env_file: None,
        inherit_env: InheritEnv::Default,
    });
    ServerConfig::new(name.parse().unwrap(), origin, transport)
}

/// The same of a server on the network.
pub(crate) fn on_the_network(name: &str) -> ServerConfig {
    let mut config = config(name);
    config.transport = Transport::Http(HttpConfig {
        url: Template::new(name),
        flavour: Flavour::Streamable,
        headers: Vec::new(),
        auth: None,
        ca_file: None,
        client_cert: None,
        allow_insecure: false,
        connections: Connections::default(),
    });
    config
}

/// A gateway over played servers, by name.
pub(crate) struct Bench {
    pub(crate) hub: Hub,
    pub(crate) gateway: Gateway,
    pub(crate) state: Arc<tempfile::TempDir>,
}

impl Bench {
    pub(crate) fn new(servers: &[(&str, &Arc<Played>)]) -> Self {
        Self::in_state(Arc::new(tempfile::tempdir().unwrap()), servers)
    }

    pub(crate) fn in_state(
        state: Arc<tempfile::TempDir>,
        servers: &[(&str, &Arc<Played>)],
    ) -> Self {
        Self::in_hub(state, servers, HubConfig::default())
    }

    pub(crate) fn in_hub(
        state: Arc<tempfile::TempDir>,
        servers: &[(&str, &Arc<Played>)],
        hub: HubConfig,
    ) -> Self {
        Self::of(state, servers, hub, |_| {})
    }

    /// A gateway that is nothing but a way to one server.
    pub(crate) fn relay(server: &Arc<Played>) -> Self {
        let state = Arc::new(tempfile::tempdir().unwrap());
        let relays = |options: &mut GatewayOptions| options.relay = true;
        let bench = Self::of(state, &[("s", server)], HubConfig::default(), relays);
        let mut relayed = config("s");
        relayed.prefix = false;
        bench.gateway.apply(vec![relayed]);
        bench
    }

    fn of(
        state: Arc<tempfile::TempDir>,
        servers: &[(&str, &Arc<Played>)],
        hub: HubConfig,
        change: impl FnOnce(&mut GatewayOptions),
    ) -> Self {
        let servers = servers.iter();
        let servers: HashMap<String, Arc<Played>> = servers
            .map(|(name, server)| ((*name).to_owned(), Arc::clone(server)))
            .collect();
        let connect = move |config: &ServerConfig| {
            let name = match &config.transport {
                Transport::Stdio(stdio) => stdio.command.written(),
                Transport::Http(http) => http.url.written(),
                other => panic!("{other:?}"),
            };
            match servers.get(name) {
                Some(server) => Ok(Reach {
                    connector: Arc::new(Door(Arc::clone(server))),
                    roots: config.roots.iter().map(root).collect(),
                    hints: Hints::default(),
                }),
                None => Err(ClientError::InvalidConfig {
                    what: "there is no such server".to_owned(),
                }),
            }
        };
        let hub = Hub::new(hub);
        let mut options = GatewayOptions {
            state: state.path().to_owned(),
            connect: Arc::new(connect),
            grace: Duration::from_secs(5),
            once: false,
            relay: false,
        };
        change(&mut options);
        let gateway = Gateway::new(hub.clone(), options);
        Self {
            hub,
            gateway,
            state,
        }
    }

    pub(crate) fn attach(&self) -> Attachment {
        let caller = Caller {
            face: "test",
            client: Some("tester".into()),
        };
        self.hub.attach(caller, Toolset::All)
    }

    /// The names of the tools, after waiting as a list does.
    pub(crate) async fn tools(&self) -> Vec<String> {
        self.attach().settled().await;
        let tools = self.hub.tools(&Toolset::All).into_iter();
        tools.map(|tool| tool.name).collect()
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Outcome {
        self.try_call(name, arguments).await.unwrap()
    }

    pub(crate) async fn try_call(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<Outcome, ProviderError> {
        self.ask(tool_call(name, &arguments), Cx::default()).await
    }

    pub(crate) async fn ask(&self, target: Target, cx: Cx) -> Result<Outcome, ProviderError> {
        let call = self.attach().call(Request { target, cx });
        timeout(PATIENCE, call).await.expect("an answer in time")
    }

    /// The tools, as a client that asks for them now gets them.
    pub(crate) async fn list_tools(attachment: &Attachment) -> Value {
        let target = Target::List {
            kind: ListKind::Tools,
            revision: Revision::V2025_11_25,
            start: 0,
            limit: usize::MAX,
        };
        let cx = Cx::default();
        let listing = timeout(PATIENCE, attachment.call(Request { target, cx })).await;
        match listing.expect("an answer in time") {
            Ok(Outcome::List { items, .. }) => {
                serde_json::from_slice(&[b"[", &items[..], b"]"].concat()).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    /// A list as the newest session revision shows it.
    pub(crate) fn list(&self, kind: ListKind) -> Value {
        let listing = self.attach().list(kind, Revision::V2025_11_25);
        let items = [b"[", &listing.page(0, usize::MAX).0[..], b"]"].concat();
        serde_json::from_slice(&items).unwrap()
    }

    pub(crate) fn catalogs(&self) -> Vec<Arc<Catalog>> {
        let catalogs = self.hub.catalogs().into_iter();
        catalogs.map(|(_, catalog)| catalog).collect()
    }
}

pub(crate) fn tool_call(name: &str, arguments: &Value) -> Target {
    Target::Tool {
        name: name.to_owned(),
        arguments: raw(arguments),
    }
}

/// The text of a tool's result, and whether it says that it failed.
pub(crate) fn text(outcome: Outcome) -> (String, bool) {
    let result = match outcome {
        Outcome::Tool(result) => result,
        Outcome::Verbatim {
            result, is_error, ..
        } => ToolResult::of_verbatim(&result, is_error),
        other => panic!("a tool's result, and not {other:?}"),
    };
    let Some(Content::Text(text)) = result.content.into_iter().next() else {
        panic!("a text")
    };
    (text, result.is_error)
}

/// Waits until something is so.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let look = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, look)
        .await
        .expect("it comes about in time");
}

/// The next notice that is about tools.
pub(crate) async fn tools_changed(notices: &mut orchestra_hub::Notices) {
    loop {
        let notice = timeout(PATIENCE, notices.next()).await;
        let notice = notice.expect("a notice in time").expect("the hub lives");
        if matches!(notice, HubNotice::CatalogChanged { tools: true, .. }) {
            return;
        }
    }
}

pub(crate) fn not_found() -> Answer {
    Err(RpcError::new(ErrorCode::RESOURCE_NOT_FOUND, "no such page"))
}
