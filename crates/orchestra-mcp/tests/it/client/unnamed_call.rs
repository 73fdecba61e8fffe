//! Messages of a server that name no call, and messages without a bound: none reaches a client to which it does not belong.

use std::time::Duration;

use orchestra_hub::SessionName;
use orchestra_mcp::client::{ClientError, ClientEvent, ClientEvents, Reply};
use orchestra_wire::RequestId;
use serde_json::{Value, json, value::to_raw_value};

use super::{
    client_of, config,
    played::{Played, Said},
    questions::{asked_of, form, question, timeout, who},
    raw, result, told,
};

#[tokio::test(start_paused = true)]
async fn questions_of_a_call_are_refused_unread_after_many_objections() {
    const ASKED: usize = 20;
    let played = Played::session(|asked| {
        let mut secret = form(&json!("?"));
        secret["requestedSchema"]["properties"]["password"] = json!({"type": "string"});
        for number in 0..ASKED as u64 {
            let params = secret.clone();
            asked.link.ask(number, "elicitation/create", params, None);
        }
        Said::after(Duration::from_secs(1), json!({}))
    });
    let client = client_of(&played, config());
    result(&client, asked_of(1)).await;
    played.answered(ASKED).await;
    let count = |why: &str| {
        let answers = played.answers().into_iter();
        let errors = answers.map(|answer| answer["error"].as_str().unwrap().to_owned());
        errors.filter(|error| error.contains(why)).count()
    };
    assert_eq!((count("for a secret"), count("too many")), (16, 4));
}

#[tokio::test]
async fn result_with_too_many_questions_is_refused() {
    for (count, is_asked) in [(16, true), (17, false)] {
        let played = Played::stateless(move |_| {
            let question = json!({"method": "roots/list"});
            let questions = (0..count).map(|number| (format!("q{number}"), question.clone()));
            let questions: Value = questions.collect();
            Said::result(json!({"resultType": "input_required", "inputRequests": questions}))
        });
        let client = client_of(&played, config());
        match client.call(asked_of(1)).await {
            Ok(Reply::InputRequired(_)) => assert!(is_asked),
            Err(ClientError::InvalidMessage { what }) => {
                assert!(!is_asked && what.contains("16 questions"), "{what}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn request_with_a_long_id_is_not_answered() {
    let played = Played::session(|asked| {
        let id = to_raw_value(&"x".repeat(10_000)).unwrap();
        let id = RequestId::from_raw(&id).unwrap();
        asked.link.ask_as(id, "ping", json!({}), None);
        asked.link.ask(5, "ping", json!({}), None);
        Said::after(Duration::from_secs(1), json!({}))
    });
    let client = client_of(&played, config());
    result(&client, asked_of(1)).await;
    assert_eq!(played.answered(1).await["id"], "5");
}

/// The client to which an unknown notification belongs.
async fn client_of_other(played: &Played, events: &mut ClientEvents, meta: Value) -> Option<u64> {
    played.say("notifications/vendor", json!({"_meta": meta}));
    let is_other = |event: &ClientEvent| matches!(event, ClientEvent::Other { .. });
    match told(events, is_other).await {
        ClientEvent::Other { client, .. } => client,
        _ => unreachable!(),
    }
}

/// Asks something that names no call, and is refused as the first question.
async fn is_refused(played: &Played) {
    played.ask(5, "elicitation/create", form(&json!("?")));
    let refused = played.answered(1).await;
    let error = refused["error"].as_str().unwrap();
    assert!(error.contains("several clients"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_running_task_reach_no_other_client() {
    let played = Played::session(|asked| match asked.method.as_str() {
        "tools/call" if asked.params["task"].is_object() => {
            Said::result(json!({"task": {"taskId": "T", "status": "working", "pollInterval": 50}}))
        }
        "tasks/get" => Said::result(json!({"taskId": "T", "status": "working"})),
        _ => Said::never(),
    });
    let client = client_of(&played, config());
    let mut events = client.take_events().unwrap();
    for connection in [1, 2] {
        let client = client.clone();
        let mut call = asked_of(connection);
        call.as_task = connection == 1;
        tokio::spawn(async move { client.call(call).await });
    }
    played.until("tools/call", 2).await;
    played.until("tasks/get", 1).await;
    is_refused(&played).await;
    let task = json!({"io.modelcontextprotocol/related-task": {"taskId": "T"}});
    for (meta, expected) in [(json!({}), None), (task, Some(1))] {
        let found = client_of_other(&played, &mut events, meta).await;
        assert_eq!(found, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn question_during_a_subscription_reaches_no_client() {
    let played = Played::session(|_| Said::never());
    let client = client_of(&played, config());
    client.watch("a:1");
    client.start();
    played.until("resources/subscribe", 1).await;
    tokio::spawn(async move { client.call(asked_of(1)).await });
    played.until("tools/call", 1).await;
    is_refused(&played).await;
}

#[tokio::test(start_paused = true)]
async fn question_reaches_no_other_client_of_a_shared_connection() {
    let played = Played::session(|_| Said::never());
    let client = client_of(&played, config());
    for session in ["first", "second"] {
        let client = client.clone();
        let mut call = asked_of(1);
        call.cx.along.session = SessionName::given(session);
        tokio::spawn(async move { client.call(call).await });
    }
    played.until("tools/call", 2).await;
    is_refused(&played).await;
}

#[tokio::test(start_paused = true)]
async fn message_of_a_cancelled_call_reaches_no_other_client() {
    let played = Played::session(|asked| {
        if asked.params["name"] == "stray" {
            let related = Some(RequestId::from_number(1_000));
            let form = form(&json!("stray"));
            asked.link.ask(5, "elicitation/create", form, related);
        }
        Said::never()
    });
    let client = client_of(&played, config());
    let mut events = client.take_events().unwrap();
    let [cancelled, other] = [1, 2].map(|connection| {
        let client = client.clone();
        let mut call = asked_of(connection);
        call.timeout = Some(Duration::from_secs(60));
        if connection == 2 {
            call.params = Some(raw(&json!({"name": "stray"})));
        }
        tokio::spawn(async move { question(&client, call).await })
    });
    played.until("tools/call", 2).await;
    cancelled.abort();
    played.until("notifications/cancelled", 1).await;
    played.ask(6, "elicitation/create", form(&json!("early")));
    for (answer, why) in [(1, "waits here no longer"), (2, "several clients")] {
        let refused = played.answered(answer).await;
        let error = refused["error"].as_str().unwrap();
        assert!(error.contains(why), "{refused}");
    }
    assert_eq!(client_of_other(&played, &mut events, json!({})).await, None);
    // After that time, the server counts as done with calls that were given up.
    tokio::time::advance(config().call_timeout).await;
    assert_eq!(
        client_of_other(&played, &mut events, json!({})).await,
        Some(2)
    );
    let task = json!({"io.modelcontextprotocol/related-task": {"taskId": "gone"}});
    assert_eq!(client_of_other(&played, &mut events, task).await, None);
    played.ask(7, "elicitation/create", form(&json!("late")));
    assert_eq!(who(&timeout(other).await), "late");
}

#[tokio::test(start_paused = true)]
async fn connection_of_a_cancelled_call_is_used_by_no_other_client_of_a_pool() {
    let played = Played::session(|_| Said::never());
    let mut config = config();
    config.pool = 2;
    let client = client_of(&played, config);
    for (connection, starts) in [(1, 1), (1, 1), (2, 2)] {
        let calls = played.count("tools/call");
        tokio::select! {
            _ = question(&client, asked_of(connection)) => panic!("it is not asked"),
            () = played.until("tools/call", calls + 1) => {}
        }
        assert_eq!(played.starts(), starts);
    }
}
