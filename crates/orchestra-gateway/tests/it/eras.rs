//! Callers of either era before servers of either era: what both have is told in the words of each.

mod roots;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use orchestra_gateway::config::Protocol;
use orchestra_mcp::{Server, stream};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    time::timeout,
};

use crate::played::{Bench, PATIENCE, Played, config, not_found, raw, said, tool, until};

const SESSION: &str = "2025-11-25";
const STATELESS: &str = "2026-07-28";

/// The extension that a client says it knows.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A client at the other end of a stream.
struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
    /// What each request says of itself; nothing in a session.
    meta: Option<Value>,
    id: u64,
    /// What came beside answers.
    told: Vec<Value>,
    /// Its roots, if it answers questions for them; null if it refuses these.
    roots: Option<Value>,
}

impl Client {
    async fn of(bench: &Bench, revision: &str) -> Self {
        Self::offering(bench, revision, json!({})).await
    }

    async fn offering(bench: &Bench, revision: &str, capabilities: Value) -> Self {
        let server = Server::builder(bench.hub.clone(), "test").build();
        let (stream, _served) = stream::in_memory(&server, "test");
        let (input, output) = tokio::io::split(stream);
        let mut client = Self {
            lines: BufReader::new(input).lines(),
            output,
            meta: None,
            id: 0,
            told: Vec::new(),
            roots: None,
        };
        if revision == STATELESS {
            client.meta = Some(json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            }));
        } else {
            let params = json!({"protocolVersion": revision, "capabilities": capabilities});
            client.result("initialize", params).await;
            let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            client.send(&begun).await;
        }
        client
    }

    async fn knowing_tasks(bench: &Bench) -> Self {
        let mut client = Self::of(bench, STATELESS).await;
        client.says(
            "io.modelcontextprotocol/clientCapabilities",
            json!({"extensions": {TASKS: {}}}),
        );
        client
    }

    /// Has each request say something more of itself.
    fn says(&mut self, key: &str, value: Value) {
        self.meta.get_or_insert_with(|| json!({}))[key] = value;
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.output.write_all(line.as_bytes()).await.unwrap();
    }

    async fn begin(&mut self, method: &str, mut params: Value) -> u64 {
        self.id += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        let id = self.id;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&message).await;
        id
    }

    async fn next(&mut self) -> Value {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("something in time").unwrap();
        serde_json::from_str(&line.expect("the stream goes on")).unwrap()
    }

    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await;
            match &self.roots {
                Some(roots) if message["method"] == "roots/list" => {
                    let mut answer = json!({"jsonrpc": "2.0", "id": message["id"]});
                    match roots {
                        Value::Null => answer["error"] = json!({"code": -32603, "message": "no"}),
                        roots => answer["result"] = json!({ "roots": roots }),
                    }
                    self.send(&answer).await;
                }
                _ if message["id"] == id => return message,
                _ => self.told.push(message),
            }
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    async fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    async fn call(&mut self, name: &str) -> Value {
        let params = json!({"name": name, "arguments": {}});
        self.result("tools/call", params).await
    }

    /// What a task comes to.
    async fn end(&mut self, task: &Value) -> Value {
        assert_eq!(task["resultType"], "task", "{task}");
        let asked = async {
            let mut pace = tokio::time::interval(Duration::from_millis(10));
            loop {
                pace.tick().await;
                let params = json!({"taskId": task["taskId"]});
                let now = self.result("tasks/get", params).await;
                if now["status"] != "working" {
                    return now;
                }
            }
        };
        let ended = tokio::time::timeout(PATIENCE, asked).await;
        ended.expect("the task ends")
    }

    /// Waits for a notification.
    async fn told(&mut self, method: &str) -> Value {
        loop {
            if let Some(place) = self.told.iter().position(|told| told["method"] == method) {
                return self.told.swap_remove(place)["params"].clone();
            }
            let message = self.next().await;
            self.told.push(message);
        }
    }
}

/// A gateway with one server of an era behind it.
async fn bench(server: &Arc<Played>, era: &str) -> Bench {
    server
        .is_stateless
        .store(era == STATELESS, Ordering::SeqCst);
    let bench = Bench::new(&[("s", server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    bench
}

/// The value of a member of `_meta` in the last call that a server has heard.
fn last_meta(server: &Played, key: &str) -> Value {
    server.heard("tools/call").last().unwrap()["_meta"][key].clone()
}

/// The revision in which a server has heard the last call; null in a session.
fn revision_heard(server: &Played) -> Value {
    last_meta(server, "io.modelcontextprotocol/protocolVersion")
}

fn played_both() -> Arc<Played> {
    let server = Played::new(vec![tool("get")]);
    server.speaks_both.store(true, Ordering::SeqCst);
    server.say(|method, _| match method {
        "tools/call" => said("got"),
        _ => Ok(raw(&json!({}))),
    });
    server
}

#[tokio::test]
async fn server_of_both_eras_is_called_in_the_era_of_each_caller() {
    let server = played_both();
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    let mut session = Client::of(&bench, SESSION).await;
    session.call("s__get").await;
    assert_eq!(revision_heard(&server), Value::Null);
    assert_eq!(
        server.connects.load(Ordering::SeqCst),
        1,
        "a caller in the era of the first connection needs no other"
    );
    let mut stateless = Client::of(&bench, STATELESS).await;
    for _ in 0..2 {
        stateless.call("s__get").await;
        assert_eq!(revision_heard(&server), STATELESS);
        session.call("s__get").await;
        assert_eq!(revision_heard(&server), Value::Null);
    }
    assert_eq!(server.connects.load(Ordering::SeqCst), 2, "one for each");
    bench.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn server_of_both_eras_is_called_alike_whatever_an_earlier_run_has_stored() {
    let server = played_both();
    let state = Arc::new(tempfile::tempdir().unwrap());
    for order in [
        [SESSION, STATELESS],
        [STATELESS, SESSION],
        [SESSION, SESSION],
    ] {
        let bench = Bench::in_state(Arc::clone(&state), &[("s", &server)]);
        bench.gateway.apply(vec![config("s")]);
        bench.tools().await;
        for revision in order {
            Client::of(&bench, revision).await.call("s__get").await;
            let expected = match revision {
                STATELESS => json!(STATELESS),
                _ => Value::Null,
            };
            assert_eq!(revision_heard(&server), expected, "{order:?}");
        }
        bench.gateway.close(PATIENCE).await;
    }
}

#[tokio::test]
async fn server_of_one_era_is_called_in_that_by_callers_of_both() {
    for (era, heard) in [(SESSION, Value::Null), (STATELESS, json!(STATELESS))] {
        let server = Played::new(vec![tool("get")]);
        server.say(|_, _| said("got"));
        let bench = bench(&server, era).await;
        let mut connects = Vec::new();
        for revision in [SESSION, STATELESS, SESSION, STATELESS] {
            Client::of(&bench, revision).await.call("s__get").await;
            assert_eq!(revision_heard(&server), heard, "{era} {revision}");
            connects.push(server.connects.load(Ordering::SeqCst));
        }
        assert_eq!(connects[1], connects[3], "{era}: it is tried once");
        bench.gateway.close(PATIENCE).await;
    }
}

#[tokio::test]
async fn protocol_that_is_configured_is_spoken_with_callers_of_both_eras() {
    for (protocol, heard) in [
        (Protocol::Legacy, Value::Null),
        (Protocol::Modern, json!(STATELESS)),
    ] {
        let server = played_both();
        let bench = Bench::new(&[("s", &server)]);
        let mut config = config("s");
        config.protocol = protocol;
        bench.gateway.apply(vec![config]);
        bench.tools().await;
        for revision in [SESSION, STATELESS] {
            Client::of(&bench, revision).await.call("s__get").await;
            assert_eq!(revision_heard(&server), heard, "{protocol:?} {revision}");
        }
        assert_eq!(server.connects.load(Ordering::SeqCst), 1, "{protocol:?}");
        bench.gateway.close(PATIENCE).await;
    }
}

#[tokio::test]
async fn end_of_one_connection_leaves_the_one_of_the_other_era() {
    let server = played_both();
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    let mut session = Client::of(&bench, SESSION).await;
    let mut stateless = Client::of(&bench, STATELESS).await;
    session.call("s__get").await;
    stateless.call("s__get").await;
    server.crash();
    until(|| server.connects.load(Ordering::SeqCst) >= 3).await;
    session.call("s__get").await;
    assert_eq!(revision_heard(&server), Value::Null);
    // A call may still meet the end of its connection.
    let again = async {
        while revision_heard(&server) != STATELESS {
            stateless.call("s__get").await;
        }
    };
    timeout(PATIENCE, again).await.expect("it comes back");
    bench.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn session_server_is_offered_roots_only_where_a_client_has_some() {
    let offers_roots = |server: &Played| {
        let greetings = server.greetings.lock().unwrap();
        let offers = greetings.iter().map(|offered| offered["roots"].is_object());
        offers.collect::<Vec<bool>>()
    };
    let server = Played::new(vec![tool("get")]);
    server.say(|_, _| said("got"));
    let bench = bench(&server, SESSION).await;
    let mut plain = Client::of(&bench, SESSION).await;
    plain.call("s__get").await;
    assert_eq!(offers_roots(&server), [false]);
    // A connection that is in use is not ended for another client.
    let mut rooted = Client::offering(&bench, SESSION, json!({"roots": {}})).await;
    rooted.call("s__get").await;
    plain.call("s__get").await;
    assert_eq!(offers_roots(&server), [false, true]);
    bench.gateway.close(PATIENCE).await;
}

#[tokio::test]
async fn tasks_of_a_server_of_both_eras_do_not_depend_on_the_first_client() {
    let mut long = tool("long");
    long["execution"] = json!({"taskSupport": "required"});
    let server = Played::new(vec![long]);
    server.speaks_both.store(true, Ordering::SeqCst);
    server.say(|method, params| {
        let meta = &params["_meta"];
        let is_stateless = meta["io.modelcontextprotocol/protocolVersion"] == STATELESS;
        let capabilities = &meta["io.modelcontextprotocol/clientCapabilities"];
        let knows_tasks = capabilities["extensions"][TASKS].is_object();
        match (method, is_stateless) {
            ("tools/call", true) if knows_tasks => Ok(raw(&json!({
                "resultType": "task", "taskId": "T", "status": "working", "pollIntervalMs": 50,
            }))),
            ("tools/call", true) => said("at once"),
            ("tools/call", false) => {
                assert_eq!(params["task"], json!({}));
                let task = json!({"taskId": "S", "status": "working", "pollInterval": 50});
                Ok(raw(&json!({ "task": task })))
            }
            ("tasks/get", true) => Ok(raw(&json!({
                "resultType": "complete", "taskId": "T", "status": "completed",
                "result": {"content": [{"type": "text", "text": "stateless"}]},
            }))),
            ("tasks/get", false) => Ok(raw(&json!({"taskId": "S", "status": "completed"}))),
            ("tasks/result", false) => said("session"),
            other => panic!("{other:?}"),
        }
    });
    let state = Arc::new(tempfile::tempdir().unwrap());
    for order in [
        [SESSION, STATELESS],
        [STATELESS, SESSION],
        [SESSION, STATELESS],
    ] {
        let bench = Bench::in_state(Arc::clone(&state), &[("s", &server)]);
        bench.gateway.apply(vec![config("s")]);
        bench.tools().await;
        for revision in order {
            let mut plain = Client::of(&bench, revision).await;
            let result = plain.call("s__long").await;
            let expected = match revision {
                STATELESS => "at once",
                _ => "session",
            };
            assert_eq!(result["content"][0]["text"], expected, "{order:?}");
        }
        let mut knows = Client::knowing_tasks(&bench).await;
        let begun = knows.call("s__long").await;
        let end = knows.end(&begun).await;
        let text = &end["result"]["content"][0]["text"];
        assert_eq!(text, "stateless", "{order:?} {end}");
        bench.gateway.close(PATIENCE).await;
    }
}

#[tokio::test]
async fn server_is_greeted_once_where_the_first_client_is_waited_for() {
    let server = played_both();
    for (revision, capabilities) in [(SESSION, json!({"roots": {}})), (STATELESS, json!({}))] {
        let mut bench = Bench::new(&[("s", &server)]);
        bench.gateway = bench.gateway.with_clients_wait(PATIENCE);
        let before = server.connects.load(Ordering::SeqCst);
        bench.gateway.apply(vec![config("s")]);
        until(|| server.connects.load(Ordering::SeqCst) == before + 1).await;
        let mut client = Client::offering(&bench, revision, capabilities.clone()).await;
        client.result("tools/list", json!({})).await;
        client.call("s__get").await;
        assert_eq!(server.connects.load(Ordering::SeqCst), before + 1);
        match revision {
            SESSION => {
                let greetings = server.greetings.lock().unwrap();
                assert!(greetings.last().unwrap()["roots"].is_object());
            }
            _ => assert_eq!(revision_heard(&server), STATELESS),
        }
        bench.gateway.close(PATIENCE).await;
    }
}

#[tokio::test]
async fn a_task_of_a_session_server_is_one_of_the_extension_for_who_knows_it() {
    let mut long = tool("long");
    long["execution"] = json!({"taskSupport": "required"});
    let server = Played::new(vec![long]);
    server.say(|method, params| match method {
        "tools/call" => {
            assert_eq!(
                params["task"],
                json!({}),
                "it is called as its server wants"
            );
            let task = json!({"taskId": "T", "status": "working", "pollInterval": 50});
            Ok(raw(&json!({ "task": task })))
        }
        "tasks/get" => Ok(raw(&json!({"taskId": "T", "status": "completed"}))),
        "tasks/result" => said("done"),
        other => panic!("{other}"),
    });
    let bench = bench(&server, SESSION).await;
    let mut knows = Client::knowing_tasks(&bench).await;
    let begun = knows.call("s__long").await;
    let end = knows.end(&begun).await;
    assert_eq!(end["result"]["content"][0]["text"], "done", "{end}");
    for revision in [SESSION, STATELESS] {
        let mut waits = Client::of(&bench, revision).await;
        let result = waits.call("s__long").await;
        assert_eq!(result["content"][0]["text"], "done", "{revision}");
    }
}

#[tokio::test]
async fn a_task_of_a_stateless_server_is_waited_for_by_who_knows_none() {
    let server = Played::new(vec![tool("long")]);
    server.say(|method, params| {
        let capabilities = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        match method {
            "tools/call" if capabilities["extensions"][TASKS].is_null() => said("at once"),
            "tools/call" => Ok(raw(&json!({
                "resultType": "task", "taskId": "T", "status": "working", "pollIntervalMs": 50,
            }))),
            "tasks/get" => Ok(raw(&json!({
                "resultType": "complete", "taskId": "T", "status": "completed",
                "result": {"content": [{"type": "text", "text": "done"}]},
            }))),
            other => panic!("{other}"),
        }
    });
    let bench = bench(&server, STATELESS).await;
    let mut session = Client::of(&bench, SESSION).await;
    let result = session.call("s__long").await;
    assert_eq!(result["content"][0]["text"], "done");
    let mut knows = Client::knowing_tasks(&bench).await;
    let begun = knows.call("s__long").await;
    let end = knows.end(&begun).await;
    assert_eq!(end["result"]["content"][0]["text"], "done", "{end}");
    // The server knows that this one does not, and decides.
    let mut knows_not = Client::of(&bench, STATELESS).await;
    let result = knows_not.call("s__long").await;
    assert_eq!(result["content"][0]["text"], "at once");
}

#[tokio::test]
async fn a_call_that_lasts_becomes_a_task_where_its_tool_says_so_and_its_server_has_none() {
    let mut optional = tool("wait");
    optional["execution"] = json!({"taskSupport": "optional"});
    let mut must = tool("must");
    must["_meta"] = json!({"orchestra/longWork": "must"});
    let server = Played::new(vec![optional, must, tool("plain")]);
    let bench = bench(&server, SESSION).await;
    let mut knows = Client::knowing_tasks(&bench).await;
    let begun = knows.call("s__wait").await;
    let now = knows
        .result("tasks/get", json!({"taskId": begun["taskId"]}))
        .await;
    assert_eq!(now["status"], "working");
    server.gate.add_permits(1);
    let end = knows.end(&begun).await;
    assert_eq!(end["status"], "completed", "{end}");
    // What is answered at once is no task, whatever the tool says.
    for name in ["s__must", "s__plain"] {
        assert_eq!(knows.call(name).await["resultType"], "complete", "{name}");
    }
    let mut knows_not = Client::of(&bench, STATELESS).await;
    let params = json!({"name": "s__must", "arguments": {}});
    let refused = knows_not.ask("tools/call", params.clone()).await;
    assert_eq!(refused["error"]["code"], -32021);
    let mut session = Client::of(&bench, SESSION).await;
    assert!(session.call("s__must").await["content"].is_array());
    server.gate.add_permits(1);
    assert!(knows_not.call("s__wait").await["content"].is_array());
}

#[tokio::test]
async fn a_cancelled_task_cancels_the_call_that_it_was() {
    let mut optional = tool("wait");
    optional["execution"] = json!({"taskSupport": "optional"});
    let server = Played::new(vec![optional]);
    let bench = bench(&server, SESSION).await;
    let mut knows = Client::knowing_tasks(&bench).await;
    let begun = knows.call("s__wait").await;
    let params = json!({"taskId": begun["taskId"]});
    knows.result("tasks/cancel", params).await;
    until(|| server.heard("notifications/cancelled").len() == 1).await;
    assert_eq!(knows.end(&begun).await["status"], "cancelled");
}

#[tokio::test]
async fn a_server_logs_from_the_level_on_that_its_callers_want() {
    let server = Played::new(vec![tool("get")]);
    let bench_of_session = bench(&server, SESSION).await;
    let levels = || server.heard("logging/setLevel");
    let level = |level: &str| json!({ "level": level });
    let mut stateless = Client::of(&bench_of_session, STATELESS).await;
    stateless.call("s__get").await;
    assert!(levels().is_empty());
    stateless.says("io.modelcontextprotocol/logLevel", json!("warning"));
    stateless.call("s__get").await;
    assert_eq!(levels(), [level("warning")]);
    stateless.says("io.modelcontextprotocol/logLevel", json!("debug"));
    stateless.call("s__get").await;
    stateless.says("io.modelcontextprotocol/logLevel", json!("error"));
    stateless.call("s__get").await;
    assert_eq!(levels(), [level("warning"), level("debug")]);
    // Sessions want less, and the calls of others still want it.
    let mut session = Client::of(&bench_of_session, SESSION).await;
    session.result("logging/setLevel", level("error")).await;
    session.call("s__get").await;
    assert_eq!(levels().len(), 2);

    let server = Played::new(vec![tool("get")]);
    let bench = bench(&server, STATELESS).await;
    let mut session = Client::of(&bench, SESSION).await;
    session.result("logging/setLevel", level("notice")).await;
    session.call("s__get").await;
    let key = "io.modelcontextprotocol/logLevel";
    assert_eq!(last_meta(&server, key), "notice");
}

#[tokio::test]
async fn a_resource_that_is_gone_is_told_in_the_code_of_the_caller() {
    for era in [SESSION, STATELESS] {
        let server = Played::new(Vec::new());
        server.say(move |_, _| match era {
            SESSION => not_found(),
            _ => Err(orchestra_wire::RpcError {
                data: Some(raw(&json!({"uri": "x://gone"}))),
                ..orchestra_wire::RpcError::invalid_params("no such page")
            }),
        });
        let bench = bench(&server, era).await;
        for (revision, code) in [(SESSION, -32002), (STATELESS, -32602)] {
            let mut client = Client::of(&bench, revision).await;
            let params = json!({"uri": "x://gone"});
            let error = client.ask("resources/read", params).await["error"].clone();
            let told = (&error["code"], &error["message"]);
            assert_eq!(
                told,
                (&json!(code), &json!("no such page")),
                "{era} {revision}"
            );
            assert_eq!(error["data"].is_object(), era == STATELESS, "{error}");
        }
    }
}

#[tokio::test]
async fn changes_of_a_resource_are_told_whoever_watches_whom() {
    for era in [SESSION, STATELESS] {
        let server = Played::new(Vec::new());
        let bench = bench(&server, era).await;
        for revision in [SESSION, STATELESS] {
            let mut client = Client::of(&bench, revision).await;
            let listening = match revision {
                SESSION => {
                    let params = json!({"uri": "x://one"});
                    client.result("resources/subscribe", params).await;
                    None
                }
                _ => {
                    let filter = json!({"notifications": {"resourceSubscriptions": ["x://one"]}});
                    Some(client.begin("subscriptions/listen", filter).await)
                }
            };
            let is_watched = || match era {
                SESSION => {
                    let (begun, ended) = ("resources/subscribe", "resources/unsubscribe");
                    server.heard(begun).len() > server.heard(ended).len()
                }
                _ => {
                    let heard = server.heard("subscriptions/listen");
                    let last = &heard.last().unwrap()["notifications"];
                    last["resourceSubscriptions"] == json!(["x://one"])
                }
            };
            until(is_watched).await;
            let updated = "notifications/resources/updated";
            server.tell(updated, Some(json!({"uri": "x://one"})));
            assert_eq!(
                client.told(updated).await["uri"],
                "x://one",
                "{era} {revision}"
            );
            if let Some(id) = listening {
                let params = json!({"requestId": id});
                let ended = "notifications/cancelled";
                let ended = json!({"jsonrpc": "2.0", "method": ended, "params": params});
                client.send(&ended).await;
            } else {
                let params = json!({"uri": "x://one"});
                client.result("resources/unsubscribe", params).await;
            }
            until(|| !is_watched()).await;
        }
    }
}

#[tokio::test]
async fn progress_is_asked_for_where_the_caller_asks() {
    for era in [SESSION, STATELESS] {
        let server = Played::new(vec![tool("get")]);
        let bench = bench(&server, era).await;
        for revision in [SESSION, STATELESS] {
            let mut client = Client::of(&bench, revision).await;
            client.call("s__get").await;
            let token = last_meta(&server, "progressToken");
            assert!(token.is_null(), "{era} {revision} {token}");
            client.says("progressToken", json!("mine"));
            client.call("s__get").await;
            let token = last_meta(&server, "progressToken");
            assert!(token.is_number(), "{era} {revision} {token}");
        }
    }
}

#[tokio::test]
async fn a_capability_that_a_caller_lacks_is_told_in_the_words_of_its_era() {
    let server = Played::new(vec![tool("get")]);
    server.say(|_, _| {
        Err(orchestra_wire::RpcError::new(
            orchestra_wire::ErrorCode::MISSING_CLIENT_CAPABILITY,
            "declare sampling",
        ))
    });
    let bench = bench(&server, STATELESS).await;
    let mut stateless = Client::of(&bench, STATELESS).await;
    let params = json!({"name": "s__get", "arguments": {}});
    let refused = stateless.ask("tools/call", params).await;
    assert_eq!(refused["error"]["code"], -32021);
    let mut session = Client::of(&bench, SESSION).await;
    let told = session.call("s__get").await;
    assert_eq!(
        (&told["isError"], &told["content"][0]["text"]),
        (&json!(true), &json!("declare sampling"))
    );
}
