//! Which servers are trusted, and which are on this machine.

use std::sync::Arc;

use reqwest::Url;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// How a server is trusted: as the machine does.
///
/// # Errors
/// When TLS cannot be set up, in words.
pub fn trusting(url: &Url) -> Result<ClientConfig, String> {
    let no_tls = |error| format!("TLS cannot be set up: {error}");
    let config = || {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(no_tls)
    };
    let trusting = match config()?.with_platform_verifier() {
        Ok(trusting) => trusting,
        // Where nobody is trusted, a server that needs no trust can be asked all the same.
        Err(_) if url.scheme() == "http" => {
            config()?.with_root_certificates(RootCertStore::empty())
        }
        Err(error) => return Err(no_tls(error)),
    };
    Ok(trusting.with_no_client_auth())
}

/// Whether an address is one of this machine, by how that is named; one that is none is not.
#[must_use]
pub fn is_local_address(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| is_local(&url))
}

/// Whether a server is on this machine, by how it is named.
#[must_use]
pub fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}
