//! Where the program listens, and what it serves there.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use orchestra_mcp::{Server, http::HttpOptions};
use tokio::sync::watch;

pub(crate) use orchestra_mcp::http::{Limits, MCP_PATH};

/// Text that is no address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no address to listen on; write 127.0.0.1:7420, [::1]:7420, localhost:7420, or the port alone"
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

/// Refuses an address that other machines can reach.
///
/// # Errors
/// When it is one.
pub(crate) fn check_address(address: SocketAddr) -> anyhow::Result<()> {
    anyhow::ensure!(
        address.ip().is_loopback(),
        "{address} can be reached from other machines, and nothing asks them who they are; \
         use a loopback address such as 127.0.0.1:{}",
        address.port()
    );
    Ok(())
}

/// The routes, over one server, until `stop` turns true.
pub(crate) fn app(server: &Server, body_bytes: usize, stop: &watch::Receiver<bool>) -> Router {
    let options = HttpOptions {
        body_bytes,
        stop: Some(stop.clone()),
        ..HttpOptions::default()
    };
    orchestra_web::app(server, options)
}

#[cfg(test)]
mod tests {
    use super::check_address;

    #[test]
    fn only_loopback_is_served() {
        for address in ["127.0.0.1:0", "[::1]:7420", "127.9.9.9:1"] {
            assert!(check_address(address.parse().unwrap()).is_ok());
        }
        for address in ["0.0.0.0:7420", "[::]:7420", "192.168.0.1:80"] {
            assert!(check_address(address.parse().unwrap()).is_err());
        }
    }
}
