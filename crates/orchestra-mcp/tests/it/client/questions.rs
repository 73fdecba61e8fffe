//! What a server asks of whoever calls, in both eras, and calls that go on as tasks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use orchestra_hub::{Answers, ClientFeatures, InputRequired, Later};
use orchestra_mcp::client::{Client, ClientError, Reply, Root, ServerCall, TransportType};
use orchestra_wire::Era;
use serde_json::{Value, json};

use super::{
    client_of, config,
    played::{Greets, Played, Said},
    raw, result, tool,
};

/// A call of a client that can be asked for anything, on a connection of its own.
pub(super) fn asked_of(connection: u64) -> ServerCall {
    let mut call = tool("t");
    call.cx.connection = connection;
    call.cx.features = ClientFeatures {
        elicitation: true,
        sampling: true,
        roots: true,
        ..ClientFeatures::default()
    };
    call
}

/// The parameters of a question with a form.
pub(super) fn form(message: &Value) -> Value {
    let message = message
        .as_str()
        .map_or_else(|| message.to_string(), str::to_owned);
    let schema = json!({"type": "object", "properties": {}});
    json!({"message": message, "requestedSchema": schema})
}

pub(super) async fn question(client: &Client, call: ServerCall) -> InputRequired {
    match client.call(call).await.unwrap() {
        Reply::InputRequired(input) => input,
        Reply::Result(result) => panic!("does not ask: {result:?}"),
    }
}

fn answered(mut call: ServerCall, input: InputRequired, responses: &Value) -> ServerCall {
    call.cx.answers = Some(Answers {
        responses: raw(responses),
        state: input.state,
    });
    call
}

/// A server that asks for a sample while it works, and answers when it has it.
fn curious() -> Arc<Played> {
    Played::session(|asked| {
        let params = json!({"messages": [], "maxTokens": 5});
        asked.link.ask(77, "sampling/createMessage", params, None);
        Said::after(Duration::from_secs(5), json!({"content": [], "ok": true}))
    })
}

#[tokio::test(start_paused = true)]
async fn a_session_asks_by_a_request_and_its_caller_by_a_result() {
    let played = curious();
    let client = client_of(&played, config());
    let call = asked_of(1);
    let input = question(&client, call.clone()).await;
    let requests: Value = input.requests.parse().unwrap();
    assert_eq!(requests["q1"]["method"], "sampling/createMessage");
    assert_eq!(requests["q1"]["params"]["maxTokens"], 5);
    let answers = json!({"q1": {"role": "assistant", "content": {"type": "text", "text": "hi"}}});
    let result = result(&client, answered(call, input, &answers)).await;
    assert_eq!(result["ok"], true);
    let given = played.answered(1).await;
    assert_eq!(
        (&given["id"], &given["result"]["role"]),
        (&json!("77"), &json!("assistant"))
    );
    // It is one call for the server.
    assert_eq!(played.count("tools/call"), 1);
    assert_eq!(played.count("notifications/cancelled"), 0);
}

#[tokio::test(start_paused = true)]
async fn question_with_odd_members_reaches_its_caller_in_a_valid_form() {
    let schema = json!({"type": "object", "properties": {}});
    let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
    let sampling = "sampling/createMessage";
    for (method, given, expected) in [
        (
            "elicitation/create",
            json!({"mode": null, "message": "m", "requestedSchema": {"type": "object", "properties": [], "required": null}}),
            json!({"message": "m", "requestedSchema": schema}),
        ),
        (
            sampling,
            json!({"messages": [{"role": "user", "content": "hi"}], "maxTokens": "5", "tools": [], "temperature": null}),
            json!({"messages": [message], "maxTokens": 5}),
        ),
    ] {
        let params = given.clone();
        let session = Played::session(move |asked| {
            asked.link.ask(77, method, params.clone(), None);
            Said::after(Duration::from_secs(5), json!({"content": []}))
        });
        let stateless = Played::stateless(move |_| {
            let questions = json!({"q1": {"method": method, "params": given}});
            Said::result(json!({"resultType": "input_required", "inputRequests": questions}))
        });
        for played in [session, stateless] {
            let client = client_of(&played, config());
            let input = question(&client, asked_of(1)).await;
            let requests: Value = input.requests.parse().unwrap();
            assert_eq!(requests["q1"]["params"], expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_offers_nothing_is_not_asked_and_the_server_is_told() {
    let played = curious();
    let client = client_of(&played, config());
    result(&client, tool("t")).await;
    let refused = played.answered(1).await;
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .contains("does not offer it")
    );
}

#[tokio::test(start_paused = true)]
async fn request_that_the_configuration_does_not_allow_reaches_no_client() {
    let played = curious();
    let mut config = config();
    config.features.sampling = false;
    let client = client_of(&played, config);
    assert_eq!(result(&client, asked_of(1)).await["ok"], true);
    let refused = played.answered(1).await;
    let error = refused["error"].as_str().unwrap();
    assert!(error.contains("do not allow"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn request_for_roots_that_no_caller_has_is_not_refused_for_the_configuration() {
    let played = Played::session(|asked| {
        asked.link.ask(77, "roots/list", json!({}), None);
        Said::after(Duration::from_secs(1), json!({}))
    });
    let mut config = config();
    config.callers_have_roots = false;
    let client = client_of(&played, config);
    result(&client, tool("t")).await;
    let refused = played.answered(1).await;
    let error = refused["error"].as_str().unwrap();
    assert!(error.contains("does not offer it"), "{error}");
    assert!(played.last("initialize")["capabilities"]["roots"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_for_what_its_caller_cannot_be_asked_says_what_that_is() {
    for is_error in [true, false] {
        let played = Played::session(move |asked| {
            let params = json!({"messages": [], "maxTokens": 5});
            asked.link.ask(77, "sampling/createMessage", params, None);
            let result = json!({"content": [], "isError": is_error});
            Said::after(Duration::from_secs(1), result)
        });
        let client = client_of(&played, config());
        for era in [Era::Stateless, Era::Session] {
            let mut call = tool("t");
            call.cx.era = Some(era);
            match client.call(call).await {
                // What its server makes of it, where it makes something.
                Ok(Reply::Result(_)) => assert!(!is_error || era == Era::Session),
                Err(ClientError::Rpc(error)) => {
                    assert!(is_error && era == Era::Stateless, "{error:?}");
                    assert_eq!(error.code.0, -32021);
                    let data: Value = error.data.unwrap().parse().unwrap();
                    assert_eq!(data, json!({"requiredCapabilities": {"sampling": {}}}));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_orchestra_is_told_what_each_caller_can_be_asked_for() {
    for experimental in [json!({"orchestra/translation": {}}), json!({})] {
        let tells = experimental["orchestra/translation"].is_object();
        let played = Played::new(Greets::Not, TransportType::Stdio, move |asked| {
            Said::result(match asked.method.as_str() {
                "initialize" => json!({
                    "protocolVersion": "2025-11-25", "serverInfo": {"name": "p", "version": "1"},
                    "capabilities": {"experimental": experimental},
                }),
                "server/discover" => return Said::error(-32601, "method not found"),
                _ => json!({"content": []}),
            })
        });
        let mut config = config();
        config.features = asked_of(1).cx.features;
        let client = client_of(&played, config);
        let told = |call| async {
            result(&client, call).await;
            played.last("tools/call")["_meta"]["orchestra/clientCapabilities"].clone()
        };
        assert_eq!(told(asked_of(1)).await, Value::Null, "as was said for all");
        let mut less = asked_of(2);
        less.cx.features.elicitation = false;
        let expected = match tells {
            true => json!({"sampling": {}, "roots": {"listChanged": true}}),
            false => Value::Null,
        };
        assert_eq!(told(less).await, expected);
        let said = &played.last("initialize")["capabilities"]["experimental"];
        assert!(said["orchestra/translation"].is_object(), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_never_reaches_another_client() {
    let played = Played::session(|asked| {
        if asked.params["name"] == "curious" {
            let form = form(&json!("Name?"));
            asked.link.ask(5, "elicitation/create", form, None);
        }
        Said::after(Duration::from_secs(1), json!({}))
    });
    let client = client_of(&played, config());
    let other = tokio::spawn({
        let client = client.clone();
        async move { result(&client, asked_of(1)).await }
    });
    played.until("tools/call", 1).await;
    let mut call = asked_of(2);
    call.params = Some(raw(&json!({"name": "curious"})));
    result(&client, call).await;
    other.await.unwrap();
    let refused = played.answered(1).await;
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .contains("nobody can tell")
    );
}

#[tokio::test]
async fn where_the_connection_tells_the_question_reaches_its_call() {
    let played = Played::session(|asked| {
        let related = Some(asked.id.clone());
        asked
            .link
            .ask(5, "elicitation/create", form(&json!("?")), related);
        Said::never()
    });
    let client = client_of(&played, config());
    let other = tokio::spawn({
        let client = client.clone();
        async move { question(&client, asked_of(1)).await }
    });
    let input = question(&client, asked_of(2)).await;
    assert_ne!(input.state, other.await.unwrap().state);
}

#[tokio::test]
async fn roots_are_told_when_nobody_can_be_asked() {
    let played = Played::session(|_| Said::result(json!({})));
    let mut config = config();
    config.roots = vec![Root {
        uri: "file:///w".to_owned(),
        name: None,
    }];
    let client = client_of(&played, config);
    result(&client, tool("t")).await;
    played.ask(9, "roots/list", json!({}));
    let given = played.answered(1).await;
    assert_eq!(given["result"], json!({"roots": [{"uri": "file:///w"}]}));
    played.ask(10, "ping", json!({}));
    assert_eq!(played.answered(2).await["result"], json!({}));
    played.ask(11, "x/unknown", json!({}));
    assert!(
        played.answered(3).await["error"]
            .as_str()
            .unwrap()
            .contains("x/unknown")
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_gives_the_call_up() {
    let played = curious();
    let client = client_of(&played, config());
    let call = asked_of(1);
    let input = question(&client, call.clone()).await;
    played.until("notifications/cancelled", 1).await;
    assert!(played.answered(1).await["error"].is_string());
    let late = answered(call, input, &json!({"q1": {}}));
    let error = client.call(late).await.unwrap_err();
    assert!(matches!(&error, ClientError::Rpc(error) if error.message.contains("is gone")));
}

/// Asks as often as the arguments say, of nobody by name, and never answers.
fn asks(call: &super::played::Asked) {
    let times = call.params["arguments"]["times"].as_u64().unwrap_or(0);
    for number in 0..times {
        let question = form(&call.params["arguments"]["who"]);
        let id = number + 10 * call.id.as_json().parse::<u64>().unwrap();
        call.link.ask(id, "elicitation/create", question, None);
    }
}

fn asking(connection: u64, times: u64) -> ServerCall {
    let mut call = asked_of(connection);
    let arguments = json!({"times": times, "who": connection});
    call.params = Some(raw(&json!({"name": "t", "arguments": arguments})));
    call
}

/// Whom the first question of an input is for.
pub(super) fn who(input: &InputRequired) -> Value {
    let requests: Value = input.requests.parse().unwrap();
    let message = &requests["q1"]["params"]["message"];
    let number = serde_json::from_str(message.as_str().unwrap());
    number.unwrap_or_else(|_| message.clone())
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_question_is_out_is_not_taken_for_the_one_that_asks() {
    let played = Played::session(|call| {
        asks(call);
        Said::never()
    });
    let client = client_of(&played, config());
    let first = question(&client, asking(1, 1)).await;
    assert_eq!(who(&first), 1);
    // What comes at once may belong to either call, and reaches nobody.
    let second = tokio::spawn({
        let client = client.clone();
        async move { question(&client, asking(2, 1)).await }
    });
    let refused = played.answered(1).await;
    assert!(refused["error"].as_str().unwrap().contains("larger pool"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let third = question(&client, asking(3, 0));
    tokio::select! {
        _ = third => panic!("nobody asked it"),
        () = played.until("tools/call", 3) => {}
    }
    second.abort();
    let _ = second.await;
    // After that time, the server counts as done with calls that were given up.
    tokio::time::advance(config().call_timeout).await;
    let fourth = question(&client, asking(4, 1)).await;
    assert_eq!(who(&fourth), 4);
    // The first is answered, and what its server asks then is its own.
    let again = answered(asking(1, 0), first, &json!({"q1": {"action": "accept"}}));
    let resumed = tokio::spawn({
        let client = client.clone();
        async move { question(&client, again).await }
    });
    played.answered(2).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    played.ask(99, "elicitation/create", form(&json!("more?")));
    assert_eq!(who(&resumed.await.unwrap()), "more?");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_names_its_call_reaches_it_under_its_key() {
    let number = Arc::new(AtomicU64::new(0));
    let second = Arc::clone(&number);
    let played = Played::session(move |call| match call.method.as_str() {
        "tools/call" if call.params["task"].is_object() => {
            let id = call.params["arguments"]["who"].to_string();
            Said::result(json!({"task": {"taskId": id, "status": "working", "pollInterval": 50}}))
        }
        "tasks/get" => Said::result(json!({"status": "input_required"})),
        "tools/call" if call.params["arguments"]["who"] == 2 => {
            second.store(call.id.as_json().parse().unwrap(), Ordering::SeqCst);
            Said::never()
        }
        _ => Said::never(),
    });
    let client = client_of(&played, config());
    let calls = [1, 2, 3, 4].map(|connection| {
        let client = client.clone();
        let mut call = asking(connection, 0);
        call.as_task = connection > 2;
        tokio::spawn(async move { question(&client, call).await })
    });
    played.until("tasks/result", 2).await;
    let number = number.load(Ordering::SeqCst);
    let task = |id: &str| json!({"io.modelcontextprotocol/related-task": {"taskId": id}});
    let ask = |id: u64, meta: Value| {
        let mut params = form(&json!(id));
        params["_meta"] = meta;
        played.ask(id, "elicitation/create", params);
    };
    let first = json!({"key": "name", "count": 2, "call": number});
    ask(11, json!({"orchestra/input": first}));
    ask(31, task("3"));
    ask(41, task("4"));
    ask(51, task("5"));
    let second = json!({"key": "age", "count": 2, "call": number});
    ask(12, json!({"orchestra/input": second, "vendor/x": 1}));
    // A token of the server is no name of a call.
    ask(61, json!({"progressToken": number}));
    let [first, second, third, fourth] = calls;
    let input = timeout(second).await;
    let requests: Value = input.requests.parse().unwrap();
    assert_eq!(requests["name"]["params"], form(&json!(11)));
    let mut with_more = form(&json!(12));
    with_more["_meta"] = json!({"vendor/x": 1});
    assert_eq!(requests["age"]["params"], with_more);
    assert_eq!(
        (who(&timeout(third).await), who(&timeout(fourth).await)),
        (json!(31), json!(41))
    );
    assert!(!first.is_finished());
    first.abort();
    for (answer, why) in [(1, "waits here no longer"), (2, "several clients")] {
        let refused = played.answered(answer).await;
        assert!(
            refused["error"].as_str().unwrap().contains(why),
            "{refused}"
        );
    }
    let answers = json!({"age": {"n": 2}, "name": {"n": 1}});
    drop(
        client
            .call(answered(asking(1, 0), input, &answers))
            .now_or_never(),
    );
    assert_eq!(played.answered(3).await["result"]["n"], 1);
    assert_eq!(played.answered(4).await["result"]["n"], 2);
}

pub(super) async fn timeout(task: tokio::task::JoinHandle<InputRequired>) -> InputRequired {
    let waited = tokio::time::timeout(Duration::from_secs(60), task);
    waited.await.expect("it is asked").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pool_has_a_connection_for_each_who_may_be_asked() {
    let played = Played::session(|call| match call.params["arguments"]["times"].as_u64() {
        Some(_) => {
            asks(call);
            Said::never()
        }
        None => Said::after(Duration::from_secs(1), json!({})),
    });
    let mut config = config();
    config.pool = 2;
    let client = client_of(&played, config);
    // Nobody can be asked: one connection is enough.
    let plain = [1, 2].map(|connection| {
        let client = client.clone();
        let mut call = tool("t");
        call.cx.connection = connection;
        tokio::spawn(async move { result(&client, call).await })
    });
    for call in plain {
        call.await.unwrap();
    }
    assert_eq!(played.starts(), 1);
    let calls = [1, 2].map(|connection| {
        let client = client.clone();
        tokio::spawn(async move { question(&client, asking(connection, 1)).await })
    });
    for (call, caller) in calls.into_iter().zip(1..) {
        assert_eq!(who(&timeout(call).await), caller);
    }
    assert_eq!(played.starts(), 2);
    // The pool has no more: what could be meant for several reaches none of them.
    let third = client.call(asking(3, 1));
    tokio::select! {
        _ = third => panic!("it is not asked"),
        refused = played.answered(1) => {
            assert!(refused["error"].as_str().unwrap().contains("larger pool"), "{refused}");
        }
    }
    assert_eq!(played.starts(), 2);
}

#[tokio::test]
async fn a_stateless_server_asks_by_a_result_and_gets_its_state_back() {
    let played = Played::stateless(|asked| {
        match asked.params["inputResponses"]["name"].as_object() {
            None => Said::result(json!({
                "resultType": "input_required", "requestState": "opaque",
                "inputRequests": {"name": {"method": "elicitation/create", "params": form(&json!("Name?"))}},
            })),
            Some(name) => {
                assert_eq!(asked.params["requestState"], "opaque");
                Said::result(json!({"resultType": "complete", "content": [], "name": name["n"]}))
            }
        }
    });
    let client = client_of(&played, config());
    let call = asked_of(1);
    let input = question(&client, call.clone()).await;
    let told =
        played.last("tools/call")["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone();
    assert!(told["elicitation"].is_object() && told["sampling"].is_object());
    let result = result(
        &client,
        answered(call, input, &json!({"name": {"n": "Ada"}})),
    )
    .await;
    assert_eq!(result["name"], "Ada");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_followed_to_its_end_with_its_questions() {
    let polls = std::sync::atomic::AtomicU32::new(0);
    let played = Played::stateless(move |asked| {
        let task = |status: &str, more: Value| {
            let mut told = json!({"resultType": "complete", "taskId": "T1", "status": status, "pollIntervalMs": 100});
            told.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            Said::result(told)
        };
        match asked.method.as_str() {
            "tools/call" => Said::result(json!({
                "resultType": "task", "content": [], "taskId": "T1", "status": "working", "pollIntervalMs": 100,
            })),
            "tasks/get" => match polls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => task("working", json!({"statusMessage": "half"})),
                1 => task(
                    "input_required",
                    json!({"inputRequests": {"k": {"method": "roots/list"}}}),
                ),
                _ => task("completed", json!({"result": {"content": [], "end": 1}})),
            },
            "tasks/update" => {
                assert_eq!(asked.params["inputResponses"]["k"]["roots"], json!([]));
                Said::result(json!({"resultType": "complete"}))
            }
            other => panic!("{other}"),
        }
    });
    let client = client_of(&played, config());
    let call = asked_of(1);
    let input = question(&client, call.clone()).await;
    let result = result(&client, answered(call, input, &json!({"k": {"roots": []}}))).await;
    assert_eq!(result["end"], 1);
    assert_eq!(played.count("tasks/cancel"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_nobody_waits_for_is_cancelled() {
    let played = Played::stateless(|asked| match asked.method.as_str() {
        "tools/call" => {
            Said::result(json!({"resultType": "task", "taskId": "T1", "status": "working"}))
        }
        _ => Said::result(json!({"resultType": "complete", "taskId": "T1", "status": "working"})),
    });
    let client = client_of(&played, config());
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call(tool("t")).await }
    });
    played.until("tasks/get", 2).await;
    call.abort();
    played.until("tasks/cancel", 1).await;
    assert_eq!(played.last("tasks/cancel")["taskId"], "T1");
}

#[tokio::test(start_paused = true)]
async fn task_whose_questions_are_refused_is_cancelled() {
    let mut secret = form(&json!("?"));
    secret["requestedSchema"]["properties"]["password"] = json!({"type": "string"});
    let roots = json!({"method": "roots/list"});
    let many = (0..17).map(|number| (format!("q{number}"), roots.clone()));
    for (questions, why) in [
        (
            json!({"k": {"method": "elicitation/create", "params": secret}}),
            "is for a secret; `features = {secrets = true}` for played",
        ),
        (
            json!({"k": {"method": "sampling/createMessage", "params": {}}}),
            "its `features` do not allow",
        ),
        (many.collect(), "more than 16 questions"),
    ] {
        let played = Played::stateless(move |asked| {
            let mut told =
                json!({"resultType": "complete", "taskId": "T1", "status": "input_required"});
            match asked.method.as_str() {
                "tools/call" => told["resultType"] = json!("task"),
                _ => told["inputRequests"] = questions.clone(),
            }
            Said::result(told)
        });
        let mut config = config();
        config.features.sampling = false;
        let client = client_of(&played, config);
        let error = client.call(asked_of(1)).await.unwrap_err().explain();
        assert!(error.contains(why), "{error}");
        played.until("tasks/cancel", 1).await;
        assert_eq!(played.last("tasks/cancel")["taskId"], "T1");
    }
}

/// Its name is on the way when the caller goes.
#[tokio::test(start_paused = true)]
async fn a_task_whose_name_comes_when_nobody_waits_any_more_is_cancelled() {
    for transport in [TransportType::Stdio, TransportType::Http] {
        let played = Played::new(Greets::Not, transport, |asked| {
            match asked.method.as_str() {
                "server/discover" => Said::result(json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
                    "ttlMs": 0, "cacheScope": "private",
                })),
                "tools/call" => Said::after(
                    Duration::from_millis(200),
                    json!({"resultType": "task", "taskId": "T1", "status": "working"}),
                ),
                _ => Said::result(json!({"resultType": "complete"})),
            }
        });
        let client = client_of(&played, config());
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call(tool("t")).await }
        });
        played.until("tools/call", 1).await;
        call.abort();
        played.until("tasks/cancel", 1).await;
        assert_eq!(played.last("tasks/cancel")["taskId"], "T1");
        assert_eq!(played.count("tasks/get"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_a_session_refuses_outside_of_a_task_is_made_as_one() {
    for has_tasks in [true, false] {
        let played = Played::new(Greets::Not, TransportType::Stdio, move |asked| {
            let capabilities = match has_tasks {
                true => json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}),
                false => json!({"tools": {}}),
            };
            match asked.method.as_str() {
                "initialize" => Said::result(json!({
                    "protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "serverInfo": {"name": "p", "version": "1"},
                })),
                "tools/call" if asked.params["task"] == json!({}) => {
                    let task = json!({"taskId": "T3", "status": "working", "pollInterval": 50});
                    Said::result(json!({ "task": task }))
                }
                "tasks/get" => Said::result(json!({"taskId": "T3", "status": "completed"})),
                "tasks/result" => Said::result(json!({"content": [], "end": 3})),
                _ => Said::error(-32601, "not outside of a task"),
            }
        });
        let client = client_of(&played, config());
        match client.call(tool("t")).await {
            Ok(Reply::Result(result)) => {
                let result: Value = result.parse().unwrap();
                assert!(has_tasks && result["end"] == 3, "{result}");
            }
            Err(ClientError::Rpc(error)) => assert!(!has_tasks, "{error:?}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(played.count("tools/call"), 1 + usize::from(has_tasks));
    }
}

#[tokio::test(start_paused = true)]
async fn call_of_a_tool_that_may_last_is_reported_to_last_in_a_session_alone() {
    let waits = || Said::after(Duration::from_secs(1), json!({"resultType": "complete"}));
    for (played, expected) in [
        (Played::session(move |_| waits()), true),
        (Played::stateless(move |_| waits()), false),
    ] {
        let client = client_of(&played, config());
        for lasts in [true, false] {
            let mut call = tool("t");
            let later = Later::default();
            call.cx.later = Some(later.clone());
            call.lasts = lasts;
            result(&client, call).await;
            let is_reported = later.begun().now_or_never().is_some();
            assert_eq!(is_reported, expected && lasts);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_of_the_session_era_has_its_result_by_its_own_method() {
    let played = Played::session(|asked| match asked.method.as_str() {
        "tools/call" => {
            assert_eq!(asked.params["task"], json!({}));
            Said::result(json!({"task": {"taskId": "T2", "status": "working", "pollInterval": 50}}))
        }
        "tasks/get" => Said::result(json!({"taskId": "T2", "status": "completed"})),
        "tasks/result" => Said::result(json!({"content": [], "end": 2})),
        other => panic!("{other}"),
    });
    let client = client_of(&played, config());
    let mut call = tool("t");
    call.as_task = true;
    assert_eq!(result(&client, call).await["end"], 2);
}
