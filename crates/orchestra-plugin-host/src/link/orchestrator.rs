//! Orchestrators elsewhere: ours, which take MCP as it is, and others.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration, time::SystemTime};

use orchestra_hub::BoxFuture;
use orchestra_mcp::client::{ClientError, Connected, Connector, TransportType};
use orchestra_plugin::{
    certs::CertDir,
    generated::{HealthRequest, HealthResult},
    ids::CertName,
    quic::{Endpoint, Pace, Target},
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    line::Line,
    plugin::{blocking, random_id, unbound},
    remote::{Held, PluginLink, Speech},
};
use crate::{
    reached::Reached,
    translate::{Offers, Peer, Question, REVISION, Terms},
};

/// The name by which a bridge shows itself: that of its certificate.
pub const BRIDGE: &str = "transport.stdio-client";

/// How it names itself in calls.
const CALLER: &str = "transport.stdio";

/// The detail by which an orchestrator says which revision of MCP it takes as it is.
const MCP: &str = "mcp";

/// The detail by which one of ours tells itself from others.
const INSTANCE: &str = "instance";

/// The detail by which it tells which others it reaches.
const REACHES: &str = "reaches";

/// How long an orchestrator may take to say how it is.
const HEALTH_TIME: Duration = Duration::from_secs(10);

/// How long one is waited for that reaches for us as we reach for it, and is to give up; and how often
/// it is asked meanwhile.
const GIVING_UP: Duration = Duration::from_secs(2);
const LOOKS: Duration = Duration::from_millis(50);

/// Where an orchestrator is, and who we are there.
#[derive(Debug, Clone)]
pub struct OrchestratorSpec {
    /// `host:port`.
    pub address: String,
    /// The directory of certificates.
    pub certs: PathBuf,
    /// The name in the orchestrator's certificate; anyone of the authority where nothing is said.
    pub expected: Option<CertName>,
    /// What we reach ourselves, if we are an orchestrator: to reach one that reaches us would never
    /// end.
    pub from: Option<Reached>,
}

/// What an orchestrator knows a caller by, as whom it holds what it has taken, such as locks: the same
/// from one connection to the next. Clones are the same session.
#[derive(Debug, Clone)]
pub struct CallerSession(Arc<str>);

impl Default for CallerSession {
    /// A new one, which nobody else has.
    fn default() -> Self {
        Self(random_id().into())
    }
}

/// Reaches an orchestrator.
pub struct OrchestratorConnector {
    spec: Arc<OrchestratorSpec>,
    session: CallerSession,
}

impl OrchestratorConnector {
    /// It is somewhere on the network, and is reached again as servers there are.
    pub const TRANSPORT: TransportType = TransportType::Http;

    /// Reaches nobody yet, and will in a session of its own.
    #[must_use]
    pub fn new(spec: OrchestratorSpec) -> Self {
        Self::in_session(spec, CallerSession::default())
    }

    /// The same in a session that others may have begun.
    #[must_use]
    pub fn in_session(spec: OrchestratorSpec, session: CallerSession) -> Self {
        Self {
            spec: Arc::new(spec),
            session,
        }
    }
}

impl Connector for OrchestratorConnector {
    fn transport(&self) -> TransportType {
        Self::TRANSPORT
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let (spec, session) = (Arc::clone(&self.spec), self.session.0.to_string());
        Box::pin(async move { reach(&spec, session).await })
    }
}

async fn reach(spec: &Arc<OrchestratorSpec>, session: String) -> Result<Connected, ClientError> {
    let certs = spec.certs.clone();
    let identity = blocking(move || {
        let name: CertName = BRIDGE.parse().map_err(|error| {
            orchestra_plugin::certs::CertError::Make(format!("{BRIDGE}: {error}"))
        })?;
        CertDir::open(certs)?.identity(&name, SystemTime::now())
    })
    .await?;
    let address = resolve(&spec.address).await?;
    let endpoint = Endpoint::outgoing(address, &identity, Pace::default()).map_err(unbound)?;
    let target = match &spec.expected {
        Some(name) => Target::named(address, name.clone()),
        None => Target::anyone(address),
    };
    let (line, incoming) =
        Line::connect("orchestrator".to_owned(), endpoint, target, &spec.certs).await?;
    let health = ask(&line).await?;
    let is_ours = health.details.contains_key(MCP);
    let held = match &spec.from {
        Some(from) => Some(enter(from, &line, address, &health).await?),
        None => None,
    };
    let terms = Terms {
        peer: Peer::Orchestrator,
        revision: if is_ours { REVISION } else { 0 },
        version: None,
        offers: Offers::default(),
        caller: CALLER.to_owned(),
        session,
        provider: String::new(),
    };
    let speech = match is_ours {
        true => Speech::Own(terms),
        false => Speech::Foreign(terms),
    };
    tracing::debug!(%address, is_ours, "connected to an orchestrator");
    Ok(Connected {
        link: Arc::new(PluginLink::over(line, speech, None, held)),
        incoming,
    })
}

/// Asks an orchestrator how it is.
async fn ask(line: &Line) -> Result<HealthResult, ClientError> {
    let asked = Question::new(&HealthRequest { revision: REVISION });
    let health = timeout(HEALTH_TIME, line.ask(&asked, None)).await;
    let health = health.map_err(|_| ClientError::Timeout { after: HEALTH_TIME })??;
    // One that does not know the question is not one of ours.
    Ok(health.message().unwrap_or_default())
}

/// Notes that an orchestrator is reached, unless it reaches us. That may end at any time, so that it
/// is tried again.
///
/// Whoever stays has asked after it was noted, and was not reached then; so of two that reach for each
/// other, both never stay. That one of them does is for their names to say: the one with the greater
/// name gives up first.
async fn enter(
    from: &Reached,
    line: &Line,
    address: SocketAddr,
    health: &HealthResult,
) -> Result<Held, ClientError> {
    let (instance, reaches) = told(health);
    if instance == from.instance() {
        return Err(ClientError::InvalidConfig {
            what: format!("{address} is this program itself: name another orchestrator"),
        });
    }
    let circle = || ClientError::Unreachable {
        what: format!(
            "{address} reaches this program already: the tools of orchestrators that go in a \
             circle have no end; take one of them out of the other's configuration"
        ),
    };
    if from.is_among(instance, reaches) {
        return Err(circle());
    }
    let entered = from.enter(instance, reaches);
    let until = Instant::now() + GIVING_UP;
    loop {
        let now = ask(line).await?;
        let (other, reaches) = told(&now);
        if !from.is_among(other, reaches) {
            return Ok(Box::new(entered));
        }
        if from.instance() > other || Instant::now() >= until {
            return Err(circle());
        }
        sleep(LOOKS).await;
    }
}

/// Which orchestrator one is, and which others it reaches.
fn told(health: &HealthResult) -> (&str, &str) {
    let said = |detail: &str| health.details.get(detail).map_or("", String::as_str);
    (said(INSTANCE), said(REACHES))
}

/// The address of a host and port; of several, one that every orchestrator listens on.
async fn resolve(text: &str) -> Result<SocketAddr, ClientError> {
    let unreachable = |why: String| ClientError::Unreachable {
        what: format!("orchestrator dial failed: {text}: {why}"),
    };
    let found = tokio::net::lookup_host(text).await;
    let found: Vec<SocketAddr> = found
        .map_err(|error| unreachable(error.to_string()))?
        .collect();
    let first = found.iter().find(|address| address.is_ipv4());
    first
        .or(found.first())
        .copied()
        .ok_or_else(|| unreachable("no such address".to_owned()))
}
