//! Private keys: read in every form that programs have written, kept in the one all can read.
//!
//! Ed25519 keys come as PKCS#8 version 1 (48 bytes) and version 2 (83 or 85 bytes, which carries the
//! public key too, in two spellings). All begin alike, so the seed is taken from its place and the
//! version 1 form is rebuilt. Other keys (P-256) are kept as they are.

use std::path::Path;

use rcgen::KeyPair;
use rustls_pki_types::PrivatePkcs8KeyDer;

use super::error::CertError;

/// The beginning of an Ed25519 key in PKCS#8 version 1, before its 32 bytes of seed.
const ED25519_V1: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// The seed of an Ed25519 key.
const SEED_BYTES: usize = 32;

/// A private key as PKCS#8, never shown.
pub(super) struct Key {
    der: Vec<u8>,
    pair: KeyPair,
}

impl Key {
    /// Makes a new Ed25519 key.
    pub(super) fn generate() -> Result<Self, CertError> {
        let mut seed = [0_u8; SEED_BYTES];
        getrandom::fill(&mut seed).map_err(|error| CertError::Random(error.to_string()))?;
        Self::from_der(&v1(&seed)).map_err(CertError::Make)
    }

    /// Reads a key file.
    pub(super) fn from_pem(text: &[u8], path: &Path) -> Result<Self, CertError> {
        let wrong = |why: &str| CertError::Content {
            path: path.to_owned(),
            what: "private key",
            why: why.to_owned(),
        };
        let block = pem::parse(text).map_err(|_| wrong("it is not PEM"))?;
        if block.tag() != "PRIVATE KEY" {
            return Err(wrong("its label is not PRIVATE KEY (PKCS#8)"));
        }
        Self::from_der(block.contents()).map_err(|why| wrong(&why))
    }

    fn from_der(der: &[u8]) -> Result<Self, String> {
        let der = ed25519_seed(der).map_or_else(|| der.to_vec(), |seed| v1(&seed));
        let pair = KeyPair::try_from(&PrivatePkcs8KeyDer::from(der.as_slice()))
            .map_err(|_| "it is neither an Ed25519 nor a P-256 key".to_owned())?;
        Ok(Self { der, pair })
    }

    /// The key as rcgen signs with it.
    pub(super) fn pair(&self) -> &KeyPair {
        &self.pair
    }

    /// The key as rustls takes it.
    pub(super) fn pkcs8(&self) -> PrivatePkcs8KeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.der.clone())
    }

    /// The key as a file holds it.
    pub(super) fn to_pem(&self) -> String {
        let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        pem::encode_config(&pem::Pem::new("PRIVATE KEY", self.der.clone()), config)
    }

    /// Whether a certificate's public key is this key's.
    pub(super) fn fits(&self, subject_public_key: &[u8]) -> bool {
        self.pair.public_key_raw() == subject_public_key
    }
}

fn v1(seed: &[u8; SEED_BYTES]) -> Vec<u8> {
    [&ED25519_V1[..], &seed[..]].concat()
}

/// The seed of an Ed25519 key of either version; `None` for any other key.
fn ed25519_seed(der: &[u8]) -> Option<[u8; SEED_BYTES]> {
    let (head, rest) = der.split_first_chunk::<16>()?;
    let same = head[0] == 0x30
        && usize::from(head[1]) == der.len() - 2
        && head[2..4] == ED25519_V1[2..4]
        && head[4] <= 1
        && head[5..] == ED25519_V1[5..];
    let (seed, _) = rest.split_first_chunk::<SEED_BYTES>()?;
    same.then_some(*seed)
}

#[cfg(test)]
mod tests {
    use ring::{rand::SystemRandom, signature::Ed25519KeyPair};

    use super::*;

    #[test]
    fn every_form_becomes_version_1() {
        let v2 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let short = v2.as_ref();
        let key = Key::from_der(short).unwrap();
        assert_eq!(key.der.len(), 48);
        // The other spelling wraps the public key's bit string once more.
        let (seed, public) = (&short[16..48], &short[short.len() - 32..]);
        let mut long = vec![0x30, 83, 0x02, 0x01, 0x01];
        long.extend(&ED25519_V1[5..]);
        long.extend(seed);
        long.extend([0xa1, 0x23, 0x03, 0x21, 0x00]);
        long.extend(public);
        assert_eq!(Key::from_der(&long).unwrap().der, key.der);
        assert_eq!(Key::from_der(&key.der).unwrap().der, key.der);
    }

    #[test]
    fn a_p256_key_is_kept() {
        let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let key = Key::from_der(&pair.serialize_der()).unwrap();
        assert_eq!(key.der, pair.serialize_der());
    }

    #[test]
    fn garbage_is_no_key_and_is_not_shown() {
        for bad in [&b""[..], b"\x30", &[0_u8; 48], &ED25519_V1] {
            assert!(Key::from_der(bad).is_err());
        }
    }
}
