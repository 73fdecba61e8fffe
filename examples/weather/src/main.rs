//! The program `weather`: MCP over standard input and output, or over HTTP.

use std::{io::Write as _, net::SocketAddr};

use anyhow::{Context as _, Result, anyhow};
use clap::Parser;
use orchestra_mcp::{
    LifecycleTimes, Server, ServerLifecycle,
    http::{self, HttpOptions},
    stdio,
};
use tokio::net::TcpListener;
use weather::{DEFAULT_BASE, DEFAULT_PATIENCE, Upstream};

/// Where forecasts and alerts are asked for, when it is not the National Weather Service.
const API_BASE: &str = "WEATHER_API_BASE";

/// Weather alerts and forecasts for the United States, over MCP
///
/// Serves over standard input and output. WEATHER_API_BASE names another server that answers as
/// api.weather.gov does.
#[derive(Debug, Parser)]
struct Arguments {
    /// Serve over HTTP at this address instead, a loopback address such as 127.0.0.1:8080
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let base = std::env::var(API_BASE).unwrap_or_else(|_| DEFAULT_BASE.to_owned());
    let runtime = stdio::runtime()?;
    runtime.block_on(async {
        let upstream = Upstream::new(&base, DEFAULT_PATIENCE)?;
        let server = weather::server(upstream)?;
        match arguments.http {
            None => over_stdio(&server).await,
            Some(address) => over_http(&server, address).await,
        }
    })?;
    // The thread that reads may still wait for input.
    runtime.shutdown_background();
    Ok(())
}

async fn over_stdio(server: &Server) -> Result<()> {
    let life = ServerLifecycle::stdio(server, LifecycleTimes::default());
    life.start()?;
    life.ended().await.map_err(|reason| anyhow!(reason))
}

/// Serves until ctrl-c. The URL is told on standard error.
async fn over_http(server: &Server, address: SocketAddr) -> Result<()> {
    let mut options = HttpOptions::default();
    options.access.check_address(address)?;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))?;
    let app = |stop: &_| {
        options.stop = Some(Clone::clone(stop));
        http::router(server, options)
    };
    let (limits, times) = (http::Limits::default(), LifecycleTimes::default());
    let life = ServerLifecycle::http(server, listener, app, limits, times)?;
    life.start()?;
    writeln!(std::io::stderr(), "{}", life.endpoint())?;
    tokio::signal::ctrl_c().await?;
    life.stop().await.map_err(|reason| anyhow!(reason))
}
