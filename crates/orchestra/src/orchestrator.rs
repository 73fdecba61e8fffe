//! The orchestrator of this program: reaches plugins and orchestrators elsewhere, and lets in who
//! comes over QUIC.
//!
//! It listens when `up` says where, and else as soon as the first plugin is started, at a port that
//! the system chooses: plugins call back there.

mod admitted;
mod documents;
mod handing;
mod host;
mod known;
mod listening;
mod start;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use orchestra_gateway::{
    Gateway,
    config::{ServerConfig, ServerName, Transport},
    connect::{Connectors, Quic},
    discovery::Found,
};
use orchestra_mcp::{Server, client::Connector};
use orchestra_plugin_host::{
    events::{EventLimits, Events},
    face::{Face, FaceOptions},
    link::{CallerSession, Links},
};
use orchestra_store::Store;
use tokio::{
    sync::OnceCell,
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{config::QuicConfig, servers};
use documents::{Documents, Servers};
use host::Admission;
use known::Plugins;
use listening::Listening;
pub(crate) use listening::legacy;
use start::{Elsewhere, From, Start};

/// How long a plugin that is not used any more may do what it was permitted, while it finishes its
/// work: as long as its calls and its end take unless its configuration gives it more.
const LEAVING: Duration = Duration::from_secs(30);

/// The orchestrator. Clones are the same.
#[derive(Clone)]
pub(crate) struct Orchestrator(Arc<Inner>);

struct Inner {
    /// The directory of certificates, or why nobody knows it.
    certs: Result<PathBuf, String>,
    /// The directory of what is kept between runs, or why nobody knows it.
    state: Result<PathBuf, String>,
    face: Face,
    links: Links,
    plugins: Plugins,
    servers: Servers,
    /// Where `up` listens.
    ours: OnceCell<SocketAddr>,
    /// Where plugins of this machine call back, when that is another address.
    own: OnceCell<SocketAddr>,
    /// Where plugins call back that share their authority among them.
    legacy: OnceCell<SocketAddr>,
    listening: Mutex<Vec<Listening>>,
    /// What hands out certificates to plugins that run; ends with us.
    handing: Mutex<JoinSet<()>>,
    /// What ends what plugins may do that are not used any more; ends with us.
    leaving: Mutex<JoinSet<()>>,
}

impl Orchestrator {
    /// Lets nobody in yet. The directory of certificates is made when it is needed. Documents of
    /// plugins are kept in `store`; without one, they are refused.
    pub(crate) fn new(server: &Server, store: Option<Store>, config: &QuicConfig) -> Self {
        let (links, plugins) = (Links::new(), Plugins::none());
        let host = Admission {
            hub: server.hub().clone(),
            plugins: plugins.clone(),
            links: links.clone(),
            admitted: config.admit.value.clone(),
        };
        let servers = Servers::default();
        let documents = Documents::new(store, plugins.clone(), servers.clone());
        let events = Events::new(Arc::new(links.clone()), EventLimits::default());
        let face = Face::new(
            server,
            Arc::new(host),
            Arc::new(documents),
            events,
            FaceOptions {
                claude_first: config.claude_first.value,
                ..FaceOptions::default()
            },
        );
        Self(Arc::new(Inner {
            certs: config.directory(),
            state: servers::state_directory()
                .map_err(|_| "set HOME or XDG_STATE_HOME, which determine its location".to_owned()),
            face,
            links,
            plugins,
            servers,
            ours: OnceCell::new(),
            own: OnceCell::new(),
            legacy: OnceCell::new(),
            listening: Mutex::default(),
            handing: Mutex::default(),
            leaving: Mutex::default(),
        }))
    }

    /// The directory of certificates.
    ///
    /// # Errors
    /// When nobody knows where it is.
    pub(crate) fn certs(&self) -> anyhow::Result<&Path> {
        let certs = self.0.certs.as_deref();
        certs.map_err(|why| anyhow::Error::msg(why.clone()))
    }

    /// Listens at an address, or the next port that is free, from now on. Says where.
    ///
    /// # Errors
    /// When there are no certificates and none can be made, or no port is free.
    pub(crate) async fn listen(&self, address: SocketAddr) -> anyhow::Result<SocketAddr> {
        let listen = async || {
            let listening = Listening::open(&self.0.face, self.certs()?, address).await?;
            Ok(self.keep(listening))
        };
        self.0.ours.get_or_try_init(listen).await.copied()
    }

    /// Where plugins call back that were written for orchestrators of the past.
    async fn listen_for_legacy(&self) -> anyhow::Result<SocketAddr> {
        let listen = async || {
            let (face, certs) = (&self.0.face, listening::legacy(self.certs()?));
            let plugins = self.0.plugins.clone();
            let listening = Listening::open_for_legacy(face, &certs, plugins).await?;
            Ok(self.keep(listening))
        };
        self.0.legacy.get_or_try_init(listen).await.copied()
    }

    /// Where plugins of this machine call back, when that is not where others come in.
    async fn listen_for_plugins(&self) -> anyhow::Result<SocketAddr> {
        let listen = async || {
            let (face, certs) = (&self.0.face, self.certs()?);
            let listening = Listening::open(face, certs, listening::LOOPBACK).await?;
            Ok(self.keep(listening))
        };
        self.0.own.get_or_try_init(listen).await.copied()
    }

    fn keep(&self, listening: Listening) -> SocketAddr {
        let address = listening.address();
        self.listening().push(listening);
        address
    }

    fn listening(&self) -> std::sync::MutexGuard<'_, Vec<Listening>> {
        let listening = self.0.listening.lock();
        listening.unwrap_or_else(PoisonError::into_inner)
    }

    fn handing(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        let handing = self.0.handing.lock();
        handing.unwrap_or_else(PoisonError::into_inner)
    }

    /// How plugins and orchestrators elsewhere are reached from here.
    pub(crate) fn quic(&self) -> Quic {
        let from = From {
            here: Some(Arc::downgrade(&self.0)),
            certs: self.0.certs.clone(),
        };
        Arc::new(move |connectors, config| Ok(connector(from.clone(), connectors, config)))
    }

    /// Asks plugins that keep documents for them through a gateway, while that is there.
    pub(crate) fn ask_through(&self, gateway: &Arc<Gateway>) {
        self.0.servers.are_of(gateway);
    }

    /// Takes what is configured now, of which `is_reached` is started.
    pub(crate) fn take(&self, found: &Found, is_reached: impl Fn(&ServerName) -> bool) {
        for plugin in self.0.plugins.take(found, &self.0.state, is_reached) {
            if self.0.plugins.permissions(&plugin).is_ok() {
                // From now on, also over connections that are open: it need not register again.
                self.0.face.review(&plugin);
                continue;
            }
            let (face, links) = (self.0.face.clone(), self.0.links.clone());
            let mut leaving = self.leaving();
            while leaving.try_join_next().is_some() {}
            leaving.spawn(async move {
                // It calls back for as long as it finishes its work.
                let _ = timeout(LEAVING, links.until_gone(&plugin)).await;
                face.review(&plugin);
            });
        }
    }

    fn leaving(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        let leaving = self.0.leaving.lock();
        leaving.unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets nobody in any more: what runs is finished, by a deadline.
    pub(crate) async fn close(&self, deadline: Instant) {
        self.0.face.stop();
        self.handing().abort_all();
        self.leaving().abort_all();
        let listening = std::mem::take(&mut *self.listening());
        // All at once: each may take the whole time.
        join_all(listening.into_iter().map(|one| one.close(deadline))).await;
    }
}

/// How plugins and orchestrators elsewhere are reached by who only looks at them: plugins have
/// nobody to call back.
pub(crate) fn quic(certs: Result<PathBuf, String>) -> Quic {
    let from = From { here: None, certs };
    Arc::new(move |connectors, config| Ok(connector(from.clone(), connectors, config)))
}

fn connector(from: From, connectors: &Connectors, config: &ServerConfig) -> Arc<dyn Connector> {
    let (connectors, config) = (connectors.clone(), Arc::new(config.clone()));
    match config.transport {
        Transport::Plugin(_) => Arc::new(Start {
            from,
            connectors,
            config,
        }),
        _ => Arc::new(Elsewhere {
            from,
            session: CallerSession::default(),
            connectors,
            config,
        }),
    }
}
