//! Private keys: read in every form that programs have written, kept in the one all can read.
//!
//! Ed25519 keys come as PKCS#8 version 1 (48 bytes) and version 2 (83 or 85 bytes, which carries the
//! public key too, in two spellings). All begin alike, so the seed is taken from its place and the
//! version 1 form is rebuilt. Other keys (P-256) are kept as they are.

use std::path::Path;

use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};

use super::{der, error::CertError, pem};

/// The beginning of an Ed25519 key in PKCS#8 version 1, before its 32 bytes of seed.
const ED25519_V1: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// The seed of an Ed25519 key.
const SEED_BYTES: usize = 32;

/// What an Ed25519 key and a signature by it are called: a sequence of the one object.
const ED25519: &[u8] = &[0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70];

/// What a P-256 key is called: a key on an elliptic curve, and which.
const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];

/// What a signature by such a key is called, over SHA-256.
const ECDSA_SHA256: &[u8] = &[
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02,
];

/// A private key as PKCS#8, never shown.
pub(super) struct Key {
    der: Vec<u8>,
    pair: Pair,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

impl Key {
    /// Makes a new Ed25519 key.
    pub(super) fn generate() -> Result<Self, CertError> {
        let mut seed = [0_u8; SEED_BYTES];
        fill(&mut seed)?;
        Self::from_der(&v1(&seed)).map_err(CertError::Make)
    }

    /// Reads a key file.
    pub(super) fn from_pem(text: &[u8], path: &Path) -> Result<Self, CertError> {
        let wrong = |why: &str| CertError::Content {
            path: path.to_owned(),
            what: "private key",
            why: why.to_owned(),
        };
        let key = PrivatePkcs8KeyDer::from_pem_slice(text)
            .map_err(|_| wrong("it holds no PRIVATE KEY (PKCS#8) in PEM"))?;
        Self::from_der(key.secret_pkcs8_der()).map_err(|why| wrong(&why))
    }

    fn from_der(der: &[u8]) -> Result<Self, String> {
        let unusable = |_| "it is neither an Ed25519 nor a P-256 key".to_owned();
        if let Some(seed) = ed25519_seed(der) {
            let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(unusable)?;
            return Ok(Self {
                der: v1(&seed),
                pair: Pair::Ed25519(pair),
            });
        }
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der, &SystemRandom::new())
                .map_err(unusable)?;
        Ok(Self {
            der: der.to_vec(),
            pair: Pair::P256(pair),
        })
    }

    /// The key as rustls takes it.
    pub(super) fn pkcs8(&self) -> PrivatePkcs8KeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.der.clone())
    }

    /// The key as a file holds it.
    pub(super) fn to_pem(&self) -> String {
        pem::encode("PRIVATE KEY", &self.der)
    }

    /// Whether a certificate's public key is this key's.
    pub(super) fn fits(&self, subject_public_key: &[u8]) -> bool {
        self.public_key() == subject_public_key
    }

    /// The public key as a certificate holds it.
    pub(super) fn public_key_info(&self) -> Vec<u8> {
        let called = match self.pair {
            Pair::Ed25519(_) => ED25519,
            Pair::P256(_) => P256,
        };
        der::sequence(&[called, &der::bits(self.public_key())])
    }

    /// What its signatures are called, as a certificate says it.
    pub(super) fn signature_algorithm(&self) -> &'static [u8] {
        match self.pair {
            Pair::Ed25519(_) => ED25519,
            Pair::P256(_) => ECDSA_SHA256,
        }
    }

    /// Signs.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CertError> {
        match &self.pair {
            Pair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            Pair::P256(pair) => match pair.sign(&SystemRandom::new(), message) {
                Ok(signature) => Ok(signature.as_ref().to_vec()),
                Err(_) => Err(CertError::Random),
            },
        }
    }

    fn public_key(&self) -> &[u8] {
        match &self.pair {
            Pair::Ed25519(pair) => pair.public_key().as_ref(),
            Pair::P256(pair) => pair.public_key().as_ref(),
        }
    }
}

/// Fills bytes at random.
pub(super) fn fill(bytes: &mut [u8]) -> Result<(), CertError> {
    let filled = SystemRandom::new().fill(bytes);
    filled.map_err(|_| CertError::Random)
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
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let key = Key::from_der(&pair.serialize_der()).unwrap();
        assert_eq!(key.der, pair.serialize_der());
        assert!(key.fits(pair.public_key_raw()));
    }

    #[test]
    fn garbage_is_no_key_and_is_not_shown() {
        for bad in [&b""[..], b"\x30", &[0_u8; 48], &ED25519_V1] {
            assert!(Key::from_der(bad).is_err());
        }
    }
}
