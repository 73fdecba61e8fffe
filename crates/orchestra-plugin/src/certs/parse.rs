//! What is read out of a certificate.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use ring::signature::{ED25519, UnparsedPublicKey};
use rustls::{
    RootCertStore, client::verify_server_cert_signed_by_trust_anchor,
    crypto::ring::default_provider, server::ParsedCertificate,
};
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::{
    certificate::X509Certificate, extensions::GeneralName, prelude::FromDer, time::ASN1Time,
};

use super::error::CertError;
use crate::ids::CertName;

/// A certificate and what we need to know of it.
#[derive(Debug, Clone)]
pub(super) struct Cert {
    der: CertificateDer<'static>,
    subject: String,
    common_name: String,
    dns_names: Vec<String>,
    public_key: Vec<u8>,
    not_before: SystemTime,
    not_after: SystemTime,
}

impl Cert {
    pub(super) fn from_der(der: CertificateDer<'static>) -> Result<Self, String> {
        let (rest, x509) =
            X509Certificate::from_der(&der).map_err(|_| "not an X.509 certificate".to_owned())?;
        if !rest.is_empty() {
            return Err("bytes follow the certificate".to_owned());
        }
        let common_name = only_common_name(&x509).unwrap_or_default().to_owned();
        Ok(Self {
            subject: x509.subject().to_string(),
            common_name,
            dns_names: dns_names(&x509).map(str::to_owned).collect(),
            public_key: x509.public_key().subject_public_key.data.to_vec(),
            not_before: time(x509.validity().not_before),
            not_after: time(x509.validity().not_after),
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

    pub(super) fn public_key(&self) -> &[u8] {
        &self.public_key
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
        let Ok((_, x509)) = X509Certificate::from_der(&self.der) else {
            return false;
        };
        let key = UnparsedPublicKey::new(&ED25519, &issuer.public_key);
        key.verify(x509.tbs_certificate.as_ref(), &x509.signature_value.data)
            .is_ok()
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
    let blocks = pem::parse_many(text).map_err(|_| "it is not PEM".to_owned())?;
    let certificates = blocks
        .into_iter()
        .filter(|block| block.tag() == "CERTIFICATE");
    Ok(certificates
        .map(|block| CertificateDer::from(block.into_contents()))
        .collect())
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
    let (_, x509) = X509Certificate::from_der(leaf).ok()?;
    let name: CertName = only_common_name(&x509)?.parse().ok()?;
    dns_names(&x509)
        .any(|dns| dns == name.as_str())
        .then_some(name)
}

/// The common name, if there is just one: with two, programs differ about which counts.
fn only_common_name<'a>(x509: &'a X509Certificate<'_>) -> Option<&'a str> {
    let mut names = x509.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    names.next().is_none().then_some(name)
}

fn dns_names<'a>(x509: &'a X509Certificate<'_>) -> impl Iterator<Item = &'a str> {
    let alternatives = x509.subject_alternative_name().ok().flatten();
    alternatives
        .into_iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(dns) => Some(*dns),
            _ => None,
        })
}

fn time(time: ASN1Time) -> SystemTime {
    let seconds = u64::try_from(time.timestamp()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}
