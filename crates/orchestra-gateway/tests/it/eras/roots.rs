//! Clients with and without roots before one server: each has a connection that was greeted for it.

use std::sync::{Arc, atomic::Ordering};

use orchestra_gateway::config::{Protocol, Template};
use orchestra_hub::Toolset;
use serde_json::{Value, json};

use super::{Client, SESSION, STATELESS, bench, played_both, revision_heard};
use crate::played::{Bench, PATIENCE, Played, config, said, tool, until};

/// Capabilities of a client with or without roots.
fn roots(has_roots: bool) -> Value {
    match has_roots {
        true => json!({"roots": {}}),
        false => json!({}),
    }
}

#[tokio::test]
async fn session_server_is_offered_the_roots_of_each_caller_in_any_order() {
    let state = Arc::new(tempfile::tempdir().unwrap());
    for protocol in [Protocol::Auto, Protocol::Legacy] {
        for order in [[false, true], [true, false]] {
            for revision in [SESSION, STATELESS] {
                let server = Played::new(vec![tool("get")]);
                server.say(|_, _| said("got"));
                let bench = Bench::in_state(Arc::clone(&state), &[("s", &server)]);
                let mut config = config("s");
                config.protocol = protocol;
                bench.gateway.apply(vec![config]);
                bench.tools().await;
                let mut clients = Vec::new();
                for has_roots in order {
                    let capabilities = roots(has_roots);
                    let mut client = Client::offering(&bench, revision, capabilities).await;
                    client.call("s__get").await;
                    clients.push(client);
                }
                for client in &mut clients {
                    client.call("s__get").await;
                }
                let called = server.calls_with_roots.lock().unwrap().clone();
                let expected = [order, order].concat();
                assert_eq!(called, expected, "{protocol:?} {revision} {order:?}");
                let greetings = server.greetings.lock().unwrap().len();
                assert!(greetings <= 3, "{protocol:?} {revision} {order:?}");
                bench.gateway.close(PATIENCE).await;
            }
        }
    }
}

#[tokio::test]
async fn server_of_both_eras_has_one_connection_for_each_kind_of_client() {
    let server = played_both();
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    for _ in 0..2 {
        for (revision, has_roots) in [
            (SESSION, false),
            (STATELESS, false),
            (SESSION, true),
            (STATELESS, true),
        ] {
            let mut client = Client::offering(&bench, revision, roots(has_roots)).await;
            client.call("s__get").await;
            let is_stateless = revision == STATELESS;
            assert_eq!(revision_heard(&server) == STATELESS, is_stateless);
            let called = server.calls_with_roots.lock().unwrap().last().copied();
            assert_eq!(called, Some(has_roots && !is_stateless));
        }
    }
    assert_eq!(server.connects.load(Ordering::SeqCst), 3);
    bench.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn configured_roots_are_offered_to_a_session_server_for_all_clients() {
    let server = Played::new(vec![tool("get")]);
    server.say(|_, _| said("got"));
    let bench = Bench::new(&[("s", &server)]);
    let mut config = config("s");
    config.roots = vec![Template::new("file:///work")];
    bench.gateway.apply(vec![config]);
    bench.tools().await;
    for capabilities in [json!({}), json!({"roots": {}})] {
        let mut client = Client::offering(&bench, SESSION, capabilities).await;
        client.call("s__get").await;
    }
    assert_eq!(*server.calls_with_roots.lock().unwrap(), [true, true]);
    assert_eq!(server.connects.load(Ordering::SeqCst), 1);
    bench.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn clients_share_the_first_connection_where_no_other_can_be_made() {
    let server = Played::new(vec![tool("get")]);
    server.say(|_, _| said("got"));
    let bench = bench(&server, SESSION).await;
    Client::of(&bench, SESSION).await.call("s__get").await;
    server.is_away.store(true, Ordering::SeqCst);
    let mut rooted = Client::offering(&bench, SESSION, json!({"roots": {}})).await;
    for _ in 0..3 {
        rooted.call("s__get").await;
    }
    assert_eq!(*server.calls_with_roots.lock().unwrap(), [false; 4]);
    assert_eq!(
        server.connects.load(Ordering::SeqCst),
        2,
        "it is tried once"
    );
    bench.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn tool_that_is_listed_where_roots_are_offered_is_shown_and_called_there() {
    for order in [[false, true], [true, false]] {
        let server = Played::new(vec![tool("get")]);
        *server.tools_with_roots.lock().unwrap() = vec![tool("roots")];
        server.say(|_, _| said("got"));
        let bench = bench(&server, SESSION).await;
        for has_roots in order {
            let capabilities = roots(has_roots);
            let mut client = Client::offering(&bench, SESSION, capabilities).await;
            client.call("s__get").await;
        }
        let is_shown = || {
            let tools = bench.hub.tools(&Toolset::All);
            tools.iter().any(|tool| tool.name == "s__roots")
        };
        until(is_shown).await;
        let mut rooted = Client::offering(&bench, SESSION, json!({"roots": {}})).await;
        rooted.call("s__roots").await;
        assert_eq!(server.calls_with_roots.lock().unwrap().last(), Some(&true));
        bench.gateway.close(PATIENCE).await;
    }
}

#[tokio::test]
async fn resource_is_watched_over_each_connection_to_a_process() {
    let server = Played::new(vec![tool("get")]);
    server.say(|_, _| said("got"));
    let bench = bench(&server, SESSION).await;
    let mut plain = Client::of(&bench, SESSION).await;
    plain.call("s__get").await;
    let watched = json!({"uri": "x://one"});
    plain.result("resources/subscribe", watched.clone()).await;
    let subscriptions = || server.heard("resources/subscribe");
    until(|| subscriptions().len() == 1).await;
    let mut rooted = Client::offering(&bench, SESSION, json!({"roots": {}})).await;
    rooted.call("s__get").await;
    until(|| subscriptions() == [watched.clone(), watched.clone()]).await;
    bench.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn restarted_server_is_greeted_as_its_callers_need_it() {
    let server = Played::new(vec![tool("get")]);
    server.say(|_, _| said("got"));
    let bench = bench(&server, SESSION).await;
    let mut plain = Client::of(&bench, SESSION).await;
    plain.call("s__get").await;
    // A client that makes no call.
    let _rooted = Client::offering(&bench, SESSION, roots(true)).await;
    server.crash();
    until(|| server.greetings.lock().unwrap().len() == 2).await;
    plain.call("s__get").await;
    assert_eq!(*server.calls_with_roots.lock().unwrap(), [false, false]);
    assert_eq!(server.connects.load(Ordering::SeqCst), 2);
    bench.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn restarted_server_is_greeted_again_for_a_client_of_another_kind() {
    let server = Played::new(vec![tool("get")]);
    server.say(|_, _| said("got"));
    let bench = bench(&server, SESSION).await;
    Client::of(&bench, SESSION).await.call("s__get").await;
    server.crash();
    until(|| server.greetings.lock().unwrap().len() == 2).await;
    for has_roots in [true, false] {
        let mut client = Client::offering(&bench, SESSION, roots(has_roots)).await;
        client.call("s__get").await;
    }
    let called = server.calls_with_roots.lock().unwrap().clone();
    assert_eq!(called, [false, true, false]);
    bench.gateway.close(PATIENCE).await;
}
