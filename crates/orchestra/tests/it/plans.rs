//! Plans from the command line and over stdio: made, run, healed, watched, left and steered.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::support::{Running, Said, Session, Workspace, said, until};

/// Path of a file of the example plan.
fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plan");
    root.join(name)
}

/// The program, not yet started, with the script of the example for its agent.
fn command(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = workspace.command(arguments);
    command.env("ORCHESTRA_AGENT_SCRIPT", example("mend.json"));
    command
}

pub(crate) fn plan(workspace: &Workspace, arguments: &[&str]) -> Said {
    let mut words = vec!["plan"];
    words.extend(arguments);
    said(command(workspace, &words), "")
}

/// What a command that must do it prints as JSON.
pub(crate) fn ok(workspace: &Workspace, arguments: &[&str]) -> Value {
    let mut words = arguments.to_vec();
    words.push("--json");
    let said = plan(workspace, &words);
    assert_eq!(said.code, Some(0), "{arguments:?}: {said:?}");
    serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"))
}

pub(crate) fn git(workspace: &Workspace, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(workspace.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A plan whose only job goes on until a file is there.
pub(crate) fn waits_for(name: &str, file: &Path) -> String {
    let file = file.display();
    format!(
        "name: {name}\ntargetBranch: {name}\njobs:\n- producerId: waits\n  task: Wait\n  \
         autoHeal: false\n  work: |\n    while ! test -e '{file}'; do sleep 0.05; done\n    \
         echo here > here.txt\n"
    )
}

/// Code blocks of the guide "Run a plan", in order.
fn blocks() -> Vec<String> {
    let guide = fs::read_to_string(example("../../docs/how-to/plans.md")).unwrap();
    let fenced = guide.split("```").skip(1).step_by(2);
    fenced
        .map(|block| block.split_once('\n').unwrap().1.to_owned())
        .collect()
}

/// The first of these blocks that contains a text.
fn block(part: &str) -> String {
    let found = blocks().into_iter().find(|block| block.contains(part));
    found.unwrap_or_else(|| panic!("no block with {part}"))
}

/// Runs the commands of the guide in an empty directory, up to a line with this beginning. Returns the
/// directory of the repository.
fn follow_the_guide(workspace: &Workspace, end: Option<&str>) -> (Said, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().unwrap();
    let lines = block("git init diamond").replace("/path/to/orchestra", root.to_str().unwrap());
    let is_done = |line: &&str| end.is_none_or(|end| !line.starts_with(end));
    let lines: Vec<&str> = lines.lines().take_while(is_done).collect();
    let ran = run_in_shell(workspace, &workspace.path(), &lines.join("\n"));
    (ran, workspace.join("diamond"))
}

/// Runs commands of the guide, up to the first that fails.
fn run_in_shell(workspace: &Workspace, directory: &Path, commands: &str) -> Said {
    let orchestra = workspace.command::<&str>([]);
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", commands]).current_dir(directory);
    shell.env_clear();
    for (name, value) in orchestra.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    // The repository that is made there is one of its own.
    shell.env_remove("ORCHESTRATOR_WORKSPACE");
    shell
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    said(shell, "")
}

/// What git says of a file of the branch into which the plan is merged.
fn merged(repository: &Path, file: &str) -> String {
    let mut show = Command::new("git");
    show.args(["show", &format!("diamond:{file}")]);
    let output = show.current_dir(repository).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn plan_of_the_guide_is_healed_and_merged() {
    let file = fs::read_to_string(example("diamond.yaml")).unwrap();
    assert_eq!(block("producerId: words"), file);
    let workspace = Workspace::new();
    let (ran, repository) = follow_the_guide(&workspace, None);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // Every line that is shown there is printed, but for the times.
    let told = |line: &str| match line.trim_start().split_once("  ") {
        Some((_, rest)) => rest.trim_start().to_owned(),
        None => line.split(" after ").next().unwrap_or_default().to_owned(),
    };
    let printed: Vec<String> = ran.out.lines().map(told).collect();
    let shown = block("plan Diamond succeeded after 0.5s: merged into diamond\n");
    assert!(shown.lines().count() > 10);
    for line in shown.lines() {
        assert!(printed.contains(&told(line)), "{line:?}: {ran:?}");
    }
    assert!(ran.out.contains("merged into diamond"), "{ran:?}");
    assert_eq!(merged(&repository, "shout.txt"), "HELLO\nWORLD\n");
    assert_eq!(merged(&repository, "count.txt"), "2\n");
    let plan = |words: &[&str]| {
        let mut command = workspace.command([&["plan"], words].concat());
        command
            .current_dir(&repository)
            .env_remove("ORCHESTRATOR_WORKSPACE");
        let said = said(command, "");
        assert_eq!(said.code, Some(0), "{words:?}: {said:?}");
        said.out
    };
    let json = |words: &[&str]| {
        let out = plan(&[words, &["--json"]].concat());
        serde_json::from_str::<Value>(&out).unwrap()
    };
    // The checkout is as it was, and no branch is there but the target.
    let status = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&repository);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(
        status(&["status", "--porcelain"]),
        "?? diamond.yaml\n?? mend.json\n?? orchestra.toml\n"
    );
    assert_eq!(
        status(&["branch", "--format=%(refname:short)"]),
        "diamond\n"
    );
    let shown = json(&["show", "diamond"]);
    assert_eq!(shown["status"], "succeeded");
    // What the agent says that it used when it mended it, and nothing of the shells beside it.
    assert_eq!(shown["usage"]["inputTokens"], 10, "{shown}");
    assert_eq!(shown["usage"]["outputTokens"], 5, "{shown}");
    assert_eq!(json(&["attempts", "diamond", "shout"])["total"], 2);
    assert_eq!(json(&["list"])["items"][0]["name"], "Diamond");
    // It is watched without a terminal as well when it is over, and says the same.
    let watched = plan(&["watch", "Diamond"]);
    assert!(watched.contains("merged into diamond"), "{watched}");
    assert!(!watched.contains('\u{1b}'), "{watched}");
    // What it printed is all that stands in its log.
    let logs = plan(&["logs", "diamond", "shout"]);
    assert!(logs.ends_with("[orchestra] postchecks: done\n"), "{logs}");
}

#[test]
fn commands_of_the_guide_steer_a_plan_in_the_printed_order() {
    let workspace = Workspace::new();
    let (made, repository) = follow_the_guide(&workspace, Some("ORCHESTRA_AGENT_SCRIPT"));
    assert_eq!(made.code, Some(0), "{made:?}");
    // The job works until the plan is watched, however slow the machine is.
    let go = workspace.join("go");
    let go = go.display();
    let commands = block("name: Nap")
        .replace(
            "sleep 60",
            &format!("until test -e '{go}'; do sleep 0.05; done"),
        )
        .replace(
            "orchestra plan watch",
            &format!("touch '{go}'\norchestra plan watch"),
        );
    let ran = run_in_shell(&workspace, &repository, &commands);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("plan Nap succeeded"), "{ran:?}");
}

#[test]
fn plan_of_the_guide_is_created_and_merged_by_an_agent() {
    let workspace = Workspace::new();
    let (made, repository) = follow_the_guide(&workspace, Some("ORCHESTRA_AGENT_SCRIPT"));
    assert_eq!(made.code, Some(0), "{made:?}");
    let mut stdio = workspace.command(["stdio"]);
    stdio
        .current_dir(&repository)
        .env_remove("ORCHESTRATOR_WORKSPACE")
        .env("ORCHESTRA_AGENT_SCRIPT", repository.join("mend.json"));
    let mut session = Session::start(stdio);
    let file = fs::read_to_string(repository.join("diamond.yaml")).unwrap();
    let file: Value = serde_norway::from_str(&file).unwrap();
    let mut last = ("", Value::Null);
    let calls = block("resume_copilot_plan");
    for line in calls.lines() {
        let (tool, arguments) = line.split_once(' ').unwrap();
        let arguments = match arguments.trim() {
            "what diamond.yaml says, as JSON" => file.clone(),
            json => serde_json::from_str(json).unwrap(),
        };
        session.ok(tool, &arguments);
        last = (tool, arguments);
    }
    let (tool, arguments) = last;
    let ended = until(|| {
        let status = session.ok(tool, &arguments);
        let is_over = status["progress"] == 100;
        is_over.then_some(status)
    });
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(merged(&repository, "shout.txt"), "HELLO\nWORLD\n");
    assert_eq!(session.process.end().code(), Some(0));
}

/// A request of a client that knows tasks.
fn with_tasks(session: &mut Session, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        "progressToken": "far",
    });
    session.request(method, &params)["result"].clone()
}

#[test]
fn a_plan_that_an_agent_starts_is_a_task_and_goes_on_when_the_task_is_cancelled() {
    let workspace = Workspace::git();
    let go = workspace.home().join("go");
    let wait = format!("while ! test -e '{}'; do sleep 0.02; done", go.display());
    let plan = |name: &str| {
        json!({"name": "create_copilot_plan", "arguments": {
            "name": name, "targetBranch": name, "startPaused": false, "jobs": [
                {"producerId": "one", "task": "One", "work": format!("{wait}; echo 1 > one.txt")},
            ],
        }})
    };
    let mut session = Session::start(workspace.command(["stdio"]));
    let begin = |session: &mut Session, name: &str| {
        let begun = with_tasks(session, "tools/call", plan(name));
        assert_eq!(begun["resultType"], "task", "{begun}");
        json!({"taskId": begun["taskId"]})
    };
    let (first, second) = (begin(&mut session, "first"), begin(&mut session, "second"));
    // How far it is, is told.
    until(|| {
        let task = with_tasks(&mut session, "tasks/get", first.clone());
        assert_eq!(task["status"], "working", "{task}");
        let said = task["statusMessage"].as_str().unwrap_or_default();
        said.contains("0 of 2 jobs ended; running: one")
            .then_some(())
    });
    session.notified("notifications/progress");
    with_tasks(&mut session, "tasks/cancel", second.clone());
    let task = until(|| {
        let task = with_tasks(&mut session, "tasks/get", second.clone());
        (task["status"] != "working").then_some(task)
    });
    assert_eq!(task["status"], "cancelled", "{task}");
    fs::write(&go, "").unwrap();
    let task = until(|| {
        let task = with_tasks(&mut session, "tasks/get", first.clone());
        (task["status"] != "working").then_some(task)
    });
    assert_eq!(task["status"], "completed", "{task}");
    let ended = &task["result"]["structuredContent"];
    assert!(
        ended["message"].as_str().unwrap().contains("succeeded"),
        "{task}"
    );
    // What nobody waits for any more was done as well.
    until(|| {
        let status = session.ok("get_copilot_plan_status", &json!({"planId": "second"}));
        (status["status"] == "succeeded").then_some(())
    });
    assert_eq!(session.process.end().code(), Some(0));
}

#[test]
fn tools_of_plans_need_no_board_and_make_none() {
    let workspace = Workspace::git();
    let made = workspace.call(
        "create_copilot_plan",
        &json!({"name": "Boardless", "startPaused": false, "targetBranch": "boardless", "jobs": [
            {"producerId": "one", "task": "One", "work": "echo one > one.txt"},
        ]}),
    );
    assert_eq!(made["success"], true, "{made}");
    assert!(!workspace.join(".projects").exists());
    // Whoever called it has gone; it is done in the background.
    let watched = plan(&workspace, &["watch", "Boardless"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert_eq!(git(&workspace, &["show", "boardless:one.txt"]), "one\n");
    let listed = workspace.call("list_copilot_plans", &json!({}));
    assert_eq!(listed["count"], 1, "{listed}");
    let refused = workspace.run(["tool", "call", "list_projects"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.err.contains("no board"), "{refused:?}");
    assert!(!workspace.join(".projects").exists());
}

#[test]
fn a_plan_over_stdio_is_read_by_a_second_process_from_the_storage_that_is_named() {
    let workspace = Workspace::git();
    let elsewhere = Workspace::new();
    let storage = workspace.home().join("plans of mine");
    let named = |words: &[&str]| {
        let mut command = elsewhere.command(words);
        command
            .env("ORCHESTRATOR_WORKSPACE", workspace.path())
            .env("ORCHESTRATOR_STORAGE", &storage);
        command
    };
    let mut session = Session::start(named(&["stdio"]));
    let made = session.ok(
        "create_copilot_plan",
        &json!({"name": "Kept", "jobs": [
            {"producerId": "one", "task": "One", "work": "echo one > one.txt"},
        ]}),
    );
    let id = made["planId"].as_str().unwrap().to_owned();
    let end = session.process.end();
    assert_eq!(end.code(), Some(0));
    assert!(storage.join(&id).is_dir());
    for unused in [".orchestrator", ".git/.orchestra/_/plans"] {
        assert!(!workspace.join(unused).exists(), "{unused}");
        assert!(!elsewhere.join(unused).exists(), "{unused}");
    }
    let shown = said(named(&["plan", "show", "Kept", "--json"]), "");
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(
        (&shown["planId"], &shown["name"]),
        (&json!(id), &json!("Kept"))
    );
    // --workspace counts more than the variable.
    let other = elsewhere.path();
    let mut other = elsewhere.command([
        "config",
        "show",
        "--json",
        "--workspace",
        other.to_str().unwrap(),
    ]);
    other.env("ORCHESTRATOR_WORKSPACE", workspace.path());
    let rows: Vec<Value> = serde_json::from_str(&said(other, "").out).unwrap();
    let row = |key: &str| rows.iter().find(|row| row["key"] == key).unwrap().clone();
    assert_eq!(row("workspace")["origin"], "command line");
    let usual = elsewhere.plans();
    assert_eq!(row("plans.storage")["value"], json!(usual).to_string());
    let rows = said(named(&["config", "show", "--json"]), "");
    let rows: Vec<Value> = serde_json::from_str(&rows.out).unwrap();
    let row = |key: &str| rows.iter().find(|row| row["key"] == key).unwrap().clone();
    assert_eq!(
        row("workspace")["origin"],
        "environment ORCHESTRATOR_WORKSPACE"
    );
    assert_eq!(
        row("plans.storage")["origin"],
        "environment ORCHESTRATOR_STORAGE"
    );
}

#[test]
fn a_storage_outside_of_the_workspace_keeps_the_plans_of_one_alone() {
    let (first, second) = (Workspace::git(), Workspace::git());
    let storage = first.home().join("plans of mine");
    let named = |workspace: &Workspace, words: &[&str]| {
        let mut command = workspace.command(words);
        command.env("ORCHESTRATOR_STORAGE", &storage);
        said(command, "")
    };
    for workspace in [&first, &second] {
        let text = "name: Kept\njobs:\n- producerId: one\n  task: One\n  work: 'true'\n";
        workspace.write("plan.yaml", text);
    }
    let made = named(&first, &["plan", "create", "plan.yaml"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let theirs = first.path();
    for words in [
        &["plan", "create", "plan.yaml"][..],
        &["plan", "validate", "plan.yaml"],
        &["plan", "list"],
        &["plan", "resume", "Kept"],
        &["doctor"],
    ] {
        let refused = named(&second, words);
        assert_ne!(refused.code, Some(0), "{words:?}: {refused:?}");
        let told = format!("{}{}", refused.out, refused.err);
        for part in [theirs.to_str().unwrap(), "ORCHESTRATOR_STORAGE"] {
            assert!(told.contains(part), "{words:?}: {refused:?}");
        }
    }
    let listed = named(&first, &["plan", "list"]);
    assert!(listed.out.contains("Kept"), "{listed:?}");
}

#[test]
fn plans_that_are_kept_in_the_working_tree_are_in_no_commit_and_are_found_from_anywhere_in_it() {
    let workspace = Workspace::git();
    let below = workspace.path().join("below");
    fs::create_dir(&below).unwrap();
    let named = |words: &[&str]| {
        let mut command = workspace.command(words);
        command.env("ORCHESTRATOR_STORAGE", "kept here");
        command
    };
    let text =
        "name: Kept\ntargetBranch: out\njobs:\n- producerId: one\n  task: One\n  work: 'true'\n";
    workspace.write("plan.yaml", text);
    let made = said(named(&["plan", "create", "plan.yaml"]), "");
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(workspace.join("kept here/plans.db").exists());
    let all = git(&workspace, &["status", "--porcelain", "-uall"]);
    assert_eq!(all, "?? plan.yaml\n");
    let mut shown = named(&["plan", "show", "Kept"]);
    shown.current_dir(&below);
    let shown = said(shown, "");
    assert_eq!(shown.code, Some(0), "{shown:?}");
    // What it was asked for is shown before its branches are settled.
    assert!(shown.out.contains("target   out"), "{shown:?}");
}

#[test]
fn a_run_that_is_interrupted_goes_on_in_the_background_and_is_seen_to_its_end() {
    let workspace = Workspace::git();
    let go = workspace.home().join("go");
    workspace.write("plan.yaml", &waits_for("patient", &go));
    let mut run = Running::start(workspace.command(["plan", "run", "plan.yaml", "--json"]));
    while run.json()["phase"] != "work" {}
    run.signal(rustix::process::Signal::INT);
    let end = run.wait();
    assert_eq!(end.code(), Some(8));
    let still = ok(&workspace, &["show", "patient"]);
    assert_eq!(still["status"], "running");
    let mut watch = Running::start(workspace.command(["plan", "watch", "patient"]));
    fs::write(&go, "").unwrap();
    assert_eq!(watch.wait().code(), Some(0));
    assert_eq!(git(&workspace, &["show", "patient:here.txt"]), "here\n");
    // Whoever ran it in the background has nothing to do any more, and ends.
    let endpoint = workspace.plans().join("runner.json");
    until(|| (!endpoint.exists()).then_some(()));
}

#[test]
fn how_a_plan_ended_is_told_by_the_exit_code_and_failed_jobs_are_tried_again() {
    let workspace = Workspace::git();
    let there = workspace.home().join("there");
    let text = format!(
        "name = 'Fails'\ntargetBranch = 'fails'\n[[jobs]]\nproducerId = 'look'\ntask = 'Look'\n\
         autoHeal = false\nwork = \"echo looking; test -e '{}' && echo ok > ok.txt\"\n",
        there.display()
    );
    workspace.write("fails.toml", &text);
    let ran = plan(&workspace, &["run", "fails.toml"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(ran.out.contains("look: "), "{ran:?}");
    let logs = plan(
        &workspace,
        &["logs", "fails", "look", "--follow", "--phase", "work"],
    );
    assert_eq!(logs.code, Some(0), "{logs:?}");
    assert!(logs.out.contains("looking\n"), "{logs:?}");
    fs::write(&there, "").unwrap();
    let again = plan(&workspace, &["retry", "fails", "look"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let watched = plan(&workspace, &["watch", "fails"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");

    let go = workspace.home().join("never");
    workspace.write("waits.yaml", &waits_for("waits", &go));
    let mut run = Running::start(workspace.command(["plan", "run", "waits.yaml", "--json"]));
    while run.json()["phase"] != "work" {}
    let canceled = plan(&workspace, &["cancel", "waits", "--reason", "no more"]);
    assert_eq!(canceled.code, Some(0), "{canceled:?}");
    assert_eq!(run.wait().code(), Some(7));
    let archived = plan(&workspace, &["archive", "waits"]);
    assert_eq!(archived.code, Some(0), "{archived:?}");
    let deleted = plan(&workspace, &["delete", "waits"]);
    assert_eq!(deleted.code, Some(0), "{deleted:?}");
    let gone = plan(&workspace, &["show", "waits"]);
    assert_eq!(gone.code, Some(3), "{gone:?}");
    assert!(gone.err.contains("no plan is named `waits`"), "{gone:?}");
}

#[test]
fn a_plan_waits_to_be_resumed_unless_it_is_started_and_a_key_makes_one_plan() {
    let workspace = Workspace::git();
    let text = json!({"name": "Later", "jobs": [
        {"producerId": "one", "task": "One", "work": "echo one > one.txt"},
    ]});
    let create = |more: &[&str]| {
        let mut words = vec!["plan", "create", "-", "--json", "--key", "k"];
        words.extend(more);
        let said = workspace.run_with_input(words, &text.to_string());
        assert_eq!(said.code, Some(0), "{said:?}");
        serde_json::from_str::<Value>(&said.out).unwrap()
    };
    let made = create(&[]);
    assert_eq!(made["status"], "pending-start");
    let again = create(&[]);
    assert_eq!(
        (&again["planId"], &again["repeated"]),
        (&made["planId"], &json!(true))
    );
    // What the command line says counts more than what the file says.
    let keyed = json!({"name": "Keyed", "idempotencyKey": "k", "jobs": text["jobs"]});
    let words = ["plan", "create", "-", "--json", "--key", "k2"];
    let other = workspace.run_with_input(words, &keyed.to_string());
    let other: Value = serde_json::from_str(&other.out).unwrap();
    assert_ne!(other["planId"], made["planId"]);
    assert_eq!(other["repeated"], Value::Null, "{other}");
    let watched = plan(&workspace, &["watch", "later"]);
    assert_eq!(watched.code, Some(8), "{watched:?}");
    assert!(watched.out.contains("orchestra plan resume"), "{watched:?}");
    let id: String = made["planId"].as_str().unwrap().chars().take(8).collect();
    let resumed = plan(&workspace, &["resume", &id]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let watched = plan(&workspace, &["watch", &id]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
}

#[test]
fn what_is_wrong_with_a_plan_file_is_named_with_its_place_and_nothing_is_made() {
    let workspace = Workspace::git();
    workspace.write(
        "wrong.yaml",
        "name: Wrong\njobs:\n- producerId: one\n  taks: One\n  work: make\n",
    );
    workspace.write(
        "circle.yaml",
        "name: Circle\njobs:\n\
         - {producerId: one, task: One, work: make, dependencies: [two]}\n\
         - {producerId: two, task: Two, work: make, dependencies: [one]}\n",
    );
    for command in ["validate", "create", "run"] {
        let wrong = plan(&workspace, &[command, "wrong.yaml"]);
        assert_eq!(wrong.code, Some(2), "{wrong:?}");
        let expected = "wrong.yaml: jobs[0].taks: unknown field `taks`";
        assert!(wrong.err.contains(expected), "{wrong:?}");
    }
    for command in ["validate", "create", "run"] {
        let circle = plan(&workspace, &[command, "circle.yaml"]);
        assert_eq!(circle.code, Some(2), "{circle:?}");
        for part in ["circle.yaml: ", "one", "two"] {
            assert!(circle.err.contains(part), "{circle:?}");
        }
    }
    let told = plan(&workspace, &["validate", "circle.yaml", "--json"]);
    let told: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(told["valid"], false, "{told}");
    assert!(
        told["error"].as_str().unwrap().contains("circle.yaml"),
        "{told}"
    );
    assert_eq!(plan(&workspace, &["create", "none.yaml"]).code, Some(2));
    assert_eq!(plan(&workspace, &["create", "plan.txt"]).code, Some(2));
    assert_eq!(ok(&workspace, &["list"])["total"], 0);
}

#[test]
fn a_graph_is_drawn_of_a_file_and_of_a_plan() {
    let workspace = Workspace::git();
    let file = example("diamond.yaml");
    let file = file.to_str().unwrap();
    for (format, expected) in [
        ("terminal", "shout"),
        ("mermaid", "flowchart"),
        ("dot", "digraph"),
        ("svg", "<svg"),
    ] {
        let drawn = plan(&workspace, &["graph", "--file", file, "--format", format]);
        assert_eq!(drawn.code, Some(0), "{drawn:?}");
        assert!(drawn.out.contains(expected), "{drawn:?}");
    }
    ok(&workspace, &["create", file]);
    let drawn = plan(&workspace, &["graph", "diamond"]);
    assert!(
        drawn.out.contains("words") && drawn.out.contains("pending"),
        "{drawn:?}"
    );
    let valid = ok(&workspace, &["validate", file]);
    assert_eq!((&valid["jobs"], &valid["roots"]), (&json!(3), &json!(1)));
}

/// Which programs are started is for the user to say.
#[test]
fn agents_of_a_workspace_are_shown_and_take_no_name_of_another() {
    let workspace = Workspace::git();
    let agent = "[agents.mine]\nprogram = \"my-agent\"\narguments = [[\"{prompt}\"]]\n";
    let taken = agent.replace("mine", "claude");
    workspace.write(
        "orchestra.toml",
        &format!("[plans]\nmax_jobs = 3\n{agent}{taken}"),
    );
    let shown = workspace.run(["config", "show", "--json"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(
        shown.err.contains("[agents.claude] is not used"),
        "{shown:?}"
    );
    let rows: Vec<Value> = serde_json::from_str(&shown.out).unwrap();
    let value = |rows: &[Value], key: &str| {
        let row = rows.iter().find(|row| row["key"] == key)?;
        Some(row["value"].as_str().unwrap().to_owned())
    };
    assert_eq!(value(&rows, "plans.max_jobs").as_deref(), Some("3"));
    assert_eq!(
        value(&rows, "agents.mine.program").as_deref(),
        Some("\"my-agent\"")
    );
    assert_eq!(value(&rows, "agents.claude.program"), None);
    let own = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("orchestra.toml"), agent).unwrap();
    workspace.write("orchestra.toml", "");
    let shown = workspace.run(["config", "show", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(
        value(&rows, "agents.mine.program").as_deref(),
        Some("\"my-agent\"")
    );
    fs::write(
        own.join("orchestra.toml"),
        "[agents.mine]\nprogramme = \"x\"\n",
    )
    .unwrap();
    let wrong = workspace.run(["config", "show"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains("agents.mine"), "{wrong:?}");
}

#[test]
fn plans_that_no_process_runs_are_continued_by_doctor_and_not_by_looking_at_them() {
    let workspace = Workspace::git();
    let file = workspace.home().join("go");
    workspace.write("waits.yaml", &waits_for("waits", &file));
    let mut runs = command(&workspace, &["plan", "run", "waits.yaml"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let listed = || ok(&workspace, &["list"])["items"][0]["status"].clone();
    until(|| {
        let log = plan(&workspace, &["show", "waits", "waits", "--json"]);
        log.out.contains("\"running\"").then_some(())
    });
    runs.kill().unwrap();
    runs.wait().unwrap();
    let looked = plan(&workspace, &["list"]);
    assert!(looked.err.contains("orchestra doctor --fix"), "{looked:?}");
    fs::write(&file, "").unwrap();
    let fixed = workspace.run(["doctor", "--fix"]);
    assert_eq!(fixed.code, Some(0), "{fixed:?}");
    until(|| (listed() == "succeeded").then_some(()));
    assert_eq!(git(&workspace, &["show", "waits:here.txt"]), "here\n");
}

#[test]
fn validate_says_of_agents_what_making_a_plan_would_say() {
    let workspace = Workspace::git();
    let of = |agent: &str| {
        format!(
            "name: A\njobs:\n- producerId: one\n  task: One\n  work:\n    type: agent\n    \
             agent: {agent}\n    instructions: Do it\n"
        )
    };
    workspace.write("a.yaml", &of("nosuch"));
    let said = plan(&workspace, &["validate", "a.yaml"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("there is no agent `nosuch`"), "{said:?}");
    let said = plan(&workspace, &["run", "a.yaml"]);
    assert!(said.err.contains("there is no agent `nosuch`"), "{said:?}");
    assert_eq!(ok(&workspace, &["list"])["items"], json!([]));
}

#[test]
fn plans_of_the_earlier_system_are_listed_shown_and_left_alone() {
    let workspace = Workspace::git();
    let id = "6c84fb90-12c4-41e1-840d-7b25c5ee775a";
    let plan_file = json!({
        "id": id,
        "spec": {"name": "Old"},
        "targetBranch": "feature/x",
        "createdAt": 1_700_000_000_000_u64,
        "jobs": [
            {"id": "n1", "producerId": "first", "task": "First", "dependencies": [], "work": "echo 1 > one.txt"},
            {"id": "n2", "producerId": "second", "task": "Second", "dependencies": ["n1"], "work": "true"},
        ],
    });
    let path = format!(".orchestrator/plans/{id}/plan.json");
    fs::create_dir_all(workspace.path().join(&path).parent().unwrap()).unwrap();
    workspace.write(&path, &plan_file.to_string());
    let listed = ok(&workspace, &["list", "--status", "all"]);
    assert_eq!(listed["items"][0]["name"], "Old", "{listed}");
    assert_eq!(listed["items"][0]["status"], "archived", "{listed}");
    let jobs = ok(&workspace, &["jobs", "Old"]);
    assert_eq!(jobs["items"][1]["producerId"], "second", "{jobs}");
    let said = plan(&workspace, &["delete", "Old"]);
    assert!(said.err.contains("made by the earlier system"), "{said:?}");
    // Anyone can put such files into a repository.
    let refused = plan(&workspace, &["clone", "Old"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.err.contains("orchestra plan trust"), "{refused:?}");
    let accepted = plan(&workspace, &["trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    let cloned = plan(&workspace, &["clone", "Old"]);
    assert_eq!(cloned.code, Some(0), "{cloned:?}");
    // A plan of ours beside it is no other's.
    let ran = plan(
        &workspace,
        &["run", example("diamond.yaml").to_str().unwrap()],
    );
    assert_ne!(ran.code, None, "{ran:?}");
    let listed = ok(&workspace, &["list", "--status", "all"]);
    assert_eq!(listed["total"], 3, "{listed}");
    let kept = fs::read_to_string(workspace.path().join(&path)).unwrap();
    assert_eq!(kept, plan_file.to_string());
}
