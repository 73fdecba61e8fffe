//! Orchestra inside of another program: providers from outside come and go while others call.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use orchestra_hub::{Catalog, HubConfig, PromptDescriptor, Provider, Toolset};
use orchestra_mcp::{http::HttpOptions, stream};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    task::JoinSet,
    time::timeout,
};

use crate::{
    site::{PATIENCE, Site, stateless, stateless_headers},
    toys::{schema, visitor},
};

const CYCLES: usize = 1_000;
const CALLERS: usize = 64;
const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

/// W27: what a program registers is seen by every face as it was registered.
#[tokio::test(flavor = "multi_thread")]
async fn w27_external_schemas_come_unnested_on_every_face() {
    let site = Site::new().await;
    site.hub.register(visitor("visitor", "visit")).unwrap();
    let mut seen = BTreeMap::new();
    let (_, listed) = site.rest("GET /api/mcp/tools", &Value::Null).await;
    seen.insert("rest", listed["tools"].clone());
    let listed = site.mcp("tools/list", json!({})).await;
    seen.insert("stateless", listed["result"]["tools"].clone());
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    for path in ["/mcp", "/rpc"] {
        let answer = site.send(&format!("POST {path}"), &JSON, &list).await;
        seen.insert(path, answer.json()["result"]["tools"].clone());
    }
    let (stdio, _serving) = stream::in_memory(&site.server, "stdio");
    let mut stdio = BufReader::new(stdio);
    stdio
        .write_all(format!("{list}\n").as_bytes())
        .await
        .unwrap();
    let mut line = String::new();
    stdio.read_line(&mut line).await.unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    seen.insert("stdio", line["result"]["tools"].clone());
    let mut events = site.open("GET /api/mcp/sse", &[], "").await;
    let target = format!("POST {}", events.data().await);
    site.send(&target, &JSON, &list).await;
    seen.insert("sse", events.message().await["result"]["tools"].clone());
    let shown = site.hub.tools(&Toolset::All);
    let shown = shown.iter().map(|tool| {
        json!({"name": tool.name, "inputSchema": tool.input_schema.parse::<Value>().unwrap()})
    });
    seen.insert("the program itself", shown.collect());

    assert_eq!(seen.len(), 7);
    for (face, tools) in seen {
        let tools = tools
            .as_array()
            .unwrap_or_else(|| panic!("{face}: {tools}"));
        let tool = tools.iter().find(|tool| tool["name"] == "visit");
        assert_eq!(tool.expect(face)["inputSchema"], schema(), "{face}");
    }
    let call = json!({"name": "visit", "arguments": {"text": "a"}});
    let (status, answer) = site.rest("POST /api/mcp/tools/call", &call).await;
    assert_eq!(
        (status, &answer["content"][0]["text"]),
        (200, &json!("visit"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_is_refused_with_both_owners_and_changes_nothing() {
    let site = Site::new().await;
    let before = site.rest("GET /api/mcp/tools", &Value::Null).await;
    let error = site.hub.register(visitor("visitor", "echo")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tool echo of provider visitor is already offered by provider toys"
    );
    let error = site.hub.register(visitor("toys", "visit")).unwrap_err();
    assert_eq!(error.to_string(), "provider toys is already registered");
    assert_eq!(site.rest("GET /api/mcp/tools", &Value::Null).await, before);
}

/// What the callers have seen.
#[derive(Default)]
struct Seen {
    sent: AtomicUsize,
    answered: AtomicUsize,
    there: AtomicUsize,
    gone: AtomicUsize,
}

/// Calls, one after the other on one connection, until told to stop. Every call is answered: one of
/// a tool that stays by the tool, one of a tool that comes and goes by the tool or that it is not
/// there.
async fn call(site: Arc<Site>, number: usize, stop: Arc<AtomicBool>, seen: Arc<Seen>) {
    let mut client = site.client().await;
    let mut round = 0;
    while !stop.load(Ordering::SeqCst) {
        let text = format!("{number} {round}");
        let params = match round % 3 {
            0 | 1 => json!({"name": "visit", "arguments": {"text": text}}),
            _ => json!({"name": "echo", "arguments": {"text": text}}),
        };
        seen.sent.fetch_add(1, Ordering::SeqCst);
        let (status, text_of) = if round % 2 == 0 {
            let body = params.to_string();
            let answer = client.send("POST /api/mcp/tools/call", &JSON, &body).await;
            (answer.status, answer.json()["content"][0]["text"].clone())
        } else {
            let name = params["name"].as_str().unwrap().to_owned();
            let headers = stateless_headers("tools/call", &name);
            let body = stateless("tools/call", params.clone());
            let answer = client.send("POST /mcp", &headers, &body).await.json();
            match answer["error"]["message"].as_str() {
                None => (200, answer["result"]["content"][0]["text"].clone()),
                Some("unknown tool: visit") => (404, Value::Null),
                Some(other) => panic!("{other}"),
            }
        };
        seen.answered.fetch_add(1, Ordering::SeqCst);
        match (params["name"].as_str().unwrap(), status) {
            ("echo", 200) => assert_eq!(text_of, text),
            ("visit", 200) => {
                assert_eq!(text_of, "visit");
                seen.there.fetch_add(1, Ordering::SeqCst);
            }
            ("visit", 404) => {
                seen.gone.fetch_add(1, Ordering::SeqCst);
            }
            other => panic!("{other:?}"),
        }
        round += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_providers_come_and_go_under_calls() {
    let site = Arc::new(Site::new().await);
    let (stop, seen) = (Arc::<AtomicBool>::default(), Arc::<Seen>::default());
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let (site, stop, seen) = (site.clone(), stop.clone(), seen.clone());
        callers.spawn(call(site, number, stop, seen));
    }
    let mut events = site.listen().await;
    let changed = "notifications/tools/list_changed";
    for _ in 0..CYCLES {
        let visitor = visitor("visitor", "visit");
        let id = visitor.id().clone();
        site.hub.register(visitor).unwrap();
        // A second notice of one change would be taken for that of the next, and the last one
        // would be left over.
        assert_eq!(events.message().await["method"], changed);
        assert!(site.hub.remove(&id));
        assert_eq!(events.message().await["method"], changed);
    }
    // What is told next is the next change, of another kind: nothing was left over.
    let prompts = visitor("prompts", "");
    prompts.catalog.send_replace(Arc::new(Catalog {
        prompts: vec![PromptDescriptor {
            name: "last".to_owned(),
            title: None,
            description: None,
            arguments: Vec::new(),
            definition: None,
        }],
        ..Catalog::default()
    }));
    site.hub.register(prompts).unwrap();
    let last = events.message().await;
    assert_eq!(last["method"], "notifications/prompts/list_changed");

    stop.store(true, Ordering::SeqCst);
    let ended = async {
        while let Some(caller) = callers.join_next().await {
            caller.unwrap();
        }
    };
    timeout(PATIENCE, ended)
        .await
        .expect("every call is answered");
    let count = |number: &AtomicUsize| number.load(Ordering::SeqCst);
    assert_eq!(count(&seen.sent), count(&seen.answered));
    assert!(count(&seen.there) > 0 && count(&seen.gone) > 0);
    assert_eq!(site.hub.providers().len(), 2);
}

/// A call that runs ends well though its provider was removed; the provider is gone after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_provider_lives_for_its_calls_and_no_longer() {
    let site = Site::with(HubConfig::default(), HttpOptions::default(), |app| app).await;
    let guest = visitor("guest", "hold");
    let (gone, id) = (Arc::downgrade(&guest), guest.id().clone());
    let (gate, waiting) = (Arc::clone(&guest.gate), Arc::clone(&guest.waiting));
    site.hub.register(guest).unwrap();
    // Sessions and streams that do nothing from now on.
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }});
    let answer = site.send("POST /mcp", &JSON, &hello.to_string()).await;
    let session = answer.header("mcp-session-id").unwrap().to_owned();
    let body =
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "hold"}});
    let headers = [JSON[0], ("Mcp-Session-Id", session.as_str())];
    gate.notify_one();
    let answer = site.send("POST /mcp", &headers, &body.to_string()).await;
    assert!(String::from_utf8_lossy(&answer.body).contains("held"));

    let params = json!({"name": "hold"});
    let call = site.rest("POST /api/mcp/tools/call", &params);
    let remove = async {
        while waiting.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert!(site.hub.remove(&id));
        gate.notify_one();
    };
    let both = async { tokio::join!(call, remove) };
    let ((status, answer), ()) = timeout(PATIENCE, both).await.expect("an answer");
    assert_eq!(
        (status, &answer["content"][0]["text"]),
        (200, &json!("held"))
    );
    let (status, _) = site.rest("POST /api/mcp/tools/call", &params).await;
    assert_eq!(status, 404);
    let dropped = async {
        while gone.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, dropped).await.expect("nobody keeps it");
}
