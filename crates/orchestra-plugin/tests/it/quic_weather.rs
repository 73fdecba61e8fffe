//! Calls over a bad network: datagrams are lost, doubled, broken, late, overtake each other and come
//! from another port; and for a while nothing comes at all.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orchestra_plugin::quic::{
    CallError, Caller, CallerOptions, Endpoint, Handler, Limits, Pace, Peer, Reply, Serving, Target,
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    quic_rig::{Authority, PATIENCE, is_soak},
    relay::{Relay, Weather},
};

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Beyond its deadline nobody waits longer than a busy machine makes them.
const LATE: Duration = Duration::from_secs(60);

/// Counts how often each call runs, and connections.
#[derive(Default)]
struct Counting {
    ran: Mutex<HashMap<u32, usize>>,
    connections: AtomicUsize,
}

impl Handler for Counting {
    fn handle<'a>(&'a self, _: &'a Peer, request: Bytes, mut reply: Reply) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let number = u32::from_be_bytes(*request.first_chunk().unwrap());
            *self.ran.lock().unwrap().entry(number).or_default() += 1;
            // Whoever has given up is not told.
            let _ = reply.answer(request).await;
        })
    }

    fn opened(&self, _: &Peer) {
        self.connections.fetch_add(1, Ordering::SeqCst);
    }
}

struct Scene {
    counting: Arc<Counting>,
    relay: Relay,
    caller: Caller,
    _serving: Serving,
    _authority: Authority,
}

impl Scene {
    async fn new(weather: Weather) -> Self {
        let authority = Authority::new();
        let identity = authority.identity("server");
        let endpoint = Endpoint::bind(Endpoint::LOOPBACK, &identity, Pace::default()).unwrap();
        let counting = Arc::new(Counting::default());
        let serving = endpoint.serve(counting.clone(), Limits::default());
        let relay = Relay::start(endpoint.address().unwrap(), weather).await;
        let client = authority.identity("a-client");
        let outgoing = Endpoint::outgoing(relay.address, &client, Pace::default()).unwrap();
        let target = Target::named(relay.address, "server".parse().unwrap());
        let options = CallerOptions {
            wedged_after: Duration::from_millis(300),
            ..CallerOptions::default()
        };
        Self {
            counting,
            relay,
            caller: Caller::start(outgoing, target, options),
            _serving: serving,
            _authority: authority,
        }
    }

    /// Calls once; from two bytes over the number to more than a dozen packets.
    async fn call(&self, number: u32, within: Duration) -> Result<(), CallError> {
        let mut request = number.to_be_bytes().to_vec();
        request.resize(6 + number as usize * 977 % 20_000, number as u8);
        let request = Bytes::from(request);
        let (began, deadline) = (Instant::now(), Instant::now() + within);
        let answer = self.caller.call(request.clone(), deadline).await;
        assert!(began.elapsed() < within + LATE, "{number} is too late");
        assert!(answer.as_ref().is_ok_and(|answer| *answer == request) || answer.is_err());
        answer.map(drop)
    }

    fn ran(&self, number: u32) -> usize {
        let ran = self.counting.ran.lock().unwrap();
        ran.get(&number).copied().unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_run_once_in_any_weather() {
    let (seeds, calls) = match is_soak() {
        true => (1..11, 2_000),
        false => (1..3, 200),
    };
    for seed in seeds {
        let weather = Weather {
            seed,
            lost: 4,
            doubled: 3,
            broken: 2,
            delayed: 20,
            delay: Duration::from_millis(15),
        };
        let scene = Arc::new(Scene::new(weather).await);
        let next = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for _ in 0..8 {
            let (scene, next) = (scene.clone(), next.clone());
            callers.spawn(async move {
                loop {
                    let number = u32::try_from(next.fetch_add(1, Ordering::SeqCst)).unwrap();
                    if number >= calls {
                        return;
                    }
                    if number % 50 == 49 {
                        scene.relay.change_port();
                    }
                    let answered = scene.call(number, DEADLINE).await;
                    assert!(answered.is_ok(), "{seed} {number}: {answered:?}");
                }
            });
        }
        callers.join_all().await;
        for number in 0..calls {
            assert_eq!(scene.ran(number), 1, "{seed} {number}");
        }
        // Neither a changed port nor lost datagrams make for another connection.
        assert_eq!(scene.counting.connections.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_hold_while_nothing_comes_through_and_the_connection_is_kept() {
    let scene = Arc::new(Scene::new(Weather::default()).await);
    scene.call(0, DEADLINE).await.unwrap();
    scene.relay.silence(true);
    let mut calls = JoinSet::new();
    for number in 1..201 {
        let scene = scene.clone();
        calls.spawn(async move {
            // Long enough for all of them to be sent, and far from the end of an idle connection.
            let within = Duration::from_millis(500 + u64::from(number) * 5);
            let error = scene.call(number, within).await.unwrap_err();
            assert!(error.may_have_run(), "it was sent: {error:?}");
        });
    }
    timeout(PATIENCE, calls.join_all()).await.unwrap();
    scene.relay.silence(false);
    scene.relay.change_port();
    scene.call(1_000, DEADLINE).await.unwrap();
    for number in 1..201 {
        assert!(scene.ran(number) <= 1, "{number}");
    }
    assert_eq!(scene.counting.connections.load(Ordering::SeqCst), 1);
}
