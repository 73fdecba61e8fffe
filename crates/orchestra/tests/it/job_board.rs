//! The board as a job in a sandbox reaches it: over a descriptor, with tools that start, spend and disclose nothing.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use crate::{
    annotations,
    plan_bounds::{run_confined, save},
    plans::{git, plan},
    support::{Workspace, said},
};

/// A repository with a board that has one task, `MA-3`, which may be started.
fn workspace() -> Workspace {
    filled(Workspace::board())
}

fn filled(workspace: Workspace) -> Workspace {
    let call = |tool: &str, arguments: Value| workspace.call(tool, &arguments);
    call("create_project", json!({"name": "My App"}));
    let epic = json!({"project": "my-app", "title": "Release"});
    call("create_epic", epic);
    let story = json!({"project": "my-app", "epic_id": "MA-1", "title": "Greeting", "user_story": "As a visitor I am greeted"});
    call("create_story", story);
    let task =
        json!({"project": "my-app", "story_id": "MA-2", "title": "Say hello", "type": "task"});
    call("create_task", task);
    let todo = json!({"project": "my-app", "task_id": "MA-3", "status": "todo"});
    call("update_task", todo);
    workspace.write("seed.txt", "seed\n");
    save(&workspace);
    workspace
}

/// A file of the branch that a job was merged into.
fn merged(workspace: &Workspace, file: &str) -> String {
    git(workspace, &["show", &format!("bounds:{file}")])
}

/// The task and all that happened to it.
fn history(workspace: &Workspace) -> String {
    let task = workspace.call("get_task", &json!({"project": "my-app", "task_id": "MA-3"}));
    let history = json!({"project": "my-app", "issue_id": "MA-3"});
    let history = workspace.call("get_history", &history);
    format!("{task} {history}")
}

/// Lines of the audit, but for those of the test itself.
fn audited(workspace: &Workspace) -> Vec<Value> {
    let text = fs::read_to_string(workspace.run_directory().join("audit.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let of_job = |line: &Value| {
        line["client"]
            .as_str()
            .is_some_and(|client| client.starts_with("job "))
    };
    lines.filter(of_job).collect()
}

#[test]
fn sandboxed_job_comments_on_claims_and_starts_a_task_and_is_recorded() {
    let workspace = workspace();
    let line = "set -e\norchestra tool call add_comment project=my-app issue_id=MA-3 text='from the job'\n\
                orchestra tool call claim_task project=my-app task_id=MA-3 agent=robot\n\
                orchestra tool call set_current_task project=my-app task_id=MA-3 agent=robot\n\
                orchestra tool call search project=my-app query=hello > found.txt\n\
                orchestra tool call save_memory project=my-app summary=Greetings content='Greetings are short'\n\
                if orchestra tool call get_task project=my-app task_id=MA-99; then exit 11; fi\n\
                echo done > done.txt";
    let ran = run_confined(&workspace, line);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(merged(&workspace, "found.txt").contains("MA-3"));
    let task = history(&workspace);
    for part in ["from the job", "robot", "in-progress"] {
        assert!(task.contains(part), "{part}: {task}");
    }
    // The readable files show it when the job has ended.
    let board = workspace.join(".projects");
    let mut grep = std::process::Command::new("grep");
    let found = grep.args(["-rlq", "from the job"]).arg(board).status();
    assert!(found.unwrap().success());
    let calls = audited(&workspace);
    assert_eq!(calls.len(), 6, "{calls:?}");
    for call in &calls {
        let client = call["client"].as_str().unwrap();
        assert!(client.ends_with("/inside"), "{call}");
    }
}

#[test]
fn sandboxed_job_acts_under_no_name_but_its_own() {
    let workspace = workspace();
    let claim = json!({"project": "my-app", "task_id": "MA-3", "agent": "robot"});
    workspace.call("claim_task", &claim);
    let line = "set -e\nfor tool in claim_task set_current_task release_task; do\n\
                for agent in robot 'robot (job 00000000/inside)'; do\n\
                if orchestra tool call $tool project=my-app task_id=MA-3 \"agent=$agent\"; then exit 11; fi\ndone\n\
                if orchestra tool call $tool project=my-app task_id=MA-3; then exit 12; fi\ndone\n\
                for field in title=Taken description=Taken priority=high; do\n\
                if orchestra tool call update_task project=my-app task_id=MA-3 $field 2>> said.txt; then exit 13; fi\n\
                if orchestra tool call update_task project=my-app task_id=MA-3 $field agent=robot; then exit 14; fi\ndone\n\
                orchestra tool call add_comment project=my-app issue_id=MA-3 text=named agent=robot\n\
                orchestra tool call add_comment project=my-app issue_id=MA-3 text=unnamed\necho done > done.txt";
    let ran = run_confined(&workspace, line);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let task = workspace.call("get_task", &json!({"project": "my-app", "task_id": "MA-3"}));
    assert!(task.to_string().contains("\"agent\":\"robot\""), "{task}");
    assert!(!task.to_string().contains("Taken"), "{task}");
    let refusals = merged(&workspace, "said.txt");
    assert_eq!(
        refusals.matches("is claimed by robot until").count(),
        3,
        "{refusals}"
    );
    let history = json!({"project": "my-app", "issue_id": "MA-3"});
    let history = workspace.call("get_history", &history).to_string();
    for part in ["\"robot (job ", "/inside)\"", "\"job ", "/inside\""] {
        assert!(history.contains(part), "{part}: {history}");
    }
}

#[test]
fn sandboxed_job_saves_and_finds_memories_and_is_told_which_commands_are_not_for_it() {
    let workspace = workspace();
    let line = "set -e\norchestra memory save 'Greetings are short' --summary Greetings\n\
                orchestra memory search greetings > found.txt\n\
                for words in 'memory forget mem-1' 'memory stats' 'plan list' doctor top; do\n\
                if orchestra $words 2>> said.txt; then exit 11; fi\ndone";
    let ran = run_confined(&workspace, line);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let changed = git(&workspace, &["diff", "--name-only", "HEAD", "bounds"]);
    assert_eq!(changed, "found.txt\nsaid.txt\n");
    assert!(merged(&workspace, "found.txt").contains("Greetings"));
    let words = merged(&workspace, "said.txt");
    assert_eq!(words.matches("a job in a sandbox").count(), 5, "{words}");
    let memory = json!({"project": "my-app", "memory_id": "mem-1"});
    let memory = workspace.call("get_memory", &memory).to_string();
    assert!(memory.contains("Greetings are short"), "{memory}");
}

#[test]
fn sandboxed_job_fills_no_memory_and_superseded_memories_remain() {
    let workspace = workspace();
    workspace.own("[memory]\nmax_items = 10\n");
    let save = |text: &str| {
        let memory = json!({"project": "my-app", "content": text, "summary": text});
        workspace.call("save_memory", &memory).to_string()
    };
    save("Of the user");
    let line = "orchestra memory save newer --supersedes mem-1\n\
                for number in 1 2 3 4 5 6 7 8 9; do\n\
                orchestra memory save \"filler $number\" 2>> said.txt || break\ndone";
    let ran = run_confined(&workspace, line);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(merged(&workspace, "said.txt").contains("the limit is 9"));
    let memory = json!({"project": "my-app", "memory_id": "mem-1"});
    let memory = workspace.call("get_memory", &memory).to_string();
    assert!(memory.contains("Of the user"), "{memory}");
    assert!(save("Room is left").contains("mem-10"));
}

#[test]
fn jobs_without_a_sandbox_use_the_board_of_the_workspace_and_not_its_copy() {
    let workspace = filled(Workspace::board().with_board_in_checkout());
    assert!(!git(&workspace, &["ls-files", ".projects"]).is_empty());
    let jobs = ["one", "two"].map(|name| {
        format!(
            "- producerId: {name}\n  task: Claim\n  autoHeal: false\n  work: |\n    set -e\n    \
             orchestra tool call add_comment project=my-app issue_id=MA-3 text='from {name}'\n    \
             if orchestra tool call claim_task project=my-app task_id=MA-3 agent={name}\n    \
             then echo {name} > claimed-{name}.txt; else echo {name} > lost-{name}.txt; fi\n"
        )
    });
    let text = format!(
        "name: bounds\ntargetBranch: bounds\nmaxParallel: 2\njobs:\n{}",
        jobs.concat()
    );
    workspace.write("bounds.yaml", &text);
    let ran = plan(&workspace, &["run", "bounds.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let changed = git(&workspace, &["diff", "--name-only", "HEAD", "bounds"]);
    let ways = [
        "claimed-one.txt\nlost-two.txt\n",
        "claimed-two.txt\nlost-one.txt\n",
    ];
    assert!(ways.contains(&&*changed), "{changed}");
    let task = history(&workspace);
    for part in ["from one", "from two"] {
        assert!(task.contains(part), "{part}: {task}");
    }
}

/// Requests of a client that speaks MCP itself; their responses are what it prints.
fn raw(requests: &[Value]) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "job of another", "version": "1"}}});
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let lines = [hello, told].into_iter().chain(requests.iter().cloned());
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn sandboxed_job_has_no_tool_that_starts_spends_or_discloses() {
    let workspace = workspace();
    let canary = workspace.home().join("canary");
    // A server of the user, which would be started by whatever serves all tools.
    let servers = json!({"mcpServers": {"mine": {"command": "touch", "args": [canary]}}});
    let own = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("mcp.json"), servers.to_string()).unwrap();
    let plan = json!({"name": "planted", "jobs": [{"producerId": "one", "task": "Run",
        "work": format!("touch {}", canary.display())}]});
    let tools = [
        ("create_copilot_plan", plan),
        ("resume_copilot_plan", json!({"planId": "bounds"})),
        ("get_copilot_plan_status", json!({"planId": "bounds"})),
        ("list_copilot_plans", json!({})),
        ("install_skills", json!({})),
        ("regenerate_readme", json!({})),
        ("receive_hook_event", json!({"event": {}})),
        ("get_usage", json!({})),
        ("delete_project", json!({"project": "my-app"})),
        ("mine__run", json!({})),
        ("find_tools", json!({"query": "plan"})),
        (
            "call_tool",
            json!({"name": "create_copilot_plan", "arguments": {}}),
        ),
    ];
    let call = |(id, (name, arguments)): (usize, &(&str, Value))| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": name, "arguments": arguments}})
    };
    let mut requests: Vec<Value> = tools.iter().enumerate().map(call).collect();
    for (id, (method, params)) in [
        ("resources/read", json!({"uri": "file:///etc/passwd"})),
        ("resources/read", json!({"uri": "skill://index"})),
        ("prompts/get", json!({"name": "plan", "arguments": {}})),
        ("resources/subscribe", json!({"uri": "orchestra://x"})),
    ]
    .into_iter()
    .enumerate()
    {
        requests
            .push(json!({"jsonrpc": "2.0", "id": 100 + id, "method": method, "params": params}));
    }
    for (id, list) in ["resources/list", "resources/templates/list", "prompts/list"]
        .into_iter()
        .enumerate()
    {
        requests.push(json!({"jsonrpc": "2.0", "id": 200 + id, "method": list, "params": {}}));
    }
    workspace.write("requests", &raw(&requests));
    save(&workspace);
    let mut line = "set -e\norchestra tool list --json > listed.json\n\
                    orchestra stdio < requests > responses\n"
        .to_owned();
    for (name, _) in &tools {
        line.push_str(&format!(
            "if orchestra tool call {name} --args '{{}}' 2>> said; then exit 11; fi\n"
        ));
    }
    let ran = run_confined(&workspace, line.trim_end());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!canary.exists());
    let listed: Value = serde_json::from_str(&merged(&workspace, "listed.json")).unwrap();
    let listed = listed["items"].as_array().unwrap();
    let listed: BTreeSet<&str> = listed
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    for name in [
        "add_comment",
        "create_task",
        "claim_task",
        "advance_task",
        "search",
        "save_memory",
    ] {
        assert!(listed.contains(name), "{name}: {listed:?}");
    }
    let starts = annotations::STARTS.split_whitespace();
    let withheld = starts.chain(tools.iter().map(|(name, _)| *name));
    for name in withheld {
        assert!(!listed.contains(name), "{name}");
    }
    let responses = merged(&workspace, "responses");
    let responses: Vec<Value> = responses
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for request in &requests {
        let id = &request["id"];
        let response = responses.iter().find(|response| response["id"] == *id);
        let response = response.unwrap_or_else(|| panic!("{request}: {responses:?}"));
        let is_list = request["method"].as_str().unwrap().ends_with("list");
        let lists = response["result"].as_object().into_iter().flatten();
        let is_empty = lists
            .filter(|(name, _)| !name.starts_with('_'))
            .all(|(_, list)| list.as_array().is_none_or(Vec::is_empty));
        assert!(
            response["error"].is_object() || (is_list && is_empty),
            "{request}: {response}"
        );
    }
    let words = merged(&workspace, "said");
    assert_eq!(
        words.matches("a job in a sandbox has no tool").count(),
        tools.len(),
        "{words}"
    );
    // Refused calls are recorded, under the name of the job and no other.
    let calls = audited(&workspace);
    for (name, _) in &tools {
        assert!(
            calls.iter().any(|call| call["name"] == *name),
            "{name}: {calls:?}"
        );
    }
    let text = fs::read_to_string(workspace.run_directory().join("audit.jsonl")).unwrap();
    assert!(!text.contains("job of another"), "{text}");
}

#[test]
fn connections_of_a_sandboxed_job_are_bounded_and_end_with_it() {
    let workspace = workspace();
    // More at once than are served at once; the last one has an open input, and its process would not end by itself.
    let line = "set -e\nfor n in 1 2 3 4 5 6; do\n\
                orchestra tool call add_comment project=my-app issue_id=MA-3 text=comment-$n > out-$n &\ndone\nwait\n\
                (sleep 600 | orchestra stdio) > open.txt 2>&1 &\n\
                if eval \"orchestra tool list $ORCHESTRA_SOCKET>&-\" 2> said.txt; then exit 11; fi\necho done > done.txt";
    let ran = run_confined(&workspace, line);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let task = history(&workspace);
    for number in 1..=6 {
        let text = format!("comment-{number}");
        assert!(task.contains(&text), "{text}: {task}");
    }
    let words = merged(&workspace, "said.txt");
    assert!(
        words.contains("cannot reach the board of this job"),
        "{words}"
    );
}

#[test]
fn sandboxed_job_of_a_workspace_without_a_board_creates_none() {
    let workspace = Workspace::git();
    workspace.write("seed.txt", "seed\n");
    save(&workspace);
    let line = "if orchestra tool call create_project name=Planted 2> said.txt; then exit 11; fi";
    let ran = run_confined(&workspace, line);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!workspace.join(".projects").exists());
    let words = merged(&workspace, "said.txt");
    assert!(words.contains("orchestra init"), "{words}");
}

#[test]
fn number_of_a_descriptor_that_a_process_does_not_have_leads_nowhere() {
    let workspace = workspace();
    for (value, words) in [
        ("77", "cannot reach the board of this job"),
        ("1", "is not the number of a descriptor"),
        ("/tmp/socket", "is not the number of a descriptor"),
    ] {
        for arguments in [&["tool", "list"][..], &["stdio"]] {
            let mut command = workspace.command(arguments);
            command.env("ORCHESTRA_SOCKET", value);
            let refused = said(command, "");
            assert!(matches!(refused.code, Some(1 | 2)), "{value}: {refused:?}");
            assert!(refused.err.contains(words), "{value}: {refused:?}");
        }
    }
    // A workspace that is named is meant.
    let mut named = workspace.command(["tool", "list", "--workspace"]);
    named.arg(workspace.path()).env("ORCHESTRA_SOCKET", "77");
    assert_eq!(said(named, "").code, Some(0));
}
