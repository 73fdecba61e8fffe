//! Servers that are killed again and again under load: nobody else notices, and each of them is
//! back before anybody could ask.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use orchestra_gateway::{
    Gateway, GatewayOptions, Reach,
    config::{ServerConfig, Transport},
};
use orchestra_hub::{
    Attachment, Caller, Cx, Hub, HubConfig, HubNotice, ListKind, Request, Target, Toolset,
};
use orchestra_mcp::client::{ChildConfig, ChildConnector, Launcher};
use orchestra_wire::{RawJson, Revision};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::played::config;

/// Servers; those with an odd number are trusted, so that their `echo` may run twice.
const SERVERS: usize = 4;

/// Callers at once.
const CALLERS: usize = 50;

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// A kill may show in calls that ran this long before it was noticed, and after.
const SHADOW: Duration = Duration::from_millis(1_500);

/// Within this a server that was killed answers again.
const BACK: Duration = Duration::from_millis(500);

/// One call as its caller saw it.
struct Seen {
    server: usize,
    began: Instant,
    ended: Instant,
    text: String,
    error: Option<String>,
}

struct Bench {
    hub: Hub,
    gateway: Gateway,
    directory: tempfile::TempDir,
    kills: Mutex<Vec<(usize, Instant)>>,
    number: AtomicU64,
    over: AtomicBool,
}

fn faulty() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    let path = path.join("examples/faulty");
    assert!(
        path.exists(),
        "{} is built by `cargo build -p orchestra-mcp --examples`",
        path.display()
    );
    path
}

fn journal(directory: &Path, server: &str) -> PathBuf {
    directory.join(format!("{server}.journal"))
}

impl Bench {
    fn new() -> Arc<Self> {
        let hub = Hub::new(HubConfig::default());
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().to_owned();
        let connect = move |config: &ServerConfig| {
            let Transport::Stdio(_) = &config.transport else {
                panic!("only processes are played here");
            };
            let path = faulty();
            let name = config.name.to_string();
            let child = ChildConfig {
                args: vec!["--journal".into(), journal(&place, &name).into()],
                launcher: Some(Launcher::new(&path, ["__child"])),
                ..ChildConfig::new(name, path)
            };
            Ok(Reach {
                connector: Arc::new(ChildConnector::new(child)),
                roots: Vec::new(),
            })
        };
        let options = GatewayOptions {
            state: directory.path().join("state"),
            connect: Arc::new(connect),
            grace: Duration::from_secs(1),
        };
        let gateway = Gateway::new(hub.clone(), options);
        let configs = (0..SERVERS).map(|number| {
            let mut config = config(&format!("s{number}"));
            config.trust = number % 2 == 1;
            config
        });
        gateway.apply(configs.collect());
        Arc::new(Self {
            hub,
            gateway,
            directory,
            kills: Mutex::default(),
            number: AtomicU64::new(0),
            over: AtomicBool::new(false),
        })
    }

    fn attach(&self) -> Attachment {
        let caller = Caller {
            face: "test",
            client: None,
        };
        self.hub.attach(caller, Toolset::All)
    }

    /// Calls the tool of a server whose every run is written down.
    async fn call(&self, attachment: &Attachment, server: usize) -> Seen {
        let text = format!("n{}.", self.number.fetch_add(1, Ordering::Relaxed));
        let began = Instant::now();
        let request = Request {
            target: Target::Tool {
                name: format!("s{server}__echo"),
                arguments: RawJson::of(&json!({ "text": text })).unwrap(),
            },
            cx: Cx {
                deadline: Some(began + DEADLINE),
                ..Cx::default()
            },
        };
        let called = timeout(DEADLINE + Duration::from_secs(5), attachment.call(request));
        let error = match called.await.expect("every call is answered") {
            Ok(orchestra_hub::Outcome::Tool(result)) if result.is_error => {
                Some(format!("{result:?}"))
            }
            Ok(orchestra_hub::Outcome::Verbatim {
                is_error: true,
                result,
                ..
            }) => Some(result.as_str().to_owned()),
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        Seen {
            server,
            began,
            ended: Instant::now(),
            text,
            error,
        }
    }

    async fn caller(self: Arc<Self>, seed: usize) -> Vec<Seen> {
        let attachment = self.attach();
        let (mut seen, mut state) = (Vec::new(), seed as u64 * 2_654_435_761 + 1);
        while !self.over.load(Ordering::Relaxed) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let server = (state >> 33) as usize % SERVERS;
            seen.push(self.call(&attachment, server).await);
            // Callers think in between; without it the machine is busy with nothing but them.
            sleep(Duration::from_millis(5)).await;
        }
        seen
    }

    fn processes(&self) -> Vec<(usize, Vec<u32>)> {
        let reports = self.gateway.servers().into_iter();
        let of = |name: &str| name[1..].parse().unwrap();
        reports
            .map(|report| (of(report.name.as_str()), report.process_ids))
            .collect()
    }

    /// Kills a server and waits until it answers again; how long that took.
    async fn kill(&self, attachment: &Attachment, server: usize) -> (Duration, Vec<Seen>) {
        let all = self.processes();
        let (_, ids) = all.iter().find(|(number, _)| *number == server).unwrap();
        let at = Instant::now();
        self.kills.lock().unwrap().push((server, at));
        for id in ids {
            let id = Pid::from_raw(id.cast_signed()).unwrap();
            // It may have ended by itself just now.
            let _ = kill_process(id, Signal::KILL);
        }
        let mut seen = Vec::new();
        loop {
            let call = self.call(attachment, server).await;
            let is_back = call.error.is_none() && !ids.iter().any(|id| is_there(*id));
            seen.push(call);
            if is_back {
                return (at.elapsed(), seen);
            }
            assert!(at.elapsed() < DEADLINE, "s{server} does not come back");
            tokio::task::yield_now().await;
        }
    }
}

fn is_there(id: u32) -> bool {
    Pid::from_raw(id.cast_signed()).is_some_and(|id| test_kill_process(id).is_ok())
}

/// Every call of the load, and what the kills did to it.
fn check(bench: &Bench, seen: &[Seen], changes: usize) -> String {
    let kills = bench.kills.lock().unwrap();
    let near = |call: &Seen| {
        kills.iter().any(|(server, at)| {
            *server == call.server && *at + SHADOW >= call.began && *at <= call.ended
        })
    };
    let errors: Vec<&Seen> = seen.iter().filter(|call| call.error.is_some()).collect();
    for call in &errors {
        assert!(
            near(call),
            "s{} was not killed: {:?}",
            call.server,
            call.error
        );
        let trusted = call.server % 2 == 1;
        assert!(
            !trusted,
            "a call that may run twice failed: {:?}",
            call.error
        );
    }
    for call in seen {
        let took = call.ended - call.began;
        assert!(took <= DEADLINE + Duration::from_secs(1), "{took:?}");
    }
    let mut runs: HashMap<String, usize> = HashMap::new();
    for server in 0..SERVERS {
        let path = journal(bench.directory.path(), &format!("s{server}"));
        let text = std::fs::read_to_string(path).unwrap();
        for line in text.lines() {
            if let Some(at) = line.find("\"n") {
                let text = line[at + 1..].split('"').next().unwrap();
                *runs.entry(text.to_owned()).or_default() += 1;
            }
        }
    }
    let mut twice = 0;
    for call in seen {
        let runs = runs.get(&call.text).copied().unwrap_or_default();
        if call.server.is_multiple_of(2) {
            assert!(runs <= 1, "{} ran {runs} times", call.text);
        }
        assert!(runs >= 1 || call.error.is_some(), "{} never ran", call.text);
        twice += usize::from(runs > 1);
    }
    assert_eq!(changes, 0, "lists were told to have changed, and had not");
    let (calls, errors, kills) = (seen.len(), errors.len(), kills.len());
    format!("{calls} calls, {kills} kills, {errors} calls told of it, {twice} that may ran twice")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_killed_are_back_and_nobody_else_notices() {
    let long = std::env::var_os("ORCHESTRA_SOAK").is_some();
    let rounds = if long { 600 } else { 6 };
    let bench = Bench::new();
    let attachment = bench.attach();
    timeout(DEADLINE, async {
        while attachment.list(ListKind::Tools, Revision::NEWEST).len() < SERVERS {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("all are started");
    for server in 0..SERVERS {
        let first = bench.call(&attachment, server).await;
        assert!(first.error.is_none(), "{:?}", first.error);
    }
    let mut notices = attachment.take_notices().unwrap();
    while timeout(Duration::from_millis(500), notices.next())
        .await
        .is_ok()
    {}
    let callers: Vec<_> = (0..CALLERS)
        .map(|seed| tokio::spawn(Arc::clone(&bench).caller(seed)))
        .collect();
    let mut processes = BTreeSet::new();
    let (mut back, mut seen) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let round = Instant::now();
        for server in 0..SERVERS {
            for (_, ids) in bench.processes() {
                assert!(ids.len() <= 1, "more than one process: {ids:?}");
                processes.extend(ids);
            }
            let (took, calls) = bench.kill(&attachment, server).await;
            back.push(took);
            seen.extend(calls);
        }
        sleep(Duration::from_secs(1).saturating_sub(round.elapsed())).await;
    }
    bench.over.store(true, Ordering::Relaxed);
    for caller in callers {
        seen.extend(caller.await.unwrap());
    }
    let mut changes = 0;
    while let Ok(Some(notice)) = timeout(Duration::from_millis(300), notices.next()).await {
        changes += usize::from(matches!(notice, HubNotice::CatalogChanged { .. }));
    }
    let mut told = check(&bench, &seen, changes);
    processes.extend(bench.processes().into_iter().flat_map(|(_, ids)| ids));
    bench.gateway.close(DEADLINE).await;
    let left: Vec<_> = processes.iter().filter(|id| is_there(**id)).collect();
    assert!(left.is_empty(), "processes are left: {left:?}");
    back.sort_unstable();
    let (middle, most) = (back[back.len() / 2], back[back.len() - 1]);
    write!(told, "; back after {middle:?}, at most {most:?}").unwrap();
    // Told by the test runner when it is asked to.
    println!("{told}");
    // One that is late is a machine that was busy; all of them are not.
    assert!(middle <= BACK, "{told}");
}
