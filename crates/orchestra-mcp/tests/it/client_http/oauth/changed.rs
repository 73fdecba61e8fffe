//! A configuration that says another grant or another client than before, or than that of another
//! program.

use std::sync::{Arc, atomic::Ordering};

use orchestra_mcp::client::http::{
    Template,
    oauth::{ClientProof, Grant, KnownClient, MemoryStore, OAuthConfig, TokenStore},
};
use serde_json::json;

use super::{agrees, asked_at, form, realm, with_oauth};
use crate::client_http::scripted::{Scripted, connected, result};

/// A way to get tokens, and what it is called where tokens are given out.
#[derive(Debug, Clone, Copy)]
struct Way {
    client: Option<&'static str>,
    grant: &'static str,
}

const SELF_REGISTERED: Way = Way {
    client: None,
    grant: "authorization_code",
};

const PERSON: Way = Way {
    client: Some("orchestra"),
    grant: "authorization_code",
};

const CLIENT: Way = Way {
    client: Some("orchestra"),
    grant: "client_credentials",
};

const WORKLOAD: Way = Way {
    client: Some("orchestra"),
    grant: "urn:ietf:params:oauth:grant-type:jwt-bearer",
};

impl Way {
    fn config(self, store: &Arc<dyn TokenStore>) -> OAuthConfig {
        let mut config = OAuthConfig::new(Arc::clone(store));
        config.client = self.client.map(|id| KnownClient {
            id: id.to_owned(),
            proof: ClientProof::None,
        });
        config.grant = match self.grant {
            "authorization_code" => Grant::Person,
            "client_credentials" => Grant::Client,
            _ => Grant::Workload {
                assertion: Template::verbatim("signed"),
            },
        };
        agrees(&mut config);
        config
    }
}

fn last_grant(server: &Scripted) -> String {
    let asked = asked_at(server, "/token").pop().unwrap();
    form(&asked)["grant_type"].clone()
}

#[tokio::test]
async fn a_token_of_another_grant_or_client_is_not_used() {
    for (before, after) in [
        (PERSON, CLIENT),
        (CLIENT, PERSON),
        (PERSON, WORKLOAD),
        (WORKLOAD, CLIENT),
        (CLIENT, SELF_REGISTERED),
        (PERSON, SELF_REGISTERED),
        (SELF_REGISTERED, CLIENT),
    ] {
        let (realm, server) = realm().await;
        let store: Arc<dyn TokenStore> = Arc::new(MemoryStore::default());
        for (way, given) in [(before, 1), (before, 1), (after, 2), (after, 2)] {
            let there = connected(with_oauth(&server, &way.config(&store))).await;
            result(&*there.link, 1, "ping", &json!({})).await;
            let now = realm.given.load(Ordering::SeqCst);
            assert_eq!(now, given, "{before:?}, then {after:?}");
            assert_eq!(last_grant(&server), way.grant);
        }
    }
}

#[tokio::test]
async fn what_another_program_got_in_another_way_is_not_taken_for_a_renewal() {
    let (realm, server) = realm().await;
    let store: Arc<dyn TokenStore> = Arc::new(MemoryStore::default());
    let person = connected(with_oauth(&server, &PERSON.config(&store))).await;
    result(&*person.link, 1, "ping", &json!({})).await;
    let client = connected(with_oauth(&server, &CLIENT.config(&store))).await;
    result(&*client.link, 1, "ping", &json!({})).await;
    assert_eq!(realm.given.load(Ordering::SeqCst), 2);
    // The token that lets in now is the client's.
    result(&*person.link, 2, "ping", &json!({})).await;
    assert_eq!(realm.given.load(Ordering::SeqCst), 3);
    assert_eq!(last_grant(&server), PERSON.grant);
}
