//! Servers on the network that are away for a while under their callers. How soon they are used again
//! is looked at where time stands still, in the tests of the client.

use std::{
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use orchestra_gateway::config::{Flavour, ServerConfig, Transport};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    ports::free_port,
    rig::{PATIENCE, Rig, example, http, is_soak, say},
};

/// So many calls are told that it is away before it comes back.
const TOLD: usize = 20;

/// As many, where there is time for everything.
const TOLD_IN_SOAK: usize = 100;

/// A pause between calls, so that callers leave the machine to the servers.
const PACE: Duration = Duration::from_millis(40);

/// The fixture at one address, which is kept while it is away.
struct Place {
    address: SocketAddr,
    era: &'static str,
    process: Option<Child>,
}

impl Place {
    fn new(era: &'static str) -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())),
            era,
            process: None,
        }
    }

    /// Starts it, and waits until it listens.
    fn start(&mut self) {
        let mut process = Command::new(example("echo"))
            .args(["--http", &self.address.to_string(), "--era", self.era])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        assert!(line.contains("127.0.0.1"), "{line}");
        self.process = Some(process);
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Takes connections in the place of a server and ends them, as what forwards ports does; counts
/// them.
async fn stand_in(address: SocketAddr, taken: Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    while let Ok((connection, _)) = listener.accept().await {
        taken.fetch_add(1, Ordering::SeqCst);
        drop(connection);
    }
}

fn config(name: &str, place: &Place, flavour: Flavour, trust: bool) -> ServerConfig {
    let path = if flavour == Flavour::Sse {
        "sse"
    } else {
        "mcp"
    };
    let mut config = http(name, &format!("http://{}/{path}", place.address));
    if let Transport::Http(http) = &mut config.transport {
        http.flavour = flavour;
    }
    config.trust = trust;
    config
}

/// Somebody whose calls may run twice, and who notices nothing.
async fn caller(rig: Arc<Rig>, over: Arc<AtomicBool>, answered: Arc<AtomicUsize>) {
    while !over.load(Ordering::SeqCst) {
        rig.is_well("safe").await;
        answered.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(PACE).await;
    }
}

/// Calls in vain what may run once, so often that an outage has lasted for a while.
async fn is_told(rig: &Rig, times: usize) {
    let mut pace = tokio::time::interval(PACE);
    for _ in 0..times {
        pace.tick().await;
        let call = rig.call("once__echo", json!({"text": "x"}));
        let failed = timeout(PATIENCE, call).await.unwrap();
        assert!(failed.is_error, "{failed:?}");
        assert!(failed.error["retryAfterMs"].is_u64(), "{failed:?}");
        let says = match failed.error["mayHaveRun"].as_bool().unwrap() {
            true => "The call may have run",
            false => "The call did not run",
        };
        assert!(failed.text.contains(says), "{failed:?}");
    }
}

async fn away_for_a_while(kind: &str, flavour: Flavour, era: &'static str, is_forwarded: bool) {
    let mut place = Place::new(era);
    place.start();
    let (safe, once) = (
        config("safe", &place, flavour, true),
        config("once", &place, flavour, false),
    );
    let rig = Arc::new(Rig::with(&[safe, once]).await);
    rig.is_well("safe").await;
    rig.is_well("once").await;
    let over = Arc::new(AtomicBool::new(false));
    let answered: Vec<Arc<AtomicUsize>> = (0..8).map(|_| Arc::default()).collect();
    let callers: Vec<_> = answered
        .iter()
        .map(|answered| caller(Arc::clone(&rig), Arc::clone(&over), Arc::clone(answered)))
        .map(tokio::spawn)
        .collect();
    // All of them are at it when it goes away.
    rig.until(|| {
        answered
            .iter()
            .all(|calls| calls.load(Ordering::SeqCst) > 0)
    })
    .await;
    place.kill();
    let gone = Instant::now();
    let taken = Arc::<AtomicUsize>::default();
    let stand_in = is_forwarded.then(|| tokio::spawn(stand_in(place.address, Arc::clone(&taken))));
    let told = if is_soak() { TOLD_IN_SOAK } else { TOLD };
    is_told(&rig, told).await;
    if let Some(stand_in) = stand_in {
        // Two servers at this address, of which each is asked again by itself and for its callers.
        rig.until(|| taken.load(Ordering::SeqCst) >= 4).await;
        stand_in.abort();
        let _ = stand_in.await;
        let taken = taken.load(Ordering::SeqCst);
        // What breaks at once, and then a few attempts in each second, however long that was.
        let seconds = gone.elapsed().as_secs() + 1;
        let most = 40 + 10 * usize::try_from(seconds).unwrap();
        assert!(taken <= most, "{taken} connections in {seconds} s");
    }
    let before: Vec<usize> = answered
        .iter()
        .map(|calls| calls.load(Ordering::SeqCst))
        .collect();
    let away = gone.elapsed();
    place.start();
    let back = Instant::now();
    rig.recovers("once").await;
    let once = back.elapsed();
    rig.until(|| {
        let mut calls = answered.iter().zip(&before);
        calls.all(|(calls, before)| calls.load(Ordering::SeqCst) > *before)
    })
    .await;
    let all = back.elapsed();
    over.store(true, Ordering::SeqCst);
    for caller in callers {
        timeout(PATIENCE, caller).await.unwrap().unwrap();
    }
    say(&format!(
        "{kind}: away for {away:?}, {told} calls told so; back after {once:?}, and for those that \
         waited after {all:?}"
    ));
    rig.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn a_server_with_sessions_over_http_is_used_again_as_soon_as_it_is_back() {
    away_for_a_while("sessions", Flavour::Streamable, "session", false).await;
}

#[tokio::test]
async fn a_stateless_server_over_http_is_used_again_as_soon_as_it_is_back() {
    away_for_a_while("stateless", Flavour::Streamable, "stateless", false).await;
}

#[tokio::test]
async fn a_server_of_old_over_sse_is_used_again_as_soon_as_it_is_back() {
    away_for_a_while("SSE", Flavour::Sse, "session", false).await;
}

#[tokio::test]
async fn a_server_behind_a_forwarded_port_is_used_again_as_soon_as_it_is_back() {
    away_for_a_while("forwarded", Flavour::Streamable, "session", true).await;
}
