//! What is kept of a sign-in, as it is written.

use serde::{Deserialize, Serialize};

use super::keys;

/// The form of this record; another one is as if there were none, and somebody signs in again.
const FORMAT: u32 = 1;

/// A token is renewed this long before its end, so that it does not lapse on its way; one that is
/// good for less than twice that, after half of its time.
const MARGIN_SECONDS: u64 = 30;

/// What is kept of a sign-in. Everything in it belongs to one issuer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    /// Who gave it all out.
    pub(super) issuer: String,
    /// What for.
    pub(super) resource: String,
    /// Where tokens are renewed.
    pub(super) token_endpoint: String,
    /// How clients may show who they are there.
    pub(super) methods: Option<Vec<String>>,
    /// Who we are there.
    pub(super) client: Registered,
    /// The rights that were asked for.
    pub(super) scopes: Vec<String>,
    /// What lets us in.
    pub(super) token: Option<Token>,
    /// The key that it is bound to.
    pub(super) key: Option<String>,
}

/// Who we are at one authorization server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Registered {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    /// How it wants to be shown that.
    pub(super) method: Option<String>,
    /// Where people come back to, if it was told.
    pub(super) callback: Option<String>,
    /// We asked to be registered, and can again.
    pub(super) by_us: bool,
}

/// What lets us in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) access: String,
    /// It is shown with a proof of its key.
    pub(super) bound: bool,
    pub(super) refresh: Option<String>,
    /// When it is renewed, in seconds since 1970.
    pub(super) renew_at: Option<u64>,
}

impl Record {
    pub(super) fn new(issuer: String, resource: String, client: Registered) -> Self {
        Self {
            format: FORMAT,
            issuer,
            resource,
            token_endpoint: String::new(),
            methods: None,
            client,
            scopes: Vec::new(),
            token: None,
            key: None,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let record: Self = serde_json::from_str(text).ok()?;
        (record.format == FORMAT).then_some(record)
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers have a JSON form")
    }
}

impl Token {
    /// When a token is renewed that is good for so many seconds.
    pub(super) fn renewal(seconds: u64) -> u64 {
        keys::now() + seconds - MARGIN_SECONDS.min(seconds / 2)
    }

    /// Whether it lapses before it would arrive.
    pub(super) fn lapses(&self) -> bool {
        self.renew_at.is_some_and(|at| at <= keys::now())
    }
}
