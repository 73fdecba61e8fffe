//! Signs: who a client is (RFC 7523), and that whoever shows a token holds its key (RFC 9449).

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use reqwest::{Method, Url};
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom as _, SystemRandom},
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};

/// For how long what a client says of itself is good.
const ASSERTION_SECONDS: u64 = 60;

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error("not a PEM-encoded PKCS#8 private key")]
    Form,
    #[error(
        "the algorithm {0} is not supported or does not fit the key; supported are ES256, ES384, RS256 and EdDSA"
    )]
    Algorithm(String),
    #[error("signing failed: the system provides no random bytes, or the key is not suitable")]
    Sign,
}

/// A key that signs.
pub(super) enum SigningKey {
    Es256(EcdsaKeyPair),
    Es384(EcdsaKeyPair),
    Rs256(Box<RsaKeyPair>),
    EdDsa(Ed25519KeyPair),
}

impl SigningKey {
    /// Reads a key in PEM.
    ///
    /// # Errors
    /// When it is none, or none for that algorithm.
    pub(super) fn from_pem(pem: &str, algorithm: &str) -> Result<Self, KeyError> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| KeyError::Form)?;
        let key = key.secret_pkcs8_der();
        let random = SystemRandom::new();
        let found = match algorithm {
            "ES256" => EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &random)
                .map(Self::Es256),
            "ES384" => EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, key, &random)
                .map(Self::Es384),
            "RS256" => RsaKeyPair::from_pkcs8(key).map(|key| Self::Rs256(Box::new(key))),
            "EdDSA" => Ed25519KeyPair::from_pkcs8_maybe_unchecked(key).map(Self::EdDsa),
            _ => return Err(KeyError::Algorithm(algorithm.to_owned())),
        };
        found.map_err(|_| KeyError::Algorithm(algorithm.to_owned()))
    }

    /// A JSON web token with these claims.
    fn token(&self, mut header: Value, claims: &Value) -> Result<String, KeyError> {
        header["alg"] = json!(match self {
            Self::Es256(_) => "ES256",
            Self::Es384(_) => "ES384",
            Self::Rs256(_) => "RS256",
            Self::EdDsa(_) => "EdDSA",
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&header), part(claims));
        let random = SystemRandom::new();
        let signature = match self {
            Self::Es256(key) | Self::Es384(key) => {
                let signature = key.sign(&random, text.as_bytes());
                signature.map_err(|_| KeyError::Sign)?.as_ref().to_vec()
            }
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature)
                    .map_err(|_| KeyError::Sign)?;
                signature
            }
            Self::EdDsa(key) => key.sign(text.as_bytes()).as_ref().to_vec(),
        };
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Says who a client is, to one authorization server (RFC 7523, section 3).
    ///
    /// # Errors
    /// When it cannot be signed.
    pub(super) fn assertion(&self, client: &str, issuer: &str) -> Result<String, KeyError> {
        let now = now();
        let claims = json!({
            "iss": client,
            "sub": client,
            "aud": issuer,
            "jti": random_text()?,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
        });
        self.token(json!({"typ": "JWT"}), &claims)
    }
}

/// A key that tokens are bound to.
pub(super) struct ProofKey {
    key: SigningKey,
    public: Value,
    /// How it is kept.
    pkcs8: Vec<u8>,
}

impl ProofKey {
    /// A new key.
    ///
    /// # Errors
    /// Without randomness.
    pub(super) fn draw() -> Result<Self, KeyError> {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new());
        Self::of(pkcs8.map_err(|_| KeyError::Sign)?.as_ref())
    }

    fn of(pkcs8: &[u8]) -> Result<Self, KeyError> {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &SystemRandom::new());
        let key = key.map_err(|_| KeyError::Form)?;
        // An uncompressed point: 4, and two numbers of 32 bytes.
        let point = key.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        let public = json!({
            "kty": "EC",
            "crv": "P-256",
            "x": URL_SAFE_NO_PAD.encode(x),
            "y": URL_SAFE_NO_PAD.encode(y),
        });
        Ok(Self {
            key: SigningKey::Es256(key),
            public,
            pkcs8: pkcs8.to_vec(),
        })
    }

    /// Reads what [`to_text`](Self::to_text) wrote.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        Self::of(&STANDARD.decode(text).ok()?).ok()
    }

    /// How it is kept.
    pub(super) fn to_text(&self) -> String {
        STANDARD.encode(&self.pkcs8)
    }

    /// Shows for one request that we hold the key (RFC 9449, section 4.2).
    ///
    /// # Errors
    /// When it cannot be signed.
    pub(super) fn proof(
        &self,
        method: &Method,
        url: &Url,
        nonce: Option<&str>,
        token: Option<&str>,
    ) -> Result<String, KeyError> {
        let mut place = url.clone();
        place.set_query(None);
        place.set_fragment(None);
        let mut claims = json!({
            "jti": random_text()?,
            "htm": method.as_str(),
            "htu": place.as_str(),
            "iat": now(),
        });
        if let Some(nonce) = nonce {
            claims["nonce"] = json!(nonce);
        }
        if let Some(token) = token {
            claims["ath"] = json!(hash(token));
        }
        let header = json!({"typ": "dpop+jwt", "jwk": self.public});
        self.key.token(header, &claims)
    }
}

/// SHA-256 of a text, as it stands in URLs (RFC 7636, section 4.2).
pub(super) fn hash(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
}

/// 32 random bytes as they stand in URLs.
///
/// # Errors
/// Without randomness.
pub(super) fn random_text() -> Result<String, KeyError> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| KeyError::Sign)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    fn decoded(part: &str) -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn a_proof_is_for_one_request_and_verifies_by_the_key_it_shows() {
        let key = ProofKey::from_text(&ProofKey::draw().unwrap().to_text()).unwrap();
        let url = "https://x.example/token?a=b".parse().unwrap();
        let proof = key
            .proof(&Method::POST, &url, Some("n"), Some("t"))
            .unwrap();
        let [header, claims, signature] = proof.split('.').collect::<Vec<_>>()[..] else {
            panic!("{proof}")
        };
        let (shown, said) = (decoded(header), decoded(claims));
        assert_eq!(
            (&shown["typ"], &shown["alg"]),
            (&json!("dpop+jwt"), &json!("ES256"))
        );
        assert_eq!(said["htu"], "https://x.example/token");
        assert_eq!(
            (&said["htm"], &said["nonce"]),
            (&json!("POST"), &json!("n"))
        );
        assert_eq!(said["ath"], hash("t"));
        let number = |name: &str| {
            let text = shown["jwk"][name].as_str().unwrap();
            URL_SAFE_NO_PAD.decode(text).unwrap()
        };
        let point = [vec![4], number("x"), number("y")].concat();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
            .verify(
                format!("{header}.{claims}").as_bytes(),
                &URL_SAFE_NO_PAD.decode(signature).unwrap(),
            )
            .unwrap();
        let other = key.proof(&Method::POST, &url, None, None).unwrap();
        assert_ne!(
            decoded(other.split('.').nth(1).unwrap())["jti"],
            said["jti"]
        );
    }

    #[test]
    fn a_key_is_read_for_its_algorithm_and_no_other() {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let pem = pair.serialize_pem();
        let key = SigningKey::from_pem(&pem, "ES256").unwrap();
        let assertion = key.assertion("me", "https://issuer.example").unwrap();
        let claims = decoded(assertion.split('.').nth(1).unwrap());
        assert_eq!(
            (&claims["iss"], &claims["sub"]),
            (&json!("me"), &json!("me"))
        );
        assert_eq!(claims["aud"], "https://issuer.example");
        for algorithm in ["ES384", "RS256", "EdDSA", "none", "HS256"] {
            let refused = SigningKey::from_pem(&pem, algorithm).map(drop);
            assert!(
                matches!(refused, Err(KeyError::Algorithm(_))),
                "{algorithm}"
            );
        }
        assert!(matches!(
            SigningKey::from_pem("secret", "ES256").map(drop),
            Err(KeyError::Form)
        ));
    }
}
