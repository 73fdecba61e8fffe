//! Examples of the bundled skills. A scripted agent, which is an MCP client over stdio, makes the calls that a skill
//! shows in its `call` blocks, in order, and compares each answer and refusal with the text. Lines of `sh` blocks that
//! end with `# exit N` are run as well.
//!
//! A `call` block holds `TOOL ARGUMENTS`, then `-> ANSWER` or `-> refused: TEXT`. An answer shows some of the fields. `…`
//! is any value, and `<name>` any value that later arguments repeat. `call from STATUS` brings task `WS-3` there first.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::support::{Session, Workspace, until};

/// Project of the examples. It has epic `WS-1`, story `WS-2` and task `WS-3`.
const PROJECT: &str = "web-shop";

/// Tool whose answer the scripted agent awaits, as the skills describe.
const AWAITED: &str = "get_copilot_plan_status";

macro_rules! skills {
    ($($name:ident)*) => {
        const SKILLS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                try_examples(stringify!($name));
            }
        )*
    };
}

skills! {
    backlog_structure
    board_import
    board_workflow
    bug_triage
    plan_changes
    plan_recovery
    plugin_setup
    prd_interview
    project_memory
    project_setup
    release_management
    retrospective
    running_plans
    sprint_planning
    task_claims
    task_documentation
    task_review
    task_testing
    upstream_servers
    usage_tracking
    writing_evidence
}

#[test]
fn every_bundled_skill_is_tried() {
    let mut found: Vec<String> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    let tried: Vec<String> = SKILLS.iter().map(|name| name.replace('_', "-")).collect();
    assert_eq!(found, tried);
}

#[test]
fn every_bundled_skill_shows_a_call() {
    for name in SKILLS {
        let calls = blocks(&text_of(name)).into_iter();
        let shown: usize = calls
            .filter(|block| block.info.starts_with("call"))
            .map(|block| calls_in(&block.body).len())
            .sum();
        assert!(shown > 0, "{name}");
    }
}

/// Names of all fields in the arguments and answers of the examples.
pub(crate) fn shown_fields() -> BTreeSet<String> {
    fn collect(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    found.insert(name.clone());
                    collect(value, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    for name in SKILLS {
        for block in blocks(&text_of(name)) {
            if !block.info.starts_with("call") {
                continue;
            }
            for call in calls_in(&block.body) {
                collect(&call.arguments, &mut found);
                if let Expected::Answer(answer) = &call.expected {
                    collect(answer, &mut found);
                }
            }
        }
    }
    found
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("resources/skills")
}

fn text_of(name: &str) -> String {
    let path = directory().join(name.replace('_', "-")).join("SKILL.md");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A fenced block.
struct Block {
    info: String,
    body: String,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        if let Some(info) = line.strip_prefix("```") {
            match open.take() {
                Some(block) => found.push(block),
                None => {
                    open = Some(Block {
                        info: info.to_owned(),
                        body: String::new(),
                    });
                }
            }
        } else if let Some(block) = &mut open {
            block.body.push_str(line);
            block.body.push('\n');
        }
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

/// A call and its outcome, as a skill shows them.
#[derive(Debug)]
struct Call {
    tool: String,
    arguments: Value,
    expected: Expected,
}

#[derive(Debug)]
enum Expected {
    /// Some of the fields of the answer.
    Answer(Value),
    /// A part of the refusal.
    Refusal(String),
}

fn calls_in(body: &str) -> Vec<Call> {
    let mut found = Vec::new();
    let mut rest = body.trim();
    while !rest.is_empty() {
        let (tool, after) = rest.split_once(' ').expect("arguments after the tool");
        let (arguments, after) = json_at(after);
        let after = after.trim_start().strip_prefix("-> ");
        let after = after.unwrap_or_else(|| panic!("{tool}: no answer is shown"));
        let (expected, after) = match after.strip_prefix("refused: ") {
            Some(text) => {
                let (text, after) = text.split_once('\n').unwrap_or((text, ""));
                (Expected::Refusal(text.trim().to_owned()), after)
            }
            None => {
                let (answer, after) = json_at(after);
                (Expected::Answer(answer), after)
            }
        };
        found.push(Call {
            tool: tool.to_owned(),
            arguments,
            expected,
        });
        rest = after.trim_start();
    }
    found
}

/// Parses the JSON value at the start of a text. Returns it with the rest of the text.
fn json_at(text: &str) -> (Value, &str) {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next().expect("a value");
    let value = value.unwrap_or_else(|error| panic!("{error}: {text}"));
    let end = values.byte_offset();
    (value, &text[end..])
}

fn try_examples(name: &str) {
    let workspace = fixture();
    for block in blocks(&text_of(name)) {
        match block.info.as_str() {
            "sh" => run_lines(&workspace, &block.body),
            "call" => make_calls(&workspace, None, &block.body),
            info => match info.strip_prefix("call from ") {
                Some(status) => make_calls(&workspace, Some(status), &block.body),
                None => panic!("{name}: a block of an unknown kind: {info}"),
            },
        }
    }
}

/// Creates the board that the examples begin with.
fn fixture() -> Workspace {
    let workspace = Workspace::git();
    let mut session = Session::start(workspace.command(["stdio"]));
    let of_project = |mut arguments: Value| {
        arguments["project"] = json!(PROJECT);
        arguments
    };
    session.ok("create_project", &json!({"name": "Web Shop"}));
    let epic = of_project(json!({"title": "Customers pay online"}));
    session.ok("create_epic", &epic);
    let story = of_project(json!({
        "epic_id": "WS-1",
        "title": "Pay at checkout",
        "user_story": "As a customer, I can pay, so that I get my goods.",
    }));
    session.ok("create_story", &story);
    let task = of_project(
        json!({"story_id": "WS-2", "title": "Validate the payment form", "type": "task"}),
    );
    assert_eq!(session.ok("create_task", &task)["id"], "WS-3");
    assert_eq!(session.process.end().code(), Some(0));
    workspace
}

/// Runs the commands of a block that show their exit code.
fn run_lines(workspace: &Workspace, body: &str) {
    for line in body.lines() {
        let Some((command, code)) = line.split_once("# exit ") else {
            continue;
        };
        let words = command.strip_prefix("orchestra ").expect("our program");
        let said = workspace.run(words.split_whitespace());
        let code: i32 = code.trim().parse().expect("an exit code");
        assert_eq!(said.code, Some(code), "{command}: {said:?}");
    }
}

/// Makes the calls of a block in a session of its own.
fn make_calls(workspace: &Workspace, status: Option<&str>, body: &str) {
    let mut session = Session::start(workspace.command(["stdio"]));
    if let Some(status) = status {
        bring(&mut session, status);
    }
    let mut bound = BTreeMap::new();
    for mut call in calls_in(body) {
        fill_in(&mut call.arguments, &bound);
        let outcome = match call.tool == AWAITED {
            true => until(|| {
                let outcome = perform(&mut session, &call);
                let is_over = outcome
                    .as_ref()
                    .map_or(true, |answer| answer["progress"] == 100);
                is_over.then_some(outcome)
            }),
            false => perform(&mut session, &call),
        };
        let is_as_shown = match (&call.expected, &outcome) {
            (Expected::Answer(shown), Ok(answer)) => fits(shown, answer, &mut bound),
            (Expected::Refusal(part), Err(refusal)) => refusal.contains(part.as_str()),
            _ => false,
        };
        assert!(is_as_shown, "{call:?}\nanswer: {outcome:?}");
    }
    assert_eq!(session.process.end().code(), Some(0));
}

/// Makes a call. Returns its answer, or the text of its refusal.
fn perform(session: &mut Session, call: &Call) -> Result<Value, String> {
    let params = json!({"name": call.tool, "arguments": call.arguments});
    let response = session.request("tools/call", &params);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match &response["result"] {
        Value::Null => Err(text(&response["error"]["message"])),
        result if result["isError"] == true => Err(text(&result["content"][0]["text"])),
        result => Ok(result["structuredContent"].clone()),
    }
}

/// Moves task `WS-3` forward until it has a status.
fn bring(session: &mut Session, status: &str) {
    let task = json!({"project": PROJECT, "task_id": "WS-3"});
    // As many steps as the longest way through the workflow has, from `done` to `done`.
    for _ in 0..12 {
        let shown = session.ok("get_task", &task);
        let mut step = task.clone();
        if let Some(agent) = shown["claim"]["agent"].as_str() {
            step["agent"] = json!(agent);
        }
        let tool = match shown["status"].as_str() {
            Some(reached) if reached == status => return,
            Some("backlog" | "done" | "rejected") => {
                step["status"] = json!("todo");
                "update_task"
            }
            Some("todo") => "set_current_task",
            _ => {
                step["evidence"] = json!("Evidence of the scripted agent.");
                "advance_task"
            }
        };
        session.ok(tool, &step);
    }
    panic!("WS-3 does not become {status}");
}

/// Compares an answer with the fields that a skill shows, and binds placeholders to their values.
fn fits(shown: &Value, answer: &Value, bound: &mut BTreeMap<String, Value>) -> bool {
    match (shown, answer) {
        (Value::String(text), _) if text == "…" => !answer.is_null(),
        (Value::String(text), _) if is_placeholder(text) => {
            bound.insert(text.clone(), answer.clone());
            !answer.is_null()
        }
        (Value::Object(shown), Value::Object(answer)) => shown.iter().all(|(name, shown)| {
            let value = answer.get(name);
            value.is_some_and(|value| fits(shown, value, bound))
        }),
        // An empty list is shown as such. A list of many may be shown by its first items.
        (Value::Array(shown), Value::Array(answer)) => {
            shown.is_empty() == answer.is_empty()
                && shown.len() <= answer.len()
                && shown
                    .iter()
                    .zip(answer)
                    .all(|(shown, value)| fits(shown, value, bound))
        }
        _ => shown == answer,
    }
}

fn is_placeholder(text: &str) -> bool {
    text.starts_with('<') && text.ends_with('>')
}

/// Replaces placeholders in arguments by the values that earlier answers had.
fn fill_in(arguments: &mut Value, bound: &BTreeMap<String, Value>) {
    match arguments {
        Value::Object(members) => members.values_mut().for_each(|value| fill_in(value, bound)),
        Value::Array(items) => items.iter_mut().for_each(|value| fill_in(value, bound)),
        Value::String(text) if is_placeholder(text) => {
            let value = bound.get(text.as_str()).cloned();
            *arguments = value.unwrap_or_else(|| panic!("{text} has no value yet"));
        }
        _ => {}
    }
}
