//! The OpenAPI document. That answers are as it says is held by every test that calls
//! [`Site::described`].

use std::collections::BTreeSet;

use axum::Router;
use orchestra_hub::HubConfig;
use orchestra_mcp::http::{Access, AccessRules, HttpOptions, Token};
use serde_json::{Value, json};

use crate::{site::Site, toys::visitor};

#[tokio::test(flavor = "multi_thread")]
async fn the_document_has_every_route_and_its_statuses() {
    let site = Site::new().await;
    let document = site.document().await;
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], "9.8.7");
    let of_calls = [
        "200", "400", "401", "403", "404", "408", "413", "415", "429", "502", "503", "504",
    ];
    let list = ["200", "401", "403", "429", "503"];
    let expected: [(&str, &str, &[&str]); 13] = [
        ("/api/mcp/tools", "get", &list),
        ("/api/mcp/tools/call", "post", &of_calls),
        ("/api/mcp/resources", "get", &list),
        ("/api/mcp/resources/read", "post", &of_calls),
        ("/api/mcp/prompts", "get", &list),
        ("/api/mcp/prompts/get", "post", &of_calls),
        (
            "/api/mcp/sse",
            "get",
            &["200", "401", "403", "404", "429", "503"],
        ),
        (
            "/api/mcp/messages",
            "post",
            &[
                "202", "400", "401", "403", "404", "408", "413", "415", "429", "503",
            ],
        ),
        ("/api/openapi.json", "get", &list),
        ("/api/mcp/servers", "get", &list),
        ("/metrics", "get", &list),
        ("/health", "get", &["200", "403", "429"]),
        ("/ready", "get", &["200", "403", "429", "503"]),
    ];
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), expected.len());
    for (path, method, statuses) in expected {
        let operations = paths[path].as_object().unwrap();
        assert_eq!(operations.len(), 1, "{path}");
        let operation = &operations[method];
        let described: BTreeSet<&str> = operation["responses"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(described, statuses.iter().copied().collect(), "{path}");
        assert!(operation["summary"].is_string(), "{path}");
        // What is described is there.
        let target = format!("OPTIONS {path}");
        let answer = site.send(&target, &[], "").await;
        assert_eq!(answer.status, 405, "{path}");
        if !path.ends_with("/sse") && !path.ends_with("/messages") {
            let text = format!("method not allowed; use {}", method.to_uppercase());
            assert_eq!(answer.json(), json!({"error": text}), "{path}");
        }
    }
    assert_eq!(refers_to_nothing(&document, &document), None);
}

/// The first reference that leads nowhere.
fn refers_to_nothing(part: &Value, document: &Value) -> Option<String> {
    match part {
        Value::Object(members) => {
            if let Some(to) = members.get("$ref").and_then(Value::as_str) {
                let pointer = to.strip_prefix('#')?;
                return document.pointer(pointer).is_none().then(|| to.to_owned());
            }
            members
                .values()
                .find_map(|part| refers_to_nothing(part, document))
        }
        Value::Array(parts) => parts
            .iter()
            .find_map(|part| refers_to_nothing(part, document)),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_where_a_token_is_needed() {
    let token: Token = "0123456789abcdef0123456789abcdef".parse().unwrap();
    let bearer = json!({"token": []});
    for (tokens, expected) in [
        (vec![], json!([{}, bearer])),
        (vec![token], json!([bearer])),
    ] {
        let options = HttpOptions {
            access: Access::new(AccessRules {
                tokens,
                ..AccessRules::default()
            }),
            ..HttpOptions::default()
        };
        let site = Site::with(HubConfig::default(), options, |app| app).await;
        let held = ("Authorization", "Bearer 0123456789abcdef0123456789abcdef");
        let answer = site.send("GET /api/openapi.json", &[held], "").await;
        let document = answer.json();
        assert_eq!(document["security"], expected);
        for (path, methods) in document["paths"].as_object().unwrap() {
            let is_public = matches!(path.as_str(), "/health" | "/ready");
            for operation in methods.as_object().unwrap().values() {
                let of_all = operation.get("security");
                let none = json!([]);
                assert_eq!(of_all, is_public.then_some(&none), "{path}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_names_what_there_is() {
    let site = Site::new().await;
    site.hub.register(visitor("visitor", "visit")).unwrap();
    let document = site.document().await;
    let schemas = &document["components"]["schemas"];
    let names = &schemas["ToolCall"]["properties"]["name"]["examples"];
    let names = names.as_array().unwrap();
    assert_eq!(
        (&names[0], names.last()),
        (&json!("echo"), Some(&json!("visit")))
    );
    let uris = &schemas["ResourceRead"]["properties"]["uri"]["examples"];
    assert_eq!(uris, &json!(["toy://one"]));
    let prompts = &schemas["Prompt"]["properties"]["name"]["examples"];
    assert_eq!(prompts, &json!(["greet"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn its_paths_begin_where_the_routes_are_nested() {
    let site = Site::new().await;
    assert_eq!(site.document().await["servers"], json!([{"url": "/"}]));
    let nested = |app| Router::new().nest("/agents", app);
    let site = Site::with(HubConfig::default(), HttpOptions::default(), nested).await;
    let answer = site.send("GET /agents/api/openapi.json", &[], "").await;
    assert_eq!(answer.json()["servers"], json!([{"url": "/agents"}]));
    for path in ["/agents/health", "/agents/ready", "/agents/api/mcp/tools"] {
        assert_eq!(
            site.send(&format!("GET {path}"), &[], "").await.status,
            200,
            "{path}"
        );
    }
    assert_eq!(site.send("GET /health", &[], "").await.status, 404);
}
