//! Who is at the other end: what its verified certificate says, and nothing else.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use rustls_pki_types::CertificateDer;

use crate::{certs::peer_name, ids::CertName};

/// Tells connections apart, for as long as this program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// One that nobody else has.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    connection: ConnectionId,
    name: CertName,
    address: SocketAddr,
}

impl Peer {
    /// The name in its certificate.
    pub fn name(&self) -> &CertName {
        &self.name
    }

    /// The connection that it calls over.
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Where it was when the connection began.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The peer of a connection whose handshake is over; `None` if its certificate names nobody.
    pub(super) fn of(connection: &quinn::Connection) -> Option<Self> {
        let chain = connection
            .peer_identity()?
            .downcast::<Vec<CertificateDer<'static>>>()
            .ok()?;
        let name = peer_name(chain.first()?)?;
        Some(Self {
            connection: ConnectionId::unique(),
            name,
            address: connection.remote_address(),
        })
    }
}
