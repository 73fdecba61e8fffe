//! The orchestrator of the past, as launchers start it: the plugins of one list, over QUIC and nothing
//! else.
//!
//! Launchers read what it writes: the address behind `listening on`, which stands in no line before,
//! and `registered and booted` once for each plugin.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;

use crate::{
    cli::Common,
    config::{Config, Origin, Overrides, QuicAddress, QuicFlags},
    exit::{Exit, Failure},
    logging, output,
    servers::ServerFlags,
    serving::{self, Serving},
    stopping::Signals,
    workspace,
};

/// Run the plugins of a list and serve them over QUIC, like the earlier program `orchestrator`
///
/// There is no board and no HTTP. Under the name `orchestrator`, the program takes the same flags, also with
/// one dash.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Plugin list
    #[arg(long, value_name = "FILE", default_value = "plugins.yaml")]
    pub(crate) config: PathBuf,
    /// Address to listen on [default: `listen_addr` in the plugin list, else localhost:50100]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen_addr: Option<String>,
    /// Certificate directory [default: `certs_dir` in the plugin list, else ~/.orchestra/certs]
    #[arg(long, value_name = "DIR")]
    pub(crate) certs_dir: Option<String>,
}

/// Where it listened when nobody said otherwise.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 50100);

/// Who says that a plugin is registered and booted, which is logged whatever else is.
const BOOTED: &str = "orchestra_plugin_host::link::plugin=info";

/// Serves until a signal.
///
/// # Errors
/// When the list is not there or broken, or nothing can be listened on.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments {
        config: list,
        listen_addr,
        certs_dir,
    } = arguments;
    let servers = ServerFlags {
        plugins: vec![list],
        only_servers: true,
        only_named: true,
        ..ServerFlags::default()
    };
    servers.check()?;
    let quic = listen_addr.map(|text| {
        let wrong = |error| anyhow::Error::new(error).context(format!("--listen-addr {text}"));
        text.parse().map_err(|error| Failure::Usage(wrong(error)))
    });
    let overrides = Overrides {
        quic: QuicFlags {
            quic: quic.transpose()?,
            certs_dir,
            ..QuicFlags::default()
        },
        servers,
        ..Overrides::default()
    };
    // Plugins run where this was started.
    let here = common.workspace.as_deref().unwrap_or(Path::new("."));
    let here = workspace::directory(here).map_err(Failure::usage)?;
    let config = Config::settle_in(here, common, overrides)?;
    logging::start(&format!("{},{BOOTED}", config.log.value))?;
    let runtime = serving::runtime()?;
    let served = runtime.block_on(serve(&config));
    // Nothing that still computes is waited for.
    runtime.shutdown_background();
    served
}

async fn serve(config: &Config) -> Result<Exit, Failure> {
    let mut serving = Serving::without_board(config);
    // Before anything is announced, so that a signal right after it is not lost.
    let signals = Signals::listen()?;
    let asked = &config.quic.address;
    let address = match asked.value {
        QuicAddress::At(address) if asked.origin != Origin::Default => address,
        _ => USUAL,
    };
    let bound = serving.orchestrator().listen(address).await?;
    output::complain(&format!("orchestrator listening on {bound}"));
    // Behind the line that launchers read.
    if bound.port() != address.port() && address.port() != 0 {
        output::complain(&format!(
            "{address} is in use; using the next free port; --listen-addr sets another address"
        ));
    }
    let started = serving.start_others(None, Duration::ZERO);
    if started.is_ok() {
        signals.first().await;
    }
    serving.end(signals.deadline()).await;
    started.map(|()| Exit::Ok)
}
