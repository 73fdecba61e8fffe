//! `orchestra stdio --orchestrator-addr`: the face over stdin and stdout, of a hub with one server,
//! an orchestrator that is reached over QUIC.
//!
//! It opens no workspace and keeps nothing. What a client may ask without the orchestrator is
//! answered while that is away; how it is reached again, and how MCP is said to orchestrators of
//! others, is left to the client of servers and to `orchestra-plugin-host`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::Context as _;
use orchestra_gateway::{
    Gateway, GatewayOptions, Reach,
    config::{
        Backoff, Circuit, OrchestratorConfig, Origin, Place, Pool, Restart, ServerConfig,
        ServerName, Source, Template, Transport, host_and_port,
    },
    hints::Hints,
};
use orchestra_hub::{BoxFuture, Hub, HubConfig};
use orchestra_mcp::{
    LifecycleTimes, Limits, Server, ServerLifecycle,
    client::{ClientError, Connected, Connector, TransportType},
    stdio,
};
use orchestra_plugin::{certs::CertDir, ids::CertName};
use orchestra_plugin_host::link::{BRIDGE, OrchestratorConnector, OrchestratorSpec};

use crate::{
    cli::Common,
    config::{Config, Overrides, QuicFlags},
    exit::{Exit, Failure},
    logging, output, serving,
    stopping::{self, Signals},
};

/// The name that the certificate of an orchestrator has.
const ORCHESTRATOR: &str = "orchestrator";

/// How the orchestrator is called in the log.
const SERVER: &str = "orchestrator";

/// The first pause between attempts to reach it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Calls that go on at once at most; what a client may have is bounded before.
const AT_ONCE: u32 = 4_096;

/// How long what a client says first waits for the orchestrator, which says what the model is to know.
const HELLO: Duration = Duration::from_millis(250);

/// How long calls that go on may still take once nobody is there to hear of them.
const GRACE: Duration = Duration::from_millis(500);

/// How long leaving may take.
const ENDING: Duration = Duration::from_secs(2);

/// Serves until the end of input or a signal, whether the orchestrator is there or not.
///
/// # Errors
/// When there is no certificate to show and none can be made, or stdin and stdout cannot be used.
pub(super) fn run(common: &Common, address: &str, quic: QuicFlags) -> Result<Exit, Failure> {
    if host_and_port(address).is_none() {
        return Err(Failure::usage_text(format!(
            "--orchestrator-addr {address}: not of the form HOST:PORT, such as 127.0.0.1:7421"
        )));
    }
    let overrides = Overrides {
        quic,
        ..Overrides::default()
    };
    let config = Config::settle(common, overrides)?;
    logging::start(&config.log.value)?;
    let certs = certificates(&config)?;
    let runtime = stdio::runtime()?;
    let served = runtime.block_on(serve(&config, address, certs));
    // The thread that reads stdin may still be blocked there; it ends with the process.
    runtime.shutdown_background();
    served.map(|()| Exit::Ok)
}

/// The directory of certificates, after making sure that ours is there.
fn certificates(config: &Config) -> Result<PathBuf, Failure> {
    let path = config.quic.directory().map_err(Failure::usage_text)?;
    let name: CertName = BRIDGE.parse()?;
    let directory = CertDir::open(&path)?;
    let identity = directory.identity(&name, SystemTime::now());
    identity.context("the certificate that the orchestrator is shown")?;
    Ok(path)
}

async fn serve(config: &Config, address: &str, certs: PathBuf) -> Result<(), Failure> {
    let hub = Hub::new(HubConfig {
        deadline: config.call_timeout.value,
        list_wait: HELLO,
        ..HubConfig::default()
    });
    let expected: CertName = ORCHESTRATOR.parse()?;
    let connector = OrchestratorConnector::new(OrchestratorSpec {
        address: address.to_owned(),
        certs: certs.clone(),
        expected: Some(expected),
        from: None,
    });
    let connector: Arc<dyn Connector> = Arc::new(Announced {
        connector,
        address: address.into(),
    });
    let gateway = Gateway::new(
        hub.clone(),
        GatewayOptions {
            // A relay keeps nothing.
            state: PathBuf::new(),
            connect: Arc::new(move |_| {
                Ok(Reach {
                    connector: Arc::clone(&connector),
                    roots: Vec::new(),
                    hints: Hints::default(),
                })
            }),
            grace: GRACE,
            once: false,
            relay: true,
        },
    );
    gateway.apply(vec![orchestrator(config, address, &certs)]);
    let limits = Limits {
        line_bytes: config.line_bytes.value,
        running: config.concurrent_calls.value,
        grace: stopping::CALLS,
        ..Limits::default()
    };
    let server = Server::builder(hub, "orchestra")
        .title("Orchestra")
        .version(env!("CARGO_PKG_VERSION"))
        .limits(limits)
        .build();
    server.attach("stdio").settled().await;
    let signals = Signals::listen()?;
    let life = ServerLifecycle::stdio(&server, LifecycleTimes::default());
    let _told = life.on_status_change(serving::tell);
    life.start().map_err(anyhow::Error::from)?;
    let ended = super::until(&life, &signals).await;
    gateway.close(ENDING).await;
    ended.map_err(|reason| Failure::from(anyhow::Error::msg(reason)))
}

/// The orchestrator as a server. It is never left alone: it is asked for as long as we are.
fn orchestrator(config: &Config, address: &str, certs: &Path) -> ServerConfig {
    let origin = Origin {
        file: Path::new("--orchestrator-addr").into(),
        place: Place::START,
        source: Source::CommandLine,
        trust: Source::CommandLine.trust(),
        directory: PathBuf::new(),
    };
    let transport = Transport::Orchestrator(OrchestratorConfig {
        address: Template::literal(address),
        certs_dir: Some(Template::literal(&certs.display().to_string())),
    });
    ServerConfig {
        prefix: false,
        trust: true,
        timeout: config.call_timeout.value,
        restart: Restart {
            backoff: Backoff::Exponential,
            initial: FIRST_PAUSE,
            max: LONGEST_PAUSE,
        },
        circuit: Circuit {
            failures: u32::MAX,
            pause: LONGEST_PAUSE,
            ..Circuit::default()
        },
        pool: Pool {
            outstanding: AT_ONCE,
            ..Pool::default()
        },
        ..ServerConfig::new(ServerName::of_text(SERVER), origin, transport)
    }
}

/// Says on stderr when the orchestrator was reached, whatever is logged.
struct Announced {
    connector: OrchestratorConnector,
    address: Arc<str>,
}

impl Connector for Announced {
    fn transport(&self) -> TransportType {
        self.connector.transport()
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let (connecting, address) = (self.connector.connect(), Arc::clone(&self.address));
        Box::pin(async move {
            let connected = connecting.await?;
            output::complain(&format!(
                "transport.stdio: connected to orchestrator at {address}"
            ));
            Ok(connected)
        })
    }
}
