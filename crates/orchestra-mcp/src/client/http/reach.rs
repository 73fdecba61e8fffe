//! The HTTP client of a connection: its TLS, its pool and its times.

use std::{path::Path, sync::Arc};

use reqwest::{
    Client,
    header::{ACCEPT_ENCODING, HeaderMap, HeaderValue},
    redirect,
};
use rustls_platform_verifier::Verifier;
use tokio_rustls::rustls::{
    self, ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use super::config::{HttpConfig, is_local};
use crate::{causes::with_causes, client::ClientError, files};

/// The largest file of certificates or keys.
const MAX_PEM_BYTES: u64 = 4 * 1024 * 1024;

/// What asks the server. Reads the files that the configuration names.
///
/// # Errors
/// When a file cannot be used, or there are no certificates to know the server by.
pub(super) fn client(config: &HttpConfig) -> Result<Client, ClientError> {
    // Without the header, a server may choose any coding.
    let plain = (ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let mut builder = Client::builder()
        .default_headers(HeaderMap::from_iter([plain]))
        .tls_backend_preconfigured(tls(config)?)
        .connect_timeout(config.timeouts.connect)
        .pool_max_idle_per_host(config.max_idle_connections)
        .pool_idle_timeout(config.idle_connection)
        .tcp_nodelay(true)
        // Redirects are followed by what sends, which knows what may go where.
        .redirect(redirect::Policy::none())
        .referer(false)
        .user_agent(concat!("orchestra/", env!("CARGO_PKG_VERSION")));
    if is_local(&config.url) {
        // No proxy leads to this machine.
        builder = builder.no_proxy();
    }
    builder
        .build()
        .map_err(|error| invalid(config, format!("no HTTP client: {}", with_causes(&error))))
}

fn tls(config: &HttpConfig) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(ring::default_provider());
    let unfit = |error: rustls::Error| invalid(config, format!("TLS cannot be set up: {error}"));
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unfit)?;
    let trusted = match &config.ca_file {
        None => Vec::new(),
        Some(path) => certificates(config, "ca_file", path)?,
    };
    let builder = match Verifier::new_with_extra_roots(trusted.clone(), provider) {
        Ok(verifier) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier)),
        // This machine knows no authorities; those of the file suffice, and without TLS none do.
        Err(_) if !trusted.is_empty() || config.url.scheme() == "http" => {
            let mut roots = RootCertStore::empty();
            for certificate in trusted {
                roots.add(certificate).map_err(unfit)?;
            }
            builder.with_root_certificates(roots)
        }
        Err(error) => return Err(unfit(error)),
    };
    let mut tls = match &config.client_certificate {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = certificates(config, "client certificate", chain)?;
            let text = pem(config, "client key", key)?;
            let key = PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
                invalid(
                    config,
                    "client key: no private key in PEM without a password",
                )
            })?;
            builder.with_client_auth_cert(chain, key).map_err(unfit)?
        }
    };
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}

fn certificates(
    config: &HttpConfig,
    what: &str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let text = pem(config, what, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => {
            let path = path.display();
            Err(invalid(
                config,
                format!("{what}: {path} has no PEM certificate"),
            ))
        }
    }
}

fn pem(config: &HttpConfig, what: &str, path: &Path) -> Result<Vec<u8>, ClientError> {
    files::read(path, MAX_PEM_BYTES).map_err(|error| {
        let shown = path.display();
        invalid(config, format!("{what}: cannot read {shown}: {error}"))
    })
}

fn invalid(config: &HttpConfig, what: impl std::fmt::Display) -> ClientError {
    ClientError::InvalidConfig {
        what: format!("server {}: {what}", config.name),
    }
}
