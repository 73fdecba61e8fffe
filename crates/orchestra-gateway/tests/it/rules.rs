//! What calls are held against before they leave, and what becomes of their answers.

use std::time::Duration;

use orchestra_gateway::{
    config::{Effect, Rule},
    rules,
};
use orchestra_hub::{Answers, Audit, AuditConfig, ClientFeatures, Cx, HubConfig, Outcome, Target};
use serde_json::{Value, json};

use crate::played::{Bench, Played, config, raw, said, text, tool, tool_call, until};

fn rule(effect: Effect, tool: &str) -> Rule {
    Rule {
        effect,
        tool: tool.to_owned(),
        arguments: Vec::new(),
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_leave() {
    let mut strict = tool("add");
    strict["inputSchema"] = json!({
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": false,
    });
    let mut lying = tool("lie");
    lying["inputSchema"] = json!({"type": "object", "properties": {"a": {"type": "nonsense"}}});
    let server = Played::new(vec![strict, lying]);
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    let (told, is_error) = text(bench.call("s__add", json!({"a": "1"})).await);
    assert!(
        is_error && told.contains("`a`: ") && told.contains("nothing ran"),
        "{told}"
    );
    assert!(server.heard("tools/call").is_empty());
    bench.call("s__add", json!({"a": 1})).await;
    bench.call("s__lie", json!({"a": []})).await;
    assert_eq!(
        server.heard("tools/call").len(),
        2,
        "a schema that lies is not enforced"
    );
}

#[tokio::test]
async fn rules_deny_and_ask() {
    let server = Played::new(vec![tool("get"), tool("wipe"), tool("write")]);
    let bench = Bench::new(&[("s", &server)]);
    let mut config = config("s");
    config.rules = vec![rule(Effect::Deny, "wi*"), rule(Effect::Ask, "wr*")];
    bench.gateway.apply(vec![config]);
    bench.tools().await;
    let (told, is_error) = text(bench.call("s__wipe", json!({})).await);
    assert!(is_error && told.contains("denies it"), "{told}");
    let (told, is_error) = text(bench.call("s__write", json!({})).await);
    assert!(is_error && told.contains("cannot do"), "{told}");
    let cx = |answers: Option<Answers>| Cx {
        features: ClientFeatures {
            elicitation: true,
            ..ClientFeatures::default()
        },
        answers,
        ..Cx::default()
    };
    let call = || tool_call("s__write", &json!({"x": 1}));
    for (action, runs) in [("decline", 0), ("accept", 1)] {
        let Outcome::InputRequired(input) = bench.ask(call(), cx(None)).await.unwrap() else {
            panic!("a question")
        };
        let asked: Value = input.requests.parse().unwrap();
        let (key, question) = asked.as_object().unwrap().iter().next().unwrap();
        assert_eq!(question["method"], "elicitation/create");
        let answers = || Answers {
            responses: raw(&json!({key: {"action": action}})),
            state: input.state.clone(),
        };
        let outcome = bench.ask(call(), cx(Some(answers()))).await.unwrap();
        assert_eq!(text(outcome).1, action == "decline");
        assert_eq!(server.heard("tools/call").len(), runs);
        // The answer is good for one call.
        let outcome = bench.ask(call(), cx(Some(answers()))).await.unwrap();
        assert!(matches!(outcome, Outcome::InputRequired(_)));
        assert_eq!(server.heard("tools/call").len(), runs);
    }
    // A yes that nobody asked for is none.
    let answers = Answers {
        responses: raw(&json!({"orchestra-approval": {"action": "accept"}})),
        state: None,
    };
    let outcome = bench.ask(call(), cx(Some(answers))).await.unwrap();
    assert!(matches!(outcome, Outcome::InputRequired(_)));
    // Whoever cannot be asked through MCP is told which rule it is, and can be asked otherwise.
    let Outcome::Tool(refused) = bench.call("s__write", json!({})).await else {
        panic!("a refusal")
    };
    assert_eq!(rules::asking(&refused).as_deref(), Some("rule 2: ask wr*"));
    let agreed = Cx {
        answers: Some(rules::agreed()),
        ..Cx::default()
    };
    assert!(!text(bench.ask(call(), agreed).await.unwrap()).1);
    assert_eq!(server.heard("tools/call").len(), 2);
}

#[tokio::test]
async fn question_before_a_call_shows_all_of_it_or_the_call_is_refused() {
    let server = Played::new(vec![tool("write")]);
    let bench = Bench::new(&[("s", &server)]);
    let mut config = config("s");
    config.rules = vec![rule(Effect::Ask, "*")];
    bench.gateway.apply(vec![config]);
    bench.tools().await;
    let cx = || Cx {
        features: ClientFeatures {
            elicitation: true,
            ..ClientFeatures::default()
        },
        ..Cx::default()
    };
    let padded = json!({"a": "x".repeat(600), "b": "y\n\u{202e}\u{200b}z", "cmd": "rm -rf /"});
    let call = tool_call("s__write", &padded);
    let Outcome::InputRequired(input) = bench.ask(call, cx()).await.unwrap() else {
        panic!("a question")
    };
    let asked: Value = input.requests.parse().unwrap();
    let message = asked["orchestra-approval"]["params"]["message"].as_str();
    let message = message.unwrap();
    let shown = r#""b":"y\n\u202e\u200bz","cmd":"rm -rf /"}?"#;
    assert!(message.ends_with(shown), "{message}");
    let long = json!({"a": "x".repeat(20_000), "cmd": "rm -rf /"});
    let outcome = bench.ask(tool_call("s__write", &long), cx()).await.unwrap();
    let (told, is_error) = text(outcome);
    assert!(
        is_error && told.contains("at a terminal, with `orchestra mcp call s`"),
        "{told}"
    );
    assert!(server.heard("tools/call").is_empty());
}

/// What no rule is about, and what the record says of each call.
#[tokio::test]
async fn the_default_decides_where_no_rule_does_and_is_recorded() {
    let mut look = tool("look");
    look["annotations"] = json!({"readOnlyHint": true});
    let server = Played::new(vec![tool("get"), tool("put"), look]);
    let state = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let path = state.path().join("audit.jsonl");
    let hub = HubConfig {
        audit: Some(Audit::open(AuditConfig::new(&path)).unwrap()),
        ..HubConfig::default()
    };
    let names = [("free", &server), ("asks", &server), ("shut", &server)];
    let bench = Bench::in_hub(state, &names, hub);
    let mut configs = ["free", "asks", "shut"].map(config);
    configs[1].default = Some(Effect::Ask);
    configs[1].trust = true;
    configs[2].default = Some(Effect::Deny);
    configs[2].trust = true;
    configs[2].rules = vec![rule(Effect::Allow, "ge?")];
    bench.gateway.apply(configs.to_vec());
    bench.tools().await;
    let expected = [
        ("free__get", None, "default: allow"),
        (
            "asks__get",
            Some("cannot do"),
            "default: ask; permission_denied",
        ),
        ("asks__look", None, "default: allow, it only reads"),
        ("shut__get", None, "rule 1: allow ge?"),
        (
            "shut__put",
            Some("its `default` is deny"),
            "default: deny; permission_denied",
        ),
        (
            "shut__look",
            Some("its `default` is deny"),
            "default: deny; permission_denied",
        ),
    ];
    for (name, refusal, _) in expected {
        let (told, is_error) = text(bench.call(name, json!({})).await);
        assert_eq!(is_error, refusal.is_some(), "{name}: {told}");
        assert!(told.contains(refusal.unwrap_or_default()), "{name}: {told}");
    }
    assert_eq!(server.heard("tools/call").len(), 3);
    let records = || std::fs::read_to_string(&path).unwrap_or_default();
    until(|| records().lines().count() == expected.len()).await;
    for (line, (name, _, remark)) in records().lines().zip(expected) {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&record["name"], &record["remark"]),
            (&json!(name), &json!(remark))
        );
    }
}

#[tokio::test]
async fn tools_that_are_not_permitted_are_not_there() {
    let server = Played::new(vec![tool("get"), tool("wipe")]);
    let bench = Bench::new(&[("s", &server)]);
    let mut config = config("s");
    config.tools.deny = vec!["wi?e".to_owned()];
    bench.gateway.apply(vec![config]);
    assert_eq!(bench.tools().await, ["s__get"]);
    let error = bench.try_call("s__wipe", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "unknown tool: s__wipe");
}

#[tokio::test]
async fn pattern_that_denies_or_asks_matches_each_name_that_is_shown_alike() {
    for (pattern, name) in [
        ("delete_*", "delete file"),
        ("delete_*", "delete/file"),
        ("delete_file", "delete.file"),
        ("delete.*", "delete_file"),
        ("delete file", "delete_file"),
    ] {
        let server = Played::new(vec![tool(name), tool("get")]);
        let names = [
            ("filtered", &server),
            ("denied", &server),
            ("asks", &server),
        ];
        let bench = Bench::new(&names);
        let mut configs = ["filtered", "denied", "asks"].map(config);
        configs[0].tools.deny = vec![pattern.to_owned()];
        configs[1].rules = vec![rule(Effect::Deny, pattern)];
        configs[2].rules = vec![rule(Effect::Ask, pattern), rule(Effect::Allow, "*")];
        bench.gateway.apply(configs.to_vec());
        let tools = bench.tools().await;
        assert_eq!(tools.len(), 5, "{pattern} {name}: {tools:?}");
        let filtered = bench.try_call("filtered__delete_file", json!({})).await;
        assert!(filtered.is_err(), "{pattern} {name}");
        for (server, refusal) in [("denied", "denies it"), ("asks", "cannot do")] {
            let (told, is_error) = text(
                bench
                    .call(&format!("{server}__delete_file"), json!({}))
                    .await,
            );
            assert!(
                is_error && told.contains(refusal),
                "{pattern} {name}: {told}"
            );
        }
        assert!(server.heard("tools/call").is_empty(), "{pattern} {name}");
        for server in ["filtered", "denied", "asks"] {
            assert!(!text(bench.call(&format!("{server}__get"), json!({})).await).1);
        }
    }
}

#[tokio::test]
async fn budgets_refuse_with_the_time_of_the_next_try() {
    let server = Played::new(vec![tool("get")]);
    let bench = Bench::new(&[("s", &server)]);
    let mut config = config("s");
    config.limits.budget.daily_quota = Some(1);
    bench.gateway.apply(vec![config.clone()]);
    bench.tools().await;
    assert!(!text(bench.call("s__get", json!({})).await).1);
    let (told, is_error) = text(bench.call("s__get", json!({})).await);
    assert!(is_error && told.contains("Try again in"), "{told}");
    bench.gateway.close(Duration::from_secs(5)).await;
    let again = Bench::in_state(bench.state.clone(), &[("s", &server)]);
    again.gateway.apply(vec![config]);
    assert!(
        text(again.call("s__get", json!({})).await).1,
        "counted over restarts"
    );
    assert_eq!(server.heard("tools/call").len(), 1);
}

/// However many programs serve it, and whichever of them is called.
#[tokio::test]
async fn the_quota_of_a_day_is_one_over_all_programs() {
    let server = Played::new(vec![tool("get")]);
    let mut config = config("s");
    config.limits.budget.daily_quota = Some(10);
    let state = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let programs: Vec<Bench> = (0..4)
        .map(|_| Bench::in_state(state.clone(), &[("s", &server)]))
        .collect();
    for program in &programs {
        program.gateway.apply(vec![config.clone()]);
        program.tools().await;
    }
    let calls = programs.iter().map(|program| async {
        let mut answered = 0;
        for _ in 0..10 {
            let (told, is_error) = text(program.call("s__get", json!({})).await);
            assert!(
                !is_error || told.contains("daily limit of 10 calls"),
                "{told}"
            );
            answered += usize::from(!is_error);
        }
        answered
    });
    let mut answered = 0;
    for calls in futures_util::future::join_all(calls).await {
        answered += calls;
    }
    assert_eq!((answered, server.heard("tools/call").len()), (10, 10));
}

#[tokio::test]
async fn results_of_read_only_tools_of_a_trusted_server_are_kept() {
    let mut reading = tool("get");
    reading["annotations"] = json!({"readOnlyHint": true});
    let server = Played::new(vec![reading, tool("set")]);
    let bench = Bench::new(&[("s", &server), ("t", &server)]);
    let mut trusted = config("s");
    trusted.trust = true;
    trusted.cache_ttl = Some(Duration::from_secs(60));
    let mut untrusted = config("t");
    untrusted.cache_ttl = Some(Duration::from_secs(60));
    bench.gateway.apply(vec![trusted, untrusted]);
    bench.tools().await;
    let attachment = bench.attach();
    let calls = |name: &'static str, arguments: Value| {
        let call = attachment.call(orchestra_hub::Request {
            target: tool_call(name, &arguments),
            cx: Cx::default(),
        });
        let server = &server;
        async move {
            call.await.unwrap();
            server.heard("tools/call").len()
        }
    };
    assert_eq!(calls("s__get", json!({"a": 1, "b": 2})).await, 1);
    assert_eq!(calls("s__get", json!({"b": 2, "a": 1})).await, 1, "kept");
    assert_eq!(calls("s__get", json!({"a": 2})).await, 2);
    assert_eq!(calls("s__set", json!({})).await, 3);
    assert_eq!(calls("s__set", json!({})).await, 4);
    assert_eq!(calls("t__get", json!({})).await, 5);
    assert_eq!(
        calls("t__get", json!({})).await,
        6,
        "its hints are not believed"
    );
    bench.call("s__get", json!({"a": 1, "b": 2})).await;
    assert_eq!(server.heard("tools/call").len(), 7, "another caller");
    assert_eq!(calls("s__get", json!({"a": 2})).await, 8, "after a change");
    assert_eq!(calls("s__get", json!({"a": 2})).await, 8);
}

#[tokio::test]
async fn a_large_result_becomes_a_resource() {
    let server = Played::new(vec![tool("get")]);
    server.say(|_, _| said(&"0123456789".repeat(10_000)));
    let bench = Bench::new(&[("s", &server)]);
    let mut config = config("s");
    config.limits.budget.result_bytes = Some(50_000);
    bench.gateway.apply(vec![config]);
    bench.tools().await;
    let (told, _) = text(bench.call("s__get", json!({})).await);
    assert!(told.len() < 10_000);
    let from = told.find("orchestra://spill/").unwrap();
    let uri = told[from..]
        .split_whitespace()
        .next()
        .unwrap()
        .trim_end_matches(',')
        .to_owned();
    let Outcome::Resource(kept) = bench
        .ask(Target::Resource { uri }, Cx::default())
        .await
        .unwrap()
    else {
        panic!("a resource")
    };
    assert_eq!(kept.contents[0].data.len(), 100_000);
}
