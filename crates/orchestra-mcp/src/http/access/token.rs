//! Bearer tokens (RFC 6750): secrets that only their digests are kept of.

use std::{fmt, str::FromStr};

use axum::http::{HeaderMap, header};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::hex::hex;

/// The fewest characters of a token: 16 of the 64 that there are hold 96 bits, which nobody
/// guesses.
const FEWEST: usize = 16;

/// The most characters of a token, for headers are bounded as well.
const MOST: usize = 4_096;

/// A secret that its holder shows with each request.
#[derive(Clone)]
pub struct Token {
    /// Of one length whatever the token's is, so that comparing tells nothing of it.
    digest: [u8; 32],
}

/// Text that is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is easily guessed.
    #[error(
        "a token must have at least {FEWEST} characters; create one with `openssl rand -hex 32`"
    )]
    Short,
    /// It does not fit a header.
    #[error("a token can have at most {MOST} characters")]
    Long,
    /// RFC 6750 does not allow it.
    #[error("a token can contain only letters, digits and - . _ ~ + /, and = at its end")]
    Character,
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        if text.len() < FEWEST {
            return Err(TokenError::Short);
        }
        if text.len() > MOST {
            return Err(TokenError::Long);
        }
        let body = text.trim_end_matches('=');
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
        if body.is_empty() || !body.bytes().all(is_allowed) {
            return Err(TokenError::Character);
        }
        Ok(Self {
            digest: digest(text.as_bytes()),
        })
    }
}

impl Token {
    /// A new random token, and its text.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn draw() -> Result<(Self, String), getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let text = hex(&secret);
        let token = Self {
            digest: digest(text.as_bytes()),
        };
        Ok((token, text))
    }

    pub(super) const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

/// Tokens of callers. The place of a token identifies its caller, so that no place gets another token.
#[derive(Debug)]
pub(super) struct Holders {
    tokens: Vec<Token>,
    /// For each place, true if its token admits its caller now.
    is_listed: Vec<bool>,
}

impl Holders {
    pub(super) fn new(tokens: Vec<Token>) -> Self {
        let is_listed = vec![true; tokens.len()];
        Self { tokens, is_listed }
    }

    /// All tokens, including removed ones.
    pub(super) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Returns whether a caller is admitted.
    pub(super) fn admits(&self, holder: usize) -> bool {
        self.is_listed.get(holder) == Some(&true)
    }

    /// The admitted caller whose token was shown.
    pub(super) fn find(&self, shown: &[u8]) -> Option<usize> {
        holder(&self.tokens, shown).filter(|holder| self.admits(*holder))
    }

    /// Admits callers with these tokens, and no other callers. Returns whether that changes anything.
    pub(super) fn list(&mut self, listed: Vec<Token>) -> bool {
        let has = |tokens: &[Token], token: &Token| {
            let mut digests = tokens.iter().map(Token::digest);
            digests.any(|digest| digest == token.digest())
        };
        let is_listed = self.tokens.iter().map(|token| has(&listed, token));
        let mut is_listed: Vec<bool> = is_listed.collect();
        for token in listed {
            if !has(&self.tokens, &token) {
                self.tokens.push(token);
                is_listed.push(true);
            }
        }
        let is_changed = is_listed != self.is_listed;
        self.is_listed = is_listed;
        is_changed
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What a request shows as its token; one that shows two shows none.
pub(super) fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.as_bytes();
    if values.next().is_some() {
        return None;
    }
    let (scheme, rest) = value.split_at_checked(b"Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| rest.trim_ascii())
}

/// The place of the token that was shown. All are compared, and each to its end, so that the time
/// it takes says nothing.
pub(super) fn holder(tokens: &[Token], shown: &[u8]) -> Option<usize> {
    if tokens.is_empty() || shown.len() > MOST {
        return None;
    }
    let shown = digest(shown);
    let mut holder = None;
    for (place, token) in tokens.iter().enumerate() {
        if bool::from(token.digest.ct_eq(&shown)) {
            holder = Some(place);
        }
    }
    holder
}

fn digest(text: &[u8]) -> [u8; 32] {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_rfc_allows_is_a_token() {
        for text in ["0123456789abcdef", "-._~+/ABCdef0123==", &"x".repeat(MOST)] {
            assert!(text.parse::<Token>().is_ok(), "{text}");
        }
        for (text, error) in [
            ("", TokenError::Short),
            ("0123456789abcde", TokenError::Short),
            (&"x".repeat(MOST + 1), TokenError::Long),
            ("0123456789 abcdef", TokenError::Character),
            ("0123456789=abcdef", TokenError::Character),
            ("================", TokenError::Character),
            ("0123456789abcdeü", TokenError::Character),
        ] {
            assert_eq!(text.parse::<Token>().unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn place_of_a_removed_token_admits_its_caller_alone_when_it_is_listed_again() {
        let tokens = |texts: &[&str]| -> Vec<Token> {
            let parsed = texts.iter().map(|text| text.parse().unwrap());
            parsed.collect()
        };
        let (first, second, third) = ("0123456789abcdef", "fedcba9876543210", "0000000000000000");
        let none: &[&str] = &[];
        let mut holders = Holders::new(tokens(&[first, second]));
        let places =
            |holders: &Holders| [first, second, third].map(|shown| holders.find(shown.as_bytes()));
        for (listed, expected, is_changed) in [
            (&[second, first][..], [Some(0), Some(1), None], false),
            (&[second][..], [None, Some(1), None], true),
            (&[third, second][..], [None, Some(1), Some(2)], true),
            (none, [None, None, None], true),
            (&[first][..], [Some(0), None, None], true),
        ] {
            assert_eq!(holders.list(tokens(listed)), is_changed, "{listed:?}");
            assert_eq!(places(&holders), expected, "{listed:?}");
        }
    }

    #[test]
    fn the_holder_is_whoever_shows_the_very_token() {
        let tokens = ["0123456789abcdef", "fedcba9876543210"].map(|text| text.parse().unwrap());
        let held = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            shown(&headers).and_then(|shown| holder(&tokens, shown))
        };
        assert_eq!(held("Bearer 0123456789abcdef"), Some(0));
        assert_eq!(held("bearer  fedcba9876543210 "), Some(1));
        for wrong in [
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789ABCDEF",
            "Basic 0123456789abcdef",
            "Bearer",
            "Bearer ",
            "0123456789abcdef",
        ] {
            assert_eq!(held(wrong), None, "{wrong}");
        }
        let mut two = HeaderMap::new();
        two.append(
            header::AUTHORIZATION,
            "Bearer 0123456789abcdef".parse().unwrap(),
        );
        two.append(
            header::AUTHORIZATION,
            "Bearer 0123456789abcdef".parse().unwrap(),
        );
        assert_eq!(shown(&two), None);
    }
}
