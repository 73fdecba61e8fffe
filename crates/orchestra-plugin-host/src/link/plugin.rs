//! Plugins: their processes are started, reached, registered and booted.

use std::{
    collections::BTreeMap, fmt::Write as _, path::PathBuf, sync::Arc, time::Duration,
    time::SystemTime,
};

use orchestra_hub::BoxFuture;
use orchestra_mcp::client::{ChildConfig, ClientError, Connected, Connector, TransportType};
use orchestra_plugin::{
    certs::{CertDir, CertError, Identity},
    envelope::{PayloadOf, Response, ResponseKind},
    generated::{BootRequest, BootResult, PluginManifest, RegistrationResult, ToolResponse},
    ids::PluginId,
    quic::{BindError, Endpoint, Pace, Target},
};
use orchestra_process::Sandbox;
use tokio::time::timeout;

use super::{line::Line, links::Links, process::Process, remote::PluginLink, remote::Speech};
use crate::translate::{Offers, Peer, Question, REVISION, Terms, chain};

/// What we understand beyond the first version of the protocol, as plugins are told.
const FEATURES: [&str; 3] = ["mcp_params", "mcp_result", "mcp_message"];

/// How much longer a start may take than its time: until the process runs, and until it is known how
/// one ended that did not get ready.
pub const LEEWAY: Duration = Duration::from_secs(5);

/// How long a plugin that is ready is waited for to register its version.
const VERSION_TIME: Duration = Duration::from_millis(200);

/// How a plugin is started, reached and bounded.
#[derive(Debug, Clone)]
pub struct PluginSpec {
    /// Its id, which its certificate names.
    pub id: PluginId,
    /// Its process: program, arguments, environment, limits, log. The flags that every plugin takes
    /// are added to the arguments.
    pub process: ChildConfig,
    /// What it is given to boot with.
    pub config: BTreeMap<String, String>,
    /// The directory of certificates: ours, where plugins have no directory of their own.
    pub certs: PathBuf,
    /// The directory of certificates that the plugin is told of, where it is another.
    pub plugin_certs: Option<PathBuf>,
    /// Where the plugin reaches the orchestrator, `host:port`; without it, it calls nobody.
    pub orchestrator: Option<String>,
    /// The AI provider whose tools it has; empty for ordinary tools.
    pub provider: String,
    /// Who calls, as it is told.
    pub caller: String,
    /// How long it may take to listen, and to answer that it is registered and booted.
    pub start_timeout: Duration,
    /// How long it may take to finish its work when it is to end. Then comes SIGTERM.
    pub grace_shutdown: Duration,
}

impl PluginSpec {
    /// A plugin by its id, its program and the directory of certificates, everything else as usual:
    /// 10 s to start, 3 s to finish its work, and 3 s more after SIGTERM.
    #[must_use]
    pub fn new(id: PluginId, binary: impl Into<std::ffi::OsString>, certs: PathBuf) -> Self {
        let process = ChildConfig::new(id.as_str(), binary);
        Self {
            id,
            process,
            config: BTreeMap::new(),
            certs,
            plugin_certs: None,
            orchestrator: None,
            provider: String::new(),
            caller: "orchestrator".to_owned(),
            start_timeout: Duration::from_secs(10),
            grace_shutdown: Duration::from_secs(3),
        }
    }

    /// How it is started: with the flags that every plugin takes after its own arguments.
    fn child(&self) -> ChildConfig {
        let mut child = self.process.clone();
        let config = self.config.clone().into_iter();
        child.secrets = child.secrets.environment(config);
        let certs = self.plugin_certs.as_ref().unwrap_or(&self.certs);
        if let Some(orchestrator) = &self.orchestrator {
            child
                .args
                .push(format!("--orchestrator-addr={orchestrator}").into());
        }
        child.args.push("--listen-addr=localhost:0".into());
        let mut flag = std::ffi::OsString::from("--certs-dir=");
        flag.push(certs);
        child.args.push(flag);
        if let Sandbox::Workspace { read_only, .. } = &mut child.sandbox {
            // The sandbox follows no links.
            read_only.push(certs.canonicalize().unwrap_or_else(|_| certs.clone()));
        }
        child
    }

    /// The identity by which we call it. What it needs itself is made beside it where that can be.
    fn identity(&self) -> Result<Identity, CertError> {
        let now = SystemTime::now();
        let certs = CertDir::open(&self.certs)?;
        certs.ensure_ca(now)?;
        if self.plugin_certs.is_none() {
            for name in [self.id.server_name(), self.id.client_name()] {
                if let Err(error) = certs.identity(&name, now) {
                    tracing::debug!(%name, error = chain(&error), "cannot issue a certificate");
                }
            }
        }
        certs.identity(&self.id.orchestrator_name(), now)
    }
}

/// Starts a plugin, anew for each connection. It ends with its connection, and with us.
pub struct PluginConnector {
    spec: Arc<PluginSpec>,
    session: String,
    links: Links,
}

impl PluginConnector {
    /// Starts nothing yet.
    #[must_use]
    pub fn new(spec: PluginSpec) -> Self {
        Self {
            spec: Arc::new(spec),
            session: random_id(),
            links: Links::new(),
        }
    }

    /// The same, whose plugin is among `links` while it is connected.
    #[must_use]
    pub fn with_links(mut self, links: Links) -> Self {
        self.links = links;
        self
    }
}

impl Connector for PluginConnector {
    fn transport(&self) -> TransportType {
        TransportType::Stdio
    }

    fn leeway(&self) -> Duration {
        LEEWAY
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let (spec, session) = (Arc::clone(&self.spec), self.session.clone());
        let links = self.links.clone();
        Box::pin(async move { start(&spec, session, &links).await })
    }
}

async fn start(
    spec: &Arc<PluginSpec>,
    session: String,
    links: &Links,
) -> Result<Connected, ClientError> {
    // Until it is among them, or has failed.
    let _starting = links.starting(&spec.id);
    let asked = Arc::clone(spec);
    let identity = blocking(move || asked.identity()).await?;
    let process = Process::start(spec.child(), spec.grace_shutdown).await?;
    match timeout(spec.start_timeout, reach(spec, &identity, &process)).await {
        Ok(Ok((line, incoming, registered))) => {
            tracing::info!("plugin \"{}\" registered and booted", spec.id);
            if spec.orchestrator.is_some() {
                // It registers with us at the same time, and may never do so.
                let _ = timeout(VERSION_TIME, links.until_version(&spec.id)).await;
            }
            let terms = Terms {
                peer: Peer::Plugin(spec.id.to_string()),
                revision: registered.revision,
                version: links.version(&spec.id),
                offers: Offers::of(registered.revision, &registered.features),
                caller: spec.caller.clone(),
                session,
                provider: spec.provider.clone(),
            };
            let listed = links.put(&spec.id, &line);
            let process = Some(Arc::new(process));
            let link = PluginLink::over(
                line,
                Speech::Foreign(terms),
                process,
                Some(Box::new(listed)),
            );
            Ok(Connected {
                link: Arc::new(link),
                incoming,
            })
        }
        // One that has ended says more by that.
        Ok(Err(error @ ClientError::Crashed(_))) => Err(error),
        Ok(Err(error)) => match timeout(Duration::from_millis(200), process.gone()).await {
            Ok(()) => Err(process.reason().await),
            Err(_) => Err(error),
        },
        Err(_) => Err(ClientError::SlowStart {
            after: spec.start_timeout,
            stderr_tail: process.said(),
        }),
    }
}

type Reached = (
    Arc<Line>,
    tokio::sync::mpsc::Receiver<orchestra_mcp::client::Incoming>,
    RegistrationResult,
);

/// Waits until a plugin listens, and makes it ready to serve.
async fn reach(
    spec: &PluginSpec,
    identity: &Identity,
    process: &Process,
) -> Result<Reached, ClientError> {
    let address = process.ready().await?;
    let endpoint = Endpoint::outgoing(address, identity, Pace::default()).map_err(unbound)?;
    let target = Target::named(address, spec.id.server_name());
    let who = format!("plugin \"{}\"", spec.id);
    let (line, incoming) = Line::connect(who, endpoint, target, &spec.certs).await?;
    let manifest = PluginManifest {
        id: spec.id.to_string(),
        revision: REVISION,
        features: FEATURES.map(str::to_owned).to_vec(),
        ..PluginManifest::default()
    };
    let registered: RegistrationResult =
        expected(line.ask(&Question::new(&manifest), None).await?, "register")?;
    if !registered.accepted {
        return Err(refused(
            "refused to be registered",
            &registered.reject_reason,
        ));
    }
    let boot = BootRequest {
        config: spec.config.clone(),
    };
    let booted: BootResult = expected(line.ask(&Question::new(&boot), None).await?, "boot")?;
    if !booted.ready {
        return Err(refused("did not boot", &booted.error));
    }
    Ok((line, incoming, registered))
}

fn refused(what: &str, why: &str) -> ClientError {
    let why = match why {
        "" => "it gave no reason".into(),
        why => orchestra_wire::shown(why),
    };
    ClientError::Handshake {
        what: format!("the plugin {what}: {why}"),
    }
}

/// The message that was asked for, or why it is another.
fn expected<M: PayloadOf<ResponseKind>>(
    response: Response,
    operation: &str,
) -> Result<M, ClientError> {
    if let Ok(refusal) = response.message::<ToolResponse>() {
        return Err(refused(
            &format!("refused to {operation}"),
            &refusal.error_message,
        ));
    }
    response.message().map_err(|error| {
        refused(
            &format!("gave a wrong answer to {operation}"),
            &chain(&error),
        )
    })
}

/// Reads certificates, which waits for the disk. What is wrong with them is put right where they are,
/// so it is tried again.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CertError> + Send + 'static,
) -> Result<T, ClientError> {
    let unreachable = |what: String| ClientError::Unreachable { what };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| unreachable(chain(&error))),
        Err(error) => Err(unreachable(error.to_string())),
    }
}

pub(super) fn unbound(error: BindError) -> ClientError {
    ClientError::Unreachable {
        what: chain(&error),
    }
}

/// A name that nobody else has: a UUID of version 4.
pub(crate) fn random_id() -> String {
    let mut bytes = [0_u8; 16];
    // Without randomness names are not unique, which those that tell them apart then notice.
    let _ = getrandom::fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
