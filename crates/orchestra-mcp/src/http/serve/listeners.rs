//! Listening sockets of a server: its address, and the other address of `localhost` at the same port.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};

/// Maximum number of ports that are tried where any port will do.
const PORTS_TRIED: usize = 16;

/// Sockets on which a server accepts connections.
///
/// The name `localhost` leads to `127.0.0.1` and to `[::1]`. Browsers try both, so a program of another user
/// that listens on one of them could serve a page whose later requests reach a server on the other one,
/// with the origin of that server. [`Self::bind`] therefore listens on both.
#[derive(Debug)]
pub struct Listeners {
    first: TcpListener,
    other: Option<TcpListener>,
    foreign: Option<SocketAddr>,
}

impl Listeners {
    /// Listens on `address`, and on the other address of `localhost` if `localhost` leads to `address` and the machine
    /// has both. With port 0, a port that is free on both is preferred.
    ///
    /// # Errors
    /// When `address` cannot be listened on.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let mut tried = 0;
        loop {
            tried += 1;
            let first = TcpListener::bind(address).await?;
            let Some(address_of_other) = other_of_localhost(first.local_addr()?) else {
                return Ok(first.into());
            };
            let (other, foreign) = match TcpListener::bind(address_of_other).await {
                Ok(other) => (Some(other), None),
                Err(error) if is_absent(&error) => (None, None),
                Err(_) if address.port() == 0 && tried < PORTS_TRIED => continue,
                Err(error) => {
                    tracing::debug!(address = %address_of_other, %error, "cannot listen on the other address of localhost");
                    (None, Some(address_of_other))
                }
            };
            return Ok(Self {
                first,
                other,
                foreign,
            });
        }
    }

    /// Returns the address that was asked for, with its port.
    ///
    /// # Errors
    /// When the system does not name it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.first.local_addr()
    }

    /// Returns the address of `localhost` that belongs to another program. Requests for `localhost` must then be
    /// refused ([`AccessRules::is_localhost_foreign`](crate::http::AccessRules::is_localhost_foreign)).
    #[must_use]
    pub const fn foreign_localhost(&self) -> Option<SocketAddr> {
        self.foreign
    }

    /// Accepts the next connection. Cancelling loses none.
    pub(super) async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let Some(other) = &self.other else {
            return self.first.accept().await;
        };
        tokio::select! {
            accepted = self.first.accept() => accepted,
            accepted = other.accept() => accepted,
        }
    }
}

/// One socket, without the other address of `localhost`.
impl From<TcpListener> for Listeners {
    fn from(first: TcpListener) -> Self {
        Self {
            first,
            other: None,
            foreign: None,
        }
    }
}

/// The address of `localhost` that a socket on `address` does not cover, if it covers one of them.
fn other_of_localhost(address: SocketAddr) -> Option<SocketAddr> {
    let other: IpAddr = match address.ip().to_canonical() {
        IpAddr::V4(Ipv4Addr::LOCALHOST | Ipv4Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Ipv4Addr::LOCALHOST.into(),
        _ => return None,
    };
    Some((other, address.port()).into())
}

/// Returns whether the machine has no such address, so that no program can listen there.
fn is_absent(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_address_of_localhost_is_known_where_a_socket_covers_one() {
        for (address, other) in [
            ("127.0.0.1:7", Some("[::1]:7")),
            ("[::ffff:127.0.0.1]:7", Some("[::1]:7")),
            ("0.0.0.0:7", Some("[::1]:7")),
            ("[::1]:7", Some("127.0.0.1:7")),
            ("[::]:7", None),
            ("127.0.0.2:7", None),
            ("192.0.2.1:7", None),
        ] {
            let other = other.map(|other| other.parse().unwrap());
            let found = other_of_localhost(address.parse().unwrap());
            assert_eq!(found, other, "{address}");
        }
    }

    #[test]
    fn address_that_the_machine_lacks_is_absent_and_one_in_use_is_not() {
        for (errno, expected) in [
            (Errno::ADDRNOTAVAIL, true),
            (Errno::AFNOSUPPORT, true),
            (Errno::ADDRINUSE, false),
            (Errno::ACCESS, false),
        ] {
            assert_eq!(is_absent(&errno.into()), expected, "{errno:?}");
        }
    }
}
