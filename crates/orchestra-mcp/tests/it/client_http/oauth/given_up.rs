//! Calls that are given up while a token is asked for.

use std::sync::{Arc, atomic::Ordering};

use orchestra_mcp::client::http::oauth::{MemoryStore, OAuthConfig, TokenStore};
use serde_json::json;

use super::{agrees, realm, with_oauth};
use crate::client_http::scripted::{ask, connected, result};

/// An issuer that spends a refresh token when it is used has given out the next one before it has
/// answered; whoever called and does not wait must not take that one along.
async fn a_renewal_outlives_its_call(lapses: bool) {
    let (realm, server) = realm().await;
    let store: Arc<dyn TokenStore> = Arc::new(MemoryStore::default());
    let mut oauth = OAuthConfig::new(store);
    let times = agrees(&mut oauth);
    if lapses {
        *realm.expires.lock().unwrap() = 0;
    }
    let there = connected(with_oauth(&server, &oauth)).await;
    result(&*there.link, 1, "ping", &json!({})).await;
    if !lapses {
        *realm.good.lock().unwrap() = "another".to_owned();
    }

    realm.slow.send_replace(true);
    let none = json!({});
    tokio::select! {
        _ = ask(&*there.link, 2, "ping", &none) => panic!("nothing was answered"),
        () = realm.held.notified() => {}
    }
    *realm.expires.lock().unwrap() = 3_600;
    realm.slow.send_replace(false);
    result(&*there.link, 3, "ping", &json!({})).await;
    assert_eq!(times.load(Ordering::SeqCst), 1, "nobody signs in again");

    // What was kept is good as well.
    let again = connected(with_oauth(&server, &oauth)).await;
    result(&*again.link, 4, "ping", &json!({})).await;
    assert_eq!(times.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_token_that_lapses_is_renewed_though_the_call_is_given_up() {
    a_renewal_outlives_its_call(true).await;
}

#[tokio::test]
async fn a_token_that_was_refused_is_renewed_though_the_call_is_given_up() {
    a_renewal_outlives_its_call(false).await;
}
