//! Where peers come in over QUIC, with certificates that are renewed while they are used.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::Context as _;
use orchestra_plugin::{
    certs::{CertDir, CertError, Identity, Looks},
    quic::{BindError, Endpoint, Handler, Limits, Pace, Serving, Shared},
};
use orchestra_plugin_host::face::{Face, bridges};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::{admitted::Admitted, known::Plugins};

/// Where plugins of this program call back when nothing else is said.
pub(super) const LOOPBACK: SocketAddr = Endpoint::LOOPBACK;

/// The name of an orchestrator in its certificate.
pub(super) const OURS: &str = "orchestrator";

/// How many ports after one that is taken are tried.
const PORTS_TRIED: u16 = 100;

/// How often certificates are looked at, because they may be due for renewal. That somebody else has
/// changed the authority is noticed sooner.
pub(super) const LOOKS: Duration = Duration::from_secs(60);

/// How much longer than until the deadline peers may take to hear that their connection ends.
const GOODBYE: Duration = Duration::from_millis(200);

/// Bridges share one name, and there may be as many as there are clients. A plugin is one program.
fn limits() -> Limits {
    let shared = bridges().map(|name| Shared {
        name,
        connections: 256,
        calls: 2_048,
    });
    Limits {
        shared: shared.collect(),
        ..Limits::default()
    }
}

/// An address that is listened on.
pub(super) struct Listening {
    address: SocketAddr,
    endpoint: Endpoint,
    serving: Serving,
    renewing: JoinHandle<()>,
}

impl Listening {
    /// Listens at an address, or the next port that is free.
    pub(super) async fn open(
        face: &Face,
        certs: &Path,
        address: SocketAddr,
    ) -> anyhow::Result<Self> {
        Self::with(Arc::new(face.clone()), limits(), certs, address, LOOKS).await
    }

    /// Listens for plugins that were written for orchestrators of the past.
    pub(super) async fn open_for_legacy(
        face: &Face,
        certs: &Path,
        plugins: Plugins,
    ) -> anyhow::Result<Self> {
        let admitted = Admitted {
            face: face.clone(),
            plugins,
        };
        let limits = Limits::default();
        Self::with(Arc::new(admitted), limits, certs, LOOPBACK, LOOKS).await
    }

    async fn with(
        handler: Arc<dyn Handler>,
        limits: Limits,
        certs: &Path,
        address: SocketAddr,
        looks: Duration,
    ) -> anyhow::Result<Self> {
        let directory = certs.to_owned();
        let found = tokio::task::spawn_blocking(move || identity(&directory)).await?;
        let identity = found.with_context(|| format!("certificates in {}", certs.display()))?;
        let endpoint = bind(address, &identity)?;
        let address = endpoint.address()?;
        let serving = endpoint.serve(handler, limits);
        let renewing = renew(endpoint.clone(), certs.to_owned(), identity, looks);
        let renewing = tokio::spawn(renewing);
        Ok(Self {
            address,
            endpoint,
            serving,
            renewing,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Finishes what runs until a moment, and closes every connection, which peers that do not answer
    /// may not hold up.
    pub(super) async fn close(self, deadline: Instant) {
        self.renewing.abort();
        self.serving.stop(deadline).await;
        let _ = timeout_at(deadline + GOODBYE, self.endpoint.close()).await;
    }
}

/// Where plugins have their authority that want to share one: whoever can read its key can be any of
/// them, and nobody else.
pub(crate) fn legacy(certs: &Path) -> PathBuf {
    certs.join("legacy")
}

/// The identity of an orchestrator, whose authority is founded where there is none.
fn identity(certs: &Path) -> Result<Identity, CertError> {
    let now = SystemTime::now();
    let directory = CertDir::open(certs)?;
    directory.ensure_ca(now)?;
    let name = OURS.parse().map_err(|_| CertError::NoHome)?;
    directory.identity(&name, now)
}

/// Binds an address, or the next port that is free.
fn bind(address: SocketAddr, identity: &Identity) -> anyhow::Result<Endpoint> {
    let mut candidate = address;
    for _ in 0..PORTS_TRIED {
        match Endpoint::bind(candidate, identity, Pace::default()) {
            Err(BindError::Socket { source, .. })
                if source.kind() == std::io::ErrorKind::AddrInUse => {}
            bound => return Ok(bound?),
        }
        match candidate.port().checked_add(1) {
            Some(port) if candidate.port() != 0 => candidate.set_port(port),
            _ => break,
        }
    }
    anyhow::bail!("{address} and the ports after it are in use; choose another port with --quic")
}

/// Shows and trusts what the directory of certificates holds, as it changes.
async fn renew(endpoint: Endpoint, certs: PathBuf, mut shown: Identity, every: Duration) {
    let mut looks = Looks::new(&certs, std::slice::from_ref(shown.name()), every);
    loop {
        looks.next().await;
        let directory = certs.clone();
        let found = tokio::task::spawn_blocking(move || identity(&directory)).await;
        match found {
            Ok(Ok(found)) if found.is_same_as(&shown) => {}
            Ok(Ok(found)) => match endpoint.renew(&found) {
                Ok(()) => shown = found,
                Err(error) => tracing::warn!(%error, "cannot use the renewed certificates"),
            },
            Ok(Err(error)) => tracing::warn!(%error, "cannot renew the certificates"),
            // The program ends.
            Err(error) if error.is_cancelled() => return,
            Err(error) => tracing::warn!(%error, "cannot renew the certificates"),
        }
    }
}

#[cfg(test)]
mod tests;
