//! What a server asks of whoever calls, in both eras, and calls that go on as tasks.

use std::time::Duration;

use orchestra_hub::{Answers, ClientFeatures, InputRequired};
use orchestra_mcp::client::{Client, ClientError, Reply, Root, ServerCall};
use serde_json::{Value, json};

use super::{
    client_of, config,
    played::{Played, Said},
    raw, result, tool,
};

/// A call of a client that can be asked for anything, on a connection of its own.
fn asked_of(connection: u64) -> ServerCall {
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

async fn question(client: &Client, call: ServerCall) -> InputRequired {
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
fn curious() -> std::sync::Arc<Played> {
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
async fn a_question_never_reaches_another_client() {
    let played = Played::session(|asked| {
        if asked.params["name"] == "curious" {
            asked
                .link
                .ask(5, "elicitation/create", json!({"message": "secret?"}), None);
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
            .ask(5, "elicitation/create", json!({"message": "?"}), related);
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

#[tokio::test]
async fn a_stateless_server_asks_by_a_result_and_gets_its_state_back() {
    let played =
        Played::stateless(
            |asked| match asked.params["inputResponses"]["name"].as_object() {
                None => Said::result(json!({
                    "resultType": "input_required", "requestState": "opaque",
                    "inputRequests": {"name": {"method": "elicitation/create", "params": {}}},
                })),
                Some(name) => {
                    assert_eq!(asked.params["requestState"], "opaque");
                    Said::result(
                        json!({"resultType": "complete", "content": [], "name": name["n"]}),
                    )
                }
            },
        );
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
