//! What the fixtures have in common: over what they are served.

use std::{error::Error, io::Write as _, net::SocketAddr, time::Duration};

use orchestra_mcp::{
    Server,
    http::{self, Eras, HttpOptions},
    stdio,
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
        stdio::serve(server).await?;
        return Ok(());
    };
    let listener = TcpListener::bind(address).await?;
    let place = format!("http://{}{}\n", listener.local_addr()?, http::MCP_PATH);
    std::io::stderr().write_all(place.as_bytes())?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stop.send_replace(true);
    });
    options.stop = Some(stopped.clone());
    let app = http::router(server, options);
    http::serve(listener, app, stopped, http::Limits::default()).await;
    Ok(())
}
