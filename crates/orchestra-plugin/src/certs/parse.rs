//! What is read out of a certificate.

use std::{path::Path, time::SystemTime};

use ring::signature::{ED25519, UnparsedPublicKey};
use rustls::{
    RootCertStore, client::verify_server_cert_signed_by_trust_anchor,
    crypto::ring::default_provider, server::ParsedCertificate,
};
use rustls_pki_types::{CertificateDer, UnixTime, pem::PemObject as _};

use super::{error::CertError, x509::X509};
use crate::ids::CertName;

/// A certificate and what we need to know of it.
#[derive(Debug, Clone)]
pub(super) struct Cert {
    der: CertificateDer<'static>,
    subject: String,
    subject_der: Vec<u8>,
    common_name: String,
    dns_names: Vec<String>,
    public_key: Vec<u8>,
    key_identifier: Option<Vec<u8>>,
    not_before: SystemTime,
    not_after: SystemTime,
}

impl Cert {
    pub(super) fn from_der(der: CertificateDer<'static>) -> Result<Self, String> {
        let x509 = X509::read(&der).ok_or_else(|| "it is no X.509 certificate".to_owned())?;
        let owned = |text: &str| text.to_owned();
        Ok(Self {
            subject: x509.subject.to_text(),
            subject_der: x509.subject.der().to_vec(),
            common_name: x509.subject.common_name().map(owned).unwrap_or_default(),
            dns_names: x509.dns_names().into_iter().map(owned).collect(),
            public_key: x509.public_key.to_vec(),
            key_identifier: x509.key_identifier().map(<[u8]>::to_vec),
            not_before: x509.not_before,
            not_after: x509.not_after,
            der: der.clone(),
        })
    }

    /// The first certificate of a file.
    pub(super) fn from_pem(text: &[u8], path: &Path) -> Result<Self, CertError> {
        let wrong = |why: String| unusable(path, why);
        let first = blocks(text).map_err(wrong)?.into_iter().next();
        let first = first.ok_or_else(|| wrong("it holds no CERTIFICATE".to_owned()))?;
        Self::from_der(first).map_err(wrong)
    }

    /// Every certificate of a file, as they follow each other in it.
    pub(super) fn all_from_pem(text: &[u8], path: &Path) -> Result<Vec<Self>, CertError> {
        let found = blocks(text).and_then(|ders| ders.into_iter().map(Self::from_der).collect());
        found.map_err(|why| unusable(path, why))
    }

    pub(super) fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    pub(super) fn subject(&self) -> &str {
        &self.subject
    }

    /// The same as it stands in the certificate.
    pub(super) fn subject_der(&self) -> &[u8] {
        &self.subject_der
    }

    pub(super) fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// By what certificates of its key's name it.
    pub(super) fn key_identifier(&self) -> Option<&[u8]> {
        self.key_identifier.as_deref()
    }

    pub(super) fn not_after(&self) -> SystemTime {
        self.not_after
    }

    pub(super) fn is_valid_at(&self, now: SystemTime) -> bool {
        self.not_before <= now && now < self.not_after
    }

    /// Whether it names `name`, in its subject and as a DNS name.
    pub(super) fn names(&self, name: &CertName) -> bool {
        self.common_name == name.as_str() && self.dns_names.iter().any(|dns| dns == name.as_str())
    }

    /// Whether `anchor` signed this leaf, and it is valid now.
    pub(super) fn is_signed_by(&self, anchor: &Self, now: SystemTime) -> bool {
        let mut roots = RootCertStore::empty();
        let Ok(since) = now.duration_since(SystemTime::UNIX_EPOCH) else {
            return false;
        };
        if roots.add(anchor.der.clone()).is_err() {
            return false;
        }
        let Ok(leaf) = ParsedCertificate::try_from(&self.der) else {
            return false;
        };
        let algorithms = default_provider().signature_verification_algorithms.all;
        let now = UnixTime::since_unix_epoch(since);
        verify_server_cert_signed_by_trust_anchor(&leaf, &roots, &[], now, algorithms).is_ok()
    }

    /// Whether `issuer`'s Ed25519 key signed this certificate, of whatever kind and time it is.
    pub(super) fn bears_signature_of(&self, issuer: &Self) -> bool {
        let Some(x509) = X509::read(&self.der) else {
            return false;
        };
        let key = UnparsedPublicKey::new(&ED25519, &issuer.public_key);
        key.verify(x509.signed, x509.signature).is_ok()
    }

    /// The SHA-256 of the certificate, as people compare it.
    pub(super) fn fingerprint(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.der);
        digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect::<Vec<_>>()
            .join(":")
    }
}

fn blocks(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|_| "it is not PEM".to_owned())
}

fn unusable(path: &Path, why: String) -> CertError {
    CertError::Content {
        path: path.to_owned(),
        what: "certificate",
        why,
    }
}

/// Who a verified leaf names: its one common name, which must be a DNS name of it too.
pub(crate) fn peer_name(leaf: &CertificateDer<'_>) -> Option<CertName> {
    let x509 = X509::read(leaf)?;
    let name: CertName = x509.subject.common_name()?.parse().ok()?;
    x509.dns_names().contains(&name.as_str()).then_some(name)
}
