//! Calls between peers of good will: many, large, streamed, cancelled, lost.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use orchestra_plugin::quic::{
    CallError, Caller, CallerOptions, ConnectError, ConnectionId, Endpoint, Handler, Limits, Link,
    MAX_FRAME_BYTES, Pace, Peer, Reply, Target,
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use crate::quic_rig::{Authority, PATIENCE, Rig, soon};

/// A request that is echoed.
fn bytes(length: usize) -> Bytes {
    let mut bytes = vec![b'e'];
    bytes.extend((1..length).map(|index| index as u8));
    bytes.truncate(length);
    Bytes::from(bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_every_size_come_back() {
    let rig = Rig::new(Limits::default());
    let caller = rig.caller("a-client");
    for length in [
        0,
        1,
        3,
        4,
        5,
        1_199,
        1_200,
        65_536,
        1 << 20,
        MAX_FRAME_BYTES,
    ] {
        let answer = caller.call(bytes(length), soon()).await.unwrap();
        assert!(answer == bytes(length), "{length}");
    }
    assert_eq!(
        caller.call(Bytes::from_static(b"h"), soon()).await.unwrap(),
        "a-client"
    );
    let over = caller
        .call(bytes(MAX_FRAME_BYTES + 1), soon())
        .await
        .unwrap_err();
    assert!(matches!(over, CallError::RequestTooLarge { .. }) && !over.may_have_run());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_calls_on_one_connection() {
    let rig = Rig::new(Limits::default());
    let connection = rig
        .endpoint("a-client")
        .connect(&rig.target())
        .await
        .unwrap();
    for _ in 0..100 {
        let calls = (0..50).map(|_| connection.call(bytes(20_000), soon()));
        for answer in join_all(calls).await {
            assert_eq!(answer.unwrap().len(), 20_000);
        }
    }
    assert_eq!(connection.calls(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_and_fifty_calls_wait_at_once() {
    let mut rig = Rig::new(Limits::default());
    let connection = rig
        .endpoint("a-client")
        .connect(&rig.target())
        .await
        .unwrap();
    let calls: Vec<_> = (0..150)
        .map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move { connection.call(Bytes::from_static(b"w"), soon()).await })
        })
        .collect();
    for _ in 0..150 {
        rig.hear("waiting").await;
    }
    assert_eq!(connection.calls(), 150);
    for call in &calls {
        call.abort();
    }
    for _ in 0..150 {
        rig.hear("cancelled").await;
    }
    assert_eq!(connection.call(bytes(9), soon()).await.unwrap(), bytes(9));
}

#[tokio::test]
async fn a_deadline_cancels_the_handler() {
    let mut rig = Rig::new(Limits::default());
    let caller = rig.caller("a-client");
    caller.call(bytes(1), soon()).await.unwrap();
    // Long enough to reach the handler.
    let deadline = Instant::now() + Duration::from_secs(2);
    let late = caller
        .call(Bytes::from_static(b"w"), deadline)
        .await
        .unwrap_err();
    assert!(matches!(late, CallError::Late) && late.may_have_run());
    rig.hear("cancelled").await;
}

#[tokio::test]
async fn a_handler_that_fails_ends_its_call_alone() {
    let rig = Rig::new(Limits::default());
    let caller = rig.caller("a-client");
    for request in [&b"p"[..], b"d"] {
        let error = caller
            .call(Bytes::from_static(request), soon())
            .await
            .unwrap_err();
        assert!(
            matches!(error, CallError::Answer(_)) && error.may_have_run(),
            "{error:?}"
        );
    }
    caller.call(bytes(1), soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_streamed_with_back_pressure() {
    let mut rig = Rig::new(Limits::default());
    let caller = rig.caller("a-client");
    let mut few = caller
        .stream(Bytes::from_static(b"c\x03"), soon())
        .await
        .unwrap();
    for number in 0..3 {
        assert_eq!(few.next().await.unwrap().unwrap()[..], [number]);
    }
    assert_eq!(few.next().await.unwrap(), None);
    let mut answers = caller
        .stream(Bytes::from_static(b"s"), soon())
        .await
        .unwrap();
    rig.hear("sent 4").await;
    // Windows of either side bound what is under way; 64 times 256 KiB would exceed them.
    let most = async { while rig.events.recv().await != Some("sent 128".to_owned()) {} };
    assert!(
        timeout(Duration::from_millis(500), most).await.is_err(),
        "nothing holds the writer"
    );
    for _ in 0..128 {
        assert_eq!(answers.next().await.unwrap().unwrap().len(), 256 * 1024);
    }
    drop(answers);
    rig.hear("stopped").await;
}

#[tokio::test]
async fn a_call_may_go_both_ways() {
    let rig = Rig::new(Limits::default());
    let caller = rig.caller("a-client");
    let (mut sender, mut answers) = caller
        .open_duplex(Bytes::from_static(b"2"), soon())
        .await
        .unwrap();
    for text in ["one", "two"] {
        sender.send(Bytes::from(text)).await.unwrap();
        assert_eq!(answers.next().await.unwrap().unwrap(), text);
    }
    sender.finish();
    assert_eq!(answers.next().await.unwrap().unwrap(), "end");
    assert_eq!(answers.next().await.unwrap(), None);
}

#[tokio::test]
async fn calls_over_the_limit_are_told_that_they_did_not_run() {
    let mut rig = Rig::new(Limits {
        calls: 2,
        ..Limits::default()
    });
    let caller = Arc::new(rig.caller("a-client"));
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let caller = caller.clone();
            tokio::spawn(async move { caller.call(Bytes::from_static(b"w"), soon()).await })
        })
        .collect();
    rig.hear("waiting").await;
    rig.hear("waiting").await;
    let error = caller.call(bytes(100), soon()).await.unwrap_err();
    assert!(
        matches!(error, CallError::Busy) && !error.may_have_run(),
        "{error:?}"
    );
    // Another peer has limits of its own.
    rig.caller("b-client")
        .call(bytes(100), soon())
        .await
        .unwrap();
    waiting.iter().for_each(|call| call.abort());
}

#[tokio::test]
async fn a_stopped_server_fails_calls_at_once_and_a_new_one_is_found() {
    let mut rig = Rig::new(Limits::default());
    let caller = Arc::new(rig.caller("a-client"));
    let call = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.call(Bytes::from_static(b"w"), soon()).await })
    };
    rig.hear("waiting").await;
    rig.serving
        .stop(Instant::now() + Duration::from_millis(20))
        .await;
    let error = call.await.unwrap().unwrap_err();
    assert!(error.may_have_run(), "{error:?}");
    let mut link = caller.link();
    timeout(
        PATIENCE,
        link.wait_for(|link| matches!(link, Link::Waiting { .. })),
    )
    .await
    .unwrap()
    .unwrap();
}

#[tokio::test]
async fn running_calls_are_finished_when_a_server_stops() {
    let rig = Rig::new(Limits::default());
    let caller = Arc::new(rig.caller("a-client"));
    let mut large = caller.stream(bytes(MAX_FRAME_BYTES), soon()).await.unwrap();
    let stop = tokio::spawn(rig.serving.stop(soon()));
    let answer = large.next().await;
    // Either it had begun and is finished, or it was refused; never is it lost.
    assert!(
        matches!(answer, Ok(Some(_)) | Err(CallError::Busy)),
        "{answer:?}"
    );
    drop(large);
    timeout(PATIENCE, stop).await.unwrap().unwrap();
}

#[tokio::test]
async fn hanging_up_fails_calls_at_once_and_dials_anew() {
    let mut rig = Rig::new(Limits::default());
    let caller = Arc::new(rig.caller("a-client"));
    let call = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.call(Bytes::from_static(b"w"), soon()).await })
    };
    rig.hear("waiting").await;
    caller.hang_up();
    assert!(call.await.unwrap().unwrap_err().may_have_run());
    rig.hear("cancelled").await;
    caller.call(bytes(1), soon()).await.unwrap();
}

#[tokio::test]
async fn nobody_there_is_told_soon() {
    let rig = Rig::new(Limits::default());
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = Target::anyone(silent.local_addr().unwrap());
    let error = rig.endpoint("a-client").connect(&target).await.unwrap_err();
    assert!(matches!(error, ConnectError::NoAnswer { .. }), "{error:?}");
}

#[tokio::test]
async fn rotation_needs_no_restart_in_step() {
    let rig = Rig::new(Limits::default());
    let now = SystemTime::now();
    let old = rig.endpoint("old-client");
    rig.authority.dir.rotate(now).unwrap();
    // The server knows only the old authority; a new leaf brings the cross certificate.
    let new = rig.endpoint("new-client");
    new.connect(&rig.target()).await.unwrap();
    // A server of the new authority believes an old leaf, and is believed by an old client.
    let identity = rig.authority.identity("other");
    let endpoint = Endpoint::bind(Endpoint::LOOPBACK, &identity, Pace::default()).unwrap();
    let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
    let handler = Arc::new(crate::quic_rig::Told { events });
    let _serving = endpoint.serve(handler, Limits::default());
    let target = Target::anyone(endpoint.address().unwrap());
    let connection = old.connect(&target).await.unwrap();
    assert_eq!(
        connection
            .call(Bytes::from_static(b"h"), soon())
            .await
            .unwrap(),
        "old-client"
    );
}

#[tokio::test]
async fn two_rotations_shut_out_nobody_who_read_before_them() {
    let rig = Rig::new(Limits::default());
    let now = SystemTime::now();
    let old = rig.endpoint("old-client");
    for _ in 0..2 {
        rig.authority.dir.rotate(now).unwrap();
    }
    let new = rig.endpoint("new-client");
    new.connect(&rig.target()).await.unwrap();
    let identity = rig.authority.identity("other");
    let endpoint = Endpoint::bind(Endpoint::LOOPBACK, &identity, Pace::default()).unwrap();
    let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
    let handler = Arc::new(crate::quic_rig::Told { events });
    let _serving = endpoint.serve(handler, Limits::default());
    let target = Target::anyone(endpoint.address().unwrap());
    let connection = old.connect(&target).await.unwrap();
    let said = connection.call(Bytes::from_static(b"h"), soon()).await;
    assert_eq!(said.unwrap(), "old-client");
}

#[tokio::test]
async fn open_connection_of_a_client_is_closed_once_its_authority_is_removed() {
    let mut rig = Rig::new(Limits::default());
    let now = SystemTime::now();
    let old = rig.endpoint("old-client");
    let connection = old.connect(&rig.target()).await.unwrap();
    let call = || connection.call(Bytes::from_static(b"h"), soon());
    assert_eq!(call().await.unwrap(), "old-client");
    rig.authority.dir.rotate(now).unwrap();
    rig.listening
        .renew(&rig.authority.identity("server"))
        .unwrap();
    assert_eq!(call().await.unwrap(), "old-client", "it is still trusted");
    let waiting = {
        let connection = connection.clone();
        tokio::spawn(async move { connection.call(Bytes::from_static(b"w"), soon()).await })
    };
    rig.hear("waiting").await;
    rig.authority.dir.rotate_at_once(now).unwrap();
    rig.listening
        .renew(&rig.authority.identity("server"))
        .unwrap();
    let closed = timeout(PATIENCE, connection.closed()).await.unwrap();
    let reason = closed.to_string();
    assert!(reason.contains("no longer trusted"), "{reason}");
    assert!(waiting.await.unwrap().is_err());
    rig.hear("cancelled").await;
    call().await.unwrap_err();
    let new = rig.caller("new-client");
    let answer = new.call(Bytes::from_static(b"h"), soon()).await;
    assert_eq!(answer.unwrap(), "new-client");
}

#[tokio::test]
async fn open_connection_to_a_server_is_closed_once_its_authority_is_removed() {
    let rig = Rig::new(Limits::default());
    let endpoint = rig.endpoint("a-client");
    let caller = Caller::start(endpoint.clone(), rig.target(), CallerOptions::default());
    caller.call(bytes(1), soon()).await.unwrap();
    let Link::Up(before) = caller.link().borrow().clone() else {
        panic!("no connection");
    };
    let now = SystemTime::now();
    rig.authority.dir.rotate_at_once(now).unwrap();
    endpoint.renew(&rig.authority.identity("a-client")).unwrap();
    timeout(PATIENCE, before.closed()).await.unwrap();
    caller.call(bytes(1), soon()).await.unwrap_err();
    rig.listening
        .renew(&rig.authority.identity("server"))
        .unwrap();
    let mut link = caller.link();
    let up = link.wait_for(|link| matches!(link, Link::Up(_)));
    drop(timeout(PATIENCE, up).await.unwrap().unwrap());
    caller.call(bytes(1), soon()).await.unwrap();
}

#[tokio::test]
async fn closing_waits_for_calls() {
    let rig = Rig::new(Limits::default());
    let caller = Caller::start(
        rig.endpoint("a-client"),
        rig.target(),
        CallerOptions::default(),
    );
    let link = caller.link();
    caller.call(bytes(1), soon()).await.unwrap();
    caller.close(soon()).await;
    assert!(matches!(*link.borrow(), Link::Closed));
}

/// Tells of connections and of calls.
struct Doors(mpsc::UnboundedSender<(&'static str, ConnectionId)>);

impl Handler for Doors {
    fn handle<'a>(&'a self, peer: &'a Peer, _: Bytes, mut reply: Reply) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.0.send(("called", peer.connection())).unwrap();
            reply.cancelled().cancelled().await;
            self.0.send(("given up", peer.connection())).unwrap();
            drop(reply.answer(Bytes::new()).await);
        })
    }

    fn opened(&self, peer: &Peer) {
        self.0.send(("opened", peer.connection())).unwrap();
    }

    fn closed(&self, peer: &Peer) {
        self.0.send(("closed", peer.connection())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_is_told_of_connections_around_their_calls() {
    let authority = Authority::new();
    let identity = authority.identity("server");
    let endpoint = Endpoint::bind(Endpoint::LOOPBACK, &identity, Pace::default()).unwrap();
    let (sender, mut told) = mpsc::unbounded_channel();
    let serving = endpoint.serve(Arc::new(Doors(sender)), Limits::default());
    let address = endpoint.address().unwrap();
    let target = Target::named(address, "server".parse().unwrap());
    let client = authority.identity("client");
    let mut next = async || timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let outgoing = Endpoint::outgoing(address, &client, Pace::default()).unwrap();
        let caller = Caller::start(outgoing, target.clone(), CallerOptions::default());
        let call = caller
            .stream(Bytes::from_static(b"x"), soon())
            .await
            .unwrap();
        let (opened, connection) = next().await;
        assert_eq!(opened, "opened");
        assert_eq!(next().await, ("called", connection));
        drop((call, caller));
        assert_eq!(next().await, ("given up", connection));
        assert_eq!(next().await, ("closed", connection));
        seen.push(connection);
    }
    assert_ne!(seen[0], seen[1]);
    drop(serving);
}
