//! What callers with few tools see and reach.

use orchestra_hub::{
    Catalog, HubConfig, ListKind, LongWork, NamePattern, Outcome, Permission, ProviderError,
    Toolset,
};
use orchestra_wire::{RawJson, Revision};
use serde_json::{Value, json};

use crate::provider::{call_of, caller, hub, hub_with, provider, text, tool, tools};

fn catalog() -> Catalog {
    let tools = [
        ("get_task", "task"),
        ("create_task", "task"),
        ("save_memory", "memory"),
        ("exotic", "other"),
    ];
    Catalog {
        tools: tools.map(|(name, group)| tool(name, group)).into(),
        ..Catalog::default()
    }
}

#[tokio::test]
async fn lean_and_groups_show_and_reach_the_same() {
    let hub = hub(&[&provider("p", catalog())]);
    let names = |text: &str| -> Vec<String> {
        let toolset = hub.toolset(text).unwrap();
        hub.tools(&toolset)
            .into_iter()
            .map(|tool| tool.name)
            .collect()
    };
    assert_eq!(
        names("all"),
        ["get_task", "create_task", "save_memory", "exotic"]
    );
    assert_eq!(names("lean"), ["get_task", "create_task", "save_memory"]);
    assert_eq!(names("memory,other"), ["save_memory", "exotic"]);
    assert_eq!(names("search"), ["find_tools", "call_tool"]);
    let error = hub.toolset("tasks").unwrap_err();
    assert!(
        error.to_string().contains("some of memory, other, task."),
        "{error}"
    );
    let attachment = hub.attach(caller(), Toolset::Lean);
    let answer = attachment.call(call_of("exotic", &json!({}))).await;
    assert!(matches!(
        answer,
        Err(ProviderError::Unknown { kind: "tool", .. })
    ));
}

/// The tools of a server, one of them named as a built-in one, in a group named as that of ours.
fn theirs(server: &'static str) -> Catalog {
    let mut theirs = tool(&format!("{server}__recall"), server);
    theirs.definition = Some(RawJson::of(&json!({"name": "recall"})).unwrap());
    Catalog {
        tools: vec![theirs],
        ..Catalog::default()
    }
}

#[tokio::test]
async fn a_short_list_hides_no_server_and_one_may_be_chosen() {
    let hub = hub(&[&provider("p", catalog())]);
    let server = |id: &str, server: &'static str| provider(id, theirs(server));
    hub.register(server("one", "memory")).unwrap();
    hub.register(server("two", "web")).unwrap();
    let names = |text: &str| -> Vec<String> {
        let tools = hub.tools(&Toolset::parse(text).unwrap());
        tools.into_iter().map(|tool| tool.name).collect()
    };
    assert_eq!(
        names("lean"),
        [
            "get_task",
            "create_task",
            "save_memory",
            "memory__recall",
            "web__recall"
        ]
    );
    assert_eq!(names("other"), ["exotic", "memory__recall", "web__recall"]);
    assert_eq!(
        names("memory,server:web"),
        ["save_memory", "web__recall"],
        "the group of that name is not the server"
    );
    assert_eq!(names("server:memory"), ["memory__recall"]);
    let of = |text: &str| hub.attach(caller(), Toolset::parse(text).unwrap());
    let call = |name: &str| call_of(name, &json!({}));
    let answer = of("lean").call(call("web__recall")).await.unwrap();
    assert_eq!(text(answer), "two web__recall {}");
    let hidden = of("lean,server:memory").call(call("web__recall")).await;
    assert_eq!(hidden.unwrap_err().to_string(), "unknown tool: web__recall");
    let found = of("search").call(call_of("find_tools", &json!({"query": "recall"})));
    let found: Value = serde_json::from_str(&text(found.await.unwrap())).unwrap();
    assert_eq!(found["total"], 2);
}

/// An argument that is seldom needed is told of wherever somebody asks for the tool itself, and taken
/// wherever the tool is.
#[tokio::test]
async fn lean_tools_are_shown_in_short_and_take_all_that_they_take() {
    let raw = |schema: Value| RawJson::of(&schema).unwrap();
    let whole =
        json!({"type": "object", "properties": {"seldom": {}}, "additionalProperties": false});
    let lean = json!({"type": "object", "properties": {}});
    let mut catalog = catalog();
    for tool in &mut catalog.tools {
        tool.input_schema = raw(whole.clone());
        tool.lean_schema = Some(raw(lean.clone()));
    }
    let hub = hub(&[&provider("p", catalog)]);
    for (toolset, of_task, of_memory) in [
        ("all", &whole, &whole),
        ("lean", &lean, &lean),
        ("lean,memory", &lean, &whole),
        ("lean,all", &whole, &whole),
        ("task,memory", &whole, &whole),
    ] {
        let toolset = hub.toolset(toolset).unwrap();
        let attachment = hub.attach(caller(), toolset.clone());
        let (listed, _) = attachment
            .list(ListKind::Tools, Revision::NEWEST)
            .page(0, 100);
        let listed = [&b"["[..], &listed, b"]"].concat();
        let listed: Vec<Value> = serde_json::from_slice(&listed).unwrap();
        let described = hub.tools(&toolset);
        for (name, expected) in [("get_task", of_task), ("save_memory", of_memory)] {
            let listed = listed.iter().find(|tool| tool["name"] == name).unwrap();
            assert_eq!(&listed["inputSchema"], expected, "{toolset:?}");
            let described = described.iter().find(|tool| tool.name == name).unwrap();
            let described: Value = described.input_schema.parse().unwrap();
            assert_eq!(&described, expected, "{toolset:?}");
            let called = attachment.call(call_of(name, &json!({"seldom": 1}))).await;
            assert_eq!(text(called.unwrap()), format!("p {name} {{\"seldom\":1}}"));
        }
    }
    let searching = hub.attach(caller(), Toolset::Search);
    let found = searching.call(call_of("find_tools", &json!({"query": "get_task"})));
    let found: Value = serde_json::from_str(&text(found.await.unwrap())).unwrap();
    assert_eq!(found["items"][0]["input_schema"], whole);
}

#[tokio::test]
async fn search_finds_and_calls_whatever_is_permitted() {
    let permission = Permission::new([], [NamePattern::new("create_*")]);
    let config = HubConfig {
        permission,
        ..HubConfig::default()
    };
    let hub = hub_with(config, &[&provider("p", catalog())]);
    let attachment = hub.attach(caller(), Toolset::Search);
    let ask = async |name: &str, arguments: Value| attachment.call(call_of(name, &arguments)).await;

    let found = text(ask("find_tools", json!({"query": "TASK"})).await.unwrap());
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["total"], 1);
    assert_eq!(found["items"][0]["name"], "get_task");
    assert_eq!(found["items"][0]["input_schema"], json!({"type": "object"}));
    let all: Value =
        serde_json::from_str(&text(ask("find_tools", json!({"limit": 2})).await.unwrap())).unwrap();
    assert_eq!(
        (&all["total"], all["items"].as_array().unwrap().len()),
        (&json!(3), 2)
    );

    let inner = json!({"name": "exotic", "arguments": {"a": 1}});
    assert_eq!(
        text(ask("call_tool", inner).await.unwrap()),
        r#"p exotic {"a":1}"#
    );
    let report = hub.tool_metrics();
    let exotic = report.iter().find(|tool| tool.name == "exotic").unwrap();
    assert_eq!(exotic.calls, 1, "counted as the inner tool");
    let denied = ask("call_tool", json!({"name": "create_task"}))
        .await
        .unwrap_err();
    assert_eq!(denied.to_string(), "tool create_task is not permitted here");
    let direct = ask("exotic", json!({})).await;
    assert!(matches!(direct, Err(ProviderError::Unknown { .. })));
    for (tool, arguments) in [("call_tool", json!({})), ("find_tools", json!({"nope": 1}))] {
        let Ok(Outcome::Tool(result)) = ask(tool, arguments).await else {
            panic!("a result")
        };
        assert!(result.is_error);
    }
}

#[tokio::test]
async fn wrong_arguments_of_a_search_are_named() {
    let hub = hub(&[&provider("p", catalog())]);
    let attachment = hub.attach(caller(), Toolset::Search);
    for (tool, arguments, expected) in [
        (
            "find_tools",
            json!({"query": 5}),
            "argument `query`: invalid type: integer `5`, expected a string",
        ),
        (
            "find_tools",
            json!({"words": "x"}),
            "unknown argument `words`, expected one of `query`, `limit`, `cursor`",
        ),
        ("call_tool", json!({}), "missing argument `name`"),
        ("call_tool", json!([]), "the arguments must be an object"),
    ] {
        let answer = attachment.call(call_of(tool, &arguments)).await;
        let Ok(Outcome::Tool(result)) = answer else {
            panic!("a result")
        };
        assert!(result.is_error);
        assert_eq!(text(Outcome::Tool(result)), expected);
    }
}

#[tokio::test]
async fn which_calls_may_take_long_is_known_through_search_as_well() {
    let mut catalog = tools(&["plan", "a"]);
    catalog.tools[0].long = LongWork::Must;
    let hub = hub(&[&provider("p", catalog)]);
    let of = |toolset: &Toolset, name: &str, arguments: Value| {
        let attachment = hub.attach(caller(), toolset.clone());
        attachment.long_work(&call_of(name, &arguments).target)
    };
    let (all, search) = (Toolset::All, Toolset::Search);
    assert_eq!(of(&all, "plan", json!({})), LongWork::Must);
    assert_eq!(of(&all, "a", json!({})), LongWork::Never);
    assert_eq!(of(&all, "nope", json!({})), LongWork::Never);
    let inner = |name: &str| json!({"name": name});
    assert_eq!(of(&search, "call_tool", inner("plan")), LongWork::Must);
    assert_eq!(of(&search, "call_tool", inner("a")), LongWork::Never);
    assert_eq!(of(&search, "call_tool", json!({})), LongWork::Never);
    assert_eq!(of(&search, "find_tools", inner("plan")), LongWork::Never);
}

#[tokio::test]
async fn a_search_lists_all_page_by_page() {
    let names: Vec<String> = (0..69).map(|n| format!("tool_{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let hub = hub(&[&provider("p", tools(&names))]);
    let attachment = hub.attach(caller(), Toolset::Search);
    let find = async |arguments: Value| {
        let answer = attachment.call(call_of("find_tools", &arguments)).await;
        text(answer.unwrap())
    };
    for limit in [None, Some(1), Some(50)] {
        let mut found = Vec::new();
        let mut arguments = json!({"limit": limit});
        loop {
            let page: Value = serde_json::from_str(&find(arguments.clone()).await).unwrap();
            assert_eq!(page["total"], 69);
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= limit.unwrap_or(10));
            found.extend(items.iter().map(|item| item["name"].clone()));
            match page.get("next_cursor") {
                Some(next) => arguments["cursor"] = next.clone(),
                None => break,
            }
        }
        assert_eq!(json!(found), json!(names));
    }
    let two: Value = serde_json::from_str(&find(json!({"limit": 2.0})).await).unwrap();
    assert_eq!(two["next_cursor"], "2");
    let expected = "expected a whole number from 1 to 50";
    for limit in [json!(0), json!(51), json!(-1), json!("5"), json!(1.5)] {
        let said = find(json!({"limit": limit})).await;
        assert!(said.starts_with("argument `limit`: invalid"), "{said}");
        assert!(said.ends_with(expected), "{said}");
    }
    let first = find(json!({"limit": 2})).await;
    assert_eq!(find(json!({"limit": 2, "cursor": ""})).await, first);
    let said = find(json!({"cursor": "x"})).await;
    assert_eq!(
        said,
        "argument `cursor`: invalid value: string \"x\", expected a next_cursor of find_tools"
    );
}
