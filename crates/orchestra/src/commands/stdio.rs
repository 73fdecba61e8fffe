//! `orchestra stdio`: MCP over stdin and stdout.

mod bridge;

use std::{convert::Infallible, future, time::Duration};

use clap::Args;
use orchestra_mcp::{LifecycleTimes, ServerLifecycle, stdio};
use orchestra_store::Options;

use crate::{
    cli::{self, Common, examples},
    commands::job,
    config::{Config, EngineFlags, Overrides, QuicFlags, TextFormat},
    exit::{Exit, Failure},
    logging,
    servers::ServerFlags,
    serving::{self, Face, Serving},
    stopping::Signals,
};

/// How long servers that were started wait for the client to greet.
const FIRST_CLIENT: Duration = Duration::from_secs(1);

/// Serve MCP over stdin and stdout
///
/// Opens the board, or creates it, and serves it until the end of input, SIGINT or SIGTERM. MCP clients start
/// this command. With --orchestrator-addr it opens no board: it forwards messages to a running orchestrator.
#[derive(Debug, Default, Args)]
#[command(after_help = examples(&[
    "stdio",
    "stdio --tools lean --format toon",
    "stdio --workspace ~/my-app",
]))]
pub(crate) struct Arguments {
    #[arg(long, value_name = "TOOLS", help = cli::tools_help())]
    tools: Option<String>,
    /// Format of the text in tool results
    #[arg(long, value_enum)]
    format: Option<TextFormat>,
    #[command(flatten)]
    servers: ServerFlags,
    #[command(flatten)]
    engine: EngineFlags,
    /// Address of a running orchestrator to forward messages to over QUIC
    #[arg(long, value_name = "HOST:PORT")]
    orchestrator_addr: Option<String>,
    /// Certificate directory for QUIC and plugins [default: certs_dir of your orchestra.toml, else
    /// ~/.orchestra/certs]
    #[arg(long, value_name = "DIR")]
    certs_dir: Option<String>,
}

impl Arguments {
    /// Those of a bridge to an orchestrator, with certificates in a directory that may be named.
    pub(crate) fn bridge(orchestrator: String, certs_dir: Option<String>) -> Self {
        Self {
            orchestrator_addr: Some(orchestrator),
            certs_dir,
            ..Self::default()
        }
    }

    /// The orchestrator that this is a bridge to, if it is one.
    #[cfg(test)]
    pub(crate) fn orchestrator(&self) -> Option<&str> {
        self.orchestrator_addr.as_deref()
    }
}

/// Serves until the end of input or a signal.
///
/// # Errors
/// When the board cannot be opened, or stdin and stdout cannot be used.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments {
        tools,
        format,
        servers,
        engine,
        orchestrator_addr,
        certs_dir,
    } = arguments;
    let quic = QuicFlags {
        certs_dir,
        ..QuicFlags::default()
    };
    if let Some(address) = orchestrator_addr {
        let ours = [
            tools.as_ref().map(|_| "--tools"),
            format.as_ref().map(|_| "--format"),
        ];
        if let Some(flag) = ours.into_iter().flatten().chain(servers.given()).next() {
            return Err(Failure::usage_text(format!(
                "{flag} cannot be used with --orchestrator-addr: the orchestrator decides which tools the \
                 bridge lists"
            )));
        }
        return bridge::run(common, &address, quic);
    }
    // What a job has is decided where it is served.
    if let Some(stream) = job::connection(common)? {
        return job::relay(stream);
    }
    servers.check()?;
    let config = Config::settle(
        common,
        Overrides {
            tools,
            format,
            quic,
            engine,
            servers,
            ..Overrides::default()
        },
    )?;
    logging::start(&config.log.value)?;
    let runtime = stdio::runtime()?;
    let served = runtime.block_on(async {
        let mut serving = Serving::open_idle(&config, Options::default())?;
        serving.start_others(None, FIRST_CLIENT)?;
        serving.start_engine(Face::Stdio);
        serving.start_sync();
        let signals = Signals::listen()?;
        let life = ServerLifecycle::stdio(&serving.server()?, LifecycleTimes::default());
        let _told = life.on_status_change(serving::tell);
        serving.attend_plans(&life);
        life.start().map_err(anyhow::Error::from)?;
        // Nothing begins any more once a signal has come.
        let begin = async {
            tokio::select! {
                () = signals.first() => {}
                () = serving.begin_after_first(&life) => {}
            }
            future::pending::<Infallible>().await
        };
        let ended = tokio::select! {
            ended = until(&life, &signals) => ended,
            never = begin => match never {},
        };
        serving.end(signals.deadline()).await;
        ended.map_err(|reason| Failure::from(anyhow::Error::msg(reason)))
    });
    // The thread that reads stdin may still be blocked there; it ends with the process.
    runtime.shutdown_background();
    served.map(|()| Exit::Ok)
}

/// Serves until the end of input or a signal, of which the life itself knows most.
async fn until(life: &ServerLifecycle, signals: &Signals) -> Result<(), String> {
    tokio::select! {
        ended = life.ended() => ended,
        () = signals.first() => life.stop().await,
    }
}
