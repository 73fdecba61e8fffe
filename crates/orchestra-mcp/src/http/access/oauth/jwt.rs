//! Tokens that say of themselves whom they are for: JSON Web Tokens (RFC 7519) in the profile for
//! access (RFC 9068), as far as issuers keep to it.
//!
//! Nothing here trusts a token: what it says decides which keys are asked, and counts once one of
//! them has signed it.

use std::time::{Duration, SystemTime};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::Value;

use super::{
    Denied, Expected,
    keys::{Algorithm, Keys},
};

/// The most bytes of a token: more than any issuer writes, and less than a head may have.
const MOST: usize = 16 * 1024;

/// A token that was taken apart.
#[derive(Debug)]
pub(super) struct Jwt<'t> {
    algorithm: Algorithm,
    key: Option<String>,
    claims: Claims,
    /// What is signed.
    message: &'t [u8],
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// What one must understand to understand the token.
    #[serde(default, deserialize_with = "present")]
    crit: bool,
}

/// What a token says. It may be somebody's secret.
#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) iss: String,
    pub(super) sub: String,
    aud: Value,
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
    scope: Option<Value>,
    /// What some issuers call it.
    scp: Option<Value>,
    client_id: Option<String>,
    /// What `OpenID` Connect calls it.
    azp: Option<String>,
    /// The key that whoever shows the token must have as well.
    #[serde(default, deserialize_with = "present")]
    cnf: bool,
}

impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Claims(…)")
    }
}

impl<'t> Jwt<'t> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// When it is no token, or one that cannot be verified here.
    pub(super) fn parse(text: &'t [u8]) -> Result<Self, Denied> {
        if text.len() > MOST {
            return Err(Denied::Malformed);
        }
        let mut parts = text.split(|byte| *byte == b'.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Denied::Malformed);
        };
        let message = &text[..header.len() + 1 + claims.len()];
        let decoded = |part: &[u8]| URL_SAFE_NO_PAD.decode(part).map_err(|_| Denied::Malformed);
        let header: Header = read(&decoded(header)?)?;
        if header.crit {
            return Err(Denied::Critical);
        }
        let algorithm = Algorithm::named(&header.alg).ok_or(Denied::Algorithm)?;
        if !header.typ.as_deref().is_none_or(is_for_access) {
            return Err(Denied::Type);
        }
        Ok(Self {
            algorithm,
            key: header.kid,
            claims: read(&decoded(claims)?)?,
            message,
            signature: decoded(signature)?,
        })
    }

    /// Whether the keys have one that may have signed it.
    pub(super) fn is_known_to(&self, keys: &Keys) -> bool {
        keys.know(self.key.as_deref(), self.algorithm)
    }

    /// Whether one of the keys has signed it.
    pub(super) fn is_signed_by(&self, keys: &Keys) -> bool {
        let key = self.key.as_deref();
        keys.verify(key, self.algorithm, self.message, &self.signature)
    }

    /// What it says.
    pub(super) const fn claims(&self) -> &Claims {
        &self.claims
    }
}

impl Claims {
    /// Whether it is for us and for now. Of the scopes see [`Self::check_scopes`].
    ///
    /// # Errors
    /// When it is not.
    pub(super) fn check(&self, expected: &Expected, now: SystemTime) -> Result<(), Denied> {
        if self.cnf {
            return Err(Denied::Bound);
        }
        if self.sub.trim().is_empty() {
            return Err(Denied::Subject);
        }
        if !words_of(&self.aud).any(|name| expected.is_for_us(name)) {
            return Err(Denied::Audience);
        }
        let (now, leeway) = (since_epoch(now), expected.leeway.as_secs_f64());
        if now >= self.exp + leeway {
            return Err(Denied::Expired);
        }
        let has_begun = |begin: Option<f64>| begin.is_none_or(|begin| begin <= now + leeway);
        if !has_begun(self.nbf) || !has_begun(self.iat) {
            return Err(Denied::Early);
        }
        Ok(())
    }

    /// Whether it is good for what is asked for here.
    ///
    /// # Errors
    /// When a scope is missing.
    pub(super) fn check_scopes(&self, expected: &Expected) -> Result<(), Denied> {
        let granted = |scope: &str| {
            [&self.scope, &self.scp]
                .into_iter()
                .flatten()
                .flat_map(words_of)
                .flat_map(str::split_ascii_whitespace)
                .any(|granted| granted == scope)
        };
        if expected.scopes.iter().all(|scope| granted(scope.as_str())) {
            return Ok(());
        }
        Err(Denied::Scope)
    }

    /// When it ends.
    pub(super) fn end(&self, leeway: Duration) -> Option<SystemTime> {
        let end = Duration::try_from_secs_f64(self.exp).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(end)?.checked_add(leeway)
    }

    /// The program that it was issued to.
    pub(super) fn client(&self) -> Option<&str> {
        self.client_id.as_deref().or(self.azp.as_deref())
    }
}

fn read<'d, T: Deserialize<'d>>(json: &'d [u8]) -> Result<T, Denied> {
    serde_json::from_slice(json).map_err(|_| Denied::Malformed)
}

/// Whether a token of this type may be for access: the type of the profile, or the one that says
/// nothing. Others are for other uses (RFC 8725, section 3.11).
fn is_for_access(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let bare = name.strip_prefix("application/").unwrap_or(&name);
    matches!(bare, "at+jwt" | "jwt")
}

/// One text, or several.
fn words_of(value: &Value) -> impl Iterator<Item = &str> {
    let several = value.as_array().map(Vec::as_slice).unwrap_or_default();
    value
        .as_str()
        .into_iter()
        .chain(several.iter().filter_map(Value::as_str))
}

fn since_epoch(now: SystemTime) -> f64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// That a member is there, whatever it holds.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

#[cfg(test)]
mod tests;
