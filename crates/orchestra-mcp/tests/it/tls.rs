//! MCP over HTTP over TLS.

use std::{sync::Arc, time::Duration};

use orchestra_mcp::{
    Limits,
    http::{self, HttpOptions, Tls, TlsError},
};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore, SupportedProtocolVersion, crypto::ring, pki_types::ServerName,
        version,
    },
};

use crate::{
    http::{PATIENCE, tool},
    memory::server_with,
};

fn certificate() -> CertifiedKey<KeyPair> {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

/// Calls a tool over TLS as a client that trusts one certificate; answers the body.
async fn call(
    address: std::net::SocketAddr,
    trusted: &CertifiedKey<KeyPair>,
    version: &'static SupportedProtocolVersion,
) -> std::io::Result<Value> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.cert.der().clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).await?;
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let body = tool(7, "echo").to_string();
    let request = format!(
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut said = String::new();
    stream.read_to_string(&mut said).await?;
    let (_, body) = said.split_once("\r\n\r\n").expect("an answer");
    Ok(serde_json::from_str(body).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_trust_the_certificate_are_served_and_others_are_let_go() {
    let ours = certificate();
    let tls = Tls::from_pem(
        ours.cert.pem().as_bytes(),
        ours.signing_key.serialize_pem().as_bytes(),
    )
    .unwrap();
    let (server, _shared) = server_with(Limits::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_stop, stopped) = watch::channel(false);
    let app = http::router(&server, HttpOptions::default());
    let limits = http::Limits {
        connections: 1,
        head_time: Duration::from_secs(1),
        ..http::Limits::default()
    };
    tokio::spawn(http::serve_tls(listener, tls, app, stopped, limits));

    for version in [&version::TLS13, &version::TLS12] {
        let answer = call(address, &ours, version).await.unwrap();
        assert_eq!(answer["id"], 7);
    }
    call(address, &certificate(), &version::TLS13)
        .await
        .expect_err("it trusts another");
    // There is one place: whoever does not greet, or not in TLS, gives it up.
    for greeting in [
        &b""[..],
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03",
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(greeting).await.unwrap();
        let mut said = Vec::new();
        let ended = timeout(PATIENCE, stream.read_to_end(&mut said)).await;
        assert!(ended.is_ok(), "the connection ends");
        assert!(!said.starts_with(b"HTTP"), "nothing is told in the clear");
    }
    assert!(call(address, &ours, &version::TLS13).await.is_ok());
}

#[test]
fn what_is_no_certificate_or_not_its_key_is_told() {
    let (ours, other) = (certificate(), certificate());
    let (cert, key) = (ours.cert.pem(), ours.signing_key.serialize_pem());
    let made = |cert: &str, key: &str| Tls::from_pem(cert.as_bytes(), key.as_bytes());
    assert!(made(&format!("{cert}{cert}"), &key).is_ok());
    assert!(matches!(made("", &key), Err(TlsError::NoCertificate)));
    assert!(matches!(made(&key, &key), Err(TlsError::NoCertificate)));
    let cut = &cert[..cert.len() / 2];
    assert!(matches!(made(cut, &key), Err(TlsError::Certificate(_))));
    assert!(matches!(made(&cert, ""), Err(TlsError::Key(_))));
    assert!(matches!(made(&cert, &cert), Err(TlsError::Key(_))));
    let foreign = other.signing_key.serialize_pem();
    let error = made(&cert, &foreign).unwrap_err();
    assert!(matches!(error, TlsError::Unfit(_)), "{error}");
    assert!(!format!("{error:?}").contains("PRIVATE"), "{error:?}");
}
