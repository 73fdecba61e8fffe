//! REST: answers, refusals and bounds.

use std::{num::NonZeroU32, sync::atomic::Ordering, time::Duration};

use axum::Router;
use orchestra_hub::{Audit, AuditConfig, HubConfig, NamePattern, Permission};
use orchestra_mcp::http::{Access, AccessRules, HttpOptions, OAuth, OAuthRules, Rate};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::site::{PATIENCE, Site};

const CALL: &str = "POST /api/mcp/tools/call";
const READ: &str = "POST /api/mcp/resources/read";
const GET: &str = "POST /api/mcp/prompts/get";
const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_offered_is_listed_and_counted() {
    let site = Site::new().await;
    let (status, tools) = site.rest("GET /api/mcp/tools", &Value::Null).await;
    assert_eq!((status, &tools["count"]), (200, &json!(10)));
    assert_eq!(tools["tools"].as_array().unwrap().len(), 10);
    let by_mcp = site.mcp("tools/list", json!({})).await;
    assert_eq!(tools["tools"], by_mcp["result"]["tools"]);

    let (status, resources) = site.rest("GET /api/mcp/resources", &Value::Null).await;
    assert_eq!((status, &resources["count"]), (200, &json!(1)));
    assert_eq!(resources["resources"][0]["uri"], "toy://one");
    let template = &resources["resourceTemplates"][0];
    assert_eq!(template["uriTemplate"], "toy://many/{id}");

    let (status, prompts) = site.rest("GET /api/mcp/prompts", &Value::Null).await;
    assert_eq!((status, &prompts["count"]), (200, &json!(1)));
    assert_eq!(prompts["prompts"][0]["arguments"][0]["required"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_answers_the_result_alone_and_a_tool_that_fails_is_200() {
    let site = Site::new().await;
    for name in ["echo", "compute"] {
        let body = json!({"name": name, "arguments": {"text": "a\n\"b\""}});
        let (status, answer) = site.rest(CALL, &body).await;
        assert_eq!(status, 200);
        assert_eq!(
            answer["content"],
            json!([{"type": "text", "text": "a\n\"b\""}])
        );
        assert!(answer.get("isError").is_none());
    }
    let (status, answer) = site.rest(CALL, &json!({"name": "fail"})).await;
    assert_eq!((status, &answer["isError"]), (200, &json!(true)));
    // There is nobody to ask over REST.
    let (status, answer) = site.rest(CALL, &json!({"name": "ask"})).await;
    assert_eq!((status, &answer["isError"]), (200, &json!(true)));

    let (status, answer) = site.rest(READ, &json!({"uri": "toy://one"})).await;
    assert_eq!(
        (status, &answer["contents"][0]["text"]),
        (200, &json!("one"))
    );
    let greet = json!({"name": "greet", "arguments": {"name": "Ada"}});
    let (status, answer) = site.rest(GET, &greet).await;
    assert_eq!(status, 200);
    assert_eq!(answer["description"], "A greeting.");
    assert_eq!(answer["messages"][0]["content"]["text"], "Hello, Ada!");
}

/// A member that is misspelt is not left out: the call would be made without it.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_nobody_knows_are_refused() {
    let site = Site::new().await;
    for (target, body, expected) in [
        (
            CALL,
            json!({"name": "echo", "args": {"text": "a"}}),
            "unknown field args, expected name or arguments",
        ),
        (
            READ,
            json!({"uri": "toy://one", "url": 1}),
            "unknown field url, expected uri",
        ),
        (
            GET,
            json!({"\n": 1, "name": "greet"}),
            "unknown field \\n, expected name or arguments",
        ),
    ] {
        let (status, answer) = site.rest(target, &body).await;
        assert_eq!(
            (status, &answer["error"]),
            (400, &json!(expected)),
            "{body}"
        );
    }
    let schemas = &site.document().await["components"]["schemas"];
    for schema in ["ToolCall", "ResourceRead", "Prompt"] {
        let more = &schemas[schema]["additionalProperties"];
        assert_eq!(more, &json!(false), "{schema}");
    }
}

/// W13: what MCP checks is checked here, in the same words.
#[tokio::test(flavor = "multi_thread")]
async fn w13_arguments_are_checked_as_over_mcp() {
    let site = Site::new().await;
    for arguments in [
        json!({}),
        json!({"text": 1}),
        json!({"text": "a", "more": true}),
    ] {
        let params = json!({"name": "echo", "arguments": arguments});
        let (status, answer) = site.rest(CALL, &params).await;
        assert_eq!(
            (status, &answer["isError"]),
            (200, &json!(true)),
            "{answer}"
        );
        let by_mcp = site.mcp("tools/call", params).await;
        assert_eq!(answer["content"], by_mcp["result"]["content"]);
    }
    for (target, method, params) in [
        (CALL, "tools/call", json!({})),
        (CALL, "tools/call", json!({"name": 1})),
        (
            CALL,
            "tools/call",
            json!({"name": "echo", "arguments": [1]}),
        ),
        (CALL, "tools/call", json!({"name": "refuse"})),
        (READ, "resources/read", json!({})),
        (READ, "resources/read", json!({"uri": {}})),
        (GET, "prompts/get", json!({"name": "greet"})),
        (
            GET,
            "prompts/get",
            json!({"name": "greet", "arguments": {"name": 1}}),
        ),
    ] {
        let (status, answer) = site.rest(target, &params).await;
        assert_eq!(status, 400, "{params}: {answer}");
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let by_mcp = site.send("POST /rpc", &JSON, &message.to_string()).await;
        assert_eq!(answer["error"], by_mcp.json()["error"]["message"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_has_its_status() {
    let site = Site::new().await;
    for (target, body, expected, text) in [
        (CALL, json!({"name": "nobody"}), 404, "unknown tool: nobody"),
        (
            READ,
            json!({"uri": "toy://x"}),
            404,
            "unknown resource: toy://x",
        ),
        (READ, json!({"uri": "x:"}), 404, "unknown resource: x:"),
        (GET, json!({"name": "x"}), 404, "unknown prompt: x"),
        (
            CALL,
            json!([1]),
            400,
            "invalid params: params must be an object",
        ),
        (CALL, json!({"name": "break"}), 502, "it broke"),
        (CALL, json!({"name": "gone"}), 502, "it went away"),
        (
            CALL,
            json!({"name": "panic"}),
            502,
            "the call broke: its provider panicked",
        ),
    ] {
        let (status, answer) = site.rest(target, &body).await;
        assert_eq!(
            (status, &answer),
            (expected, &json!({"error": text})),
            "{body}"
        );
    }
    let (status, answer) = site.rest(CALL, &json!({"name": "large"})).await;
    assert_eq!(status, 502);
    assert!(
        answer["error"]
            .as_str()
            .unwrap()
            .starts_with("result_too_large")
    );

    let deep = format!(
        "{{\"name\":\"echo\",\"arguments\":{}1{}}}",
        "[".repeat(200),
        "]".repeat(200)
    );
    for body in [
        "",
        "{",
        "{}x",
        "\u{0}",
        "{\"name\":\"echo\",\"name\":\"fail\"}",
        &deep,
    ] {
        let answer = site.described(CALL, &JSON, body).await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
    }
    let answer = site
        .described(CALL, &[("Content-Type", "text/plain")], "{}")
        .await;
    assert_eq!(
        (answer.status, answer.header("accept-encoding")),
        (415, None)
    );
    let coded = [JSON[0], ("Content-Encoding", "gzip")];
    let answer = site.described(CALL, &coded, "{}").await;
    let accepted = answer.header("accept-encoding");
    assert_eq!((answer.status, accepted), (415, Some("identity")));
    let large = "x".repeat(10 * 1024 * 1024 + 1);
    assert_eq!(site.described(CALL, &JSON, &large).await.status, 413);
}

/// What the rules do not permit is forbidden, and no fault of the request.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_the_rules_forbid_is_403() {
    let config = HubConfig {
        permission: Permission::new([], [NamePattern::new("fail")]),
        ..HubConfig::default()
    };
    let site = Site::with(config, HttpOptions::default(), |app| app).await;
    let body = json!({"name": "fail", "arguments": {}});
    let (status, answer) = site.rest(CALL, &body).await;
    assert_eq!(
        (status, &answer["error"]),
        (403, &json!("tool fail is not permitted here"))
    );
    // MCP says it by its code for malformed calls, as that of an unknown tool.
    let by_mcp = site.mcp("tools/call", body).await;
    assert_eq!(
        (&by_mcp["error"]["code"], &by_mcp["error"]["message"]),
        (&json!(-32602), &answer["error"])
    );
    let document = site.document().await;
    let responses = &document["paths"]["/api/mcp/tools/call"]["post"]["responses"];
    let told = responses["403"]["description"].as_str().unwrap();
    assert!(
        told.contains("Origin") && told.contains("the tool"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_this_machine_is_answered() {
    let site = Site::new().await;
    for target in [
        "GET /api/mcp/tools",
        CALL,
        "GET /health",
        "GET /ready",
        "GET /api/openapi.json",
    ] {
        for header in [("Host", "evil.example"), ("Origin", "http://evil.example")] {
            let answer = site.described(target, &[header], "").await;
            assert_eq!(answer.status, 403, "{target} {header:?}");
            assert!(answer.json()["error"].is_string());
        }
    }
    // MCP goes on speaking JSON-RPC.
    let answer = site
        .send("POST /mcp", &[("Host", "evil.example")], "{}")
        .await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["code"]),
        (403, &json!(-32600))
    );
}

/// Whoever must show a token must do so here as well; health is told to everybody.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_rates_hold_for_rest() {
    let token = "0123456789abcdef0123456789abcdef";
    let guarded = async |rules| {
        let access = Access::new(rules);
        let options = HttpOptions {
            access,
            ..HttpOptions::default()
        };
        Site::with(HubConfig::default(), options, |app| app).await
    };
    let site = guarded(AccessRules {
        tokens: vec![token.parse().unwrap()],
        ..AccessRules::default()
    })
    .await;
    let answer = site.send("GET /api/mcp/tools", &[], "").await;
    assert_eq!(answer.status, 401);
    assert!(
        answer
            .header("www-authenticate")
            .unwrap()
            .starts_with("bearer")
    );
    assert!(answer.json()["error"].as_str().unwrap().contains("token"));
    for path in ["/api/openapi.json", "/api/mcp/servers", "/metrics"] {
        assert_eq!(site.send(&format!("GET {path}"), &[], "").await.status, 401);
    }
    for path in ["/health", "/ready"] {
        assert_eq!(site.send(&format!("GET {path}"), &[], "").await.status, 200);
    }
    let shown = format!("Bearer {token}");
    let headers = [("Authorization", shown.as_str())];
    assert_eq!(
        site.send("GET /api/mcp/tools", &headers, "").await.status,
        200
    );

    let one = NonZeroU32::MIN;
    let site = guarded(AccessRules {
        rate: Some(Rate {
            per_second: one,
            burst: one,
        }),
        ..AccessRules::default()
    })
    .await;
    assert_eq!(site.send("GET /api/mcp/tools", &[], "").await.status, 200);
    let answer = site.send("GET /api/mcp/tools", &[], "").await;
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (429, Some("1"))
    );
    assert!(answer.json()["error"].is_string());
}

/// Ada's, for `https://box.example/mcp`, of an issuer where nobody listens.
const OF_NOBODY: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjEiLCJzdWIiOiJhZGEiLCJhdWQiOiJodHRwczovL2JveC5leGFtcGxlL21jcCIsImV4cCI6OTk5OTk5OTk5OX0.AA";

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_an_issuer_are_asked_for_in_the_form_of_rest() {
    let resource = "https://box.example/mcp".parse().unwrap();
    let oauth = OAuthRules::new(resource, "http://127.0.0.1:1".parse().unwrap());
    let access = Access::new(AccessRules {
        oauth: Some(OAuth::new(oauth).unwrap()),
        ..AccessRules::default()
    });
    let metadata = access.metadata_routes();
    let options = HttpOptions {
        access,
        ..HttpOptions::default()
    };
    let nested = |app| Router::new().nest("/tools", app).merge(metadata);
    let site = Site::with(HubConfig::default(), options, nested).await;
    let answer = site.send("GET /tools/api/mcp/tools", &[], "").await;
    assert_eq!(answer.status, 401);
    let well_known = "/.well-known/oauth-protected-resource/mcp";
    let challenge = answer.header("www-authenticate").unwrap();
    assert!(challenge.contains(well_known), "{challenge}");
    assert!(answer.json()["error"].as_str().unwrap().contains("issuer"));
    let shown = format!("Bearer {OF_NOBODY}");
    let headers = [("Authorization", shown.as_str())];
    let answer = site.send("GET /tools/api/mcp/tools", &headers, "").await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.header("retry-after").is_some());
    assert!(answer.json()["error"].as_str().unwrap().contains("keys"));
    for path in [well_known, "/tools/health"] {
        assert_eq!(site.send(&format!("GET {path}"), &[], "").await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_methods_and_other_paths_are_told() {
    let site = Site::new().await;
    for (target, allow) in [
        ("POST /api/mcp/tools", "get,head"),
        ("GET /api/mcp/tools/call", "post"),
        ("DELETE /api/mcp/prompts", "get,head"),
        ("POST /health", "get,head"),
        ("PUT /api/openapi.json", "get,head"),
    ] {
        let answer = site.send(target, &JSON, "").await;
        assert_eq!(answer.status, 405, "{target}");
        assert_eq!(answer.header("allow"), Some(allow), "{target}");
        assert!(answer.json()["error"].is_string());
    }
    for target in [
        "GET /",
        "GET /api",
        "POST /api/mcp/tools/",
        "GET /api/mcp/tools/x",
    ] {
        let answer = site.send(target, &[], "").await;
        assert_eq!(answer.status, 404, "{target}");
        assert!(answer.json()["error"].as_str().unwrap().contains("/mcp"));
    }
    assert_eq!(site.send("DELETE /mcp", &[], "").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_at_its_deadline() {
    let config = HubConfig {
        deadline: Duration::from_millis(50),
        ..HubConfig::default()
    };
    let site = Site::with(config, HttpOptions::default(), |app| app).await;
    let (status, answer) = site.rest(CALL, &json!({"name": "wait"})).await;
    assert_eq!(
        (status, answer),
        (504, json!({"error": "deadline exceeded"}))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_takes_its_call_along() {
    let site = Site::new().await;
    let mut client = site.client().await;
    client
        .write(CALL, &JSON, &json!({"name": "wait"}).to_string())
        .await;
    let waiting = async |count| {
        while site.toys.waiting.load(Ordering::SeqCst) != count {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, waiting(1)).await.expect("it begins");
    drop(client);
    timeout(PATIENCE, waiting(0)).await.expect("it is dropped");
}

/// Bodies of REST and of MCP have one bound together.
#[tokio::test(flavor = "multi_thread")]
async fn too_much_at_once_is_refused_for_a_moment() {
    const BODY: usize = 10 * 1024 * 1024;
    let site = Site::new().await;
    let length = BODY.to_string();
    let mut held = Vec::new();
    for target in ["POST /mcp", CALL, "POST /rpc", READ, "POST /mcp", CALL] {
        let mut client = site.client().await;
        // Whoever is asked for the body has its room.
        let head = format!(
            "{target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
        );
        assert_eq!(client.raw(&head).await.status, 100);
        held.push(client);
    }
    let body = json!({"name": "echo", "arguments": {"text": "x".repeat(BODY - 100)}});
    let answer = site.described(CALL, &JSON, &body.to_string()).await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    let (status, _) = site.rest(CALL, &json!({"name": "fail"})).await;
    assert_eq!(status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_are_bounded_with_those_of_mcp() {
    let options = HttpOptions {
        reply_bytes: 1,
        ..HttpOptions::default()
    };
    let site = Site::with(HubConfig::default(), options, |app| app).await;
    let echo = |length: usize| {
        json!({"name": "echo", "arguments": {"text": "x".repeat(length)}}).to_string()
    };
    let long = echo(8 * 1024);
    assert_eq!(site.send(CALL, &JSON, &long).await.status, 200);
    // More than what is on the way.
    let mut silent = site.client().await;
    silent.write(CALL, &JSON, &echo(9 * 1024 * 1024)).await;
    assert_eq!(silent.head().await.0, 200);
    let answer = site.send(CALL, &JSON, &long).await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(answer.json()["error"].as_str().unwrap().starts_with("busy"));
    for list in ["GET /api/mcp/tools", "GET /api/openapi.json"] {
        let answer = site.send(list, &[], "").await;
        let is_long = answer.body.len() > 4 * 1024;
        assert!(answer.status == 503 || !is_long, "{list}");
    }
    assert_eq!(site.send(CALL, &JSON, &echo(1)).await.status, 200);
    drop(silent);
    let free = async { while site.send(CALL, &JSON, &long).await.status != 200 {} };
    timeout(PATIENCE, free).await.expect("all is free again");
    let document = site.document().await;
    let answers = &document["paths"]["/api/mcp/tools"]["get"]["responses"];
    assert!(answers["503"].is_object(), "it is described");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_recorded_as_those_of_rest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(&path));
    let config = HubConfig {
        audit: Some(audit.unwrap()),
        ..HubConfig::default()
    };
    let site = Site::with(config, HttpOptions::default(), |app| app).await;
    let headers = [JSON[0], ("User-Agent", "a script")];
    let secret = json!({"name": "echo", "arguments": {"text": "s3cret"}}).to_string();
    assert_eq!(site.send(CALL, &headers, &secret).await.status, 200);
    assert_eq!(
        site.send(CALL, &headers, "{\"name\":\"x\"}").await.status,
        404
    );
    let recorded = async || {
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text.lines().count() == 2 {
                return text;
            }
            tokio::task::yield_now().await;
        }
    };
    let text = timeout(PATIENCE, recorded()).await.expect("two records");
    assert!(!text.contains("s3cret"), "{text}");
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&record["face"], &record["client"]),
            (&json!("rest"), &json!("a script"))
        );
    }
}
