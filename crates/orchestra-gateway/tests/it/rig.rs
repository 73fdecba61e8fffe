//! A gateway with real servers behind it: processes of the fixtures, and whatever listens on a
//! socket; and a witness, who calls one of them all the time and must not notice the others.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use orchestra_gateway::{
    Gateway, GatewayOptions, Reach,
    config::{Connections, HttpConfig, InheritEnv, ServerConfig, StdioConfig, Template, Transport},
    connect::Connectors,
    expand::Scope,
    hints::Hints,
};
use orchestra_hub::{
    Attachment, Caller, Cx, Hub, HubConfig, ListKind, Outcome, PeerReport, ProviderError, Request,
    ToolResult, Toolset,
};
use orchestra_mcp::client::{ChildConfig, ChildConnector, Launcher};
use orchestra_wire::Revision;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use serde_json::{Value, json};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{MissedTickBehavior, interval, timeout},
};

use crate::played::{self, tool_call};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Whether there is time for everything.
pub(crate) fn is_soak() -> bool {
    std::env::var_os("ORCHESTRA_SOAK").is_some()
}

/// For how long a fault is played again and again.
pub(crate) fn span() -> Duration {
    match is_soak() {
        true => Duration::from_secs(20),
        false => Duration::from_millis(500),
    }
}

/// Tells people what was seen, where the test runner shows it.
#[expect(clippy::print_stdout, reason = "a count for people")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// A program of the examples.
pub(crate) fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    let path = path.join("examples").join(name);
    assert!(
        path.exists(),
        "{} is built by `cargo build -p orchestra-mcp --examples`",
        path.display()
    );
    path
}

/// A process of one of the examples, which ends soon when it is told to.
pub(crate) fn child(name: &str, program: &str, words: &[&str]) -> ServerConfig {
    let mut config = played::config(name);
    config.transport = Transport::Stdio(StdioConfig {
        command: Template::new(program),
        args: words.iter().map(|word| Template::new(*word)).collect(),
        cwd: None,
        env: std::collections::BTreeMap::new(),
        env_file: None,
        inherit_env: InheritEnv::Default,
    });
    quick(config)
}

/// A server on this machine.
pub(crate) fn http(name: &str, url: &str) -> ServerConfig {
    let mut config = played::config(name);
    config.transport = Transport::Http(HttpConfig {
        url: Template::new(url),
        flavour: orchestra_gateway::config::Flavour::Streamable,
        headers: Vec::new(),
        auth: None,
        ca_file: None,
        client_cert: None,
        allow_insecure: false,
        connections: Connections::default(),
    });
    quick(config)
}

fn quick(mut config: ServerConfig) -> ServerConfig {
    config.retry.initial = Duration::from_millis(10);
    config.grace.stdin = Duration::from_millis(200);
    config.grace.term = Duration::from_millis(200);
    config
}

/// What a call was told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    /// `_meta["orchestra/error"]`.
    pub(crate) error: Value,
}

impl Told {
    /// The text of a call that succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert!(!self.is_error, "{self:?}");
        self.text
    }

    /// A call that failed, of this code, with all of these words.
    #[track_caller]
    pub(crate) fn failed(self, code: &str, may_have_run: bool, words: &[&str]) -> Self {
        assert!(self.is_error, "{self:?}");
        assert_eq!(self.error["code"], code, "{self:?}");
        assert_eq!(self.error["mayHaveRun"], may_have_run, "{self:?}");
        for word in words {
            assert!(self.text.contains(word), "{word}: {self:?}");
        }
        self
    }
}

pub(crate) struct Rig {
    pub(crate) hub: Hub,
    pub(crate) gateway: Gateway,
    _state: tempfile::TempDir,
    attachment: Arc<Attachment>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let hub = Hub::new(HubConfig::default());
        let connectors = Connectors::new(Scope::new(directory.path(), None, |_| None));
        let connect = move |config: &ServerConfig| {
            let Transport::Stdio(stdio) = &config.transport else {
                return connectors.reach(config);
            };
            let program = example(stdio.command.written());
            let child = ChildConfig {
                args: stdio.args.iter().map(|arg| arg.written().into()).collect(),
                launcher: Some(Launcher::new(&example("faulty"), ["__child"])),
                grace_stdin: config.grace.stdin,
                grace_term: config.grace.term,
                max_message_bytes: config.max_message_bytes,
                ..ChildConfig::new(config.name.to_string(), program)
            };
            Ok(Reach {
                connector: Arc::new(ChildConnector::new(child)),
                roots: Vec::new(),
                hints: Hints::default(),
            })
        };
        let options = GatewayOptions {
            state: directory.path().join("state"),
            connect: Arc::new(connect),
            grace: Duration::from_secs(1),
            once: false,
            relay: false,
        };
        let gateway = Gateway::new(hub.clone(), options);
        let attachment = Arc::new(attach(&hub));
        Self {
            hub,
            gateway,
            _state: directory,
            attachment,
        }
    }

    /// A gateway with these servers, of which the first is there.
    pub(crate) async fn with(configs: &[ServerConfig]) -> Self {
        let rig = Self::new();
        rig.gateway.apply(configs.to_vec());
        let first = format!("{}__", configs[0].name);
        rig.until(|| rig.tools().iter().any(|tool| tool.starts_with(&first)))
            .await;
        rig
    }

    pub(crate) fn attach(&self) -> Attachment {
        attach(&self.hub)
    }

    /// The names of the tools of now.
    pub(crate) fn tools(&self) -> Vec<String> {
        let tools = self.hub.tools(&Toolset::All).into_iter();
        tools.map(|tool| tool.name).collect()
    }

    /// A list as the newest revision shows it.
    pub(crate) fn list(&self, kind: ListKind) -> Vec<Value> {
        let listing = self.attachment.list(kind, Revision::NEWEST);
        let items = [b"[", &listing.page(0, usize::MAX).0[..], b"]"].concat();
        serde_json::from_slice(&items).unwrap()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Told {
        self.call_with(tool, arguments, Cx::default()).await
    }

    pub(crate) async fn call_with(&self, tool: &str, arguments: Value, cx: Cx) -> Told {
        told(&self.attachment, tool, &arguments, cx).await.unwrap()
    }

    /// Whether a server answers what it is asked.
    pub(crate) async fn is_well(&self, server: &str) {
        let text = json!({"text": "well"});
        let well = self.call(&format!("{server}__echo"), text).await;
        assert_eq!(well.ok(), "well");
    }

    /// Calls until that succeeds; how many calls failed before.
    pub(crate) async fn recovers(&self, server: &str) -> usize {
        let end = Instant::now() + PATIENCE;
        let echo = format!("{server}__echo");
        let mut pace = interval(Duration::from_millis(10));
        for failures in 0.. {
            pace.tick().await;
            let again = self.call(&echo, json!({"text": "again"})).await;
            if !again.is_error {
                assert_eq!(again.text, "again");
                return failures;
            }
            assert!(Instant::now() < end, "{server} does not recover: {again:?}");
        }
        unreachable!("the loop ends by itself")
    }

    /// The process of a server.
    pub(crate) fn process(&self, server: &str) -> Option<u32> {
        self.report(server).processes.first().copied()
    }

    /// How a server is.
    pub(crate) fn report(&self, server: &str) -> PeerReport {
        let mut reports = self.hub.peers().into_iter();
        let found = reports.find(|(id, _)| id.to_string() == server);
        found.unwrap().1
    }

    pub(crate) async fn until(&self, is_so: impl Fn() -> bool) {
        let look = async {
            let mut looks = interval(Duration::from_millis(5));
            while !is_so() {
                looks.tick().await;
            }
        };
        let looked = timeout(PATIENCE, look).await;
        assert!(looked.is_ok(), "{:?}", self.hub.peers());
    }

    /// Begins to call a server all the time.
    pub(crate) fn witness(&self, server: &str) -> Witness {
        let (attachment, over) = (attach(&self.hub), Arc::new(AtomicBool::new(false)));
        let (tool, ended) = (format!("{server}__echo"), Arc::clone(&over));
        let calling = tokio::spawn(async move {
            let (mut times, mut pace) = (Vec::new(), interval(Duration::from_millis(2)));
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while !ended.load(Ordering::Relaxed) {
                let (text, begun) = (format!("n{}", times.len()), Instant::now());
                let arguments = json!({ "text": text });
                let answer = told(&attachment, &tool, &arguments, Cx::default()).await;
                assert_eq!(answer.unwrap().ok(), text);
                times.push(begun.elapsed());
                pace.tick().await;
            }
            times
        });
        Witness { over, calling }
    }

    /// Ends all, and looks whether a process is left of these and of those that run.
    pub(crate) async fn close(self, processes: &[u32]) {
        let reports = self.hub.peers().into_iter();
        let running = reports.flat_map(|(_, report)| report.processes);
        let processes: BTreeSet<u32> = processes.iter().copied().chain(running).collect();
        self.gateway.close(PATIENCE).await;
        for id in processes {
            gone(id).await;
        }
    }
}

/// Calls one server all the time.
pub(crate) struct Witness {
    over: Arc<AtomicBool>,
    calling: JoinHandle<Vec<Duration>>,
}

impl Witness {
    /// Ends it: what it saw of the others, which must be nothing.
    pub(crate) async fn end(self) -> String {
        self.over.store(true, Ordering::Relaxed);
        let mut times = timeout(PATIENCE, self.calling).await.unwrap().unwrap();
        times.sort_unstable();
        let (calls, usual, worst) = (times.len(), times[times.len() / 2], times[times.len() - 1]);
        format!("{calls} calls beside it, none failed, {usual:?} each, at most {worst:?}")
    }
}

fn attach(hub: &Hub) -> Attachment {
    let caller = Caller {
        face: "test",
        client: None,
    };
    hub.attach(caller, Toolset::All)
}

async fn told(
    attachment: &Attachment,
    tool: &str,
    arguments: &Value,
    cx: Cx,
) -> Result<Told, ProviderError> {
    let target = tool_call(tool, arguments);
    let called = timeout(PATIENCE, attachment.call(Request { target, cx })).await;
    let result = match called.unwrap_or_else(|_| panic!("{tool} is not answered"))? {
        Outcome::Tool(result) => result,
        Outcome::Verbatim {
            result, is_error, ..
        } => ToolResult::of_verbatim(&result, is_error),
        other => panic!("a tool's result, and not {other:?}"),
    };
    let meta: Value = match &result.meta {
        Some(meta) => meta.parse().unwrap(),
        None => Value::Null,
    };
    let text = match result.content.into_iter().next() {
        Some(orchestra_hub::Content::Text(text)) => text,
        _ => String::new(),
    };
    Ok(Told {
        text,
        is_error: result.is_error,
        error: meta["orchestra/error"].clone(),
    })
}

/// Waits until a process is no more.
pub(crate) async fn gone(id: u32) {
    let process = Pid::from_raw(id.cast_signed()).unwrap();
    // It can be read from once the process has ended.
    let Ok(ends) = pidfd_open(process, PidfdFlags::empty()) else {
        return;
    };
    let ended = spawn_blocking(move || {
        let patience = Timespec::try_from(PATIENCE).unwrap();
        poll(&mut [PollFd::new(&ends, PollFlags::IN)], Some(&patience)).unwrap()
    });
    assert_eq!(ended.await.unwrap(), 1, "the process {id} is left");
}
