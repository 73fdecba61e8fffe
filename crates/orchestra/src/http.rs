//! Where the program listens, and what it serves there.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::Router;
use orchestra_mcp::{
    PartLook, Server,
    http::{Access, HttpOptions, StreamLimits},
};
use orchestra_web::dashboard::Source;
use tokio::sync::watch;

pub(crate) use orchestra_mcp::http::{Limits, MCP_PATH};

/// Number of ports that `up` tries, if those before are taken.
pub(crate) const PORTS_TRIED: u16 = 100;

/// Text that is no address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an address to listen on; use a form such as 127.0.0.1:7420, [::1]:7420, localhost:7420 or 7420"
)]
pub(crate) struct AddressError;

/// Understands an address to listen on: a socket address, `localhost` and a port, or a port alone,
/// which is one of the loopback address as well.
///
/// # Errors
/// When it is none of these.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, AddressError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let port = match text.rsplit_once(':') {
        Some((host, port)) if host.eq_ignore_ascii_case("localhost") => port,
        Some(_) => return Err(AddressError),
        None => text,
    };
    // A number alone: `parse` would take a sign as well.
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AddressError);
    }
    let port: u16 = port.parse().map_err(|_| AddressError)?;
    Ok((Ipv4Addr::LOCALHOST, port).into())
}

/// The routes, over one server, until `stop` turns true; of its health they tell its parts as well.
/// With a source there is a dashboard.
pub(crate) fn app(
    server: &Server,
    source: Option<Arc<dyn Source>>,
    parts: Vec<PartLook>,
    access: &Access,
    limits: Limits,
    body_bytes: usize,
    stop: &watch::Receiver<bool>,
) -> Router {
    let options = HttpOptions {
        body_bytes,
        access: access.clone(),
        streams: StreamLimits::of(limits.connections),
        stop: Some(stop.clone()),
        parts,
        ..HttpOptions::default()
    };
    match source {
        Some(source) => orchestra_web::app_with_dashboard(server, options, source),
        None => orchestra_web::app(server, options),
    }
}
