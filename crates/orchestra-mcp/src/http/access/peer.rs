//! The other end of a request's connection.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::ConnectInfo,
    http::{Extensions, HeaderMap},
};
use orchestra_process::PeerUser;

/// The other end of a connection, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) address: Option<IpAddr>,
    pub(super) user: PeerUser,
}

impl Peer {
    pub(super) fn of(extensions: &Extensions) -> Self {
        let address = extensions.get::<ConnectInfo<SocketAddr>>();
        let user = extensions.get::<PeerUser>();
        Self {
            address: address.map(|ConnectInfo(address)| address.ip().to_canonical()),
            user: user.copied().unwrap_or(PeerUser::Unknown),
        }
    }

    /// Returns whether it is another machine.
    pub(super) fn is_foreign(self) -> bool {
        self.address.is_some_and(|address| !address.is_loopback())
    }

    /// Returns whether a request with these headers is one of the user who runs this program. A proxy
    /// of this user may forward requests of anybody.
    pub(super) fn is_own_user(self, headers: &HeaderMap) -> bool {
        self.user == PeerUser::Same && !is_forwarded(headers)
    }
}

/// Returns whether a proxy has forwarded the request, and reports it: in the standard headers (RFC
/// 7239; RFC 9110, section 7.6.3) or in the older ones.
fn is_forwarded(headers: &HeaderMap) -> bool {
    let mut names = headers.keys().map(axum::http::HeaderName::as_str);
    names.any(|name| matches!(name, "forwarded" | "via") || name.starts_with("x-forwarded-"))
}
