//! What a program shows of itself, and whom it trusts.

use std::{fmt, time::SystemTime};

use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::ids::CertName;

/// A name, the certificates and the key that prove it, and the authorities that are trusted.
pub struct Identity {
    pub(super) name: CertName,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivatePkcs8KeyDer<'static>,
    pub(super) anchors: Vec<CertificateDer<'static>>,
    pub(super) not_after: SystemTime,
}

impl Identity {
    /// The name.
    pub fn name(&self) -> &CertName {
        &self.name
    }

    /// The leaf, and behind it what ties it to an older authority during a rotation.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The private key of the leaf.
    pub fn key(&self) -> &PrivatePkcs8KeyDer<'static> {
        &self.key
    }

    /// The authorities whose leaves are believed.
    pub fn anchors(&self) -> &[CertificateDer<'static>] {
        &self.anchors
    }

    /// Whether two identities show the same and trust the same.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.chain == other.chain && self.anchors == other.anchors
    }

    /// When the leaf ends. Ask the directory again well before.
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            chain,
            key: _,
            anchors,
            not_after,
        } = self;
        f.debug_struct("Identity")
            .field("name", name)
            .field("chain", &chain.len())
            .field("anchors", &anchors.len())
            .field("not_after", not_after)
            .finish_non_exhaustive()
    }
}

/// One certificate of the directory, as people look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The file without `.crt`.
    pub name: String,
    /// The certificate's subject.
    pub subject: String,
    /// SHA-256, in hex with colons.
    pub fingerprint: String,
    /// When it ends.
    pub not_after: SystemTime,
    /// Whether it is valid at the time of asking.
    pub valid: bool,
    /// The file, without `.crt`, of the authority that signed it; `None` if none here did.
    pub signed_by: Option<String>,
    /// Whether its private key lies beside it.
    pub has_key: bool,
    /// Whether others than its owner can read that key.
    pub exposed: bool,
}
