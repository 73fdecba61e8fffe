//! Who may come how often, and how certificates that were replaced reach those who run.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStderr, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orchestra_plugin::{
    envelope::{Request, RequestKind, Response},
    generated::RegistrationResult,
    ids::PluginId,
    quic::{Peer, Reply, Target},
};
use tempfile::TempDir;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::*;
use crate::orchestrator::handing;

const PATIENCE: Duration = Duration::from_secs(30);

/// Certificates are looked at this often.
const OFTEN: Duration = Duration::from_millis(10);

#[test]
fn only_bridges_are_many() {
    let limits = limits();
    let of = |name: &str| {
        let mut shared = limits.shared.iter();
        let found = shared.find(|shared| shared.name.as_str() == name);
        found.map(|shared| shared.connections)
    };
    assert_eq!(of("transport.stdio-client"), Some(256));
    assert_eq!(of("transport.quic-bridge-client"), Some(256));
    assert_eq!(of("tools.some-client"), None);
    assert_eq!((limits.connections, limits.calls), (8, 256));
}

/// Registers plugins, from when it is open; until then they lose their connection and come again.
#[derive(Default)]
struct Registering {
    is_open: AtomicBool,
    came: watch::Sender<usize>,
    registered: watch::Sender<usize>,
}

impl Handler for Registering {
    fn handle<'a>(&'a self, _: &'a Peer, request: Bytes, mut reply: Reply) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let request = Request::decode(&request).unwrap();
            let accepted = self.is_open.load(Ordering::SeqCst);
            if request.kind() == Some(RequestKind::Register) {
                self.came.send_modify(|came| *came += 1);
            }
            if !accepted {
                return;
            }
            let result = RegistrationResult {
                accepted,
                ..RegistrationResult::default()
            };
            let answer = Response::new(request.request_id(), &result).encode();
            reply.answer(answer).await.unwrap();
            self.registered.send_modify(|registered| *registered += 1);
        })
    }
}

/// A plugin of the kit as a process, which ends with the test.
struct Sample {
    process: Child,
    _stderr: BufReader<ChildStderr>,
}

impl Sample {
    fn start(certs: &Path, orchestrator: SocketAddr) -> (Self, SocketAddr) {
        let test = std::env::current_exe().unwrap();
        let program = test.ancestors().nth(2).unwrap().join("examples/sample");
        let mut child = Command::new(&program)
            .arg(format!("--certs-dir={}", certs.display()))
            .arg(format!("--orchestrator-addr={orchestrator}"))
            .env("SAMPLE_RENEWAL_MS", OFTEN.as_millis().to_string())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let sample = Self {
            process: child,
            _stderr: stderr,
        };
        let address = line.strip_prefix("READY ").unwrap().trim_end();
        (sample, address.parse().unwrap())
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until somebody is reached by what the directory holds now, and believes it.
async fn reached(certs: &CertDir, name: &str, target: Target) {
    let reached = async {
        loop {
            let identity = certs.identity(&name.parse().unwrap(), SystemTime::now());
            let identity = identity.unwrap();
            let endpoint = Endpoint::outgoing(target.address, &identity, Pace::default()).unwrap();
            if endpoint.connect(&target).await.is_ok() {
                return;
            }
            sleep(OFTEN).await;
        }
    };
    timeout(PATIENCE, reached).await.unwrap();
}

async fn at_least(count: &watch::Sender<usize>, wanted: usize) {
    let mut count = count.subscribe();
    let reached = timeout(PATIENCE, count.wait_for(|count| *count >= wanted)).await;
    reached.unwrap().unwrap();
}

/// From the rotation to the plugin that runs: what is handed out, shown and believed.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_runs_comes_again_after_a_rotation_at_once() {
    let home = TempDir::new().unwrap();
    let certs = home.path().join("certs");
    let id: PluginId = "tools.sample".parse().unwrap();
    let (_, theirs) = handing::certificates(&certs, &id, false).unwrap();
    let handler = Arc::new(Registering::default());
    let limits = Limits::default();
    let listening = Listening::with(handler.clone(), limits, &certs, LOOPBACK, OFTEN).await;
    let listening = listening.unwrap();
    let (directory, plugin) = (certs.clone(), id.clone());
    let handing = tokio::spawn(async move {
        handing::keep_every(OFTEN, &directory, || vec![plugin.clone()]).await;
    });
    let (_sample, address) = Sample::start(&theirs.unwrap(), listening.address());
    at_least(&handler.came, 1).await;
    let ours = CertDir::open(&certs).unwrap();
    ours.rotate_at_once(SystemTime::now()).unwrap();
    // Where they call and where they are called, nothing but the new authority is believed.
    let target = Target::named(listening.address(), OURS.parse().unwrap());
    reached(&ours, "transport.stdio-client", target).await;
    let target = Target::named(address, id.server_name());
    reached(&ours, id.orchestrator_name().as_str(), target).await;
    // One may still come over a connection of before. The next has a new one.
    let before = *handler.came.borrow();
    at_least(&handler.came, before + 2).await;
    handler.is_open.store(true, Ordering::SeqCst);
    at_least(&handler.registered, 1).await;
    handing.abort();
    listening.close(Instant::now()).await;
}
