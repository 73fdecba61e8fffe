//! A gateway with servers that are killed, and one that never is; their callers and their killers.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use orchestra_gateway::{
    Gateway, GatewayOptions, Reach,
    config::{ServerConfig, Transport},
    hints::Hints,
};
use orchestra_hub::{
    Attachment, Caller, Cx, Hub, HubConfig, HubNotice, Outcome, PeerReport, Request, Target,
    Toolset,
};
use orchestra_mcp::client::{ChildConfig, ChildConnector, Launcher};
use orchestra_wire::RawJson;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{
    played::config,
    runtimes::{Program, faulty, node, python},
};

/// How long a call may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// How often each caller calls, while answers come in time.
const PACE: Duration = Duration::from_millis(20);

/// One server.
pub(super) struct Played {
    pub(super) name: &'static str,
    program: Program,
    /// Its `echo` may run twice.
    pub(super) is_trusted: bool,
    pub(super) is_killed: bool,
    /// Whether its tools are changed as well.
    pub(super) changes: bool,
}

/// One call as its caller saw it. Millions are kept.
pub(super) struct Seen {
    pub(super) server: usize,
    pub(super) number: u64,
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) error: Option<Box<str>>,
}

/// From the kill of a server to the first answer of the next one.
pub(super) struct Kill {
    pub(super) server: usize,
    pub(super) at: Instant,
    pub(super) back: Instant,
}

pub(super) struct Bench {
    pub(super) hub: Hub,
    pub(super) gateway: Gateway,
    directory: tempfile::TempDir,
    pub(super) servers: Vec<Played>,
    pub(super) kills: Mutex<Vec<Kill>>,
    number: AtomicU64,
    over: AtomicBool,
}

fn servers(directory: &Path) -> Vec<Played> {
    let rust = Program {
        path: faulty(),
        arguments: vec!["--journal".to_owned()],
    };
    let server = |name, program: Program| Played {
        name,
        program,
        is_trusted: false,
        is_killed: true,
        changes: false,
    };
    let mut servers: Vec<Played> = ["calm", "changing", "once", "safe"]
        .map(|name| server(name, rust.clone()))
        .into();
    servers[0].is_killed = false;
    servers[1].changes = true;
    servers[3].is_trusted = true;
    let foreign = [("node", node(directory)), ("python", python(directory))];
    servers.extend(foreign.into_iter().filter_map(|(name, program)| {
        let mut server = server(name, program?);
        server.is_trusted = name == "python";
        Some(server)
    }));
    servers
}

fn journal(directory: &Path, server: &str) -> PathBuf {
    directory.join(format!("{server}.journal"))
}

impl Bench {
    /// All servers, each of them heard of.
    pub(super) async fn start() -> Arc<Self> {
        let hub = Hub::new(HubConfig::default());
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().to_owned();
        let servers = servers(&place);
        let programs: Vec<_> = servers
            .iter()
            .map(|s| (s.name, s.program.clone()))
            .collect();
        let connect = move |config: &ServerConfig| {
            let Transport::Stdio(_) = &config.transport else {
                panic!("only processes are played here");
            };
            let name = config.name.to_string();
            let (_, program) = programs.iter().find(|(other, _)| *other == name).unwrap();
            let mut arguments: Vec<_> = program.arguments.iter().map(Into::into).collect();
            arguments.push(journal(&place, &name).into());
            let child = ChildConfig {
                args: arguments,
                launcher: Some(Launcher::new(faulty(), ["__child"])),
                ..ChildConfig::new(name, &program.path)
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
        let bench = Arc::new(Self {
            hub,
            gateway,
            directory,
            servers,
            kills: Mutex::default(),
            number: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let attachment = bench.attach();
        bench
            .gateway
            .apply(bench.servers.iter().map(configured).collect());
        bench.all_listed(&attachment).await;
        for server in 0..bench.servers.len() {
            let first = bench.call(&attachment, server).await;
            assert!(first.error.is_none(), "{:?}", first.error);
        }
        bench
    }

    async fn all_listed(&self, attachment: &Attachment) {
        let mut notices = attachment.take_notices().unwrap();
        let names = self.servers.iter();
        let names: Vec<String> = names.map(|s| format!("{}__echo", s.name)).collect();
        let listed = async {
            while !names.iter().all(|name| self.offers(name)) {
                notices.next().await.expect("the hub lives");
            }
        };
        timeout(DEADLINE, listed).await.expect("all are started");
    }

    pub(super) fn offers(&self, tool: &str) -> bool {
        let tools = self.hub.tools(&Toolset::All);
        tools.iter().any(|offered| offered.name == tool)
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn journal(&self, server: usize) -> String {
        std::fs::read_to_string(journal(self.directory(), self.servers[server].name)).unwrap()
    }

    pub(super) fn attach(&self) -> Attachment {
        let caller = Caller {
            face: "test",
            client: None,
        };
        self.hub.attach(caller, Toolset::All)
    }

    /// Ends the calls of all callers.
    pub(super) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Calls the tool of a server whose every run is written down.
    pub(super) async fn call(&self, attachment: &Attachment, server: usize) -> Seen {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let arguments = json!({ "text": format!("n{number}.") });
        let error = self.run(attachment, server, "echo", &arguments).await;
        Seen {
            server,
            number,
            began,
            ended: Instant::now(),
            error,
        }
    }

    /// Why a call failed, if it did.
    pub(super) async fn run(
        &self,
        attachment: &Attachment,
        server: usize,
        tool: &str,
        arguments: &Value,
    ) -> Option<Box<str>> {
        let request = Request {
            target: Target::Tool {
                name: format!("{}__{tool}", self.servers[server].name),
                arguments: RawJson::of(arguments).unwrap(),
            },
            cx: Cx {
                deadline: Some(Instant::now() + DEADLINE),
                ..Cx::default()
            },
        };
        let called = timeout(2 * DEADLINE, attachment.call(request));
        match called.await.expect("every call is answered") {
            Ok(Outcome::Tool(result)) if result.is_error => Some(format!("{result:?}").into()),
            Ok(Outcome::Verbatim {
                is_error: true,
                result,
                ..
            }) => Some(result.as_str().into()),
            Ok(_) => None,
            Err(error) => Some(error.to_string().into()),
        }
    }

    /// One of many who call whomever they need, until it is over.
    pub(super) async fn caller(self: Arc<Self>, seed: usize) -> Vec<Seen> {
        let attachment = self.attach();
        let (mut seen, mut state) = (Vec::new(), seed as u64 * 2_654_435_761 + 1);
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.over.load(Ordering::Relaxed) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let server = (state >> 33) as usize % self.servers.len();
            seen.push(self.call(&attachment, server).await);
            pace.tick().await;
        }
        seen
    }

    /// Kills a server and calls it until it answers again; how long that took.
    pub(super) async fn kill(
        &self,
        attachment: &Attachment,
        server: usize,
    ) -> (Duration, Vec<Seen>) {
        let name = self.servers[server].name;
        let ids = self.report(name).processes;
        assert!(ids.len() <= 1, "more than one process of {name}: {ids:?}");
        let at = Instant::now();
        for id in &ids {
            let id = Pid::from_raw(id.cast_signed()).unwrap();
            // It may have ended by itself just now.
            let _ = kill_process(id, Signal::KILL);
        }
        let mut seen = Vec::new();
        loop {
            let call = self.call(attachment, server).await;
            let is_back = call.error.is_none() && !ids.iter().any(|id| is_there(*id));
            let back = call.ended;
            if back - at > DEADLINE {
                panic!("{}", self.explain(server, &call));
            }
            seen.push(call);
            if is_back {
                self.kills.lock().unwrap().push(Kill { server, at, back });
                return (back - at, seen);
            }
            tokio::task::yield_now().await;
        }
    }

    fn report(&self, name: &str) -> PeerReport {
        let mut reports = self.hub.peers().into_iter();
        let found = reports.find(|(id, _)| id.to_string() == name);
        found.unwrap().1
    }

    /// What is known of a server that does not come back.
    fn explain(&self, server: usize, call: &Seen) -> String {
        let name = self.servers[server].name;
        let report = self.report(name);
        let (status, last, error) = (report.status, report.last_error, &call.error);
        format!("{name} does not come back: {status:?}; it failed by {last:?}; the call: {error:?}")
    }

    /// How long a server takes to start without us, until it has answered a call.
    pub(super) async fn start_alone(&self, server: usize) -> Duration {
        let program = self.servers[server].program.clone();
        let journal = self.directory().join("alone");
        let started = spawn_blocking(move || start_alone(&program, &journal));
        started.await.unwrap()
    }

    /// Counts how often it is told that tools have changed.
    pub(super) fn count_changes(&self) -> watch::Receiver<usize> {
        let attachment = self.attach();
        let mut notices = attachment.take_notices().unwrap();
        let (sender, receiver) = watch::channel(0);
        tokio::spawn(async move {
            while let Some(notice) = notices.next().await {
                match notice {
                    HubNotice::CatalogChanged { .. } => sender.send_modify(|count| *count += 1),
                    HubNotice::Lagged => panic!("notices were lost"),
                    _ => {}
                }
                if sender.is_closed() {
                    break;
                }
            }
            drop(attachment);
        });
        receiver
    }
}

fn configured(server: &Played) -> ServerConfig {
    let mut config = config(server.name);
    config.trust = server.is_trusted;
    config
}

fn is_there(id: u32) -> bool {
    Pid::from_raw(id.cast_signed()).is_some_and(|id| test_kill_process(id).is_ok())
}

fn start_alone(program: &Program, journal: &Path) -> Duration {
    let began = Instant::now();
    let mut child = Command::new(&program.path)
        .args(&program.arguments)
        .arg(journal)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    });
    let call = json!({"name": "echo", "arguments": {"text": "alone"}});
    for (id, (method, params)) in [("initialize", hello), ("tools/call", call)]
        .into_iter()
        .enumerate()
    {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{request}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.contains("\"result\""), "{line}");
    }
    let took = began.elapsed();
    drop(input);
    child.wait().unwrap();
    took
}
