//! What other servers say, passed on: results, errors, notifications, and parameters that nobody
//! here knows.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use orchestra_hub::{
    BoxFuture, Catalog, Hub, HubConfig, LogLevel, Notice, Outcome, Provider, ProviderError,
    ProviderId, Request, ResourceDescriptor, ResultKind, Target, ToolDescriptor,
};
use orchestra_mcp::{Server, post::Post};
use orchestra_wire::RawJson;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::memory::{Client, post};

/// Answers every call with its arguments, or with an error.
struct Echo {
    id: ProviderId,
    catalog: watch::Sender<Arc<Catalog>>,
    notices: Mutex<Option<mpsc::Receiver<Notice>>>,
    calls: Calls,
}

impl Provider for Echo {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        let cx = request.cx;
        let params = cx.params.map(|params| params.as_str().to_owned());
        let call = (cx.log_level, cx.connection, params);
        self.calls.lock().unwrap().push(call);
        Box::pin(async {
            match request.target {
                Target::Tool { arguments, .. } => Ok(Outcome::Verbatim {
                    kind: ResultKind::Tool,
                    result: arguments,
                    is_error: false,
                }),
                Target::Resource { uri } if uri == "x://one" => Ok(Outcome::Verbatim {
                    kind: ResultKind::Resource,
                    result: raw(r#"{"contents":[],"ttlMs":5}"#),
                    is_error: false,
                }),
                _ => Err(ProviderError::NoResource {
                    message: "no such page".into(),
                    data: Some(raw(r#"{"near":"x://one"}"#)),
                }),
            }
        })
    }

    fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        self.notices.lock().unwrap().take()
    }
}

fn raw(text: &'static str) -> RawJson {
    RawJson::checked(Bytes::from_static(text.as_bytes())).unwrap()
}

type Calls = Arc<Mutex<Vec<(Option<LogLevel>, u64, Option<String>)>>>;

fn server() -> (Server, mpsc::Sender<Notice>, Calls) {
    let (notices, receiver) = mpsc::channel(10);
    let calls = Calls::default();
    let catalog = Catalog {
        tools: vec![ToolDescriptor {
            name: "echo".into(),
            title: None,
            description: None,
            input_schema: RawJson::empty_object(),
            lean_schema: None,
            output_schema: None,
            annotations: orchestra_hub::Annotations::default(),
            group: "echo".into(),
            cost: orchestra_hub::Cost::Quick,
            long: orchestra_hub::LongWork::Never,
            definition: None,
        }],
        resources: vec![ResourceDescriptor {
            uri: "x://one".into(),
            name: "one".into(),
            title: None,
            description: None,
            mime_type: None,
            definition: None,
        }],
        reads_unlisted: true,
        ..Catalog::default()
    };
    let provider = Echo {
        id: ProviderId::parse("echo").unwrap(),
        catalog: watch::Sender::new(Arc::new(catalog)),
        notices: Mutex::new(Some(receiver)),
        calls: Arc::clone(&calls),
    };
    let hub = Hub::new(HubConfig::default());
    hub.register(Arc::new(provider)).unwrap();
    (Server::builder(hub, "test").build(), notices, calls)
}

fn stateless(extra: Value) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let all = meta.as_object_mut().unwrap();
    all.extend(extra.as_object().unwrap().clone());
    meta
}

fn call(result: &Value, meta: Option<Value>) -> Value {
    let mut params = json!({"name": "echo", "arguments": result});
    if let Some(meta) = meta {
        params["_meta"] = meta;
    }
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

#[tokio::test]
async fn a_session_gets_a_result_as_it_came_but_for_what_its_revision_refuses() {
    let (server, _notices, _calls) = server();
    let result = json!({
        "content": [{"type": "new", "x": 1.0}], "structuredContent": {"a": 1}, "more": [null],
        "_meta": {"k": "v"},
    });
    let listed = json!({"content": [], "structuredContent": [1]});
    for (revision, keeps_objects) in [("2024-11-05", false), ("2025-06-18", true)] {
        let mut client = Client::connect(&server);
        client.initialize(revision).await;
        client.send(&call(&result, None).to_string()).await;
        let mut expected = result.clone();
        if !keeps_objects {
            expected
                .as_object_mut()
                .unwrap()
                .remove("structuredContent");
        }
        assert_eq!(client.next().await.unwrap()["result"], expected);
        client.send(&call(&listed, None).to_string()).await;
        assert_eq!(
            client.next().await.unwrap()["result"],
            json!({"content": []})
        );
    }
}

/// A result of the stateless era says of which type it is, and may say more that only that era knows.
#[tokio::test]
async fn a_session_is_not_told_what_its_era_does_not_know() {
    let (server, _notices, _calls) = server();
    let who = json!({"name": "other", "version": "1"});
    let only_who = json!({"io.modelcontextprotocol/serverInfo": who});
    let more = json!({"k": 1, "io.modelcontextprotocol/serverInfo": who, "l": 2});
    let complete = "complete";
    for (result, expected) in [
        (
            json!({"resultType": complete, "content": [], "_meta": only_who}),
            json!({"content": []}),
        ),
        (
            json!({"content": [], "_meta": more, "resultType": complete, "isError": true}),
            json!({"content": [], "_meta": {"k": 1, "l": 2}, "isError": true}),
        ),
        (
            json!({"_meta": {"k": 1}, "resultType": complete, "ttlMs": 1}),
            json!({"_meta": {"k": 1}, "ttlMs": 1}),
        ),
        (json!({"resultType": complete}), json!({})),
        // What is within is the server's own, and so is all of a result of another era.
        (
            json!({"content": [{"resultType": complete, "_meta": only_who}]}),
            json!({"content": [{"resultType": complete, "_meta": only_who}]}),
        ),
        (
            json!({"content": [], "_meta": only_who}),
            json!({"content": [], "_meta": only_who}),
        ),
    ] {
        for revision in ["2024-11-05", "2025-11-25"] {
            let mut client = Client::connect(&server);
            client.initialize(revision).await;
            client.send(&call(&result, None).to_string()).await;
            assert_eq!(client.next().await.unwrap()["result"], expected);
        }
    }
}

#[tokio::test]
async fn a_stateless_caller_gets_what_its_revision_asks_for() {
    let (server, _notices, _calls) = server();
    let connection = Post::new(&server, "test");
    let info = json!({"name": "test", "version": env!("CARGO_PKG_VERSION")});
    let theirs = json!({"io.modelcontextprotocol/serverInfo": {"name": "other"}, "k": 1});
    let result = json!({"content": [], "structuredContent": [1], "_meta": theirs});
    let answer = post(&connection, &call(&result, Some(stateless(json!({}))))).await;
    let expected = json!({
        "content": [], "structuredContent": [1], "resultType": "complete",
        "_meta": {"io.modelcontextprotocol/serverInfo": info, "k": 1},
    });
    assert_eq!(answer.unwrap()["result"], expected);
    let answer = post(&connection, &call(&json!({}), Some(stateless(json!({}))))).await;
    let expected = json!({
        "resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": info},
    });
    assert_eq!(answer.unwrap()["result"], expected);
    let read = |uri: &str| {
        let params = json!({"uri": uri, "_meta": stateless(json!({}))});
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params})
    };
    let answer = post(&connection, &read("x://one")).await.unwrap();
    let expected = json!({
        "contents": [], "ttlMs": 5, "resultType": "complete", "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": info},
    });
    assert_eq!(answer["result"], expected);
    let error = &post(&connection, &read("x://two")).await.unwrap()["error"];
    let data = json!({"near": "x://one"});
    assert_eq!(
        *error,
        json!({"code": -32602, "message": "no such page", "data": data})
    );
    let params = json!({"uri": "x://two"});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params});
    let error = &post(&connection, &request).await.unwrap()["error"];
    assert_eq!(
        *error,
        json!({"code": -32002, "message": "no such page", "data": data})
    );
}

#[tokio::test]
async fn a_provider_hears_what_nobody_here_knows_and_who_calls() {
    let (server, _notices, calls) = server();
    let mut client = Client::connect(&server);
    client.initialize("2025-11-25").await;
    let mut custom = call(&json!({}), Some(json!({"vendor/id": 7})));
    custom["params"]["extra"] = json!(true);
    let level =
        r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}"#;
    let known = call(&json!({}), Some(json!({"progressToken": 1})));
    let modern = stateless(json!({"io.modelcontextprotocol/logLevel": "error"}));
    let modern = call(&json!({}), Some(modern));
    for line in [
        &known.to_string(),
        &custom.to_string(),
        level,
        &modern.to_string(),
    ] {
        client.send(line).await;
        client.next().await.unwrap();
    }
    client.send(&known.to_string()).await;
    client.next().await.unwrap();
    let calls = calls.lock().unwrap();
    let number = calls[0].1;
    assert_ne!(number, 0);
    assert!(calls.iter().all(|call| call.1 == number));
    let heard: Vec<_> = calls
        .iter()
        .map(|call| (call.0, call.2.as_deref()))
        .collect();
    let params = custom["params"].to_string();
    let expected = [
        (None, None),
        (None, Some(&*params)),
        (Some(LogLevel::Error), None),
        (Some(LogLevel::Debug), None),
    ];
    assert_eq!(heard, expected);
}

#[tokio::test]
async fn a_session_hears_notifications_that_nobody_here_knows() {
    let (server, notices, _calls) = server();
    let mut client = Client::connect(&server);
    client.initialize("2025-11-25").await;
    client.send(&call(&json!({}), None).to_string()).await;
    client.next().await.unwrap();
    for method in ["notifications/cancelled", "notifications/vendor"] {
        let params = Some(raw(r#"{"x": 1.50}"#));
        let method = method.into();
        notices
            .send(Notice::Other {
                method,
                params,
                client: None,
            })
            .await
            .unwrap();
    }
    let heard = client.next().await.unwrap();
    assert_eq!(
        heard,
        json!({"jsonrpc": "2.0", "method": "notifications/vendor", "params": {"x": 1.5}})
    );
}
