//! Peers that end without closing their connections: killed, or killed and started again.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use orchestra_plugin::quic::{
    CallError, Caller, CallerOptions, ConnectError, Endpoint, Limits, Link, Pace, Target,
};
use quinn::ConnectionError;
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    quic_rig::{PATIENCE, Rig, Told, soon},
    relay::{Relay, Weather},
};

/// An idle timeout that no test waits for: what ends a connection is something else.
const PACE: Pace = Pace {
    idle: PATIENCE.saturating_mul(20),
    keep_alive: Duration::from_secs(1),
};

/// A server whose port can be taken from it, and a call that it does not answer.
struct Scene {
    rig: Rig,
    relay: Relay,
    caller: Arc<Caller>,
    call: JoinHandle<Result<Bytes, CallError>>,
}

impl Scene {
    async fn new() -> Self {
        let mut rig = Rig::paced(Limits::default(), PACE);
        let relay = Relay::start(rig.address, Weather::default()).await;
        let target = Target::named(relay.address, "server".parse().unwrap());
        let endpoint = rig.endpoint("a-client");
        let caller = Arc::new(Caller::start(endpoint, target, CallerOptions::default()));
        let calling = caller.clone();
        let call =
            tokio::spawn(async move { calling.call(Bytes::from_static(b"w"), soon()).await });
        rig.hear("waiting").await;
        Self {
            rig,
            relay,
            caller,
            call,
        }
    }
}

/// Checks that a call fails because its connection ended for this reason.
async fn lost(call: JoinHandle<Result<Bytes, CallError>>, reason: ConnectionError) {
    let error = timeout(PATIENCE, call).await.expect("the call ends");
    let error = error.unwrap().unwrap_err();
    assert!(
        matches!(&error, CallError::Lost(lost) if *lost == reason) && error.may_have_run(),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_was_killed_is_found_out_by_its_port() {
    let scene = Scene::new().await;
    // The port is free from now on, and nothing closed the connection.
    drop(scene.relay);
    lost(scene.call, ConnectionError::LocallyClosed).await;
    let error = scene
        .caller
        .call(Bytes::from_static(b"e"), soon())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, CallError::Unreachable(why) if matches!(**why, ConnectError::Nobody { .. })),
        "{error:?}"
    );
    assert!(!error.may_have_run());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_was_started_anew_says_that_it_knows_nothing() {
    let scene = Scene::new().await;
    let identity = scene.rig.authority.identity("server");
    let endpoint = Endpoint::bind(Endpoint::LOOPBACK, &identity, PACE).unwrap();
    let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
    let serving = endpoint.serve(Arc::new(Told { events }), Limits::default());
    scene.relay.replace(endpoint.address().unwrap());
    lost(scene.call, ConnectionError::Reset).await;
    let again = async {
        let call = async || scene.caller.call(Bytes::from_static(b"e"), soon()).await;
        while call().await.is_err() {}
    };
    timeout(PATIENCE, again).await.unwrap();
    drop(serving);
}

/// It has its port, and may go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_is_silent_for_a_while_is_waited_for() {
    let scene = Scene::new().await;
    scene.relay.silence(true);
    let mut link = scene.caller.link();
    let left = link.wait_for(|link| !matches!(link, Link::Up(_)));
    assert!(
        timeout(Duration::from_secs(6), left).await.is_err(),
        "it was given up"
    );
    scene.relay.silence(false);
    let answer = timeout(
        PATIENCE,
        scene.caller.call(Bytes::from_static(b"e"), soon()),
    );
    assert_eq!(answer.await.unwrap().unwrap(), "e");
    assert!(!scene.call.is_finished());
}

#[tokio::test]
async fn connection_to_an_unused_port_fails_as_unused() {
    let rig = Rig::new(Limits::default());
    // No system assigns this port.
    let target = Target::anyone("127.0.0.1:1".parse().unwrap());
    let error = rig.endpoint("a-client").connect(&target).await.unwrap_err();
    assert!(matches!(error, ConnectError::Nobody { .. }), "{error:?}");
}

/// Its calls are cancelled, although nothing closed the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_was_killed_is_found_out_by_its_port() {
    let mut scene = Scene::new().await;
    // The relay drops every packet, then frees its port.
    scene.relay.silence(true);
    drop(scene.relay);
    scene.rig.hear("cancelled").await;
}
