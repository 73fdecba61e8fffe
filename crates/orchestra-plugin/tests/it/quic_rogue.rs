//! Peers that keep to no rule once they are in, servers as well as clients: answers that are none,
//! requests that trickle, room that is held, handshakes that never end, and noise.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use orchestra_plugin::quic::{
    CallError, Caller, CallerOptions, ConnectError, Endpoint, Limits, Link, Pace, Shared, Target,
    WireError,
};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep, timeout},
};

use crate::{
    quic_hostile::{Pair, forged, honest, honest_as, pair, raw_server, said},
    quic_rig::{Authority, PATIENCE, Rig, is_soak, soon},
};

/// Codes of resets.
const MALFORMED: u64 = 0x4f52_0003;
const TOO_SLOW: u64 = 0x4f52_0004;

/// A server that is bound to no rule of ours: it answers as the first byte of a request says.
struct Rogue {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Rogue {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Rogue {
    fn start(pair: Pair, streams: u32) -> Self {
        let endpoint = raw_server(pair, streams);
        let address = endpoint.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let task = tokio::spawn(async move {
            let mut serving = JoinSet::new();
            while let Some(incoming) = endpoint.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                serving.spawn(async move {
                    let Ok(connection) = incoming.await else {
                        return;
                    };
                    let mut answering = JoinSet::new();
                    while let Ok((send, recv)) = connection.accept_bi().await {
                        answering.spawn(misbehave(send, recv));
                    }
                });
            }
        });
        Self {
            address,
            connections,
            task,
        }
    }

    fn caller(&self, authority: &Authority, options: CallerOptions) -> Caller {
        let client = authority.identity("a-client");
        let endpoint = Endpoint::outgoing(self.address, &client, Pace::default()).unwrap();
        let target = Target::named(self.address, "server".parse().unwrap());
        Caller::start(endpoint, target, options)
    }
}

async fn misbehave(mut send: quinn::SendStream, mut recv: quinn::RecvStream) {
    let request = recv.read_to_end(64).await.unwrap();
    let bytes: &[u8] = match request[4] {
        // An answer, as it should be.
        b'e' => &[0, 0, 0, 1, b'e'],
        // One that comes twice, with a third that is cut off.
        b'2' => &[0, 0, 0, 1, b'a', 0, 0, 0, 1, b'b', 0, 0],
        // More than may be, in a header that says so.
        b'l' => &[1, 0, 0, 1, 7],
        // Far more.
        b'L' => &[255; 9],
        // A half.
        b'h' => &[0, 0, 0, 9, 1],
        // Half of a header.
        b'H' => &[0, 0],
        // Nothing at all.
        b'n' => &[],
        // A beginning, and then silence.
        b's' => {
            send.write_all(&[0, 0, 0, 9, 1]).await.unwrap();
            return std::future::pending().await;
        }
        // Silence from the beginning, until the caller has had enough of it.
        b'w' => {
            let _ = send.stopped().await;
            return;
        }
        other => panic!("{other}"),
    };
    // Whoever has read enough stops the rest.
    let _ = send.write_all(bytes).await;
    let _ = send.finish();
    let _ = send.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_none_are_told_and_cost_their_call_alone() {
    let authority = Authority::new();
    let rogue = Rogue::start(pair(&authority.identity("server")), 100);
    let caller = rogue.caller(&authority, CallerOptions::default());
    let call = async |what: &'static str, within: Duration| {
        let deadline = Instant::now() + within;
        let answer = caller.call(Bytes::from_static(what.as_bytes()), deadline);
        timeout(within + PATIENCE, answer).await.unwrap()
    };
    let too_large = |length| WireError::TooLarge { length };
    for (what, wanted) in [
        ("l", too_large(16 * 1024 * 1024 + 1)),
        ("L", too_large(u64::from(u32::MAX))),
        ("h", WireError::Truncated),
        ("H", WireError::Truncated),
    ] {
        let error = call(what, PATIENCE).await.unwrap_err();
        assert!(error.may_have_run(), "{what}");
        assert!(
            matches!(&error, CallError::Answer(cause) if *cause == wanted),
            "{what}: {error:?}"
        );
        assert_eq!(call("e", PATIENCE).await.unwrap(), "e", "after {what}");
    }
    let error = call("n", PATIENCE).await.unwrap_err();
    assert!(matches!(error, CallError::NoAnswer), "{error:?}");
    for what in ["s", "w"] {
        let error = call(what, Duration::from_millis(100)).await.unwrap_err();
        assert!(matches!(error, CallError::Late), "{what}: {error:?}");
    }
    // The first of two answers counts, and what follows is given back: many more calls than the
    // server takes at once go over the one connection.
    for number in 0..500 {
        assert_eq!(call("2", PATIENCE).await.unwrap(), "a", "{number}");
    }
    assert_eq!(rogue.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_few_calls_at_once_is_not_wedged() {
    const FEW: usize = 16;
    let authority = Authority::new();
    let server = pair(&authority.identity("server"));
    let rogue = Rogue::start(server, u32::try_from(FEW).unwrap());
    let options = CallerOptions {
        wedged_after: Duration::from_millis(300),
        ..CallerOptions::default()
    };
    let caller = Arc::new(rogue.caller(&authority, options));
    let mut waiting: Vec<_> = (0..FEW)
        .map(|_| {
            let caller = caller.clone();
            tokio::spawn(async move { caller.call(Bytes::from_static(b"w"), soon()).await })
        })
        .collect();
    let mut link = caller.link();
    let up = link.wait_for(|link| matches!(link, Link::Up(_))).await;
    let Link::Up(connection) = up.unwrap().clone() else {
        panic!("it is up");
    };
    while connection.calls() < FEW {
        tokio::task::yield_now().await;
    }
    // No place becomes free, for many times as long as a wedged connection would be kept; and then
    // two, which a server of this kind does not give back one by one.
    for freed in [0, 2] {
        for call in waiting.drain(..freed) {
            call.abort();
        }
        let deadline = Instant::now() + Duration::from_millis(1_200);
        let error = caller.call(Bytes::from_static(b"e"), deadline).await;
        let error = error.unwrap_err();
        assert!(
            matches!(error, CallError::NotTaken) && !error.may_have_run(),
            "{freed}: {error:?}"
        );
        assert_eq!(rogue.connections.load(Ordering::SeqCst), 1, "{freed}");
        assert!(waiting.iter().all(|call| !call.is_finished()));
    }
    // With a place, it goes on.
    waiting.pop().unwrap().abort();
    let answer = caller.call(Bytes::from_static(b"e"), soon()).await;
    assert_eq!(answer.unwrap(), "e");
    assert_eq!(rogue.connections.load(Ordering::SeqCst), 1);
    waiting.iter().for_each(|call| call.abort());
}

#[tokio::test]
async fn a_server_whose_certificate_is_over_is_not_called() {
    let authority = Authority::new();
    let name = |params: &mut rcgen::CertificateParams| {
        let names = vec!["server".to_owned(), "localhost".to_owned()];
        *params = rcgen::CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "server");
    };
    let expired = forged(&authority, |params| {
        name(params);
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let client = authority.identity("a-client");
    for (certificate, is_good) in [(forged(&authority, name), true), (expired, false)] {
        let rogue = Rogue::start(certificate, 100);
        let endpoint = Endpoint::outgoing(rogue.address, &client, Pace::default()).unwrap();
        let target = Target::named(rogue.address, "server".parse().unwrap());
        match endpoint.connect(&target).await {
            Ok(_) => assert!(is_good),
            Err(error) => assert!(
                !is_good && matches!(error, ConnectError::Handshake { .. }),
                "{error:?}"
            ),
        }
    }
}

/// Writes the rest of a request byte by byte, and tells by which code the stream was ended.
async fn trickle(connection: &quinn::Connection, first: &[u8], rest: usize) -> u64 {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(first).await.unwrap();
    let writing = async {
        for _ in 0..rest {
            sleep(Duration::from_millis(100)).await;
            if send.write_all(&[0]).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let ended = async {
        tokio::select! {
            ended = recv.read_to_end(9) => ended,
            () = writing => unreachable!("it waits"),
        }
    };
    match timeout(PATIENCE, ended).await.unwrap() {
        Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) => code.into_inner(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn progress_buys_a_slow_writer_no_time() {
    let limits = Limits {
        header_time: Duration::from_millis(250),
        request_time: Duration::from_millis(500),
        ..Limits::default()
    };
    let rig = Rig::new(limits);
    let (_endpoint, connection) = honest(&rig).await;
    assert_eq!(trickle(&connection, &[], 3).await, TOO_SLOW);
    // A thousand bytes at that pace would take more than all patience.
    assert_eq!(trickle(&connection, &[0, 0, 4, 0], 1024).await, TOO_SLOW);
    let served = said(&connection, &[0, 0, 0, 1, b'e'], true).await;
    assert_eq!(served, Ok(vec![0, 0, 0, 1, b'e']));
}

#[tokio::test]
async fn progress_buys_a_slow_reader_no_time() {
    const LARGE: usize = 4 * 1024 * 1024;
    let rig = Rig::new(Limits {
        reply_time: Duration::from_secs(1),
        ..Limits::default()
    });
    let (_endpoint, connection) = honest(&rig).await;
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let header = u32::try_from(LARGE).unwrap().to_be_bytes();
    send.write_all(&header).await.unwrap();
    send.write_all(&vec![b'e'; LARGE]).await.unwrap();
    send.finish().unwrap();
    let mut part = vec![0; 16 * 1024];
    let ended = async {
        loop {
            match recv.read(&mut part).await {
                Ok(Some(_)) => sleep(Duration::from_millis(50)).await,
                Err(quinn::ReadError::Reset(code)) => return code.into_inner(),
                other => panic!("it has all: {other:?}"),
            }
        }
    };
    assert_eq!(timeout(PATIENCE, ended).await.unwrap(), TOO_SLOW);
    // Whoever reads on has its answer in that time.
    let request = Bytes::from(vec![b'e'; LARGE]);
    let answer = rig.caller("b-client").call(request.clone(), soon()).await;
    assert!(answer.unwrap() == request);
}

#[tokio::test]
async fn whoever_holds_all_its_room_holds_up_nobody_else() {
    const LARGE: usize = 64 * 1024;
    let limits = Limits {
        peer_bytes: 2 * LARGE,
        all_bytes: 4 * LARGE,
        request_time: 20 * PATIENCE,
        ..Limits::default()
    };
    let rig = Rig::new(limits);
    let (_endpoint, greedy) = honest(&rig).await;
    let mut header = u32::try_from(LARGE).unwrap().to_be_bytes().to_vec();
    header.push(b'e');
    let mut holding = JoinSet::new();
    for _ in 0..4 {
        let (greedy, header) = (greedy.clone(), header.clone());
        holding.spawn(async move { said(&greedy, &header, false).await });
    }
    // It has no room left for more of this size, and small ones need none.
    let small = said(&greedy, &[0, 0, 0, 1, b'e'], true).await;
    assert_eq!(small, Ok(vec![0, 0, 0, 1, b'e']));
    let other = rig.caller("b-client");
    // None of them may wait until what is held is given up, which is long after their deadline.
    for _ in 0..20 {
        let request = Bytes::from(vec![b'e'; LARGE]);
        let answer = other.call(request.clone(), soon()).await;
        assert!(answer.unwrap() == request);
    }
}

#[tokio::test]
async fn whoever_shares_a_name_shares_no_room() {
    const LARGE: usize = 64 * 1024;
    let limits = Limits {
        peer_bytes: LARGE,
        shared: vec![Shared {
            name: "many-client".parse().unwrap(),
            connections: 2,
            calls: 8,
        }],
        ..Limits::default()
    };
    let rig = Rig::new(limits);
    let (_endpoint, greedy) = honest_as(&rig, "many-client").await;
    let mut header = u32::try_from(LARGE).unwrap().to_be_bytes().to_vec();
    header.push(b'e');
    let (mut send, _recv) = greedy.open_bi().await.unwrap();
    send.write_all(&header).await.unwrap();
    // It was taken before.
    let small = said(&greedy, &[0, 0, 0, 1, b'e'], true).await;
    assert_eq!(small, Ok(vec![0, 0, 0, 1, b'e']));
    let request = Bytes::from(vec![b'e'; LARGE]);
    let deadline = soon();
    let other = rig.caller("many-client");
    let answer = other.call(request.clone(), deadline).await;
    assert!(answer.unwrap() == request);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_many_announce_and_do_not_send_holds_up_nobody_else() {
    const LARGE: usize = 64 * 1024;
    let limits = Limits {
        peer_bytes: 2 * LARGE,
        all_bytes: 4 * LARGE,
        ..Limits::default()
    };
    let rig = Rig::new(limits);
    let mut header = u32::try_from(LARGE).unwrap().to_be_bytes().to_vec();
    header.push(b'e');
    let (mut holding, mut connections) = (JoinSet::new(), Vec::new());
    for number in 0..4 {
        let greedy = honest_as(&rig, &format!("greedy-{number}-client")).await;
        for _ in 0..4 {
            let (connection, header) = (greedy.1.clone(), header.clone());
            holding.spawn(async move { said(&connection, &header, false).await });
        }
        // Those were taken before.
        let small = said(&greedy.1, &[0, 0, 0, 1, b'e'], true).await;
        assert_eq!(small, Ok(vec![0, 0, 0, 1, b'e']));
        connections.push(greedy);
    }
    let other = rig.caller("b-client");
    let request = Bytes::from(vec![b'e'; LARGE]);
    let deadline = soon();
    for _ in 0..20 {
        let answer = other.call(request.clone(), deadline).await;
        assert!(answer.unwrap() == request);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_come_together_do_not_wait_for_each_other() {
    const LARGE: usize = 1024 * 1024;
    // None of them fits, whole or with another.
    let limits = Limits {
        all_bytes: 64 * 1024,
        ..Limits::default()
    };
    let rig = Rig::new(limits);
    let mut callers = JoinSet::new();
    for number in 0..8 {
        let caller = rig.caller(&format!("peer-{number}-client"));
        callers.spawn(async move {
            let request = Bytes::from(vec![b'e'; LARGE]);
            let answer = caller.call(request.clone(), soon()).await;
            assert!(answer.unwrap() == request);
        });
    }
    timeout(PATIENCE, callers.join_all()).await.unwrap();
}

/// The first datagrams of many who want to connect.
async fn first_datagrams(rig: &Rig, count: usize) -> Vec<Vec<u8>> {
    let listening = tokio::net::UdpSocket::bind(Endpoint::LOOPBACK)
        .await
        .unwrap();
    let target = Target::anyone(listening.local_addr().unwrap());
    let mut connecting = JoinSet::new();
    for _ in 0..count {
        let (endpoint, target) = (rig.endpoint("raw-client"), target.clone());
        connecting.spawn(async move { drop(endpoint.connect(&target).await) });
    }
    let mut first = std::collections::BTreeMap::new();
    let mut datagram = vec![0; 2_048];
    while first.len() < count {
        let (length, from) = listening.recv_from(&mut datagram).await.unwrap();
        first
            .entry(from.port())
            .or_insert_with(|| datagram[..length].to_vec());
    }
    first.into_values().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_that_never_end_are_given_up() {
    // Many more than there are places for: whoever is asked to prove its address says nothing more
    // and takes none. Where nobody is asked, places come back when their time is over.
    let few = Limits {
        handshakes: 4,
        unproven_handshakes: 100,
        ..Limits::default()
    };
    for (limits, count, within) in [(Limits::default(), 80, 4), (few, 4, 12)] {
        let rig = Rig::new(limits);
        let before = rig.caller("b-client");
        before.call(Bytes::from_static(b"e"), soon()).await.unwrap();
        let outsider = UdpSocket::bind(Endpoint::LOOPBACK).unwrap();
        for datagram in first_datagrams(&rig, count).await {
            outsider.send_to(&datagram, rig.address).unwrap();
        }
        // Whoever is connected is served on, and whoever comes is let in.
        before.call(Bytes::from_static(b"e"), soon()).await.unwrap();
        let caller = rig.caller("a-client");
        let came = async {
            while caller.call(Bytes::from_static(b"e"), soon()).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let came = timeout(Duration::from_secs(within), came).await;
        assert!(came.is_ok(), "{count} stand in its way");
    }
}

/// Numbers that are the same each time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let length = self.next() % most;
        (0..length).map(|_| self.next() as u8).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noise_after_the_handshake_harms_nobody() {
    let limits = Limits {
        header_time: Duration::from_millis(500),
        request_time: Duration::from_millis(500),
        ..Limits::default()
    };
    let rig = Rig::new(limits);
    let (_endpoint, connection) = honest(&rig).await;
    let outsider = UdpSocket::bind(Endpoint::LOOPBACK).unwrap();
    let rounds = if is_soak() { 50_000 } else { 1_500 };
    let mut dice = Dice(7);
    let mut streams = JoinSet::new();
    for _ in 0..rounds {
        let (bytes, how) = (dice.bytes(300), dice.next() % 4);
        let connection = connection.clone();
        // Nothing else is offered.
        assert!(connection.max_datagram_size().is_none());
        streams.spawn(async move {
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            // It may have been refused meanwhile.
            let _ = send.write_all(&bytes).await;
            let _ = match how {
                0 => send.finish(),
                1 => send.reset(7_u32.into()),
                2 => recv.stop(7_u32.into()),
                _ => Ok(()),
            };
            // Told or not, it ends.
            let _ = recv.read_to_end(1 << 16).await;
        });
        // Datagrams of nobody, of any form.
        let noise = dice.bytes(1_400);
        outsider.send_to(&noise, rig.address).unwrap();
        if streams.len() > 200 {
            streams.join_next().await.unwrap().unwrap();
        }
    }
    timeout(PATIENCE, streams.join_all()).await.unwrap();
    // A one-way stream cannot be opened at all.
    let one_way = timeout(Duration::from_millis(50), connection.open_uni()).await;
    assert!(one_way.is_err());
    let served = said(&connection, &[0, 0, 0, 1, b'e'], true).await;
    assert_eq!(served, Ok(vec![0, 0, 0, 1, b'e']));
    let refused = said(&connection, &[255; 8], true).await;
    assert_eq!(refused, Err(MALFORMED));
}
