//! Where an engine listens: on this machine alone.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use tokio::net::TcpListener;

/// The port that clients of the first engine know.
pub const DEFAULT_PORT: u16 = 50_051;

/// Where to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// At this port if it is free, and else at any.
    Preferred(u16),
    /// There, or nowhere.
    Exactly(SocketAddr),
}

impl Default for Address {
    fn default() -> Self {
        Self::Preferred(DEFAULT_PORT)
    }
}

/// Text that is no address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No address.
    #[error(
        "not an address to listen on; use a form such as 127.0.0.1:50051, localhost:50051, [::1]:50051 or 50051"
    )]
    Form,
    /// Other machines could reach it.
    #[error(
        "the engine listens only on loopback addresses: 127.0.0.1, localhost or [::1]; programs on other machines reach the board through `orchestra up`"
    )]
    Open,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preferred(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, *port)).fmt(f),
            Self::Exactly(address) => address.fmt(f),
        }
    }
}

impl Address {
    /// Whether who listens there listens where it was asked for.
    #[must_use]
    pub fn is_met_by(&self, there: SocketAddr) -> bool {
        match self {
            Self::Preferred(_) => true,
            Self::Exactly(asked) if asked.port() == 0 => asked.ip() == there.ip(),
            Self::Exactly(asked) => *asked == there,
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let address = match text
            .strip_prefix("localhost:")
            .unwrap_or(text)
            .parse::<u16>()
        {
            Ok(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            Err(_) => text.parse().map_err(|_| AddressError::Form)?,
        };
        match address.ip().is_loopback() {
            true => Ok(Self::Exactly(address)),
            false => Err(AddressError::Open),
        }
    }
}

/// What is listened on.
pub(crate) struct Listeners {
    /// What clients are told.
    pub(crate) address: SocketAddr,
    /// One, or one for each family of addresses.
    pub(crate) all: Vec<TcpListener>,
}

/// Listens.
///
/// # Errors
/// When an address that was asked for is taken, or there is none at all.
pub(crate) async fn listen(address: Address) -> io::Result<Listeners> {
    let first = match address {
        Address::Exactly(address) => TcpListener::bind(address).await?,
        Address::Preferred(port) => match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => listener,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?
            }
            Err(error) => return Err(error),
        },
    };
    let bound = first.local_addr()?;
    let mut all = vec![first];
    if bound.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        // `localhost` may mean the other family. Where there is none, or somebody has that port, those
        // who read where the engine is reach it all the same.
        if let Ok(other) = TcpListener::bind((Ipv6Addr::LOCALHOST, bound.port())).await {
            all.push(other);
        }
    }
    Ok(Listeners {
        address: bound,
        all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_on_this_machine() {
        let at = |text: &str| Ok(Address::Exactly(text.parse().unwrap()));
        for (text, expected) in [
            ("50051", at("127.0.0.1:50051")),
            ("localhost:1", at("127.0.0.1:1")),
            ("127.0.0.2:1", at("127.0.0.2:1")),
            ("[::1]:0", at("[::1]:0")),
            ("0.0.0.0:1", Err(AddressError::Open)),
            ("[::]:1", Err(AddressError::Open)),
            ("192.168.0.1:1", Err(AddressError::Open)),
            ("localhost", Err(AddressError::Form)),
            ("hub.example:1", Err(AddressError::Form)),
            ("", Err(AddressError::Form)),
            ("70000", Err(AddressError::Form)),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
    }

    #[test]
    fn an_address_is_met_by_itself_and_by_any_port_where_none_was_asked_for() {
        let there = "127.0.0.1:7".parse().unwrap();
        for (asked, is_met) in [
            ("7", true),
            ("8", false),
            ("0", true),
            ("[::1]:7", false),
            ("127.0.0.2:0", false),
        ] {
            let asked: Address = asked.parse().unwrap();
            assert_eq!(asked.is_met_by(there), is_met, "{asked}");
        }
        assert!(Address::Preferred(8).is_met_by(there));
    }

    #[tokio::test]
    async fn a_preferred_port_that_is_taken_is_left_to_who_has_it() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let other = listen(Address::Preferred(port)).await.unwrap();
        assert_ne!(other.address.port(), port);
        let exact = Address::Exactly(taken.local_addr().unwrap());
        assert!(listen(exact).await.is_err());
    }
}
