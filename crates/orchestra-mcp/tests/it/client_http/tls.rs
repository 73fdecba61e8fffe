//! Servers that are known by certificates of their own, and want to know us by ours.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use orchestra_mcp::client::{ClientError, Connector as _, http::HttpConfig, http::HttpConnector};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
        server::WebPkiClientVerifier,
    },
};

use super::scripted::{ask, connected, result};

/// Somebody who vouches for others.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
struct Identity {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn certificate(&self) -> &rcgen::Certificate {
        self.0.as_ref()
    }

    fn vouch(&self, name: &str) -> Identity {
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity { certificate, key }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate().der().clone()).unwrap();
        Arc::new(roots)
    }
}

impl Identity {
    fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivatePkcs8KeyDer::from(self.key.serialize_der());
        (vec![self.certificate.der().clone()], key.into())
    }
}

/// A server over TLS, which lets in whom `clients` vouches for; everybody, where nobody does.
struct Secured {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Secured {
    async fn new(own: &Identity, clients: Option<&Authority>) -> Self {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(clients.roots(), provider)
                    .build()
                    .unwrap(),
            ),
        };
        let (chain, key) = own.der();
        let acceptor = TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(stream) = acceptor.accept(stream).await else {
                    continue;
                };
                // Whoever greets but is not let in gets no answer.
                let _ = answer(stream).await;
            }
        });
        Self { address, serving }
    }

    fn config(&self) -> HttpConfig {
        let url = format!("https://localhost:{}/mcp", self.address.port());
        HttpConfig::new("there", url.parse().unwrap())
    }
}

/// Answers one request, and ends the connection.
async fn answer<S>(stream: S) -> std::io::Result<()>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim().split_once(": ") else {
            match line.trim().is_empty() {
                true => break,
                false => continue,
            }
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let reply = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"is": "well"}}).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{reply}",
        reply.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.shutdown().await
}

/// Files of PEM, for as long as a test runs.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_known_by_the_authority_of_a_file() {
    let (ours, other, files) = (Authority::new(), Authority::new(), Files::new());
    let server = Secured::new(&ours.vouch("localhost"), None).await;
    let mut config = server.config();
    let unknown = connected(config.clone()).await;
    let error = ask(&*unknown.link, 1, "ping", &json!({})).await;
    let error = error.unwrap_err();
    assert!(
        matches!(error, ClientError::Unreachable { .. }),
        "nobody vouches for it: {error:?}"
    );
    let both = format!("{}{}", other.certificate().pem(), ours.certificate().pem());
    config.ca_file = Some(files.write("ca.pem", &both));
    let there = connected(config.clone()).await;
    let told = result(&*there.link, 1, "ping", &json!({})).await;
    assert_eq!(told, json!({"is": "well"}));
    // The file adds an authority, and takes no other rule away: the name must be its own.
    let server = Secured::new(&ours.vouch("elsewhere.example"), None).await;
    config.url = server.config().url;
    let there = connected(config.clone()).await;
    let error = ask(&*there.link, 1, "ping", &json!({})).await.unwrap_err();
    assert!(error.explain().contains("ertificate"), "{error:?}");

    config.ca_file = Some(files.write("none.pem", "no certificate"));
    let Err(ClientError::InvalidConfig { what }) = HttpConnector::new(config) else {
        panic!("it is refused before anything is sent")
    };
    assert!(what.contains("none.pem has no PEM certificate"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_to_know_us_is_shown_our_certificate() {
    let (servers, clients, files) = (Authority::new(), Authority::new(), Files::new());
    let server = Secured::new(&servers.vouch("localhost"), Some(&clients)).await;
    let mut config = server.config();
    config.ca_file = Some(files.write("ca.pem", &servers.certificate().pem()));
    let stranger = connected(config.clone()).await;
    ask(&*stranger.link, 1, "ping", &json!({}))
        .await
        .expect_err("it lets no stranger in");

    let us = clients.vouch("us");
    let (certificate, key) = (us.certificate.pem(), us.key.serialize_pem());
    let key_file = files.write("key.pem", &key);
    config.client_certificate = Some((files.write("us.pem", &certificate), key_file.clone()));
    let there = connected(config.clone()).await;
    result(&*there.link, 1, "ping", &json!({})).await;
    // Both may stand in one file.
    let both = files.write("both.pem", &format!("{certificate}{key}"));
    config.client_certificate = Some((both.clone(), both));
    let there = connected(config.clone()).await;
    result(&*there.link, 1, "ping", &json!({})).await;

    // One that somebody else vouches for is not let in either.
    let other = Authority::new().vouch("us");
    let foreign = (
        files.write("other.pem", &other.certificate.pem()),
        files.write("other.key", &other.key.serialize_pem()),
    );
    config.client_certificate = Some(foreign);
    let there = connected(config.clone()).await;
    ask(&*there.link, 1, "ping", &json!({}))
        .await
        .expect_err("it does not know who vouches");

    // A key that is none, or another's, is told before anything is sent, and is never shown.
    for (name, text) in [
        ("none.key", certificate.clone()),
        ("others.key", other.key.serialize_pem()),
    ] {
        config.client_certificate = Some((
            files.write("us.pem", &certificate),
            files.write(name, &text),
        ));
        let Err(ClientError::InvalidConfig { what }) =
            HttpConnector::new(config.clone()).map(|connector| connector.transport())
        else {
            panic!("{name} is refused")
        };
        assert!(!what.contains("PRIVATE"), "{what}");
    }
}
