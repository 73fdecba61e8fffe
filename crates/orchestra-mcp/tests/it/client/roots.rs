//! Clients with roots before one server that asks for them: sessions that start while roots change, and
//! sessions apart.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use orchestra_hub::{ClientFeatures, Clients};
use orchestra_mcp::client::{
    Client, ClientConfig, ClientError, ProtocolChoice, Reply, ServerCall, TransportType,
};
use orchestra_wire::Era;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};

use super::{
    checked, client_of, config,
    played::{Greets, Played, PlayedLink, Said},
    raw, result, tool,
};

/// A session server that asks for roots whenever it is pinged, and answers a call with the number of its start.
struct Rooted {
    played: Arc<Played>,
    links: Arc<Mutex<BTreeMap<u32, Arc<PlayedLink>>>>,
    /// Whether it answers `initialize`.
    greets: watch::Sender<bool>,
    /// Whether it answers calls of `held`.
    answers: watch::Sender<bool>,
    clients: watch::Sender<Clients>,
}

impl Rooted {
    fn new(clients: Clients) -> Self {
        let (greets, may_greet) = watch::channel(true);
        let (answers, may_answer) = watch::channel(false);
        let links = Arc::<Mutex<BTreeMap<_, _>>>::default();
        let (opened, questions) = (Arc::clone(&links), AtomicU64::new(0));
        let script = move |asked: &super::played::Asked| match &*asked.method {
            "initialize" => {
                let link = Arc::clone(&asked.link);
                opened.lock().unwrap().insert(asked.start, link);
                let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "rooted", "version": "1"}});
                Said::When(may_greet.clone(), greeting)
            }
            "ping" => {
                let number = questions.fetch_add(1, Ordering::Relaxed);
                let id = u64::from(asked.start) * 1_000 + number;
                asked.link.ask(id, "roots/list", json!({}), None);
                Said::result(json!({}))
            }
            "tools/call" if asked.params["name"] == "held" => {
                Said::When(may_answer.clone(), json!({"start": asked.start}))
            }
            "tools/call" => Said::result(json!({"start": asked.start})),
            "tools/list" => Said::result(json!({"tools": []})),
            _ => Said::error(-32601, "method not found"),
        };
        Self {
            played: Played::new(Greets::Not, TransportType::Stdio, script),
            links,
            greets,
            answers,
            clients: watch::Sender::new(clients),
        }
    }

    fn client(&self, pool: usize, outstanding: usize) -> Client {
        let config = ClientConfig {
            protocol: ProtocolChoice::Era(Era::Session),
            clients: Some(self.clients.subscribe()),
            call_timeout: Duration::from_secs(600),
            pool,
            outstanding,
            ..config()
        };
        client_of(&self.played, config)
    }

    /// The root that a session received last.
    fn received(&self, start: u64) -> Option<String> {
        let answers = self.played.answers();
        let mut answers = answers.iter().rev();
        let of_start = |answer: &&Value| {
            let id: u64 = answer["id"].as_str().unwrap().parse().unwrap();
            id / 1_000 == start
        };
        let uri = &answers.find(of_start)?["result"]["roots"][0]["uri"];
        uri.as_str().map(str::to_owned)
    }
}

const ROOTED: Clients = Clients {
    first: Some(Era::Session),
    roots: true,
};

/// A call of a client whose roots have changed a number of times.
fn of(connection: u64, version: u64, name: &str) -> ServerCall {
    let mut call = tool(name);
    call.cx.connection = connection;
    call.cx.era = Some(Era::Session);
    call.cx.roots_version = version;
    call.cx.features = ClientFeatures {
        roots: true,
        ..ClientFeatures::default()
    };
    call
}

fn set_roots(client: &Client, connection: u64, version: u64, uri: &str) {
    let answer = json!({"roots": [{ "uri": uri }]});
    client.set_roots(connection, version, &raw(&answer));
}

/// Makes a call beside the test. Returns the start of its session.
fn begin(client: &Client, call: ServerCall) -> JoinHandle<Result<u64, ClientError>> {
    let client = client.clone();
    tokio::spawn(async move {
        match client.call(call).await? {
            Reply::Result(result) => {
                let result: Value = result.parse().unwrap();
                Ok(result["start"].as_u64().unwrap())
            }
            Reply::InputRequired(input) => panic!("asks: {input:?}"),
        }
    })
}

/// A client before another one, which has the first connection.
async fn beside(rooted: &Rooted, pool: usize) -> Client {
    let client = rooted.client(pool, 1);
    set_roots(&client, 9, 0, "file:///x");
    let first = result(&client, of(9, 0, "t")).await;
    assert_eq!(
        rooted.received(first["start"].as_u64().unwrap()).unwrap(),
        "file:///x"
    );
    set_roots(&client, 1, 0, "file:///a");
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn session_that_starts_while_roots_change_has_the_new_ones() {
    let rooted = Rooted::new(ROOTED);
    let client = beside(&rooted, 2).await;
    let held = begin(&client, of(1, 0, "held"));
    rooted.played.until("tools/call", 2).await;
    let starts = rooted.played.starts();
    rooted.greets.send_replace(false);
    // A call that opens the second connection, and is given up.
    let given_up = begin(&client, of(1, 0, "t"));
    rooted.played.until("initialize", starts as usize + 1).await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    set_roots(&client, 1, 1, "file:///b");
    rooted.greets.send_replace(true);
    let call = begin(&client, of(1, 1, "t"));
    // A call that finds no session is ended by the end of the session, after as many calls to another server.
    let other = Played::session(|_| Said::result(json!({})));
    let other = client_of(&other, config());
    for _ in 0..2_000 {
        if call.is_finished() {
            break;
        }
        result(&other, tool("t")).await;
    }
    if !call.is_finished() {
        rooted.links.lock().unwrap()[&(starts + 1)].crash();
    }
    let start = call.await.unwrap().unwrap();
    assert_eq!(start, u64::from(starts) + 1);
    assert_eq!(rooted.received(start).unwrap(), "file:///b");
    rooted.answers.send_replace(true);
    assert_eq!(held.await.unwrap().unwrap(), u64::from(starts));
    client.close().await;
}

#[tokio::test]
async fn call_that_waits_for_a_session_while_roots_change_is_made_with_the_new_ones() {
    let rooted = Rooted::new(ROOTED);
    let client = beside(&rooted, 1).await;
    let starts = rooted.played.starts();
    rooted.greets.send_replace(false);
    let call = begin(&client, of(1, 0, "t"));
    rooted.played.until("initialize", starts as usize + 1).await;
    set_roots(&client, 1, 1, "file:///b");
    rooted.greets.send_replace(true);
    let start = call.await.unwrap().unwrap();
    assert_eq!(rooted.received(start).unwrap(), "file:///b");
    set_roots(&client, 2, 0, "file:///a");
    let start = begin(&client, of(2, 0, "t")).await.unwrap().unwrap();
    assert_eq!(start, u64::from(starts) + 1);
    assert_eq!(rooted.received(start).unwrap(), "file:///a");
    client.close().await;
}

#[tokio::test]
async fn call_on_a_connection_apart_is_not_cut_by_a_client_of_another_kind() {
    let rooted = Rooted::new(Clients {
        roots: false,
        ..ROOTED
    });
    let client = rooted.client(2, 2);
    let asked = |connection: u64| {
        let mut call = of(connection, 0, "held");
        call.cx.features = ClientFeatures {
            elicitation: true,
            ..ClientFeatures::default()
        };
        call
    };
    let mut calls = Vec::new();
    for (count, connection) in [1, 2, 1].into_iter().enumerate() {
        calls.push(begin(&client, asked(connection)));
        rooted.played.until("tools/call", count + 1).await;
    }
    assert_eq!(rooted.played.starts(), 2);
    rooted.clients.send_replace(ROOTED);
    set_roots(&client, 3, 0, "file:///a");
    let start = begin(&client, of(3, 0, "t")).await.unwrap().unwrap();
    assert_eq!(rooted.received(start).unwrap(), "file:///a");
    rooted.answers.send_replace(true);
    for (call, expected) in calls.into_iter().zip([1, 2, 1]) {
        assert_eq!(call.await.unwrap().unwrap(), expected);
    }
    client.close().await;
}

#[tokio::test]
async fn changed_roots_stay_in_the_session_of_one_client_and_leave_a_shared_one() {
    let rooted = Rooted::new(ROOTED);
    let client = beside(&rooted, 1).await;
    let call = async |connection, version| begin(&client, of(connection, version, "t")).await;
    let own = call(1, 0).await.unwrap().unwrap();
    set_roots(&client, 1, 1, "file:///b");
    assert_eq!(call(1, 1).await.unwrap().unwrap(), own);
    assert_eq!(rooted.received(own).unwrap(), "file:///b");
    assert_eq!(rooted.played.count("notifications/roots/list_changed"), 1);
    set_roots(&client, 2, 0, "file:///b");
    assert_eq!(call(2, 0).await.unwrap().unwrap(), own);
    set_roots(&client, 1, 2, "file:///c");
    let other = call(1, 2).await.unwrap().unwrap();
    assert_ne!(other, own);
    assert_eq!(rooted.received(other).unwrap(), "file:///c");
    assert_eq!(call(2, 0).await.unwrap().unwrap(), own);
    assert_eq!(rooted.received(own).unwrap(), "file:///b");
    assert_eq!(rooted.played.count("notifications/roots/list_changed"), 1);
    client.close().await;
}

#[tokio::test]
async fn call_after_a_change_of_roots_is_compared_with_a_new_list_of_the_tools() {
    let rooted = Rooted::new(ROOTED);
    let client = beside(&rooted, 1).await;
    let own = result(&client, checked(of(1, 0, "t"))).await;
    let lists = rooted.played.count("tools/list");
    assert!(lists > 0);
    set_roots(&client, 1, 1, "file:///b");
    assert_eq!(result(&client, checked(of(1, 1, "t"))).await, own);
    assert_eq!(rooted.played.count("tools/list"), lists + 1);
    client.close().await;
}
