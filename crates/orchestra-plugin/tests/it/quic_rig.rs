//! What the tests of the QUIC layer share: authorities, a handler that does as it is told.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orchestra_plugin::{
    certs::{CertDir, Identity},
    quic::{Caller, CallerOptions, Endpoint, Handler, Limits, Pace, Peer, Reply, Serving, Target},
};
use tempfile::TempDir;
use tokio::{sync::mpsc, time::Instant};

/// No wait of a test is longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// Whether there is time for everything.
pub(crate) fn is_soak() -> bool {
    std::env::var_os("ORCHESTRA_SOAK").is_some()
}

/// An authority of its own.
pub(crate) struct Authority {
    _home: TempDir,
    pub(crate) dir: CertDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let home = TempDir::new().unwrap();
        let dir = CertDir::open(home.path().join("certs")).unwrap();
        dir.ensure_ca(SystemTime::now()).unwrap();
        Self { _home: home, dir }
    }

    pub(crate) fn identity(&self, name: &str) -> Identity {
        self.dir
            .identity(&name.parse().unwrap(), SystemTime::now())
            .unwrap()
    }
}

/// Does what the first byte of a request says, and tells what happened.
pub(crate) struct Told {
    pub(crate) events: mpsc::UnboundedSender<String>,
}

impl Handler for Told {
    fn handle<'a>(&'a self, peer: &'a Peer, request: Bytes, mut reply: Reply) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let tell = |event: &str| drop(self.events.send(event.to_owned()));
            match request.first() {
                Some(b'w') => {
                    tell("waiting");
                    reply.cancelled().cancelled().await;
                    tell("cancelled");
                }
                Some(b'h') => reply
                    .answer(Bytes::from(peer.name().to_string()))
                    .await
                    .unwrap(),
                Some(b'p') => panic!("told to"),
                Some(b'd') => tell("dropped"),
                Some(b's') => {
                    let mut sent = 0_u32;
                    while reply.send(Bytes::from(vec![7; 256 * 1024])).await.is_ok() {
                        sent += 1;
                        tell(&format!("sent {sent}"));
                    }
                    tell("stopped");
                }
                Some(b'c') => {
                    for number in 0..request[1] {
                        reply.send(Bytes::from(vec![number])).await.unwrap();
                    }
                    reply.finish().unwrap();
                }
                Some(b'2') => {
                    let mut requests = reply.requests().unwrap();
                    while let Ok(Some(next)) = requests.next().await {
                        reply.send(next).await.unwrap();
                    }
                    reply.answer(Bytes::from_static(b"end")).await.unwrap();
                }
                _ => reply.answer(request).await.unwrap(),
            }
        })
    }

    fn duplex(&self, _: &Peer, request: &Bytes) -> bool {
        request.first() == Some(&b'2')
    }
}

/// A server and what its handler tells.
pub(crate) struct Rig {
    pub(crate) authority: Authority,
    pub(crate) listening: Endpoint,
    pub(crate) serving: Serving,
    pub(crate) address: SocketAddr,
    pub(crate) events: mpsc::UnboundedReceiver<String>,
    pace: Pace,
}

impl Rig {
    pub(crate) fn new(limits: Limits) -> Self {
        Self::paced(limits, Pace::default())
    }

    /// A server and endpoints with the given idle timeout.
    pub(crate) fn paced(limits: Limits, pace: Pace) -> Self {
        let authority = Authority::new();
        let identity = authority.identity("server");
        let endpoint = Endpoint::bind(Endpoint::LOOPBACK, &identity, pace).unwrap();
        let (sender, events) = mpsc::unbounded_channel();
        let serving = endpoint.serve(Arc::new(Told { events: sender }), limits);
        let address = endpoint.address().unwrap();
        Self {
            authority,
            listening: endpoint,
            serving,
            address,
            events,
            pace,
        }
    }

    pub(crate) fn target(&self) -> Target {
        Target::named(self.address, "server".parse().unwrap())
    }

    pub(crate) fn endpoint(&self, name: &str) -> Endpoint {
        let identity = self.authority.identity(name);
        Endpoint::outgoing(self.address, &identity, self.pace).unwrap()
    }

    pub(crate) fn caller(&self, name: &str) -> Caller {
        Caller::start(self.endpoint(name), self.target(), CallerOptions::default())
    }

    /// Waits for what the handler tells.
    pub(crate) async fn hear(&mut self, wanted: &str) {
        let heard = async {
            while let Some(event) = self.events.recv().await {
                if event == wanted {
                    return;
                }
            }
            panic!("the handler is gone");
        };
        tokio::time::timeout(PATIENCE, heard)
            .await
            .unwrap_or_else(|_| panic!("never: {wanted}"));
    }
}
