//! TLS: version 1.3 only, a certificate from both sides, no resumption and no early data.

use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::Resumption,
    crypto::ring::default_provider,
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    version::TLS13,
};
use rustls_pki_types::PrivateKeyDer;

use super::{
    admission::Trust,
    error::BindError,
    transport::{self, ALPN, Pace, Side},
};
use crate::certs::Identity;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Handshakes that wait to be looked at.
const MAX_INCOMING: usize = 256;

/// Data that is kept for one of them, and for all.
const INCOMING_BYTES: u64 = 16 * 1024;
const ALL_INCOMING_BYTES: u64 = 2 * 1024 * 1024;

/// How an endpoint lets itself be called.
pub(super) fn server(identity: &Identity, pace: Pace) -> Result<quinn::ServerConfig, BindError> {
    let crypto = server_crypto(identity).map_err(|source| unusable(identity, source))?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport::config(pace, Side::Callee));
    config.max_incoming(MAX_INCOMING);
    config.incoming_buffer_size(INCOMING_BYTES);
    config.incoming_buffer_size_total(ALL_INCOMING_BYTES);
    Ok(config)
}

/// How an endpoint calls.
pub(super) fn client(identity: &Identity, pace: Pace) -> Result<quinn::ClientConfig, BindError> {
    let crypto = client_crypto(identity).map_err(|source| unusable(identity, source))?;
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport::config(pace, Side::Caller));
    Ok(config)
}

/// Authorities of which an endpoint accepts peers.
pub(super) fn trust(identity: &Identity) -> Result<Trust, BindError> {
    trusted(identity).map_err(|source| unusable(identity, source))
}

fn trusted(identity: &Identity) -> Result<Trust, Failure> {
    let roots = Arc::new(roots(identity)?);
    let provider = Arc::new(default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider);
    Ok(Trust {
        clients: clients.build()?,
        roots,
    })
}

fn server_crypto(identity: &Identity) -> Result<QuicServerConfig, Failure> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(trusted(identity)?.clients)
        .with_single_cert(identity.chain().to_vec(), key(identity))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config.try_into()?)
}

fn client_crypto(identity: &Identity) -> Result<QuicClientConfig, Failure> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots(identity)?)
        .with_client_auth_cert(identity.chain().to_vec(), key(identity))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    Ok(config.try_into()?)
}

fn roots(identity: &Identity) -> Result<RootCertStore, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for anchor in identity.anchors() {
        roots.add(anchor.clone())?;
    }
    Ok(roots)
}

fn key(identity: &Identity) -> PrivateKeyDer<'static> {
    PrivateKeyDer::Pkcs8(identity.key().clone_key())
}

fn unusable(identity: &Identity, source: Failure) -> BindError {
    BindError::Identity {
        name: identity.name().clone(),
        source,
    }
}
