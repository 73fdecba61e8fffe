//! TLS before HTTP: rustls with ring, HTTP/1.1 alone.

use std::{fmt, io, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::ring,
        pki_types::{
            CertificateDer, PrivateKeyDer,
            pem::{self, PemObject as _},
        },
    },
    server::TlsStream,
};

/// A certificate with its key, by which we say who we are.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

/// Why a certificate and a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate cannot be read.
    #[error("the certificate is not PEM-encoded")]
    Certificate(#[source] pem::Error),
    /// There is no certificate.
    #[error("the file contains no certificate: no block begins with BEGIN CERTIFICATE")]
    NoCertificate,
    /// The key cannot be read.
    #[error("the key is not an unencrypted PEM-encoded private key")]
    Key(#[source] pem::Error),
    /// The two do not fit together, or are of a kind that is not known.
    #[error("the certificate and the key cannot be used together")]
    Unfit(#[source] rustls::Error),
}

impl Tls {
    /// Takes a chain of certificates, our own first, and its key, both in PEM.
    ///
    /// # Errors
    /// When one of them cannot be read, or they do not fit together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(TlsError::Certificate)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unfit)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(TlsError::Unfit)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Greets a client.
    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.0.accept(stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}
