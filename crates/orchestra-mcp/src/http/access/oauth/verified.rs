//! Tokens that were verified a moment ago, so that a signature is looked at once and not with each
//! request. Of a token its digest is kept.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
    time::SystemTime,
};

use sha2::{Digest as _, Sha256};

use super::Subject;

/// The most tokens: callers have one each, and another every few minutes.
const MOST: usize = 16_384;

/// What a token is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub(super) fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }
}

/// What was found of a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verified {
    pub(super) subject: Subject,
    /// The place of its issuer.
    pub(super) issuer: usize,
    /// The issuer's keys that it was verified with: with others it must be verified again.
    pub(super) edition: u64,
    /// When it is good for nothing any more.
    pub(super) end: SystemTime,
}

/// The tokens that were verified.
#[derive(Debug, Default)]
pub(super) struct Tokens(RwLock<HashMap<TokenDigest, Verified>>);

impl Tokens {
    /// What was found of a token that has not ended.
    pub(super) fn find(&self, token: TokenDigest, now: SystemTime) -> Option<Verified> {
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tokens
            .get(&token)
            .copied()
            .filter(|verified| now < verified.end)
    }

    /// Keeps what was found. If there are too many that have not ended, all are forgotten: they
    /// are verified again.
    pub(super) fn keep(&self, token: TokenDigest, verified: Verified, now: SystemTime) {
        let mut tokens = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= MOST {
            tokens.retain(|_, verified| now < verified.end);
        }
        if tokens.len() >= MOST {
            tokens.clear();
        }
        tokens.insert(token, verified);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn tokens_are_forgotten_at_their_end_and_bounded_in_number() {
        let (tokens, now) = (Tokens::default(), SystemTime::now());
        let second = Duration::from_secs(1);
        let verified = |end| Verified {
            subject: Subject::of("issuer", "subject", None),
            issuer: 0,
            edition: 1,
            end,
        };
        let digest = |number: usize| TokenDigest::of(&number.to_be_bytes());
        tokens.keep(digest(0), verified(now + second), now);
        assert!(tokens.find(digest(0), now).is_some());
        assert!(tokens.find(digest(0), now + second).is_none());
        assert!(tokens.find(digest(1), now).is_none());
        for number in 1..=MOST * 2 {
            let lasts = verified(now + second * 60);
            tokens.keep(digest(number), lasts, now + second);
            assert!(tokens.0.read().unwrap().len() <= MOST);
            assert!(tokens.find(digest(number), now + second).is_some());
        }
    }
}
