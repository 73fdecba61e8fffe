//! A server whose definitions and results have odd members: each costs itself alone.

use std::fs;

use serde_json::{Value, json};

use crate::{
    others::names,
    runtimes,
    support::{Session, Workspace},
};

/// The server that the official clients are tried with as well.
const SERVER: &str = include_str!("../../../../judges/servers/odd.py");

/// A workspace whose user has the server `odd`; `None` where there is no Python.
fn workspace() -> Option<Workspace> {
    let workspace = Workspace::new();
    workspace.write("odd.py", SERVER);
    let python = runtimes::python(&workspace.home())?.path;
    let server = json!({"command": python, "args": [workspace.join("odd.py")]});
    let file = workspace.home().join(".config/orchestra/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, json!({"mcpServers": {"odd": server}}).to_string()).unwrap();
    Some(workspace)
}

/// A session that has heard of the server's tools.
fn session(workspace: &Workspace) -> Session {
    let mut session = Session::start(workspace.command(["stdio", "--only-servers"]));
    while !names(&mut session).contains(&"odd__result".to_owned()) {
        session.notified("notifications/tools/list_changed");
    }
    session
}

/// The names of the tools in the server's own table.
fn defined() -> Vec<String> {
    let table = SERVER.split_once("DEFINITIONS = {").unwrap().1;
    let table = table.split_once("\n}").unwrap().0;
    let names = table
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.split('"').next());
    names.map(|name| format!("odd__{name}")).collect()
}

/// What the official SDKs check of a tool, as far as the server is odd.
fn is_accepted(tool: &Value) -> bool {
    let is_schema = |schema: &Value| {
        let properties = schema.get("properties").is_none_or(|properties| {
            let all = properties.as_object();
            all.is_some_and(|all| all.values().all(Value::is_object))
        });
        let required = schema.get("required").is_none_or(|names| {
            let all = names.as_array();
            all.is_some_and(|all| all.iter().all(Value::is_string))
        });
        schema["type"] == "object" && properties && required
    };
    let hints = tool["annotations"].as_object();
    let are_hints = hints
        .into_iter()
        .flatten()
        .all(|(name, hint)| match name.as_str() {
            "title" => hint.is_string(),
            _ => hint.is_boolean(),
        });
    let text = tool.to_string();
    is_schema(&tool["inputSchema"])
        && tool.get("outputSchema").is_none_or(is_schema)
        && tool.get("annotations").is_none_or(Value::is_object)
        && are_hints
        && tool.get("execution").is_none_or(Value::is_object)
        && ![
            "Nope",
            "example.com/none",
            "[\\\\w-.]+(",
            "maybe",
            "blue",
            "icon.png",
            "16x16 32x32",
            "x-mcp-header",
        ]
        .iter()
        .any(|odd| text.contains(odd))
        && ["title", "description"]
            .iter()
            .all(|key| tool.get(key).is_none_or(Value::is_string))
        && tool.get("_meta").is_none_or(Value::is_object)
        && tool["icons"]
            .as_array()
            .into_iter()
            .flatten()
            .all(|icon| icon["src"] == "https://example.com/i.png")
        && tool.get("icons").is_none_or(Value::is_array)
}

#[test]
fn each_tool_with_an_odd_member_is_listed_in_a_form_that_clients_accept() {
    let Some(workspace) = workspace() else {
        return;
    };
    let mut session = session(&workspace);
    let listed = session.request("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let mut expected = defined();
    assert!(expected.len() > 40, "{expected:?}");
    expected.sort();
    let mut found: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    found.sort_unstable();
    assert_eq!(found, expected);
    for tool in tools {
        assert!(is_accepted(tool), "{tool}");
    }
    let kept = tools
        .iter()
        .find(|tool| tool["name"] == "odd__description_list");
    assert_eq!(kept.unwrap()["unknown"], json!({"kept": [1]}));
}

#[test]
fn an_odd_result_is_answered_with_what_fits_of_it() {
    let Some(workspace) = workspace() else {
        return;
    };
    let mut session = session(&workspace);
    for (case, expected) in [
        (
            "unknown",
            json!([{"type": "text", "text": "{\"type\": \"table\", \"rows\": [1, 2]}"}]),
        ),
        (
            "without_text",
            json!([{"type": "text", "text": ""}, {"type": "text", "text": "fine"}]),
        ),
        (
            "no_base64",
            json!([{"type": "text", "text": "(an image was left out: its data is not Base64)"}]),
        ),
        ("annotations", json!([{"type": "text", "text": "fine"}])),
        ("structured", json!([{"type": "text", "text": "fine"}])),
        ("error", json!([{"type": "text", "text": "fine"}])),
        ("text", json!([{"type": "text", "text": "fine"}])),
        ("other_block", json!([{"type": "text", "text": "fine"}])),
        ("half", json!([{"type": "text", "text": "fine \u{fffd}"}])),
        ("number_huge", json!([{"type": "text", "text": "fine"}])),
        ("null", json!([])),
    ] {
        let call = json!({"name": "odd__result", "arguments": {"case": case}});
        let answer = session.request("tools/call", &call);
        let result = &answer["result"];
        assert_eq!(result["content"], expected, "{case}: {answer}");
        assert!(
            result.get("isError").is_none_or(|flag| flag == false),
            "{answer}"
        );
        assert!(result.get("structuredContent").is_none(), "{answer}");
    }
    let prompts = session.request("prompts/list", &json!({}));
    let prompts = prompts["result"]["prompts"].as_array().unwrap();
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    let prompt = session.request("prompts/get", &json!({"name": "odd__no_arguments"}));
    let roles: Vec<&Value> = prompt["result"]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant", "assistant"], "{prompt}");
    let resources = session.request("resources/list", &json!({}));
    let resources = resources["result"]["resources"].as_array().unwrap();
    let uris: Vec<&str> = resources
        .iter()
        .map(|one| one["uri"].as_str().unwrap())
        .collect();
    assert_eq!(
        uris,
        [
            "odd://a",
            "odd://b",
            "mcp+odd:relative",
            "odd://size",
            "odd://whole"
        ]
    );
    assert_eq!(resources[3]["name"], "odd://size");
    assert_eq!(resources[3].get("size"), None);
    assert_eq!(resources[3]["icons"], json!([]));
    assert_eq!(resources[4]["size"].to_string(), "12");
    for uri in uris {
        let read = session.request("resources/read", &json!({"uri": uri}));
        assert_eq!(read["result"]["contents"][0]["uri"], *uri, "{read}");
        assert_eq!(read["result"]["contents"][0]["text"], "fine", "{read}");
    }
    let templates = session.request("resources/templates/list", &json!({}));
    let templates = &templates["result"]["resourceTemplates"];
    assert_eq!(
        *templates,
        json!([
            {"uriTemplate": "odd://{a}/b", "name": "odd://{a}/b"},
            {"uriTemplate": "mcp+odd:relative/{a}", "name": "r"},
        ])
    );
    let read = session.request("resources/read", &json!({"uri": "mcp+odd:relative/1"}));
    assert_eq!(read["result"]["contents"][0]["text"], "fine", "{read}");
}

#[test]
fn a_test_of_a_server_reports_each_repair() {
    let Some(workspace) = workspace() else {
        return;
    };
    let tested = workspace.run(["mcp", "test", "odd"]);
    assert_eq!(tested.code, Some(0), "{tested:?}");
    for repair in [
        "repaired for clients: tool hint_text: annotations.readOnlyHint is not true or false: dropped",
        "repaired for clients: tool properties_array: inputSchema.properties",
        "was omitted: it has no name",
        "repaired for clients: prompt required_text: arguments.0.required is not true or false: dropped",
        "repaired for clients: resource template odd://{a}/b: ",
        &format!("; {} tools, ", defined().len()),
    ] {
        assert!(tested.out.contains(repair), "{repair}: {tested:?}");
    }
}

#[test]
fn a_tool_that_is_listed_twice_is_reported_and_called_as_the_first() {
    let Some(workspace) = workspace() else {
        return;
    };
    let long = "long".repeat(50);
    let more = format!(
        r#"NAMELESS = [{{"name": "result", "description": "another"}}, {{"name": "{long}"}}, "#
    );
    workspace.write("odd.py", &SERVER.replace("NAMELESS = [", &more));
    drop(session(&workspace));
    let listed = workspace.run(["mcp", "tools", "odd"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.err.contains("odd: 4 omitted"), "{listed:?}");
    assert!(!listed.err.contains("hidden"), "{listed:?}");
    let rows: Vec<&str> = listed.out.lines().skip(1).collect();
    assert_eq!(rows.len(), defined().len() + 1, "{listed:?}");
    assert!(rows.iter().all(|row| row.chars().count() < 180), "{rows:?}");
    let called = workspace.run(["mcp", "call", "odd", "result", "case=text"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    let tested = workspace.run(["mcp", "test", "odd"]);
    for warning in [
        "an earlier one has the name result",
        "longlong is shown as odd__long",
    ] {
        assert!(tested.out.contains(warning), "{warning}: {tested:?}");
    }
}
