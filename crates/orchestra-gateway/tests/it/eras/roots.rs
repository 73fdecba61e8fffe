//! Clients with and without roots before one server: each has a connection that was greeted for it, and
//! that knows the roots of no other client.

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

/// The answer to a question for the roots of a client that works in a directory.
fn root(name: &str) -> Value {
    json!([{"uri": format!("file:///{name}")}])
}

/// A client that works in a directory.
async fn client_in(bench: &Bench, revision: &str, name: &str) -> Client {
    let mut client = Client::offering(bench, revision, roots(true)).await;
    client.roots = Some(root(name));
    client
}

impl Client {
    /// Calls a tool, and answers the question for roots that a stateless client is asked first.
    async fn call_with_roots(&mut self, name: &str) -> Value {
        let first = self.call(name).await;
        if first["resultType"] != "input_required" {
            return first;
        }
        let asked = first["inputRequests"].as_object().unwrap();
        let answers = asked.iter().map(|(key, request)| {
            assert_eq!(request["method"], "roots/list", "{first}");
            (key.clone(), json!({"roots": self.roots}))
        });
        let answers: serde_json::Map<String, Value> = answers.collect();
        let params = json!({"name": name, "arguments": {}, "inputResponses": answers,
            "requestState": first["requestState"]});
        self.result("tools/call", params).await
    }
}

/// The roots that the session of the last call had.
fn last_roots(server: &Played) -> Value {
    server.roots_of_calls.lock().unwrap().last().unwrap()["roots"].clone()
}

/// A session server that asks for roots at its start, and a gateway.
async fn asking() -> (Arc<Played>, Bench) {
    let server = Played::new(vec![tool("get"), tool("wait")]);
    server.asks_for_roots.store(true, Ordering::SeqCst);
    server.say(|_, _| said("got"));
    let bench = bench(&server, SESSION).await;
    (server, bench)
}

#[tokio::test]
async fn session_that_asks_for_roots_at_its_start_is_shared_by_equal_roots_alone() {
    for revision in [SESSION, STATELESS] {
        let (server, bench) = asking().await;
        let mut clients = Vec::new();
        for name in ["a", "b", "a"] {
            let mut client = client_in(&bench, revision, name).await;
            client.call_with_roots("s__get").await;
            assert_eq!(last_roots(&server), root(name), "{revision}");
            clients.push((client, name));
        }
        let connects = server.connects.load(Ordering::SeqCst);
        for (client, name) in &mut clients {
            client.call_with_roots("s__get").await;
            assert_eq!(last_roots(&server), root(name), "{revision}");
        }
        assert_eq!(server.connects.load(Ordering::SeqCst), connects);
        Client::of(&bench, revision).await.call("s__get").await;
        let called = server.calls_with_roots.lock().unwrap().last().copied();
        assert_eq!(called, Some(false), "a client without roots");
        assert_eq!(last_roots(&server), Value::Null);
        bench.gateway.close(PATIENCE).await;
    }
}

#[tokio::test]
async fn client_that_refuses_its_roots_has_none() {
    for (name, asks_at_start) in [("get", true), ("where", false)] {
        let server = Played::new(vec![tool(name)]);
        let asks = &server.asks_for_roots;
        asks.store(asks_at_start, Ordering::SeqCst);
        server.say(|_, _| said("got"));
        let bench = bench(&server, SESSION).await;
        let mut client = Client::offering(&bench, SESSION, roots(true)).await;
        client.roots = Some(Value::Null);
        for _ in 0..2 {
            let answer = client.call(&format!("s__{name}")).await;
            assert_eq!(answer["content"][0]["text"], "got", "{answer}");
            assert_eq!(last_roots(&server), json!([]));
        }
        bench.gateway.close(PATIENCE).await;
    }
}

#[tokio::test]
async fn call_that_asks_for_roots_gets_those_of_its_caller() {
    let server = Played::new(vec![tool("where")]);
    server.say(|_, _| said("there"));
    let bench = bench(&server, SESSION).await;
    let mut first = client_in(&bench, SESSION, "a").await;
    let mut second = client_in(&bench, SESSION, "b").await;
    for _ in 0..2 {
        first.call("s__where").await;
        assert_eq!(last_roots(&server), root("a"));
        second.call("s__where").await;
        assert_eq!(last_roots(&server), root("b"));
    }
    bench.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn call_that_waits_for_its_turn_is_not_made_with_the_roots_of_another_client() {
    let server = Played::new(vec![tool("get"), tool("wait")]);
    server.say(|_, _| said("got"));
    let bench = Bench::new(&[("s", &server)]);
    let mut config = config("s");
    config.pool.outstanding = 1;
    bench.gateway.apply(vec![config]);
    bench.tools().await;
    let mut first = Client::offering(&bench, SESSION, roots(true)).await;
    let mut second = client_in(&bench, SESSION, "b").await;
    let params = json!({"name": "s__wait", "arguments": {}});
    first.begin("tools/call", params).await;
    until(|| server.heard("tools/call").len() == 1).await;
    let params = json!({"name": "s__get", "arguments": {}});
    let id = second.begin("tools/call", params).await;
    // Its call waits for the answer to the other one.
    second.result("ping", json!({})).await;
    server.asks_for_roots.store(true, Ordering::SeqCst);
    server.ask_for_roots();
    let answer = second.answer(id).await;
    assert_eq!(answer["result"]["content"][0]["text"], "got", "{answer}");
    assert_eq!(last_roots(&server), root("b"));
    bench.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn question_for_roots_that_outlives_its_call_is_answered() {
    let server = Played::new(vec![tool("hasty"), tool("where")]);
    server.say(|_, _| said("got"));
    let bench = bench(&server, SESSION).await;
    let mut client = client_in(&bench, SESSION, "a").await;
    client.call("s__hasty").await;
    until(|| server.roots_answers.load(Ordering::SeqCst) == 1).await;
    client.call("s__where").await;
    assert_eq!(last_roots(&server), root("a"));
    bench.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn changed_roots_are_notified_in_the_session_of_one_client_and_leave_a_shared_one() {
    let (server, bench) = asking().await;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    let notified = || server.heard("notifications/roots/list_changed").len();
    let mut client = client_in(&bench, SESSION, "a").await;
    client.call("s__get").await;
    let connects = server.connects.load(Ordering::SeqCst);
    client.roots = Some(root("b"));
    client.send(&changed).await;
    client.call("s__get").await;
    assert_eq!((last_roots(&server), notified()), (root("b"), 1));
    assert_eq!(server.connects.load(Ordering::SeqCst), connects);
    let mut other = client_in(&bench, SESSION, "b").await;
    other.call("s__get").await;
    assert_eq!(server.connects.load(Ordering::SeqCst), connects);
    client.roots = Some(root("c"));
    client.send(&changed).await;
    client.call("s__get").await;
    assert_eq!((last_roots(&server), notified()), (root("c"), 1));
    assert_eq!(server.connects.load(Ordering::SeqCst), connects + 1);
    other.call("s__get").await;
    assert_eq!(last_roots(&server), root("b"));
    bench.gateway.close(PATIENCE).await;
}

/// Notifies of other roots of a client, and answers the question for them.
async fn change_roots(client: &mut Client, name: &str) {
    client.roots = Some(root(name));
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    client.send(&changed).await;
    client.result("ping", json!({})).await;
}

#[tokio::test]
async fn changed_roots_are_notified_at_once_in_each_session_that_the_client_alone_uses() {
    let (server, bench) = asking().await;
    let notified = || server.heard("notifications/roots/list_changed").len();
    let mut clients = Vec::new();
    for name in ["a", "b"] {
        let mut client = client_in(&bench, SESSION, name).await;
        client.call("s__get").await;
        clients.push(client);
    }
    let connects = server.connects.load(Ordering::SeqCst);
    for (place, name) in ["c", "d"].into_iter().enumerate() {
        change_roots(&mut clients[place], name).await;
        until(|| notified() == place + 1).await;
    }
    for (client, name) in clients.iter_mut().zip(["c", "d"]) {
        client.call("s__get").await;
        assert_eq!(last_roots(&server), root(name));
    }
    assert_eq!(server.connects.load(Ordering::SeqCst), connects);
    let mut former = client_in(&bench, SESSION, "b").await;
    former.call("s__get").await;
    assert_eq!(last_roots(&server), root("b"));
    assert_eq!(server.connects.load(Ordering::SeqCst), connects + 1);
    bench.gateway.close(PATIENCE).await;
}

/// The URIs of the resources that a client sees.
async fn uris(client: &mut Client) -> Vec<String> {
    let listed = client.result("resources/list", json!({})).await;
    let all = listed["resources"].as_array().unwrap().iter();
    all.map(|one| one["uri"].as_str().unwrap().to_owned())
        .collect()
}

/// Waits until a client sees exactly the resources of a server that lists roots.
async fn sees_root(client: &mut Client, name: &str) {
    let expected = ["x://one".to_owned(), format!("file:///{name}")];
    while uris(client).await != expected {
        client.told("notifications/resources/list_changed").await;
    }
}

#[tokio::test]
async fn what_a_session_lists_is_shown_and_called_with_its_roots_alone() {
    let (server, bench) = asking().await;
    server.lists_roots.store(true, Ordering::SeqCst);
    let mut first = client_in(&bench, SESSION, "a").await;
    let mut second = client_in(&bench, SESSION, "b").await;
    let mut plain = Client::of(&bench, SESSION).await;
    let mut stateless = client_in(&bench, STATELESS, "a").await;
    for client in [&mut first, &mut second, &mut plain] {
        client.call("s__get").await;
    }
    sees_root(&mut first, "a").await;
    sees_root(&mut second, "b").await;
    server.tell("notifications/resources/list_changed", None);
    assert_eq!(uris(&mut plain).await, ["x://one"]);
    assert_eq!(uris(&mut stateless).await, ["x://one"]);
    let catalogs = bench.catalogs();
    assert!(catalogs.iter().all(|all| all.resources.len() <= 1));
    first.call("s__at-a").await;
    let calls = || server.heard("tools/call").len();
    let before = calls();
    let params = json!({"name": "s__at-a", "arguments": {}});
    for client in [&mut second, &mut plain] {
        let refused = client.ask("tools/call", params.clone()).await;
        assert!(refused.to_string().contains("unknown tool"), "{refused}");
    }
    assert_eq!(calls(), before);
    // A client that comes to roots which have a session sees what that lists, and leaves it with its roots.
    let mut third = client_in(&bench, SESSION, "b").await;
    third.call("s__get").await;
    sees_root(&mut third, "b").await;
    change_roots(&mut first, "c").await;
    sees_root(&mut first, "c").await;
    sees_root(&mut second, "b").await;
    bench.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn sessions_of_many_roots_are_bounded_and_the_idle_ones_make_room() {
    /// The first one, and eight beside it.
    const MOST: usize = 9;
    let (server, bench) = asking().await;
    let mut clients = Vec::new();
    for number in 0..MOST {
        let mut client = client_in(&bench, SESSION, &number.to_string()).await;
        client.call("s__get").await;
        let params = json!({"name": "s__wait", "arguments": {}});
        let id = client.begin("tools/call", params).await;
        clients.push((client, id));
    }
    let waiting = || {
        let calls = server.heard("tools/call");
        calls.iter().filter(|call| call["name"] == "wait").count()
    };
    until(|| waiting() == MOST).await;
    let mut late = client_in(&bench, SESSION, "late").await;
    let params = json!({"name": "s__get", "arguments": {}});
    let refused = late.ask("tools/call", params).await.to_string();
    assert!(refused.contains("all are used"), "{refused}");
    server.gate.add_permits(MOST);
    for (client, id) in &mut clients {
        client.answer(*id).await;
    }
    late.call("s__get").await;
    assert_eq!(last_roots(&server), root("late"));
    until(|| server.open_connections() == MOST).await;
    for (number, (client, _)) in clients.iter_mut().enumerate() {
        client.call("s__get").await;
        assert_eq!(last_roots(&server), root(&number.to_string()));
    }
    until(|| server.open_connections() == MOST).await;
    bench.gateway.close(PATIENCE).await;
}
