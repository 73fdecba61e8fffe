//! Names of other servers' tools: those that nobody knows yet, those without their prefix, and those
//! that are taken.

use std::{sync::Arc, time::Duration};

use orchestra_hub::{
    Catalog, HiddenTool, HubConfig, NamePattern, PeerReport, PeerStatus, Permission, ProviderError,
    ProviderId, Toolset,
};
use orchestra_wire::RawJson;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    others::late,
    provider::{call, call_of, caller, hub, hub_with, provider, resources, text, tools},
};

/// However long that takes, and to whomever its tools will be shown.
#[tokio::test(start_paused = true)]
async fn a_name_that_only_one_may_know_is_for_it_to_answer() {
    let late = late("late");
    let hub = hub_with(
        HubConfig {
            permission: Permission::new([], [NamePattern::new("*__wipe")]),
            ..HubConfig::default()
        },
        &[&provider("here", tools(&["a"]))],
    );
    hub.register(late.clone()).unwrap();
    let begun = Instant::now();
    let answer = call(&hub, "late__get").await.unwrap();
    assert_eq!(answer, "late late__get {}");
    assert_eq!(begun.elapsed(), Duration::ZERO, "it waits by itself");
    let error = call(&hub, "late__wipe").await.unwrap_err();
    assert!(matches!(error, ProviderError::Denied(_)), "{error}");
    let shown_to = |toolset: &str| hub.attach(caller(), Toolset::parse(toolset).unwrap());
    let get = || call_of("late__get", &json!({}));
    for mine in ["lean", "test", "test,server:late"] {
        let answer = shown_to(mine).call(get()).await;
        assert_eq!(text(answer.unwrap()), "late late__get {}", "{mine}");
    }
    let inner = json!({"name": "late__get"});
    let inner = shown_to("search").call(call_of("call_tool", &inner)).await;
    assert_eq!(text(inner.unwrap()), "late late__get {}");
    let error = shown_to("test,server:other").call(get()).await.unwrap_err();
    assert_eq!(error.to_string(), "unknown tool: late__get");
    late.know(tools(&["late__put"]));
    let error = call(&hub, "late__get").await.unwrap_err();
    assert_eq!(error.to_string(), "unknown tool: late__get");
}

#[tokio::test]
async fn name_of_a_built_in_tool_reaches_no_server_where_there_are_no_built_in_tools() {
    let server = provider("s", foreign("s", &["create_task", "own"]));
    let hub = hub(&[&server]);
    assert_eq!(
        call(&hub, "create_task").await.unwrap(),
        "s s__create_task {}"
    );
    hub.reserve_tools(["create_task".to_owned()].into());
    let error = call(&hub, "create_task").await.unwrap_err();
    assert_eq!(error.to_string(), "unknown tool: create_task");
    assert_eq!(
        call(&hub, "s__create_task").await.unwrap(),
        "s s__create_task {}"
    );
    assert_eq!(call(&hub, "own").await.unwrap(), "s s__own {}");
    // Servers that are reserved later change nothing.
    hub.reserve_servers(["s".to_owned()].into());
    assert!(call(&hub, "create_task").await.is_err());
}

/// A catalog of another server: names as they are shown, of names that it gave.
fn foreign(server: &str, names: &[&str]) -> Catalog {
    let tools = names.iter().map(|name| {
        let mut tool = crate::provider::tool(&format!("{server}__{name}"), "test");
        let definition = json!({"name": name, "inputSchema": {"type": "object"}});
        tool.definition = Some(RawJson::of(&definition).unwrap());
        tool
    });
    Catalog {
        tools: tools.collect(),
        ..Catalog::default()
    }
}

#[tokio::test]
async fn the_name_that_only_one_server_gave_is_taken_without_its_prefix() {
    let hub = hub(&[
        &provider("own", tools(&["search"])),
        &provider("one", foreign("one", &["get", "same", "search"])),
        &provider("two", foreign("two", &["same", "do.it"])),
    ]);
    for (name, expected) in [
        ("get", "one one__get {}"),
        ("do.it", "two two__do.it {}"),
        ("search", "own search {}"),
        ("two__same", "two two__same {}"),
    ] {
        assert_eq!(call(&hub, name).await.unwrap(), expected);
    }
    let error = call(&hub, "same").await.unwrap_err();
    let told = "unknown tool: same; this may be the name of tools of several servers, so a call needs a full name: one__same, two__same";
    assert_eq!(error.to_string(), told);
    let attachment = hub.attach(caller(), Toolset::All);
    assert!(attachment.input_schema("get").is_some());
    let searching = hub.attach(caller(), Toolset::Search);
    let inner = call_of("call_tool", &json!({"name": "get"}));
    let answer = searching.call(inner).await.unwrap();
    assert_eq!(text(answer), "one one__get {}");
    let error = searching.call(call_of("get", &json!({}))).await;
    assert!(error.is_err(), "only the two of its own are called there");
}

#[tokio::test(start_paused = true)]
async fn short_name_waits_for_a_server_that_starts_and_counts_its_hidden_tools() {
    let late = late("late");
    let hub = hub(&[&provider("one", foreign("one", &["get", "put"]))]);
    hub.register(late.clone()).unwrap();
    let error = call(&hub, "get").await.unwrap_err();
    assert!(error.to_string().ends_with(": one__get"), "{error}");
    let mut known = foreign("late", &["other"]);
    known.hidden_tools = vec![HiddenTool {
        name: "late__get".to_owned(),
        own: "get".to_owned(),
    }];
    late.know(known);
    let error = call(&hub, "get").await.unwrap_err();
    assert!(
        error.to_string().ends_with(": late__get, one__get"),
        "{error}"
    );
    assert_eq!(call(&hub, "put").await.unwrap(), "one one__put {}");
}

#[tokio::test]
async fn bare_name_of_another_server_or_a_hidden_built_in_is_never_called() {
    let mut own = tools(&["search"]);
    own.tools.push(crate::provider::tool("forget", "memory"));
    let names = ["off__get", "gone__get", "forget", "call_tool", "find_tools"];
    let hub = hub(&[
        &provider("own", own),
        &provider("bad", foreign("bad", &names)),
    ]);
    let lean = hub.attach(caller(), Toolset::Lean);
    let all = hub.attach(caller(), Toolset::All);
    for name in ["off__get", "gone__get", "call_tool", "find_tools"] {
        let error = all.call(call_of(name, &json!({}))).await.unwrap_err();
        assert_eq!(error.to_string(), format!("unknown tool: {name}"));
        assert!(all.input_schema(name).is_none(), "{name}");
    }
    let error = lean.call(call_of("forget", &json!({}))).await.unwrap_err();
    assert_eq!(error.to_string(), "unknown tool: forget");
    let searching = hub.attach(caller(), Toolset::Search);
    let inner = call_of("call_tool", &json!({"name": "off__get"}));
    let answer = format!("{:?}", searching.call(inner).await);
    assert!(!answer.contains("bad bad__"), "{answer}");
}

#[tokio::test]
async fn unknown_tool_of_an_unused_server_is_refused_with_the_reason() {
    let hub = hub(&[&provider("here", tools(&["a"]))]);
    let unused = |name: &str, reason: &str| {
        let report = PeerReport {
            status: PeerStatus::NeedsApproval,
            reason: Some(reason.to_owned()),
            ..PeerReport::default()
        };
        (ProviderId::parse(name).unwrap(), report)
    };
    hub.tell_unused_peers(vec![
        unused("files", "approve it"),
        unused("files__old", "off"),
    ]);
    for (name, reason) in [
        ("files__get", "; files is not used: approve it"),
        ("files__old__get", "; files__old is not used: off"),
        ("filesget", ""),
        ("get", ""),
    ] {
        let error = call(&hub, name).await.unwrap_err();
        assert_eq!(error.to_string(), format!("unknown tool: {name}{reason}"));
    }
    hub.tell_unused_peers(Vec::new());
    let error = call(&hub, "files__get").await.unwrap_err();
    assert_eq!(error.to_string(), "unknown tool: files__get");
}

#[tokio::test]
async fn reserved_name_is_left_out_of_the_catalog_of_another_server() {
    let hub = hub(&[]);
    let names = ["off__get", "call_tool", "late__get", "other__get", "get"];
    let late = late("late");
    late.know(tools(&names));
    hub.register_beside(late).unwrap();
    let shown = || {
        let tools = hub.tools(&Toolset::All).into_iter();
        tools.map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(shown(), ["off__get", "late__get", "other__get", "get"]);
    hub.reserve_servers(["off", "late"].map(str::to_owned).into());
    assert_eq!(shown(), ["late__get", "other__get", "get"]);
    let collisions = hub.collisions().into_iter();
    let told: Vec<_> = collisions.map(|found| found.to_string()).collect();
    assert_eq!(
        told,
        [
            "tool call_tool of provider late is already offered by provider builtin",
            "tool off__get of provider late is already offered by provider off",
        ]
    );
    let error = call(&hub, "off__get").await.unwrap_err();
    assert_eq!(error.to_string(), "unknown tool: off__get");
    hub.reserve_servers(["late".to_owned()].into());
    assert_eq!(shown(), ["off__get", "late__get", "other__get", "get"]);
}

#[tokio::test]
async fn names_that_are_taken_are_told_once_for_each_provider() {
    let lines = crate::log::Lines::default();
    let _guard = lines.listen();
    let many = |scheme: &str| {
        let mut catalog = resources();
        let of = |n: usize| {
            let mut resource = catalog.resources[0].clone();
            resource.uri = format!("{scheme}://{n}");
            resource
        };
        catalog.resources = (0..500).map(of).collect();
        catalog.templates.clear();
        catalog
    };
    let second = provider("second", many("x"));
    let hub = hub(&[&provider("first", many("x"))]);
    hub.register_beside(second.clone()).unwrap();
    let told = lines.take();
    assert_eq!(told.len(), 1, "{told:?}");
    let first = "resource x://0 of provider second is already offered by provider first";
    for part in ["provider=second", "count=500", first] {
        assert!(told[0].contains(part), "{told:?}");
    }
    // What was told is not told again, and what is new is.
    let mut more = many("x");
    more.tools = vec![crate::provider::tool("a", "test")];
    second.catalog.send_replace(Arc::new(more));
    assert_eq!(call(&hub, "a").await.unwrap(), "second a {}");
    assert_eq!(lines.take(), Vec::<String>::new());
}
