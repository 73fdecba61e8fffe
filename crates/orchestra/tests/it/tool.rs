//! `orchestra tool`: tools from the shell.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{skill_examples::shown_fields, support::Workspace};

#[test]
fn tools_are_listed_for_people_and_programs() {
    let workspace = Workspace::board();
    let text = workspace.run(["tool", "list"]);
    assert!(
        text.out
            .lines()
            .any(|line| line.starts_with("create_project ")),
        "{}",
        text.out
    );
    let listing: Value =
        serde_json::from_str(&workspace.run(["tool", "list", "--json"]).out).unwrap();
    let items = listing["items"].as_array().unwrap();
    assert_eq!(listing["total"], items.len());
    assert!(
        items
            .iter()
            .all(|tool| tool["inputSchema"]["type"] == "object")
    );
    let lean: Value = serde_json::from_str(
        &workspace
            .run(["tool", "list", "--tools", "lean", "--json"])
            .out,
    )
    .unwrap();
    assert_eq!(lean["total"], 21);
}

#[test]
fn arguments_come_as_pairs_as_json_or_on_stdin() {
    let workspace = Workspace::board();
    let said = workspace.run([
        "tool",
        "call",
        "create_project",
        "name=Äpfel & Birnen",
        "description=two = 2",
    ]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let said = workspace.run(["tool", "call", "list_projects", "limit=1", "--json"]);
    let result: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        result["structuredContent"]["items"][0]["slug"], "apfel-birnen",
        "{result}"
    );
    let said = workspace.run_with_input(
        ["tool", "call", "create_epic", "--args", "-"],
        &json!({"project": "apfel-birnen", "title": "From stdin"}).to_string(),
    );
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("From stdin"));
}

#[test]
fn what_is_refused_has_its_own_exit_code() {
    let workspace = Workspace::board();
    let said = workspace.run(["tool", "call", "get_project_status", "project=nope"]);
    assert_eq!((said.code, said.out.as_str()), (Some(3), ""), "{said:?}");
    assert!(said.err.contains("nope"), "{said:?}");
    for arguments in [
        &["tool", "call", "nope"][..],
        &["tool", "call", "list_projects", "nope=1"],
        &["tool", "call", "list_projects", "limit"],
        &["tool", "call", "list_projects", "--args", "{\"nope\": 1}"],
        &[
            "tool",
            "call",
            "list_projects",
            "--args",
            "{\"limit\": \"1\"}",
        ],
        &["tool", "call", "list_tasks"],
        &[
            "tool",
            "call",
            "create_epic",
            "--args",
            "{\"project\": \"a\"}",
        ],
        &["tool", "call", "list_projects", "--args", "[]"],
        &["tool", "call", "list_projects", "--args", "{"],
    ] {
        assert_eq!(workspace.run(arguments).code, Some(2), "{arguments:?}");
    }
}

#[test]
fn bundled_files_are_installed_by_name_and_described() {
    let workspace = Workspace::board();
    workspace.call("install_skills", &json!({"names": ["writing-evidence"]}));
    assert!(
        workspace
            .join(".claude/skills/writing-evidence/SKILL.md")
            .exists()
    );
    assert!(!workspace.join(".claude/skills/board-workflow").exists());
    let skills = workspace.call("list_skills", &json!({}));
    let skill = &skills["items"][0];
    assert_eq!(skill["name"], "writing-evidence", "{skills}");
    assert!(
        skill["description"]
            .as_str()
            .unwrap()
            .starts_with("Write the evidence"),
        "{skills}"
    );
    workspace.call("install_agents", &json!({}));
    workspace.call("install_docs", &json!({}));
    assert!(workspace.join("CONTEXT.md").exists());
}

/// Names in the bundled texts, as code, are those of tools, of their arguments and fields, and of values.
#[test]
fn bundled_texts_name_real_tools() {
    let workspace = Workspace::board();
    let listing: Value =
        serde_json::from_str(&workspace.run(["tool", "list", "--json"]).out).unwrap();
    let mut known = shown_fields();
    for tool in listing["items"].as_array().unwrap() {
        known.insert(tool["name"].as_str().unwrap().to_owned());
        collect_names(tool, &mut known);
    }
    let installed = workspace.run(["init", "--skills", "all", "--agents", "all"]);
    assert_eq!(installed.code, Some(0), "{installed:?}");
    let mut waiting = vec![
        workspace.join(".claude"),
        workspace.join("CLAUDE.md"),
        workspace.join("AGENTS.md"),
        workspace.join("CONTEXT.md"),
    ];
    let mut named = 0;
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(
                std::fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            if !is_name(word) {
                continue;
            }
            assert!(known.contains(word), "{}: {word}", path.display());
            named += 1;
        }
    }
    assert!(named > 200, "{named}");
}

/// Returns whether a word has the form of a tool's name or of an argument: snake case or camel case, of several words.
fn is_name(word: &str) -> bool {
    let is_snake = word.contains('_') && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let is_camel = word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.bytes().all(|b| b.is_ascii_alphabetic())
        && word.bytes().any(|b| b.is_ascii_uppercase());
    is_snake || is_camel
}

/// Collects the names of fields and the listed values of schemas.
fn collect_names(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                match (key.as_str(), value) {
                    ("properties", Value::Object(fields)) => found.extend(fields.keys().cloned()),
                    ("enum", Value::Array(values)) => {
                        found.extend(values.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    _ => {}
                }
                collect_names(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, found)),
        _ => {}
    }
}

#[test]
fn an_edit_by_hand_is_seen_by_the_next_call() {
    let workspace = Workspace::board();
    workspace.call("create_project", &json!({"name": "My App"}));
    workspace.call(
        "create_epic",
        &json!({"project": "my-app", "title": "Before"}),
    );
    let path = ".projects/my-app/epics/MA-1/epic.toon";
    workspace.write(path, &workspace.read(path).replace("Before", "After"));
    let epic = workspace.call("get_epic", &json!({"project": "my-app", "epic_id": "MA-1"}));
    assert_eq!(epic["title"], "After", "{epic}");
}

#[test]
fn commands_that_only_look_make_no_board() {
    let workspace = Workspace::git();
    for arguments in [
        &["tool", "call", "list_projects"][..],
        &["doctor"],
        &["doctor", "--fix"],
    ] {
        let said = workspace.run(arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{said:?}");
        assert!(said.err.contains("orchestra init"), "{said:?}");
        assert!(!workspace.join(".projects").exists(), "{arguments:?}");
    }
    for arguments in [
        &["tool", "list"][..],
        &["tool", "show", "create_task"],
        &["tool", "call", "create_task", "--help"],
    ] {
        let said = workspace.run(arguments);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.contains("create_task"), "{said:?}");
        assert!(!workspace.join(".projects").exists(), "{arguments:?}");
    }
}

#[test]
fn a_call_that_fails_makes_no_board() {
    let workspace = Workspace::git();
    for (code, arguments) in [
        (2, &["nope"][..]),
        (2, &["create_project"]),
        (2, &["create_project", "nope=1"]),
        (2, &["create_project", "--args", "{"]),
        (2, &["create_project", "--args", "{\"name\": 1}"]),
        (2, &["create_project", "--json"]),
        (3, &["create_project", "name="]),
        (1, &["create_epic", "project=a", "title=b"]),
        (1, &["create_epic"]),
        (1, &["install_skills"]),
        (1, &["call_tool", "name=create_project"]),
    ] {
        let said = workspace.run(["tool", "call"].iter().chain(arguments));
        assert_eq!(said.code, Some(code), "{arguments:?}: {said:?}");
        assert_eq!(
            said.err.contains("orchestra init"),
            code == 1,
            "{arguments:?}: {said:?}"
        );
        assert!(!workspace.join(".projects").exists(), "{arguments:?}");
    }
    let input = r#"{"name": "Made"}"#;
    let said = workspace.run_with_input(["tool", "call", "create_project", "--args", "-"], input);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(workspace.join(".projects/made").exists());
    let listed = workspace.call("list_projects", &json!({}));
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn a_tool_is_described_with_its_arguments() {
    let workspace = Workspace::new();
    let said = workspace.run(["tool", "show", "create_task"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_snapshot!(said.out, @r"
    Create a task in a story.

    Usage: orchestra tool call create_task project=PROJECT story_id=STORY_ID title=TITLE type=TYPE [KEY=VALUE]...

    Arguments:
      project      string, required
      epic_id      string
      story_id     string, required
      title        string, required
      type         one of task|bug|hotfix, required
      description  string
      priority     one of low|medium|high|critical
      assignees    array of string
      labels       array of string
      depends_on   array of string
      agent        string
    ");
    for arguments in [
        &["tool", "call", "create_task", "--help"][..],
        &["tool", "call", "create_task", "-h"],
        &["tool", "call", "create_task", "title=x", "--help"],
    ] {
        assert_eq!(workspace.run(arguments).out, said.out, "{arguments:?}");
    }
    let found = workspace.run(["tool", "show", "find_tools"]).out;
    assert!(found.contains("Words to look for"), "{found}");
    let json: Value =
        serde_json::from_str(&workspace.run(["tool", "show", "create_task", "--json"]).out)
            .unwrap();
    assert_eq!(json["inputSchema"]["required"][0], "project", "{json}");
    let general = workspace.run(["tool", "call", "--help"]);
    assert_eq!(general.code, Some(0), "{general:?}");
    assert!(
        general.out.contains("Usage: orchestra tool call") && general.out.contains("--args"),
        "{general:?}"
    );
    for arguments in [
        &["tool", "show", "nope"][..],
        &["tool", "show"],
        &["tool", "call"],
    ] {
        assert_eq!(workspace.run(arguments).code, Some(2), "{arguments:?}");
    }
}

#[test]
fn the_tools_that_find_and_call_others_are_called() {
    let workspace = Workspace::board();
    let found = workspace.call("find_tools", &json!({"query": "create epic"}));
    assert!(found.to_string().contains("create_epic"), "{found}");
    let inner = json!({"name": "create_project", "arguments": {"name": "My App"}});
    let made = workspace.call("call_tool", &inner);
    assert!(made.to_string().contains("my-app"), "{made}");
    let said = workspace.run(["tool", "call", "call_tool", "name=nope"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let said = workspace.run(["tool", "call", "call_tool"]);
    assert_eq!(said.code, Some(2), "{said:?}");
}

#[test]
fn a_status_page_that_somebody_edited_is_not_replaced_unasked() {
    const PAGE: &str = ".projects/my-app/README.md";
    let workspace = Workspace::git();
    workspace.call("create_project", &json!({"name": "My App"}));
    for _ in 0..2 {
        workspace.call("regenerate_readme", &json!({"project": "my-app"}));
    }
    let edited = workspace.read(PAGE).replace("# My App", "# My own words");
    workspace.write(PAGE, &edited);
    let regenerate = ["tool", "call", "regenerate_readme", "project=my-app"];
    let said = workspace.run(regenerate);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("pass overwrite"), "{said:?}");
    assert_eq!(workspace.read(PAGE), edited);
    let said = workspace.run(regenerate.iter().chain(&["overwrite=true"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(workspace.read(PAGE).starts_with("# My App"));
}
