//! Plugins that are started and called, and those that misbehave.

use std::{collections::HashMap, sync::Arc, time::Duration};

use orchestra_mcp::client::{Client, ClientConfig, ClientError, Connector, Sent, ServerMessage};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::rig::{PATIENCE, Rig, ask, call, outgoing, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_listed_and_called() {
    let rig = Rig::new("ok");
    let client = rig.client();
    let listed = ask(&client, "tools/list", json!({})).await.unwrap();
    let first = &listed["tools"][0];
    assert_eq!(first["name"], "count");
    assert_eq!(first["inputSchema"], json!({"type": "object"}));
    let prompts = ask(&client, "prompts/list", json!({})).await.unwrap();
    assert_eq!(prompts, json!({"prompts": []}));
    let echoed = call(&client, "echo", json!({"a": 1})).await.unwrap();
    assert_eq!(text(&echoed), r#"{"a":1}"#);
    let whole = call(&client, "whole", json!({"b": "<", "a": 2})).await;
    assert_eq!(text(&whole.unwrap()), r#"{"a":2,"b":"\u003c"}"#);
    let failed = call(&client, "fail", json!({})).await.unwrap();
    assert_eq!(failed["isError"], true);
    assert_eq!(text(&failed), "it does not work");
    let missing = call(&client, "nothing", json!({})).await.unwrap();
    assert_eq!(text(&missing), "tool \"nothing\" not found");
    client.close().await;
    assert!(rig.noted().contains(&"shutdown".to_owned()));
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_cannot_be_started_says_why_and_is_gone() {
    let cases = [
        ("elsewhere", "192.0.2.1:4433"),
        ("no-address", "loopback address"),
        ("refuse", "refused to be registered: not today"),
        ("boot-error", "did not boot: no database"),
        ("dies", "the last words"),
    ];
    for (mode, wanted) in cases {
        let rig = Rig::new(mode);
        let error = rig.connector().connect().await.err().unwrap();
        assert!(error.explain().contains(wanted), "{mode}: {error:?}");
        rig.all_gone().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_is_never_ready_is_given_up() {
    let mut rig = Rig::new("no-ready");
    rig.spec.start_timeout = Duration::from_secs(3);
    let error = rig.connector().connect().await.err().unwrap();
    let ClientError::SlowStart { stderr_tail, .. } = error else {
        panic!("{error:?}");
    };
    assert!(stderr_tail.contains("a line of its own"), "{stderr_tail}");
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_starts_one_that_is_never_ready_reads_what_it_wrote() {
    let mut rig = Rig::new("no-ready");
    let bound = Duration::from_secs(3);
    rig.spec.start_timeout = bound;
    let config = ClientConfig {
        name: "fake".to_owned(),
        start_timeout: bound,
        ..ClientConfig::default()
    };
    let client = Client::new(Arc::new(rig.connector()), config);
    let error = client.reach(Instant::now() + PATIENCE).await.unwrap_err();
    let told = error.explain();
    assert!(told.contains("a line of its own"), "{told}");
    client.close().await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_kills_its_plugin_may_have_run_and_the_next_works() {
    let rig = Rig::new("ok");
    let client = rig.client();
    call(&client, "echo", json!({})).await.unwrap();
    let error = call(&client, "die", json!({})).await.unwrap_err();
    assert!(matches!(error, ClientError::Crashed(_)), "{error:?}");
    assert_eq!(error.sent(), Sent::Maybe);
    call(&client, "echo", json!({})).await.unwrap();
    client.close().await;
    assert_eq!(rig.processes().len(), 2);
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_under_load_nothing_runs_twice() {
    let rig = Rig::new("ok");
    let client = Arc::new(rig.client());
    call(&client, "echo", json!({})).await.unwrap();
    for round in 0..3 {
        let mut calls = JoinSet::new();
        for number in 0..200 {
            let client = Arc::clone(&client);
            calls.spawn(async move {
                let key = format!("{round}-{number}");
                let called = call(&client, "count", json!({"key": key})).await;
                (key, called.map_err(|error| error.sent()))
            });
        }
        let begun = || {
            let mark = format!("count {{\"key\":\"{round}-");
            rig.noted().iter().any(|line| line.starts_with(&mark))
        };
        crate::rig::until("a call runs", begun).await;
        rig.kill_last();
        let ended = timeout(PATIENCE, calls.join_all()).await.unwrap();
        let mut ran: HashMap<String, usize> = HashMap::new();
        for line in rig.noted() {
            *ran.entry(line).or_default() += 1;
        }
        let ran = |key: &str| ran.get(&format!("count {{\"key\":\"{key}\"}}")).copied();
        for (key, called) in ended {
            match (called, ran(&key).unwrap_or_default()) {
                (Ok(_), 1) | (Err(Sent::No), 0) | (Err(Sent::Maybe), 0 | 1) => {}
                other => panic!("{key}: {other:?}"),
            }
        }
        call(&client, "echo", json!({})).await.unwrap();
    }
    client.close().await;
    assert_eq!(rig.processes().len(), 4);
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_on_standard_error_holds_nobody_up() {
    let rig = Rig::new("flood");
    let connected = rig.connector().connect().await.unwrap();
    for id in 1..20 {
        let request = outgoing(id, "tools/call", json!({"name": "echo", "arguments": {}}));
        let answer = timeout(PATIENCE, connected.link.request(request)).await;
        assert!(answer.unwrap().unwrap().is_ok());
    }
    assert!(connected.link.stderr_tail().len() <= 64 * 1024);
    connected.link.close().await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_another_request_is_none() {
    let rig = Rig::new("wrong-id");
    let client = rig.client();
    let error = call(&client, "echo", json!({})).await.unwrap_err();
    let told = error.explain();
    assert!(
        told.contains("answers another request: \"another\""),
        "{told}"
    );
    assert_eq!(error.sent(), Sent::Maybe);
    client.close().await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tools_are_listed() {
    let rig = Rig::new("many");
    let client = rig.client();
    let listed = ask(&client, "tools/list", json!({})).await.unwrap();
    assert_eq!(listed["tools"].as_array().unwrap().len(), 10_010);
    client.close().await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_ignores_its_shutdown_is_killed() {
    let mut rig = Rig::new("ignore-shutdown");
    rig.spec.grace_shutdown = Duration::from_millis(100);
    rig.spec.process.grace_term = Duration::from_millis(100);
    let connected = rig.connector().connect().await.unwrap();
    timeout(PATIENCE, connected.link.close()).await.unwrap();
    rig.notes("shutdown").await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_given_up_is_cancelled_at_the_plugin() {
    let rig = Rig::new("ok");
    let connected = rig.connector().connect().await.unwrap();
    let request = outgoing(1, "tools/call", json!({"name": "hang"}));
    let asked = tokio::spawn(connected.link.request(request));
    rig.notes("hangs").await;
    asked.abort();
    rig.notes("cancelled").await;
    // A call that is open when the link is closed fails by that.
    let request = outgoing(2, "tools/call", json!({"name": "hang"}));
    let open = tokio::spawn(connected.link.request(request));
    let twice = || rig.noted().iter().filter(|line| *line == "hangs").count() == 2;
    crate::rig::until("it hangs again", twice).await;
    connected.link.close().await;
    let error = open.await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Closed), "{error:?}");
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_answers_in_chunks_reports_them() {
    let rig = Rig::new("ok");
    let mut connected = rig.connector().connect().await.unwrap();
    for id in 7..9_u64 {
        let request = outgoing(id, "tools/call", json!({"name": "drip", "arguments": {}}));
        let answer = connected.link.request(request).await.unwrap().unwrap();
        let result: serde_json::Value = answer.parse().unwrap();
        assert_eq!(text(&result), "one two three");
        for (count, said) in [(1, "one "), (2, "two "), (3, "three")] {
            let told = connected.incoming.recv().await.unwrap();
            let ServerMessage::Notification { method, params } = told.message else {
                panic!("it asks");
            };
            assert_eq!(method, "notifications/progress");
            let params: serde_json::Value = params.unwrap().parse().unwrap();
            let wanted = json!({"progressToken": id, "progress": count, "message": said});
            assert_eq!(params, wanted);
        }
    }
    connected.link.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_ours_is_asked_for_resources_and_streams_from_its_first_call() {
    let rig = Rig::new("ours");
    let mut connected = rig.connector().connect().await.unwrap();
    let request = |id, method, params| connected.link.request(outgoing(id, method, params));
    let parsed = |answer: orchestra_mcp::client::Answer| {
        answer.map(|result| result.parse::<serde_json::Value>().unwrap())
    };
    let told = parsed(request(1, "initialize", json!({})).await.unwrap()).unwrap();
    assert_eq!(told["capabilities"]["resources"], json!({}));
    let listed = parsed(request(2, "resources/list", json!({})).await.unwrap());
    assert_eq!(listed.unwrap()["resources"][0]["uri"], "fake://one");
    let read = request(3, "resources/read", json!({"uri": "fake://one"})).await;
    assert_eq!(
        parsed(read.unwrap()).unwrap()["contents"][0]["text"],
        "the text"
    );
    let missing = request(4, "resources/read", json!({"uri": "fake://two"})).await;
    assert_eq!(missing.unwrap().unwrap_err().code.0, -32602);
    request(5, "tools/list", json!({})).await.unwrap().unwrap();
    // What is no more a tool that answers in chunks is called as any other.
    for (id, tool, wanted) in [(6, "drip", "one two three"), (7, "echo", "{}")] {
        let params = json!({"name": tool, "arguments": {}});
        let called = parsed(request(id, "tools/call", params).await.unwrap());
        assert_eq!(text(&called.unwrap()), wanted);
    }
    for count in 1..4 {
        let told = connected.incoming.recv().await.unwrap();
        let ServerMessage::Notification { params, .. } = told.message else {
            panic!("it asks");
        };
        let params: serde_json::Value = params.unwrap().parse().unwrap();
        assert_eq!(params["progress"], count);
    }
    connected.link.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_is_not_well_says_so() {
    for (mode, is_well) in [("ok", true), ("unwell", false)] {
        let rig = Rig::new(mode);
        let connected = rig.connector().connect().await.unwrap();
        let answer = connected.link.request(outgoing(1, "ping", json!({}))).await;
        assert_eq!(answer.is_ok(), is_well, "{answer:?}");
        connected.link.close().await;
    }
}
