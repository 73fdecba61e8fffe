//! What the fixtures have in common: over what they are served.

use std::{error::Error, io::Write as _, net::SocketAddr, time::Duration};

use orchestra_mcp::{
    LifecycleTimes, Server, ServerLifecycle,
    http::{self, Eras, HttpOptions},
};
use tokio::{net::TcpListener, sync::watch};

/// What the command line asks for.
pub(crate) struct Face {
    /// Over HTTP, there; else over standard input and output.
    address: Option<SocketAddr>,
    /// Which eras are spoken.
    pub(crate) eras: Eras,
}

impl Face {
    /// Reads the command line: `--http ADDR`, and `--era session`, `stateless` or `both`.
    ///
    /// # Errors
    /// For other arguments.
    pub(crate) fn of_arguments() -> Result<Self, Box<dyn Error>> {
        let mut face = Self {
            address: None,
            eras: Eras::Both,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or("each flag has a value")?;
            match (flag.as_str(), value.as_str()) {
                ("--http", value) => face.address = Some(value.parse::<SocketAddr>()?),
                ("--era", "session") => face.eras = Eras::Session,
                ("--era", "stateless") => face.eras = Eras::Stateless,
                ("--era", "both") => face.eras = Eras::Both,
                _ => return Err(format!("unknown: {flag} {value}").into()),
            }
        }
        Ok(face)
    }

    /// Serves until the end of input, or over HTTP until a signal. The address is told on standard
    /// error.
    ///
    /// # Errors
    /// When it cannot be served.
    pub(crate) async fn serve(&self, server: &Server) -> Result<(), Box<dyn Error>> {
        let Some(address) = self.address else {
            let life = ServerLifecycle::stdio(server, LifecycleTimes::default());
            life.start()?;
            return Ok(life.ended().await?);
        };
        let mut options = HttpOptions {
            // So soon that a judge sees it.
            poll_after: Some(Duration::from_millis(500)),
            eras: self.eras,
            ..HttpOptions::default()
        };
        options.access.check_address(address)?;
        let listener = TcpListener::bind(address).await?;
        let app = |stop: &watch::Receiver<bool>| {
            options.stop = Some(stop.clone());
            http::router(server, options)
        };
        let (limits, times) = (http::Limits::default(), LifecycleTimes::default());
        let life = ServerLifecycle::http(server, listener, app, limits, times)?;
        life.start()?;
        std::io::stderr().write_all(format!("{}\n", life.endpoint()).as_bytes())?;
        let _ = tokio::signal::ctrl_c().await;
        Ok(life.stop().await?)
    }
}
