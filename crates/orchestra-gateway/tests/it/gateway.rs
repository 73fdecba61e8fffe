//! Calls on their way through: what passes unchanged, and what is told when a server breaks.

use std::{sync::atomic::Ordering, time::Duration};

use orchestra_gateway::config::Features;
use orchestra_hub::{
    Attachment, CompletionRef, Cx, HubNotice, LogLevel, Notices, Outcome, ProviderError, Request,
    Target,
};
use orchestra_mcp::client::URL_ELICITATION_REQUIRED;
use orchestra_wire::RpcError;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::played::{
    Bench, PATIENCE, Played, config, not_found, raw, text, tool, tool_call, until,
};

#[tokio::test]
async fn what_nobody_knows_passes_unchanged() {
    let server = Played::new(vec![tool("get")]);
    let result = json!({"content": [{"type": "new"}], "isError": true, "more": {"x": [1.5]}});
    let answer = raw(&result);
    server.say(move |_, _| Ok(answer.clone()));
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    let params = json!({
        "name": "s__get", "arguments": {}, "extra": [1], "task": {"ttl": 1}, "requestState": "x",
        "_meta": {"vendor/id": 7, "progressToken": 3, "io.modelcontextprotocol/clientInfo": {}},
    });
    let cx = Cx {
        params: Some(raw(&params)),
        ..Cx::default()
    };
    let target = crate::played::tool_call("s__get", &json!({}));
    let Outcome::Verbatim {
        result: got,
        is_error,
        ..
    } = bench.ask(target, cx).await.unwrap()
    else {
        panic!("as it came")
    };
    // Clients refuse a whole result with a block of an unknown type.
    let mut shown = result.clone();
    shown["content"] = json!([{"type": "text", "text": "{\"type\":\"new\"}"}]);
    assert_eq!((got, is_error), (raw(&shown), true));
    let expected = json!({"name": "get", "arguments": {}, "extra": [1], "_meta": {"vendor/id": 7}});
    assert_eq!(server.heard("tools/call"), [expected]);
}

#[tokio::test]
async fn unknown_method_is_refused_and_reaches_not_even_the_only_server() {
    let server = Played::new(vec![tool("get")]);
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    for method in ["tasks/list", "tasks/result", "tools/CALL", "vendor/do"] {
        let target = Target::Raw {
            method: method.into(),
            params: Some(raw(&json!({"taskId": "t"}))),
        };
        let error = bench.ask(target, Cx::default()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("unknown method: {method}"));
        assert!(server.heard(method).is_empty(), "{method}");
    }
}

#[tokio::test]
async fn request_that_features_do_not_allow_reaches_no_client() {
    let server = Played::new(vec![tool("get")]);
    server.is_stateless.store(true, Ordering::SeqCst);
    let bench = Bench::new(&[("s", &server)]);
    let mut s = config("s");
    s.features = Features {
        roots: false,
        sampling: false,
        elicitation: false,
        ..s.features
    };
    bench.gateway.apply(vec![s]);
    bench.tools().await;
    let page =
        json!({"mode": "url", "elicitationId": "1", "url": "https://x.example/", "message": "m"});
    for (method, feature) in [
        ("sampling/createMessage", "sampling"),
        ("elicitation/create", "elicitation"),
        ("roots/list", "roots"),
        ("error", "elicitation"),
    ] {
        let requests = json!({"k": {"method": method, "params": {}}});
        let asks = json!({"resultType": "input_required", "inputRequests": requests});
        let pages = json!({"elicitations": [page]});
        server.say(move |_, _| match method {
            "error" => Err(RpcError::new(URL_ELICITATION_REQUIRED, "visit").with_data(raw(&pages))),
            _ => Ok(raw(&asks)),
        });
        let (said, is_error) = text(bench.call("s__get", json!({})).await);
        let asked = format!("it asks for {feature}");
        assert!(is_error && said.contains(&asked), "{said}");
    }
}

#[tokio::test]
async fn prompts_resources_and_completion_go_to_their_server() {
    let server = Played::new(Vec::new());
    server.say(|method, params| match method {
        "resources/read" if params["uri"] == "x://gone" => not_found(),
        "completion/complete" => Ok(raw(&json!({"completion": {"values": ["v"]}}))),
        _ => Ok(raw(&json!({"contents": [], "messages": []}))),
    });
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    let prompt = Target::Prompt {
        name: "s__p_q".into(),
        arguments: [("a".to_owned(), "b".to_owned())].into(),
    };
    bench.ask(prompt, Cx::default()).await.unwrap();
    let expected = json!({"name": "p.q", "arguments": {"a": "b"}});
    assert_eq!(server.heard("prompts/get"), [expected]);
    let complete = Target::Complete {
        reference: CompletionRef::Prompt("s__p_q".into()),
        argument: "a".into(),
        value: "b".into(),
        context: [("c".to_owned(), "d".to_owned())].into(),
    };
    bench.ask(complete, Cx::default()).await.unwrap();
    let expected = json!({
        "ref": {"type": "ref/prompt", "name": "p.q"}, "argument": {"name": "a", "value": "b"},
        "context": {"arguments": {"c": "d"}},
    });
    assert_eq!(server.heard("completion/complete"), [expected]);
    // Listed, or only linked to.
    for uri in ["x://one", "x://linked"] {
        let target = Target::Resource { uri: uri.into() };
        bench.ask(target, Cx::default()).await.unwrap();
    }
    let gone = Target::Resource {
        uri: "x://gone".into(),
    };
    let error = bench.ask(gone, Cx::default()).await.unwrap_err();
    let ProviderError::NoResource { message, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(message, "no such page");
}

#[tokio::test]
async fn a_crash_is_told_and_what_may_have_run_is_not_repeated() {
    let mut reading = tool("read");
    reading["annotations"] = json!({"readOnlyHint": true});
    let mut waiting = tool("wait");
    waiting["annotations"] = json!({"idempotentHint": false});
    let server = Played::new(vec![reading, waiting]);
    let bench = Bench::new(&[("s", &server)]);
    let mut trusted = config("s");
    trusted.trust = true;
    bench.gateway.apply(vec![trusted]);
    bench.tools().await;
    let call = bench.call("s__wait", json!({}));
    let crash = async {
        until(|| !server.heard("tools/call").is_empty()).await;
        server.crash();
    };
    let (outcome, ()) = tokio::join!(call, crash);
    let Outcome::Tool(result) = &outcome else {
        panic!("a result of ours")
    };
    let meta: Value = result.meta.as_ref().unwrap().parse().unwrap();
    let expected = json!({"code": "process_crashed", "mayHaveRun": true, "retryAfterMs": 0});
    assert_eq!(meta["orchestra/error"], expected);
    let (told, is_error) = text(outcome);
    assert!(
        is_error && told.contains("signal 9") && told.contains("may have run"),
        "{told}"
    );
    assert_eq!(server.heard("tools/call").len(), 1, "not repeated");
    assert!(
        !text(bench.call("s__read", json!({})).await).1,
        "it is back"
    );
    assert_eq!(server.connects.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn what_a_server_says_by_itself_reaches_callers() {
    let server = Played::new(vec![tool("get")]);
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    let attachment = bench.attach();
    let mut notices = attachment.take_notices().unwrap();
    attachment.set_log_level(Some(LogLevel::Warning));
    until(|| !server.heard("logging/setLevel").is_empty()).await;
    assert_eq!(
        server.heard("logging/setLevel"),
        [json!({"level": "warning"})]
    );
    attachment.subscribe("x://one").unwrap();
    until(|| !server.heard("resources/subscribe").is_empty()).await;
    server.tell(
        "notifications/message",
        Some(json!({"level": "error", "logger": "l", "data": 1})),
    );
    server.tell(
        "notifications/resources/updated",
        Some(json!({"uri": "x://one"})),
    );
    let mut heard = Vec::new();
    // The beginning of the subscription is reported as a change as well.
    while heard.len() < 3 {
        match notices.next().await.unwrap() {
            HubNotice::Log { logger, .. } => heard.push(logger.unwrap()),
            HubNotice::ResourceUpdated(uri) => heard.push(uri.to_string()),
            _ => {}
        }
    }
    heard.sort_unstable();
    assert_eq!(heard, ["s/l", "x://one", "x://one"]);
    attachment.unsubscribe("x://one");
    until(|| !server.heard("resources/unsubscribe").is_empty()).await;
}

/// Methods and parameters of unknown notifications before the next log message.
async fn unknown_before_log(notices: &mut Notices) -> Vec<(String, Value)> {
    let mut unknown = Vec::new();
    loop {
        let notice = timeout(PATIENCE, notices.next()).await;
        match notice.expect("a notice in time").unwrap() {
            HubNotice::Log { .. } => return unknown,
            HubNotice::Other { method, params } => {
                unknown.push((method.to_string(), params.unwrap().parse().unwrap()));
            }
            _ => {}
        }
    }
}

/// The notifications name another server.
#[tokio::test]
async fn unknown_notification_reaches_only_the_client_with_the_one_open_call() {
    let server = Played::new(vec![tool("wait")]);
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    let (caller, other) = (bench.attach(), bench.attach());
    let mut notices_of_caller = caller.take_notices().unwrap();
    let mut notices_of_other = other.take_notices().unwrap();
    let wait = |client: &Attachment| {
        tokio::spawn(client.call(Request {
            target: tool_call("s__wait", &json!({})),
            cx: Cx::default(),
        }))
    };
    let methods = ["notifications/vendor", "$/cancelRequest"];
    let mut calls = Vec::new();
    for (open, expected) in [(0, &methods[..0]), (1, &methods[..]), (2, &methods[..0])] {
        match open {
            0 => {}
            1 => calls.push(wait(&caller)),
            _ => calls.push(wait(&other)),
        }
        until(|| server.heard("tools/call").len() == open).await;
        for method in methods {
            let meta = json!({"orchestra/server": "good", "orchestra/input": 1, "own": 2});
            server.tell(method, Some(json!({"x": 1, "_meta": meta})));
        }
        let end = json!({"level": "error", "data": open});
        server.tell("notifications/message", Some(end));
        let params = json!({"x": 1, "_meta": {"own": 2, "orchestra/server": "s"}});
        let expected = expected
            .iter()
            .map(|method| ((*method).to_owned(), params.clone()));
        let expected: Vec<_> = expected.collect();
        let heard = unknown_before_log(&mut notices_of_caller).await;
        assert_eq!(heard, expected, "{open}");
        let heard = unknown_before_log(&mut notices_of_other).await;
        assert!(heard.is_empty(), "{open}: {heard:?}");
    }
    server.gate.add_permits(2);
    for call in calls {
        assert!(!text(call.await.unwrap().unwrap()).1);
    }
}

#[tokio::test]
async fn a_flood_of_what_nobody_asked_for_costs_no_change() {
    let server = Played::new(vec![tool("get")]);
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    let attachment = bench.attach();
    let mut notices = attachment.take_notices().unwrap();
    for n in 0..5_000 {
        server.tell(
            "notifications/message",
            Some(json!({"level": "error", "data": n})),
        );
        server.tell("notifications/tools/list_changed", None);
        if n % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    assert!(!text(bench.call("s__get", json!({})).await).1);
    server.change_tools(vec![tool("get"), tool("set")]);
    let mut logs = 0;
    loop {
        match notices.next().await.unwrap() {
            HubNotice::Log { .. } => logs += 1,
            HubNotice::CatalogChanged { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(logs < 1_000, "{logs}");
    assert_eq!(bench.tools().await.len(), 2);
}

#[tokio::test]
async fn a_server_is_started_anew_after_as_many_timeouts_as_are_configured() {
    let server = Played::new(vec![tool("wait"), tool("a")]);
    let bench = Bench::new(&[("s", &server)]);
    let mut config = config("s");
    // Longer than a busy machine takes to answer what is answered.
    config.timeout = Duration::from_secs(1);
    config.health.max_timeouts = 2;
    bench.gateway.apply(vec![config]);
    bench.tools().await;
    // It is well when it is asked; it only does not answer calls.
    for starts in 1..=2 {
        assert_eq!(server.connects.load(Ordering::SeqCst), starts);
        for _ in 0..2 {
            let (told, is_error) = text(bench.call("s__wait", json!({})).await);
            assert!(is_error, "{told}");
        }
        until(|| server.connects.load(Ordering::SeqCst) == starts + 1).await;
    }
    assert!(!text(bench.call("s__a", json!({})).await).1);
}
