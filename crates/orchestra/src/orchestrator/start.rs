//! How a plugin is started, and how an orchestrator elsewhere is reached: what their configuration
//! refers to is looked up at each start anew.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use orchestra_gateway::{
    config::{PluginConfig, ServerConfig, Transport},
    connect::Connectors,
};
use orchestra_hub::BoxFuture;
use orchestra_mcp::client::{ClientError, Connected, Connector, TransportType};
use orchestra_plugin::ids::PluginId;
use orchestra_plugin_host::link::{
    CallerSession, LEEWAY, OrchestratorConnector, OrchestratorSpec, PluginConnector, PluginSpec,
};
use tokio::time::{Instant, timeout_at};

use super::{
    Inner, Orchestrator,
    handing::{self, certificates},
    known::Before,
    listening::OURS,
};

/// How long a plugin waits for those that come before it, until it tries again later.
const WAIT: Duration = Duration::from_secs(10);

/// From where plugins and orchestrators are reached.
#[derive(Clone)]
pub(super) struct From {
    /// Whom plugins call back, if anybody.
    pub(super) here: Option<Weak<Inner>>,
    /// The directory of certificates.
    pub(super) certs: Result<PathBuf, String>,
}

/// Starts a plugin.
pub(super) struct Start {
    pub(super) from: From,
    pub(super) connectors: Connectors,
    pub(super) config: Arc<ServerConfig>,
}

impl Connector for Start {
    fn transport(&self) -> TransportType {
        TransportType::Quic
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let (from, config) = (self.from.clone(), Arc::clone(&self.config));
        let connectors = self.connectors.clone();
        Box::pin(async move { start(&from, &connectors, &config).await })
    }

    /// It waits for others first, and says more than that the time is over.
    fn leeway(&self) -> Duration {
        WAIT + LEEWAY
    }
}

async fn start(
    from: &From,
    connectors: &Connectors,
    config: &Arc<ServerConfig>,
) -> Result<Connected, ClientError> {
    let Transport::Plugin(plugin) = &config.transport else {
        return Err(invalid("the server is not a plugin"));
    };
    let id: PluginId = plugin.id.as_str().parse().map_err(invalid)?;
    let here = match &from.here {
        Some(here) => Some(Orchestrator(here.upgrade().ok_or(ClientError::Closed)?)),
        None => None,
    };
    if let Some(here) = &here {
        here.after_others(&id).await?;
    }
    let mut spec = {
        let (id, plugin) = (id.clone(), plugin.clone());
        let (connectors, config) = (connectors.clone(), Arc::clone(config));
        // Reads the files that its approval covers.
        let spec = move || spec(&id, &plugin, &connectors, &config);
        let spec = tokio::task::spawn_blocking(spec).await;
        spec.map_err(invalid)??
    };
    spec.orchestrator = match &here {
        Some(here) => {
            let unreachable = |error: anyhow::Error| ClientError::Unreachable {
                what: format!("plugins cannot call back: {error:#}"),
            };
            let address = here.callback(plugin).await.map_err(unreachable)?;
            Some(address.to_string())
        }
        None => None,
    };
    let certs = from.certs.clone().map_err(invalid)?;
    let is_legacy = plugin.is_legacy;
    let (named, given) = (id.clone(), certs.clone());
    let made = tokio::task::spawn_blocking(move || certificates(&certs, &named, is_legacy));
    let made = made.await.map_err(anyhow::Error::from);
    // Whatever is wrong with them is put right where they are, so it is tried again.
    let unmade = |error: anyhow::Error| ClientError::Unreachable {
        what: format!("certificates cannot be handed out: {error:#}"),
    };
    let made = made.and_then(|made| Ok(made?)).map_err(unmade)?;
    (spec.certs, spec.plugin_certs) = made;
    let connector = PluginConnector::new(spec);
    let connected = match here {
        Some(here) => {
            here.keep_handed_out();
            connector.with_links(here.0.links.clone()).connect().await
        }
        None => connector.connect().await,
    };
    if is_legacy {
        return connected;
    }
    let named = id.clone();
    let looked = tokio::task::spawn_blocking(move || handing::made_authority(&given, &named)).await;
    hinted(&id, connected, looked.unwrap_or_default())
}

/// What plugins for orchestrators of the past need.
const LEGACY: &str = "it seems to be written for an orchestrator whose plugins sign their certificates \
    themselves; `certs = \"legacy\"` in its configuration permits this";

/// The outcome of a start, with what to do where a plugin makes an authority of its own, or misses the
/// key of ours.
fn hinted(
    id: &PluginId,
    connected: Result<Connected, ClientError>,
    made_authority: bool,
) -> Result<Connected, ClientError> {
    match connected {
        Ok(connected) => {
            if made_authority {
                tracing::warn!("plugin \"{id}\" cannot call back: {LEGACY}");
            }
            Ok(connected)
        }
        Err(error) if made_authority => {
            let why = error.explain();
            Err(invalid(format!("plugin \"{id}\": {LEGACY}. {why}")))
        }
        // The key may be missing for another reason.
        Err(error) if error.explain().contains("ca.key") => {
            let why = error.explain();
            Err(ClientError::Unreachable {
                what: format!("plugin \"{id}\": {LEGACY}. {why}"),
            })
        }
        Err(error) => Err(error),
    }
}

fn spec(
    id: &PluginId,
    plugin: &PluginConfig,
    connectors: &Connectors,
    config: &ServerConfig,
) -> Result<PluginSpec, ClientError> {
    let mut spec = PluginSpec::new(id.clone(), "", PathBuf::new());
    spec.process = connectors.child(config)?;
    spec.config = connectors.boot(config)?;
    spec.provider = plugin.provides_ai.first().cloned().unwrap_or_default();
    spec.start_timeout = config.start_timeout;
    spec.grace_shutdown = plugin.shutdown;
    Ok(spec)
}

impl Orchestrator {
    /// Waits until those run that a plugin depends on, for a time in all.
    async fn after_others(&self, id: &PluginId) -> Result<(), ClientError> {
        let until = Instant::now() + WAIT;
        for before in self.0.plugins.before(id) {
            let needed = match before {
                Before::Running(needed) => needed,
                Before::Never(needed, why) => {
                    return Err(ClientError::Unreachable {
                        what: format!("plugin \"{id}\" depends on \"{needed}\", {why}"),
                    });
                }
            };
            let started = self.0.links.until_connected(&needed);
            if timeout_at(until, started).await.is_err() {
                return Err(ClientError::Unreachable {
                    what: format!("plugin \"{id}\" waits for \"{needed}\", which has not started"),
                });
            }
        }
        Ok(())
    }

    /// Hands out certificates to plugins as long as this program runs, from now on.
    fn keep_handed_out(&self) {
        let Ok(certs) = self.0.certs.clone() else {
            return;
        };
        let mut handing = self.handing();
        if handing.is_empty() {
            let (links, plugins) = (self.0.links.clone(), self.0.plugins.clone());
            handing.spawn(handing::keep(certs, links, plugins));
        }
    }

    /// Where a plugin of this program calls back: an address of IPv4 that it can verify.
    async fn callback(&self, plugin: &PluginConfig) -> anyhow::Result<SocketAddr> {
        if plugin.is_legacy {
            return self.listen_for_legacy().await;
        }
        match self.0.ours.get() {
            Some(SocketAddr::V4(address))
                if address.ip().is_loopback() || address.ip().is_unspecified() =>
            {
                Ok((Ipv4Addr::LOCALHOST, address.port()).into())
            }
            _ => self.listen_for_plugins().await,
        }
    }
}

/// Reaches an orchestrator elsewhere.
pub(super) struct Elsewhere {
    pub(super) from: From,
    pub(super) session: CallerSession,
    pub(super) connectors: Connectors,
    pub(super) config: Arc<ServerConfig>,
}

impl Connector for Elsewhere {
    fn transport(&self) -> TransportType {
        OrchestratorConnector::TRANSPORT
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        match self.connector() {
            Ok(connector) => connector.connect(),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl Elsewhere {
    fn connector(&self) -> Result<OrchestratorConnector, ClientError> {
        let there = self.connectors.orchestrator(&self.config)?;
        let host = match there.host.contains(':') {
            true => format!("[{}]", there.host),
            false => there.host,
        };
        let here = self.from.here.as_ref().and_then(Weak::upgrade);
        let spec = OrchestratorSpec {
            address: format!("{host}:{}", there.port),
            certs: match there.certs_dir {
                Some(certs) => certs,
                None => self.from.certs.clone().map_err(invalid)?,
            },
            expected: Some(OURS.parse().map_err(invalid)?),
            from: here.map(|here| here.face.reached().clone()),
        };
        Ok(OrchestratorConnector::in_session(
            spec,
            self.session.clone(),
        ))
    }
}

fn invalid(error: impl std::fmt::Display) -> ClientError {
    ClientError::InvalidConfig {
        what: error.to_string(),
    }
}
