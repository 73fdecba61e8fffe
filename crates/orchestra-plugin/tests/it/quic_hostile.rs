//! Peers that are not what they should be: without certificate, with another's, lying, slow, greedy.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use orchestra_plugin::{
    certs::Identity,
    quic::{
        CallError, Caller, CallerOptions, ConnectError, Endpoint, Limits, Pace, Shared, Target,
    },
};
use quinn::{
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
    rustls::{ClientConfig, RootCertStore, ServerConfig},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    quic_rig::{Authority, PATIENCE, Rig, soon},
    relay::{Relay, Weather},
};

pub(crate) type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

pub(crate) fn pair(identity: &Identity) -> Pair {
    (
        identity.chain().to_vec(),
        PrivateKeyDer::Pkcs8(identity.key().clone_key()),
    )
}

/// A leaf with anything in it, signed by the authority of a rig.
pub(crate) fn forged(
    authority: &Authority,
    change: impl FnOnce(&mut rcgen::CertificateParams),
) -> Pair {
    let read = |file: &str| {
        let text = std::fs::read(authority.dir.path().join(file)).unwrap();
        pem::parse(text).unwrap().into_contents()
    };
    let ca_key = rcgen::KeyPair::try_from(&PrivatePkcs8KeyDer::from(read("ca.key"))).unwrap();
    let issuer = rcgen::Issuer::from_ca_cert_der(&read("ca.crt").into(), ca_key).unwrap();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let names = ["forged-client".to_owned(), "localhost".to_owned()];
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "forged-client");
    change(&mut params);
    let leaf = params.signed_by(&key, &issuer).unwrap();
    (
        vec![leaf.der().clone()],
        PrivatePkcs8KeyDer::from(key).into(),
    )
}

fn roots(authority: &Authority) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for anchor in authority.identity("any").anchors() {
        roots.add(anchor.clone()).unwrap();
    }
    roots
}

pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The endpoint of a server that is bound to no rule of ours, with room for so many requests of each client.
pub(crate) fn raw_server((chain, key): Pair, streams: u32) -> quinn::Endpoint {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"orchestra-plugin".to_vec()];
    let crypto = QuicServerConfig::try_from(config).unwrap();
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let mut transport = quinn::TransportConfig::default();
    transport.max_concurrent_bidi_streams(streams.into());
    config.transport_config(Arc::new(transport));
    quinn::Endpoint::server(config, Endpoint::LOOPBACK).unwrap()
}

/// A client that is bound to no rule of ours.
async fn raw(
    rig: &Rig,
    certificate: Option<Pair>,
    alpn: &[u8],
) -> Result<(quinn::Endpoint, quinn::Connection), quinn::ConnectionError> {
    raw_to(&rig.authority, (rig.address, "server"), certificate, alpn).await
}

/// The same, of any server of an authority.
pub(crate) async fn raw_to(
    authority: &Authority,
    (address, name): (SocketAddr, &str),
    certificate: Option<Pair>,
    alpn: &[u8],
) -> Result<(quinn::Endpoint, quinn::Connection), quinn::ConnectionError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots(authority));
    let mut config = match certificate {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).unwrap()));
    let endpoint = quinn::Endpoint::client(Endpoint::LOOPBACK).unwrap();
    let connection = endpoint
        .connect_with(config, address, name)
        .unwrap()
        .await?;
    Ok((endpoint, connection))
}

pub(crate) async fn honest(rig: &Rig) -> (quinn::Endpoint, quinn::Connection) {
    honest_as(rig, "raw-client").await
}

/// The same, by a name.
pub(crate) async fn honest_as(rig: &Rig, name: &str) -> (quinn::Endpoint, quinn::Connection) {
    let identity = rig.authority.identity(name);
    raw(rig, Some(pair(&identity)), b"orchestra-plugin")
        .await
        .unwrap()
}

/// Whether a peer gets as far as an answer. The client's side of a handshake may be over before
/// the server has judged it.
async fn is_served(rig: &Rig, certificate: Option<Pair>, alpn: &[u8]) -> bool {
    let attempt = async {
        let Ok((_endpoint, connection)) = raw(rig, certificate, alpn).await else {
            return false;
        };
        let Ok((mut send, mut recv)) = connection.open_bi().await else {
            return false;
        };
        let sent = send.write_all(&[0, 0, 0, 1, b'e']).await;
        sent.is_ok() && send.finish().is_ok() && recv.read_to_end(9).await.is_ok()
    };
    timeout(PATIENCE, attempt).await.unwrap()
}

#[tokio::test]
async fn only_believed_certificates_are_served() {
    let rig = Rig::new(Limits::default());
    let ours: &[u8] = b"orchestra-plugin";
    let good = || forged(&rig.authority, |_| {});
    assert!(is_served(&rig, Some(good()), ours).await);
    assert!(
        !is_served(&rig, Some(good()), b"h3").await,
        "another protocol"
    );
    assert!(!is_served(&rig, None, ours).await, "no certificate");
    let other = Authority::new().identity("a-client");
    assert!(
        !is_served(&rig, Some(pair(&other)), ours).await,
        "another authority"
    );
    let expired = forged(&rig.authority, |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    assert!(!is_served(&rig, Some(expired), ours).await, "expired");
    let future = forged(&rig.authority, |params| {
        params.not_before = rcgen::date_time_ymd(4000, 1, 1);
    });
    assert!(!is_served(&rig, Some(future), ours).await, "not yet valid");
    let renamed = forged(&rig.authority, |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "orchestrator");
    });
    assert!(
        !is_served(&rig, Some(renamed), ours).await,
        "name is no DNS name of it"
    );
    let twice = forged(&rig.authority, |params| {
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "../forged");
    });
    assert!(
        !is_served(&rig, Some(twice), ours).await,
        "a name outside the alphabet"
    );
}

#[tokio::test]
async fn a_caller_takes_nobody_else() {
    let rig = Rig::new(Limits::default());
    // Valid for the address, and not who was expected.
    let mut target = Target::anyone(rig.address);
    target.expected = Some("orchestrator".parse().unwrap());
    let error = rig.endpoint("a-client").connect(&target).await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::WrongPeer { .. }),
        "{error:?}"
    );
    assert!(
        error.to_string().ends_with("is server, not orchestrator"),
        "{error}"
    );
    let other = Authority::new().identity("a-client");
    let endpoint = Endpoint::outgoing(rig.address, &other, Pace::default()).unwrap();
    let error = endpoint.connect(&rig.target()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Handshake { .. }), "{error:?}");
}

/// What a server says to bytes on a stream: an answer, or the code of a reset.
pub(crate) async fn said(
    connection: &quinn::Connection,
    bytes: &[u8],
    end: bool,
) -> Result<Vec<u8>, u64> {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(bytes).await.unwrap();
    if end {
        send.finish().unwrap();
    }
    match timeout(PATIENCE, recv.read_to_end(1 << 20)).await.unwrap() {
        Ok(answer) => Ok(answer),
        Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) => Err(code.into_inner()),
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn bad_frames_end_their_stream_alone() {
    let limits = Limits {
        header_time: Duration::from_millis(200),
        request_time: Duration::from_millis(400),
        ..Limits::default()
    };
    let rig = Rig::new(limits);
    let (_endpoint, connection) = honest(&rig).await;
    let (malformed, slow) = (0x4f52_0003, 0x4f52_0004);
    let echoed = Ok(vec![0, 0, 0, 1, b'e']);
    assert_eq!(
        said(&connection, &[1, 0, 0, 1], false).await,
        Err(malformed),
        "one too many"
    );
    assert_eq!(
        said(&connection, &[255; 8], true).await,
        Err(malformed),
        "far too many"
    );
    assert_eq!(
        said(&connection, &[0, 0, 0, 9, 1], true).await,
        Err(malformed),
        "half a frame"
    );
    assert_eq!(
        said(&connection, &[0, 0], true).await,
        Err(malformed),
        "half a header"
    );
    assert_eq!(
        said(&connection, &[0, 0], false).await,
        Err(slow),
        "a slow header"
    );
    assert_eq!(
        said(&connection, &[1, 0, 0, 0, 1], false).await,
        Err(slow),
        "a slow payload"
    );
    assert_eq!(said(&connection, &[], true).await, Ok(vec![]), "nothing");
    assert_eq!(
        said(&connection, &[0, 0, 0, 0], true).await,
        Ok(vec![0, 0, 0, 0]),
        "an empty one"
    );
    assert_eq!(
        said(&connection, &[0, 0, 0, 1, b'e'], false).await,
        echoed,
        "without an end"
    );
    assert_eq!(
        said(&connection, &[0, 0, 0, 1, b'e', 7, 7], true).await,
        echoed,
        "with more"
    );
}

#[tokio::test]
async fn streams_are_given_back_whatever_follows_a_request() {
    let rig = Rig::new(Limits::default());
    let (_endpoint, connection) = honest(&rig).await;
    // More than are allowed at once, each with bytes that nobody wants and no end.
    for _ in 0..1_500 {
        let answer = said(&connection, &[0, 0, 0, 1, b'e', 9], false).await;
        assert_eq!(answer, Ok(vec![0, 0, 0, 1, b'e']));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_streams_are_bounded_and_disturb_nobody() {
    let rig = Rig::new(Limits::default());
    let (_endpoint, connection) = honest(&rig).await;
    let opened = Arc::new(AtomicUsize::new(0));
    let mut streams = JoinSet::new();
    for _ in 0..10_000 {
        let (connection, opened) = (connection.clone(), opened.clone());
        streams.spawn(async move {
            let (mut send, _recv) = connection.open_bi().await.unwrap();
            send.write_all(&[0, 255, 255, 255, 0]).await.unwrap();
            opened.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        });
    }
    while opened.load(Ordering::SeqCst) < 1_024 {
        tokio::task::yield_now().await;
    }
    let caller = rig.caller("b-client");
    for _ in 0..100 {
        caller.call(Bytes::from_static(b"e"), soon()).await.unwrap();
    }
    // The others wait until some have ended for being too slow.
    assert_eq!(opened.load(Ordering::SeqCst), 1_024);
}

#[tokio::test]
async fn connections_of_a_peer_are_counted() {
    let rig = Rig::new(Limits {
        connections: 2,
        shared: vec![Shared {
            name: "many-client".parse().unwrap(),
            connections: 3,
            calls: 1,
        }],
        ..Limits::default()
    });
    let endpoint = rig.endpoint("a-client");
    let mut kept = Vec::new();
    for _ in 0..2 {
        let connection = endpoint.connect(&rig.target()).await.unwrap();
        connection
            .call(Bytes::from_static(b"e"), soon())
            .await
            .unwrap();
        kept.push(connection);
    }
    // One more takes the place of the oldest, which may be that of a process that was killed.
    let third = endpoint.connect(&rig.target()).await.unwrap();
    timeout(PATIENCE, kept[0].closed()).await.unwrap();
    for connection in [&kept[1], &third] {
        connection
            .call(Bytes::from_static(b"e"), soon())
            .await
            .unwrap();
    }
    let other = rig
        .endpoint("b-client")
        .connect(&rig.target())
        .await
        .unwrap();
    other.call(Bytes::from_static(b"e"), soon()).await.unwrap();
    // A name that many share has limits of its own.
    let endpoint = rig.endpoint("many-client");
    for _ in 0..3 {
        let connection = endpoint.connect(&rig.target()).await.unwrap();
        connection
            .call(Bytes::from_static(b"e"), soon())
            .await
            .unwrap();
        kept.push(connection);
    }
    let fourth = endpoint.connect(&rig.target()).await.unwrap();
    timeout(PATIENCE, fourth.closed()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_addresses_are_proven_and_all_get_in() {
    let limits = Limits {
        unproven_handshakes: 0,
        ..Limits::default()
    };
    let rig = Rig::new(limits);
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in [1, 20, 1_200, 1_472] {
        noise.send_to(&vec![0xc3; length], rig.address).unwrap();
    }
    let caller = rig.caller("a-client");
    caller.call(Bytes::from_static(b"e"), soon()).await.unwrap();
}

/// A server of an older kind: it reads requests to the byte, and keeps a few streams for ever.
struct Leaky {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Leaky {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn leaky(authority: &Authority) -> Leaky {
    let endpoint = raw_server(pair(&authority.identity("server")), 10);
    let address = endpoint.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = accepted.clone();
    let task = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Some(incoming) = endpoint.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            connections.spawn(async move {
                let connection = incoming.await.unwrap();
                let mut kept = Vec::new();
                while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                    let mut frame = [0; 5];
                    recv.read_exact(&mut frame).await.unwrap();
                    if frame[4] == b'e' {
                        send.write_all(&frame).await.unwrap();
                        send.finish().unwrap();
                    }
                    kept.push((send, recv));
                }
            });
        }
    });
    Leaky {
        address,
        accepted,
        task,
    }
}

#[tokio::test]
async fn a_wedged_connection_is_replaced_and_its_calls_go_on() {
    let authority = Authority::new();
    let server = leaky(&authority);
    let endpoint = Endpoint::outgoing(
        server.address,
        &authority.identity("a-client"),
        Pace::default(),
    )
    .unwrap();
    let options = CallerOptions {
        wedged_after: Duration::from_millis(100),
        ..CallerOptions::default()
    };
    let target = Target::named(server.address, "server".parse().unwrap());
    let caller = Arc::new(Caller::start(endpoint, target, options));
    // This one is never answered, and outlives the connection's use for others.
    let waiting = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.call(Bytes::from_static(b"n"), soon()).await })
    };
    for number in 0..35 {
        let answer = caller.call(Bytes::from_static(b"e"), soon()).await;
        assert_eq!(answer.unwrap(), "e", "{number}");
    }
    assert!(server.accepted.load(Ordering::SeqCst) >= 4);
    assert!(!waiting.is_finished());
    waiting.abort();
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_found_out() {
    let mut rig = Rig::new(Limits::default());
    let relay = Relay::start(rig.address, Weather::default()).await;
    let target = Target::named(relay.address, "server".parse().unwrap());
    let pace = Pace {
        idle: Duration::from_secs(3),
        keep_alive: Duration::from_millis(500),
    };
    let identity = rig.authority.identity("a-client");
    let endpoint = Endpoint::outgoing(rig.address, &identity, pace).unwrap();
    let caller = Arc::new(Caller::start(endpoint, target, CallerOptions::default()));
    let call = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.call(Bytes::from_static(b"w"), soon()).await })
    };
    rig.hear("waiting").await;
    relay.silence(true);
    let error = timeout(PATIENCE, call).await.unwrap().unwrap().unwrap_err();
    assert!(
        matches!(error, CallError::Lost(_)) && error.may_have_run(),
        "{error:?}"
    );
    rig.hear("cancelled").await;
    // Meanwhile calls are refused before they are sent, and later they work again.
    let error = caller
        .call(Bytes::from_static(b"e"), soon())
        .await
        .unwrap_err();
    assert!(!error.may_have_run(), "{error:?}");
    relay.silence(false);
    let again = async { while caller.call(Bytes::from_static(b"e"), soon()).await.is_err() {} };
    timeout(PATIENCE, again).await.unwrap();
}
