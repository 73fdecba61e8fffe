//! What the fixtures have in common: over what they are served.

use std::{error::Error, io::Write as _, net::SocketAddr, time::Duration};

use orchestra_mcp::{
    LifecycleTimes, Server, ServerLifecycle,
    http::{self, Eras, HttpOptions},
};
use tokio::{net::TcpListener, sync::watch};

/// Serves over standard input and output, or with `--http ADDR` over HTTP, where `--era session`,
/// `stateless` or `both` says which eras. The address is told on standard error.
///
/// # Errors
/// For other arguments, and when it cannot be served.
pub(crate) async fn serve(server: &Server) -> Result<(), Box<dyn Error>> {
    let mut address = None;
    let mut options = HttpOptions {
        // So soon that a judge sees it.
        poll_after: Some(Duration::from_millis(500)),
        ..HttpOptions::default()
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or("each flag has a value")?;
        match (flag.as_str(), value.as_str()) {
            ("--http", value) => address = Some(value.parse::<SocketAddr>()?),
            ("--era", "session") => options.eras = Eras::Session,
            ("--era", "stateless") => options.eras = Eras::Stateless,
            ("--era", "both") => options.eras = Eras::Both,
            _ => return Err(format!("unknown: {flag} {value}").into()),
        }
    }
    let Some(address) = address else {
        let life = ServerLifecycle::stdio(server, LifecycleTimes::default());
        life.start()?;
        return Ok(life.ended().await?);
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
