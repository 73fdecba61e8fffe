//! Servers on the network that are away for three seconds under their callers.

use std::{
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use orchestra_gateway::config::{Flavour, ServerConfig, Transport};
use serde_json::json;

use crate::rig::{Rig, example, http, say};

/// For how long it is away.
const AWAY: Duration = Duration::from_secs(3);

/// How soon it is used again at the latest; a busy machine included.
const SOON: Duration = Duration::from_millis(1_500);

/// The fixture at one address, which is kept while it is away.
struct Place {
    address: SocketAddr,
    era: &'static str,
    process: Option<Child>,
}

impl Place {
    fn new(era: &'static str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            address: free.local_addr().unwrap(),
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

/// When each caller got its first answer to a call, of those after `back`.
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
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (rig, over) = (Arc::clone(&rig), Arc::clone(&over));
            tokio::spawn(async move {
                let mut ended = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    rig.is_well("safe").await;
                    ended.push(Instant::now());
                }
                ended
            })
        })
        .collect();
    place.kill();
    let taken = Arc::<AtomicUsize>::default();
    let stand_in = is_forwarded.then(|| tokio::spawn(stand_in(place.address, Arc::clone(&taken))));
    let (gone, mut told) = (Instant::now(), 0);
    let mut pace = tokio::time::interval(Duration::from_millis(50));
    while gone.elapsed() < AWAY {
        pace.tick().await;
        let began = Instant::now();
        let failed = rig.call("once__echo", json!({"text": "x"})).await;
        assert!(failed.is_error, "{failed:?}");
        assert!(began.elapsed() < Duration::from_secs(3), "{failed:?}");
        assert!(failed.error["retryAfterMs"].is_u64(), "{failed:?}");
        let says = match failed.error["mayHaveRun"].as_bool().unwrap() {
            true => "The call may have run",
            false => "The call did not run",
        };
        assert!(failed.text.contains(says), "{failed:?}");
        told += 1;
    }
    if let Some(stand_in) = stand_in {
        stand_in.abort();
        let _ = stand_in.await;
        let taken = taken.load(Ordering::SeqCst);
        // Two servers at this address, of which each is asked again by itself and for its callers.
        assert!((4..=50).contains(&taken), "{taken} connections");
    }
    place.start();
    let back = Instant::now();
    rig.recovers("once").await;
    let once = back.elapsed();
    assert!(once < SOON, "{kind}: {once:?}");
    rig.is_well("safe").await;
    over.store(true, Ordering::SeqCst);
    let mut latest = Duration::ZERO;
    for caller in callers {
        let ended = caller.await.unwrap();
        let first = ended.iter().find(|ended| **ended > back).unwrap();
        latest = latest.max(*first - back);
    }
    assert!(latest < SOON, "{kind}: {latest:?}");
    say(&format!(
        "{kind}: {told} calls told that it is away; back after {once:?}, and for those that waited \
         after {latest:?}"
    ));
    rig.gateway.close(Duration::from_secs(5)).await;
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
