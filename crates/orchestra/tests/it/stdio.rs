//! A whole working day over `orchestra stdio`.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::{Value, json};

use crate::{
    engine::{engine_but, is_there},
    ports::free_port,
    support::{PATIENCE, Running, Session, Workspace, until},
};

const EVIDENCE: &str = "ran the tests: 42 passed, none failed";

/// From an empty repository to a task in `done`, through every state on the way, with the two
/// side ways and the readable files looked at.
#[test]
fn a_task_goes_through_all_thirteen_states() {
    let workspace = Workspace::git();
    let mut session = Session::start(workspace.command(["stdio"]));
    let project = session.ok("create_project", &json!({"name": "My App"}));
    assert_eq!(
        (&project["slug"], &project["key"]),
        (&json!("my-app"), &json!("MA"))
    );
    let slug = "my-app";
    let epic = session.ok("create_epic", &json!({"project": slug, "title": "First"}))["id"].clone();
    let story = json!({"project": slug, "epic_id": epic, "title": "Story", "user_story": "As one"});
    let story = session.ok("create_story", &story)["id"].clone();
    let mut seen = Vec::new();
    let create = |session: &mut Session, title: &str| {
        let task = json!({"project": slug, "epic_id": epic, "story_id": story, "title": title, "type": "task"});
        let task = session.ok("create_task", &task);
        assert_eq!(task["status"], "backlog", "{task}");
        json!({"project": slug, "task_id": task["id"]})
    };
    let done = create(&mut session, "To be done");
    let rejected = create(&mut session, "To be rejected");
    let cancelled = create(&mut session, "To be cancelled");
    seen.push("backlog".to_owned());

    let with = |task: &Value, key: &str, value: &str| {
        let mut arguments = task.clone();
        arguments[key] = json!(value);
        arguments
    };
    let mut note = |session: &mut Session, task: &Value| {
        let state = session.ok("get_task", task)["status"]
            .as_str()
            .unwrap()
            .to_owned();
        seen.push(state.clone());
        state
    };

    session.ok("update_task", &with(&cancelled, "status", "cancelled"));
    assert_eq!(note(&mut session, &cancelled), "cancelled");

    for task in [&done, &rejected] {
        session.ok("update_task", &with(task, "status", "todo"));
        assert_eq!(note(&mut session, task), "todo");
        session.ok("set_current_task", task);
        assert_eq!(note(&mut session, task), "in-progress");
        session.ok("update_task", &with(task, "status", "blocked"));
        assert_eq!(note(&mut session, task), "blocked");
        session.ok("set_current_task", task);
        let said = session.refused("advance_task", task);
        assert!(said.contains("GATE BLOCKED"), "{said}");
        for expected in [
            "ready-for-testing",
            "in-testing",
            "ready-for-docs",
            "in-docs",
            "documented",
            "in-review",
        ] {
            session.ok("advance_task", &with(task, "evidence", EVIDENCE));
            assert_eq!(note(&mut session, task), expected);
        }
    }
    session.ok("advance_task", &with(&done, "evidence", EVIDENCE));
    assert_eq!(note(&mut session, &done), "done");
    session.ok(
        "reject_task",
        &with(&rejected, "reason", "it does not do what it says"),
    );
    assert_eq!(note(&mut session, &rejected), "rejected");
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 13, "{seen:?}");

    assert!(session.process.end().success());
    let id = done["task_id"].as_str().unwrap();
    let file = find(&workspace, &format!("{id}.toon"));
    assert!(
        file.contains("status: done") && file.contains("To be done"),
        "{file}"
    );
    let history = find(&workspace, &format!("{id}.history.jsonl"));
    assert!(history.contains(EVIDENCE), "{history}");
    let doctor = workspace.run(["doctor"]);
    assert_eq!(
        (doctor.code, doctor.out.as_str()),
        (Some(0), "everything is in order\n")
    );
}

/// The text of the only file of this name on the board.
fn find(workspace: &Workspace, name: &str) -> String {
    let mut waiting = vec![workspace.join(".projects")];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.file_name().is_some_and(|found| found == name) {
                return fs::read_to_string(path).unwrap();
            }
        }
    }
    panic!("no file {name}");
}

#[test]
fn the_nearest_workspace_upwards_is_served() {
    let workspace = Workspace::git();
    workspace.call("create_project", &json!({"name": "Above"}));
    fs::create_dir_all(workspace.join("deep/down")).unwrap();
    let mut command = workspace.command(["stdio"]);
    command.current_dir(workspace.join("deep/down"));
    let mut session = Session::start(command);
    assert_eq!(session.ok("list_projects", &json!({}))["total"], 1);
}

#[test]
fn toolsets_and_formats_are_chosen_by_flags_and_configuration() {
    let workspace = Workspace::git();
    let count = |arguments: &[&str]| {
        let mut session = Session::start(workspace.command(arguments));
        session.request("tools/list", &json!({}))["result"]["tools"]
            .as_array()
            .unwrap()
            .len()
    };
    let all = count(&["stdio"]);
    assert!(all > 57, "{all}");
    assert_eq!(count(&["stdio", "--tools", "lean"]), 21);
    assert_eq!(count(&["stdio", "--tools", "search"]), 2);
    workspace.write("orchestra.toml", "tools = \"lean\"\nformat = \"toon\"\n");
    assert_eq!(count(&["stdio"]), 21);
    assert_eq!(count(&["stdio", "--tools", "all"]), all);

    let mut session = Session::start(workspace.command(["stdio"]));
    let result = session.tool("list_projects", &json!({}));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(
        serde_json::from_str::<Value>(text).is_err(),
        "TOON is not JSON: {text}"
    );
    assert_eq!(result["structuredContent"]["total"], 0);
}

#[test]
fn a_signal_ends_it_cleanly() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let workspace = Workspace::git();
        let mut session = Session::start(workspace.command(["stdio"]));
        session.ok("create_project", &json!({"name": "Kept"}));
        session.process.signal(signal);
        let mut process = session.process;
        // Its input stays open: the signal alone has to end it.
        let stdin = process.stdin.take();
        assert!(process.end().success());
        drop(stdin);
        assert!(
            workspace
                .read(".projects/kept/project-status.toon")
                .contains("Kept")
        );
    }
}

#[test]
fn no_stray_output_precedes_the_protocol() {
    let workspace = Workspace::git();
    let mut process = Running::start(workspace.command(["stdio", "--log", "trace"]));
    let mut stdin = process.stdin.take().unwrap();
    std::io::Write::write_all(
        &mut stdin,
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n",
    )
    .unwrap();
    assert_eq!(
        process.json(),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}})
    );
    drop(stdin);
    assert!(process.end().success());
}

/// A process whose first line on stderr waits until stderr is read, and what it writes there.
fn held_at_first_line(command: Command) -> (Running, io::PipeReader) {
    let (stderr, mut writer) = io::pipe().unwrap();
    let capacity = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
    writer.write_all(&vec![b'\n'; capacity]).unwrap();
    (Running::with_stderr(command, writer), stderr)
}

/// Names of the threads of a process, and the ids of its child processes.
fn threads_and_children(process: &Running) -> (Vec<String>, String) {
    let tasks = format!("/proc/{}/task", process.id());
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let (mut threads, mut children) = (Vec::new(), String::new());
    for task in fs::read_dir(tasks).unwrap() {
        let task = task.unwrap().path();
        threads.push(read(task.join("comm")).trim().to_owned());
        children.push_str(&read(task.join("children")));
    }
    threads.sort_unstable();
    (threads, children)
}

/// The main thread and the reader answer the client. The program logs that the background work begins,
/// and is held at that line.
#[test]
fn initialize_is_answered_without_further_threads_and_processes() {
    for model in [None, Some("ollama:tiny")] {
        let workspace = Workspace::board();
        let log = "orchestra::serving::background=debug";
        let mut command = workspace.command(["stdio", "--log", log]);
        command.env("ORCHESTRA_ENGINE", "auto");
        command.env("ORCHESTRA_ENGINE_PORT", free_port().to_string());
        if let Some(model) = model {
            command.env("ORCHESTRA_MODEL", model);
            command.env("OLLAMA_HOST", "http://127.0.0.1:1");
        }
        let (process, stderr) = held_at_first_line(command);
        let session = Session::over(process, "test");
        let (threads, children) = threads_and_children(&session.process);
        assert_eq!(threads, ["orchestra", "stdio-reader"], "{model:?}");
        assert_eq!(children, "", "{model:?}");
        let mut lines = BufReader::new(stderr).lines();
        assert!(lines.any(|line| line.unwrap().contains("background work started")));
        // With a model, that work is also to start the engine.
        let engine = model.map(|_| engine_but(&workspace, None));
        assert!(session.process.end().success());
        if let Some(engine) = engine {
            until(|| (!is_there(engine)).then_some(()));
        }
    }
}

/// How the server is, is told as it changes, by what clients do and not by looking.
#[test]
fn its_life_is_told_in_the_log() {
    let workspace = Workspace::git();
    let mut command = workspace.command(["stdio", "--log", "orchestra=info"]);
    let mut process = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = process.stdin.take();
    let (line, lines) = mpsc::channel();
    let stderr = BufReader::new(process.stderr.take().unwrap());
    let reading = thread::spawn(move || {
        for text in stderr.lines() {
            line.send(text.unwrap()).unwrap();
        }
    });
    let ping = stdin.as_mut().unwrap();
    writeln!(ping, r#"{{"jsonrpc":"2.0","id":1,"method":"ping"}}"#).unwrap();
    let mut told = Vec::new();
    while let Ok(text) = lines.recv_timeout(PATIENCE) {
        if let Some((_, status)) = text.split_once("server status changed status=\"") {
            told.push(status.strip_suffix('"').unwrap().to_owned());
        }
        if told.last().is_some_and(|status| status == "connected") {
            // The end of its input is the end of its life.
            drop(stdin.take());
        }
    }
    assert!(process.wait().unwrap().success());
    reading.join().unwrap();
    assert_eq!(told, ["available", "connected", "stopped"]);
}

/// A search reads and looks through a hundred texts, which takes its time; whatever was asked after it
/// is answered meanwhile.
#[test]
fn a_search_of_memory_holds_up_nobody() {
    let workspace = Workspace::board();
    workspace.call("create_project", &json!({"name": "My App"}));
    let lines: String = (0..120)
        .map(|number| {
            let content = format!("alpha {number} {}", "beta gamma delta ".repeat(1_000));
            let line = json!({"type": "memory", "project": "my-app", "content": content});
            format!("{line}\n")
        })
        .collect();
    let said = workspace.run_with_input(["memory", "import", "-"], &lines);
    assert_eq!(said.code, Some(0), "{said:?}");
    let mut session = Session::start(workspace.command(["stdio"]));
    for tool in ["search_memory", "get_context"] {
        let arguments = json!({"project": "my-app", "query": "alpha gamma"});
        let call = json!({"jsonrpc": "2.0", "id": tool, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}});
        session.send(&call);
        session.request("ping", &json!({}));
        let mut before = std::mem::take(&mut session.passed).into_iter();
        assert!(before.all(|message| message["id"] != tool), "{tool}");
        while session.process.json()["id"] != tool {}
    }
}
