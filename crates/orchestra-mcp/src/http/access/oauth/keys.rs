//! The keys of an issuer (RFC 7517), and what they verify. A key fixes the algorithms that it is
//! good for; what a token says of itself only chooses among these (RFC 8725, section 3.1).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;

/// The most keys that an issuer may have: real ones have two or three.
const MOST_KEYS: usize = 64;

/// The keys that are tried for a token that does not say which one signed it.
const MOST_TRIED: usize = 4;

/// The sizes of RSA moduli in bytes that are used: below they can be broken, above they cost us.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=512;

/// How tokens may be signed: with private keys alone. Secrets that both sides know (`HS256`) and no
/// signature at all (`none`) are not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Ed25519,
}

/// Keys that were published together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Keys(Vec<Key>);

#[derive(Debug, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    /// The only algorithm that the issuer uses it for.
    only: Option<Algorithm>,
    material: Material,
}

#[derive(Debug, PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A document that is no set of keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeysError {
    #[error("not a JSON object with a list of keys")]
    Malformed(#[source] serde_json::Error),
    #[error("the key set has {0} keys, more than {MOST_KEYS}")]
    TooMany(usize),
    #[error("the key set has no key of a supported algorithm")]
    None,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Published {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Algorithm {
    /// The algorithm of a name (RFC 7518, section 3.1; RFC 8037; RFC 9864).
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "EdDSA" | "Ed25519" => Self::Ed25519,
            _ => return None,
        })
    }

    const fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Self::Es256 | Self::Es384 | Self::Ed25519 => return None,
        })
    }
}

impl Keys {
    /// Reads a set of keys. What is for another use, or of a kind that is not known, is left out
    /// (RFC 7517, section 5).
    ///
    /// # Errors
    /// When it is none, or has no key that is of use here, or too many.
    pub(super) fn parse(document: &[u8]) -> Result<Self, KeysError> {
        let Document { keys } = serde_json::from_slice(document).map_err(KeysError::Malformed)?;
        if keys.len() > MOST_KEYS {
            return Err(KeysError::TooMany(keys.len()));
        }
        let keys: Vec<Key> = keys
            .into_iter()
            .filter_map(|key| Key::of(serde_json::from_value(key).ok()?))
            .collect();
        if keys.is_empty() {
            return Err(KeysError::None);
        }
        Ok(Self(keys))
    }

    /// Whether there is a key that may have signed something.
    pub(super) fn know(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        self.fitting(id, algorithm).next().is_some()
    }

    /// Whether one of them has signed `message`.
    pub(super) fn verify(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        self.fitting(id, algorithm)
            .take(MOST_TRIED)
            .any(|key| key.material.verifies(algorithm, message, signature))
    }

    /// The keys of an id, or all if it is not told, as far as they are for the algorithm.
    fn fitting(&self, id: Option<&str>, algorithm: Algorithm) -> impl Iterator<Item = &Key> {
        self.0.iter().filter(move |key| {
            (id.is_none() || key.id.as_deref() == id)
                && key.only.is_none_or(|only| only == algorithm)
                && key.material.fits(algorithm)
        })
    }
}

impl Key {
    /// `None` for what is not for us.
    fn of(published: Published) -> Option<Self> {
        let is_for_signatures = published.usage.is_none_or(|usage| usage == "sig")
            && published
                .key_ops
                .is_none_or(|all| all.iter().any(|operation| operation == "verify"));
        if !is_for_signatures {
            return None;
        }
        let only = match published.alg {
            Some(name) => Some(Algorithm::named(&name)?),
            None => None,
        };
        let bytes = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
        let of_length = |text, length| bytes(text).filter(|bytes| bytes.len() == length);
        let point = |x, y, length| {
            // Both coordinates in full, behind the mark of a point that is not compressed.
            Some([vec![4], of_length(x, length)?, of_length(y, length)?].concat())
        };
        let material = match (published.kty.as_str(), published.crv.as_deref()) {
            ("RSA", _) => {
                let (n, e) = (number(bytes(published.n)?), number(bytes(published.e)?));
                if !RSA_BYTES.contains(&n.len()) {
                    return None;
                }
                Material::Rsa { n, e }
            }
            ("EC", Some("P-256")) => Material::P256(point(published.x, published.y, 32)?),
            ("EC", Some("P-384")) => Material::P384(point(published.x, published.y, 48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(of_length(published.x, 32)?),
            _ => return None,
        };
        Some(Self {
            id: published.kid,
            only,
            material,
        })
    }
}

impl Material {
    const fn fits(&self, algorithm: Algorithm) -> bool {
        match self {
            Self::Rsa { .. } => algorithm.rsa().is_some(),
            Self::P256(_) => matches!(algorithm, Algorithm::Es256),
            Self::P384(_) => matches!(algorithm, Algorithm::Es384),
            Self::Ed25519(_) => matches!(algorithm, Algorithm::Ed25519),
        }
    }

    fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.fits(algorithm) {
            return false;
        }
        let verified = match self {
            Self::Rsa { n, e } => {
                let Some(parameters) = algorithm.rsa() else {
                    return false;
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            Self::P256(point) => UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point)
                .verify(message, signature),
            Self::P384(point) => UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point)
                .verify(message, signature),
            Self::Ed25519(point) => {
                UnparsedPublicKey::new(&signature::ED25519, point).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}

/// A number without zeros before it, which some issuers write.
fn number(bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros..].to_vec()
}

#[cfg(test)]
mod tests;
