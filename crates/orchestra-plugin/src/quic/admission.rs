//! Admission of peers while they are connected: a connection ends once its peer's certificate is no longer trusted.
//!
//! A handshake verifies the certificate of a peer once. Authorities can be removed afterwards, so every open connection
//! is verified again when its endpoint trusts other authorities than before.

use std::{future::pending, sync::Arc, time::SystemTime};

use quinn::Connection;
use rustls::{
    RootCertStore,
    client::verify_server_cert_signed_by_trust_anchor,
    crypto::ring::default_provider,
    server::{ParsedCertificate, danger::ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;

/// Authorities that an endpoint trusts at present.
#[derive(Debug, Clone)]
pub(super) struct Trust {
    pub(super) roots: Arc<RootCertStore>,
    pub(super) clients: Arc<dyn ClientCertVerifier>,
}

/// Part of a peer in a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// The present trust of an endpoint, to which its open connections are held. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Admission(Arc<watch::Sender<Trust>>);

impl Admission {
    pub(super) fn new(trust: Trust) -> Self {
        Self(Arc::new(watch::Sender::new(trust)))
    }

    /// Replaces the trust, also for the connections that are open.
    pub(super) fn renew(&self, trust: Trust) {
        self.0.send_replace(trust);
    }

    /// Completes when the certificate of a peer is not trusted, now or later. May be cancelled.
    pub(super) async fn withdrawn(&self, connection: &Connection, role: Role) {
        let mut trust = self.0.subscribe();
        loop {
            let present = trust.borrow_and_update().clone();
            if !present.covers(connection, role) {
                return;
            }
            if trust.changed().await.is_err() {
                // The sender is held by this admission.
                return pending().await;
            }
        }
    }
}

impl Trust {
    /// Returns whether the certificate that a peer showed in its handshake is trusted.
    fn covers(&self, connection: &Connection, role: Role) -> bool {
        let chain = connection.peer_identity();
        let chain = chain.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
        let Some((leaf, between)) = chain.as_deref().and_then(|chain| chain.split_first()) else {
            return false;
        };
        let Ok(since) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) else {
            return false;
        };
        let now = UnixTime::since_unix_epoch(since);
        match role {
            Role::Client => self.clients.verify_client_cert(leaf, between, now).is_ok(),
            Role::Server => {
                let Ok(leaf) = ParsedCertificate::try_from(leaf) else {
                    return false;
                };
                let algorithms = default_provider().signature_verification_algorithms.all;
                let verified = verify_server_cert_signed_by_trust_anchor(
                    &leaf,
                    &self.roots,
                    between,
                    now,
                    algorithms,
                );
                verified.is_ok()
            }
        }
    }
}
