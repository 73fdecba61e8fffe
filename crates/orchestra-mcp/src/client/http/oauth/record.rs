//! What is kept of a sign-in, as it is written.

use serde::{Deserialize, Serialize};

use super::{Grant, OAuthConfig, discovery::Found, keys};

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
    /// How its tokens were got; nothing where that was not kept yet.
    #[serde(default)]
    by: Option<By>,
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

/// On whose behalf tokens were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum By {
    Person,
    Client,
    Workload,
    Enterprise,
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
    pub(super) fn new(found: &Found, client: Registered, grant: &Grant) -> Self {
        Self {
            format: FORMAT,
            issuer: found.issuer.clone(),
            resource: found.resource.clone(),
            by: Some(By::of(grant)),
            token_endpoint: found.token.to_string(),
            methods: found.methods.clone(),
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

    /// Whether it is what this configuration would get: by its grant, and for its client. Of a record
    /// that does not say its grant, only a person's is told apart: nobody else's is renewed, or
    /// belongs to a client that was not configured.
    pub(super) fn is_of(&self, config: &OAuthConfig) -> bool {
        let is_ours = match &config.client {
            Some(client) => !self.client.by_us && client.id == self.client.id,
            None => self.client.by_us || config.client_document.as_ref() == Some(&self.client.id),
        };
        let by = self.by.or_else(|| {
            let is_renewed = |token: &Token| token.refresh.is_some();
            let is_persons = self.client.by_us
                || config.client.is_none()
                || self.token.as_ref().is_some_and(is_renewed);
            is_persons.then_some(By::Person)
        });
        is_ours && by == Some(By::of(&config.grant))
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers have a JSON form")
    }
}

impl By {
    const fn of(grant: &Grant) -> Self {
        match grant {
            Grant::Person => Self::Person,
            Grant::Client => Self::Client,
            Grant::Workload { .. } => Self::Workload,
            Grant::Enterprise(_) => Self::Enterprise,
        }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::client::http::{
        Template,
        oauth::{ClientProof, KnownClient, MemoryStore},
    };

    fn config(client: Option<&str>, grant: Grant) -> OAuthConfig {
        let client = client.map(|id| KnownClient {
            id: id.to_owned(),
            proof: ClientProof::None,
        });
        let document = Some("https://orchestra.example/client.json".to_owned());
        OAuthConfig {
            client,
            grant,
            client_document: document,
            ..OAuthConfig::new(Arc::new(MemoryStore::default()))
        }
    }

    fn record(by: Value, id: &str, by_us: bool, refresh: Option<&str>) -> Record {
        let mut record = json!({
            "format": 1, "issuer": "i", "resource": "r", "token_endpoint": "t", "methods": null,
            "client": {"id": id, "secret": null, "method": null, "callback": null, "by_us": by_us},
            "scopes": [], "key": null,
            "token": {"access": "a", "bound": false, "refresh": refresh, "renew_at": null},
        });
        if !by.is_null() {
            record["by"] = by;
        }
        Record::parse(&record.to_string()).unwrap()
    }

    #[test]
    fn a_record_is_of_the_grant_and_the_client_that_it_was_made_for() {
        let workload = || Grant::Workload {
            assertion: Template::verbatim("signed"),
        };
        let configs = || {
            [
                config(None, Grant::Person),
                config(Some("us"), Grant::Person),
                config(Some("us"), Grant::Client),
                config(Some("us"), workload()),
                config(Some("them"), Grant::Client),
            ]
        };
        let document = "https://orchestra.example/client.json";
        for (record, expected) in [
            (
                record(json!("person"), "me", true, None),
                [true, false, false, false, false],
            ),
            (
                record(json!("person"), document, false, None),
                [true, false, false, false, false],
            ),
            (
                record(json!("person"), "us", true, None),
                [true, false, false, false, false],
            ),
            (
                record(json!("person"), "us", false, Some("r")),
                [false, true, false, false, false],
            ),
            (
                record(json!("client"), "us", false, None),
                [false, false, true, false, false],
            ),
            (
                record(json!("workload"), "us", false, None),
                [false, false, false, true, false],
            ),
            (record(json!("enterprise"), "us", false, None), [false; 5]),
            // Of before there was a word on it.
            (
                record(Value::Null, "me", true, None),
                [true, false, false, false, false],
            ),
            (
                record(Value::Null, document, false, None),
                [true, false, false, false, false],
            ),
            (
                record(Value::Null, "us", false, Some("r")),
                [false, true, false, false, false],
            ),
            (record(Value::Null, "us", false, None), [false; 5]),
        ] {
            let of = configs().map(|config| record.is_of(&config));
            assert_eq!(of, expected, "{record:?}");
        }
    }
}
