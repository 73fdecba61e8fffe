//! Addresses that a refusal names: requested during a sign-in alone, and only if they can be trusted.

use std::sync::{Arc, Mutex};

use orchestra_mcp::client::{
    ClientError,
    http::{
        Url,
        oauth::{MemoryStore, OAuthConfig, SignIn, login},
    },
};
use serde_json::json;

use super::{Realm, Scripted, agree, asked_at, realm, with_oauth};
use crate::client_http::scripted::{ask, connected, empty, json_of, result};

/// Server that describes `realm` at another address.
async fn elsewhere(realm: &Scripted) -> Scripted {
    let at = format!("http://{}", realm.address);
    let document = json!({"resource": format!("{at}/mcp"), "authorization_servers": [at]});
    Scripted::new(move |seen| {
        let answer = match &*seen.path {
            "/metadata" => json_of(200, &document),
            _ => empty(404),
        };
        async move { answer }
    })
    .await
}

fn name(realm: &Realm, metadata: &str) {
    *realm.metadata.lock().unwrap() = Some(metadata.to_owned());
}

/// Person who agrees, and the addresses of metadata that were shown.
#[derive(Default)]
struct Person(Mutex<Vec<String>>);

impl SignIn for Person {
    fn show(&self, url: &Url) {
        tokio::spawn(agree(url.clone(), Some(url.origin().ascii_serialization())));
    }

    fn show_metadata(&self, url: &Url) {
        self.0.lock().unwrap().push(url.to_string());
    }
}

#[tokio::test]
async fn refusal_sends_no_request_to_another_address_before_a_sign_in() {
    let (realm, server) = realm().await;
    let other = elsewhere(&server).await;
    let metadata = format!("http://{}/metadata", other.address);
    name(&realm, &metadata);
    let store = Arc::new(MemoryStore::default());
    let config = with_oauth(&server, &OAuthConfig::new(store.clone()));

    let there = connected(config.clone()).await;
    for id in 1..3 {
        let error = ask(&*there.link, id, "ping", &json!({})).await.unwrap_err();
        assert!(matches!(&error, ClientError::NeedsAuth { .. }), "{error}");
        let told = error.explain();
        assert!(told.contains("run `orchestra mcp login there`"), "{told}");
    }
    assert!(other.seen().is_empty());
    assert_eq!(asked_at(&server, "/mcp").len(), server.seen().len());

    // The sign-in reads the metadata, and shows its address.
    let person = Arc::new(Person::default());
    login(config.clone(), store, &[], person.clone())
        .await
        .unwrap();
    assert_eq!(*person.0.lock().unwrap(), [metadata]);
    assert_eq!(asked_at(&other, "/metadata").len(), 1);
    let there = connected(config).await;
    result(&*there.link, 1, "ping", &json!({})).await;
}

#[tokio::test]
async fn metadata_at_an_address_that_others_could_answer_is_not_read_during_a_sign_in() {
    let (realm, server) = realm().await;
    let config = with_oauth(&server, &OAuthConfig::new(Arc::new(MemoryStore::default())));
    for metadata in [
        "http://metadata.example/x",
        "file:///etc/passwd",
        "http://user@127.0.0.1:9/x",
        "not a URL",
    ] {
        name(&realm, metadata);
        let person = Arc::new(Person::default());
        let store = Arc::new(MemoryStore::default());
        let error = login(config.clone(), store, &[], person.clone())
            .await
            .unwrap_err()
            .explain();
        assert!(
            error.contains("cannot be trusted") && error.contains(metadata),
            "{metadata}: {error}"
        );
        assert!(person.0.lock().unwrap().is_empty(), "{metadata}");
    }
}
