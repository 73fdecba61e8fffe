//! A relay of datagrams that is as bad as it is told: it loses, doubles, breaks and delays them, so
//! that they overtake each other, and changes the port that it sends from.
//!
//! It has one client, and passes on what is a packet of QUIC alone. What becomes of the n-th datagram is the same for the same seed.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use orchestra_plugin::quic::Endpoint;
use tokio::{
    net::UdpSocket,
    select,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// The largest datagram there is.
const DATAGRAM: usize = 65_536;

/// What happens to datagrams, each in one of a hundred.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weather {
    pub(crate) seed: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    /// One bit is turned over.
    pub(crate) broken: u64,
    pub(crate) delayed: u64,
    /// The longest delay.
    pub(crate) delay: Duration,
}

/// Stands between a server and one client of it.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    silent: Arc<AtomicBool>,
    moved: Arc<AtomicBool>,
    server: Arc<Mutex<SocketAddr>>,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr, weather: Weather) -> Self {
        let inner = UdpSocket::bind(Endpoint::LOOPBACK).await.unwrap();
        let address = inner.local_addr().unwrap();
        let silent = Arc::new(AtomicBool::new(false));
        let moved = Arc::new(AtomicBool::new(false));
        let server = Arc::new(Mutex::new(server));
        let passing = Passing {
            server: server.clone(),
            weather,
            client: None,
            state: weather.seed,
            count: 0,
            waiting: BinaryHeap::new(),
            silent: silent.clone(),
            moved: moved.clone(),
        };
        let task = tokio::spawn(passing.run(inner));
        Self {
            address,
            silent,
            moved,
            server,
            task,
        }
    }

    /// Whether nothing passes any more.
    pub(crate) fn silence(&self, silent: bool) {
        self.silent.store(silent, Ordering::SeqCst);
    }

    /// Another server is there from now on, which knows nothing of what was said to the one before.
    pub(crate) fn replace(&self, server: SocketAddr) {
        *self.server.lock().unwrap() = server;
    }

    /// From the next datagram on it sends to the server from another port.
    pub(crate) fn change_port(&self) {
        self.moved.store(true, Ordering::SeqCst);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Towards {
    Server,
    Client,
}

/// A datagram, ordered by when it is due.
type Due = Reverse<(Instant, u64, Towards, Vec<u8>)>;

struct Passing {
    server: Arc<Mutex<SocketAddr>>,
    weather: Weather,
    client: Option<SocketAddr>,
    state: u64,
    count: u64,
    waiting: BinaryHeap<Due>,
    silent: Arc<AtomicBool>,
    moved: Arc<AtomicBool>,
}

impl Passing {
    async fn run(mut self, inner: UdpSocket) {
        let mut outer = UdpSocket::bind(Endpoint::LOOPBACK).await.unwrap();
        let (mut from_client, mut from_server) = (vec![0; DATAGRAM], vec![0; DATAGRAM]);
        loop {
            let next = self.waiting.peek().map(|Reverse((due, ..))| *due);
            let due = async {
                match next {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            select! {
                // Whoever asks whether anybody is there says no more than a byte.
                Ok((length, from)) = inner.recv_from(&mut from_client) => {
                    if length > 1 {
                        self.client = Some(from);
                        self.take(Towards::Server, &from_client[..length]);
                    }
                }
                // An error is that of a datagram which nobody took.
                Ok((length, _)) = outer.recv_from(&mut from_server) => {
                    self.take(Towards::Client, &from_server[..length]);
                }
                () = due => {}
            }
            if self.moved.swap(false, Ordering::SeqCst) {
                outer = UdpSocket::bind(Endpoint::LOOPBACK).await.unwrap();
            }
            let now = Instant::now();
            while let Some(Reverse((due, ..))) = self.waiting.peek()
                && *due <= now
                && let Some(Reverse((_, _, towards, datagram))) = self.waiting.pop()
            {
                let server = *self.server.lock().unwrap();
                // Whoever is not there gets nothing.
                let _ = match (towards, self.client) {
                    (Towards::Server, _) => outer.send_to(&datagram, server).await,
                    (Towards::Client, Some(client)) => inner.send_to(&datagram, client).await,
                    (Towards::Client, None) => Ok(0),
                };
            }
        }
    }

    /// Decides what becomes of a datagram.
    fn take(&mut self, towards: Towards, datagram: &[u8]) {
        let (weather, dice) = (self.weather, self.dice());
        if self.silent.load(Ordering::SeqCst) || dice(0, weather.lost) {
            return;
        }
        let mut datagram = datagram.to_vec();
        let copies = 1 + usize::from(dice(1, weather.doubled));
        if dice(2, weather.broken) {
            let bit = self.state as usize % (datagram.len() * 8);
            datagram[bit / 8] ^= 1 << (bit % 8);
        }
        for copy in 0..copies {
            let mut due = Instant::now();
            if dice(3, weather.delayed) || copy > 0 {
                let part = (self.state >> 40) as f64 / f64::from(1 << 24);
                due += weather.delay.mul_f64(part);
            }
            self.count += 1;
            let waiting = (due, self.count, towards, datagram.clone());
            self.waiting.push(Reverse(waiting));
        }
    }

    /// Throws four dice of a hundred sides each, and tells whether one shows less than a number.
    fn dice(&mut self) -> impl Fn(usize, u64) -> bool + use<> {
        let shown = [0; 4].map(|_: u64| {
            self.state = self
                .state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.state >> 33) % 100
        });
        move |die, below| shown[die] < below
    }
}
