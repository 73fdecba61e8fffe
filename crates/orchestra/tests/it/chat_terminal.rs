//! `orchestra chat` at a terminal: what is typed, what is shown, and what is asked before a call.

use std::{
    fs,
    sync::{Mutex, mpsc},
    time::Duration,
};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    models::{Fake, Ollama, Say},
    pty::{Pty, size},
    support::Workspace,
};

const SHAPES: Ollama = Ollama("0.12.6");

/// What a program asks a terminal for the place of its cursor with, and what it is answered.
const WHERE: &str = "\u{1b}[6n";
const THERE: &str = "\u{1b}[1;1R";

/// A conversation at a terminal.
pub(crate) struct Talk {
    pub(crate) pty: Pty,
    /// Up to where of it something was looked for.
    seen: usize,
    /// How often it was told where the cursor is.
    told: usize,
}

impl Talk {
    pub(crate) fn start(workspace: &Workspace, model: &Fake, words: &[&str]) -> Self {
        let mut command = workspace.command(["chat", "--host", &model.address, "--model", "tiny"]);
        command.args(words).env("TERM", "xterm-256color");
        let pty = Pty::start(command, size(80, 24));
        Self {
            pty,
            seen: 0,
            told: 0,
        }
    }

    fn more(&mut self) -> bool {
        let more = self.pty.more().is_some();
        let asked = self.pty.all.matches(WHERE).count();
        while self.told < asked {
            self.told += 1;
            self.pty.write(THERE);
        }
        more
    }

    /// Waits for a text on the screen, behind what was waited for before.
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.pty.all[self.seen..].find(text) {
                let end = self.seen + at + text.len();
                let passed = self.pty.all[self.seen..end].to_owned();
                self.seen = end;
                return passed;
            }
            assert!(
                self.more(),
                "`{text}` does not come: {:?}",
                &self.pty.all[self.seen..]
            );
        }
    }

    /// Types a line where a line is waited for.
    pub(crate) fn line(&mut self, text: &str) {
        self.until("❯");
        self.pty.write(text);
        self.pty.write("\r");
    }

    fn end(mut self) -> (Option<i32>, String) {
        while self.more() {}
        (self.pty.ended().code(), self.pty.all.clone())
    }
}

fn task(title: &str) -> Say {
    Say::Stream(SHAPES.calls("", &[("create_project", json!({"name": title}))]))
}

fn words(pieces: &[&str]) -> Say {
    Say::Stream(SHAPES.words(pieces))
}

#[test]
fn words_come_as_they_are_said_and_markdown_as_it_is_meant() {
    let (workspace, model) = (
        Workspace::board(),
        Fake::ollama("0.12.6", vec![words(&["It is ", "**very** ", "`warm`."])]),
    );
    let mut talk = Talk::start(&workspace, &model, &[]);
    talk.line("How is it?");
    let shown = talk.until("warm");
    assert!(shown.contains("\u{1b}[1mvery"), "{shown:?}");
    talk.until("169 tokens in, 15 out");
    talk.line("/quit");
    assert_eq!(talk.end().0, Some(0));
}

#[test]
fn protection_from_the_servers_that_are_started_is_shown_before_the_first_prompt() {
    let (workspace, model) = (Workspace::board(), Fake::ollama("0.12.6", Vec::new()));
    let server = json!({"command": "sleep", "args": ["600"]});
    let mut closed = server.clone();
    closed["sandbox"] = json!("workspace");
    let far = json!({"url": "http://127.0.0.1:1/mcp"});
    let servers = json!({"mcpServers": {"plain": server, "closed": closed, "far": far}});
    let file = workspace.home().join(".config/orchestra/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, servers.to_string()).unwrap();
    let mut talk = Talk::start(&workspace, &model, &[]);
    let shown = talk.until("❯");
    let lines: Vec<&str> = shown.lines().map(str::trim).collect();
    let of = |name: &str| {
        let start = format!("{name}: ");
        lines
            .iter()
            .find_map(|line| line.strip_prefix(&start))
            .map(str::to_owned)
    };
    assert!(of("closed").unwrap().starts_with("sandboxed"), "{shown}");
    assert!(of("plain").unwrap().starts_with("no sandbox"), "{shown}");
    assert_eq!(of("far"), None, "{shown}");
    talk.pty.write("/quit\r");
    assert_eq!(talk.end().0, Some(0));
    // The same of a server that the command line names.
    workspace.write("server.sh", "#!/bin/sh\nsleep 600\n");
    let mut talk = Talk::start(&workspace, &model, &["--stdio", "sh server.sh"]);
    let shown = talk.until("❯");
    assert!(shown.contains("sh: no sandbox"), "{shown}");
    talk.pty.write("/quit\r");
    assert_eq!(talk.end().0, Some(0));
}

#[test]
fn a_call_that_changes_something_is_asked_about_and_all_answers_are_understood() {
    let says = vec![
        task("One"),
        task("Two"),
        task("Three"),
        task("Four"),
        task("Five"),
        words(&["Done."]),
    ];
    let (workspace, model) = (Workspace::board(), Fake::ollama("0.12.6", says));
    let mut talk = Talk::start(&workspace, &model, &[]);
    talk.line("Make projects.");
    // No, edited, once, always; the fifth is not asked about.
    talk.until("Call create_project?");
    talk.until("\"name\": \"One\"");
    talk.line("n");
    talk.until("\"name\": \"Two\"");
    talk.line("e");
    talk.until("arguments");
    talk.until("Two");
    // All of the line, and another one.
    talk.pty.write("\u{15}{\"name\": \"Better\"}\r");
    talk.until("✓ create_project");
    talk.until("\"name\": \"Three\"");
    talk.line("y");
    talk.until("\"name\": \"Four\"");
    talk.line("a");
    talk.until("Done.");
    talk.line("/quit");
    let (code, all) = talk.end();
    assert_eq!(code, Some(0));
    assert!(!all.contains("\"name\": \"Five\""), "{all}");
    let projects = workspace.call("list_projects", &json!({}));
    let mut names: Vec<&str> = projects["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|project| project["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["Better", "Five", "Four", "Three"]);
}

#[test]
fn what_is_typed_before_the_question_is_no_answer_and_a_signal_ends_the_asking() {
    let (go, waits) = mpsc::channel();
    let waits = Mutex::new(waits);
    let model = Fake::start(move |asked, times| match asked.what.as_str() {
        "POST /api/chat" if times == 0 => {
            waits.lock().unwrap().recv().unwrap();
            task("One")
        }
        "POST /api/chat" => words(&["Here."]),
        _ => SHAPES.about(&asked.what, &asked.body),
    });
    let workspace = Workspace::board();
    let mut talk = Talk::start(&workspace, &model, &[]);
    talk.line("Make one.");
    talk.until("thinking");
    talk.pty.write("y\r");
    go.send(()).unwrap();
    talk.until("Call create_project?");
    talk.until("❯");
    kill_process(talk.pty.id(), Signal::INT).unwrap();
    talk.until("stopped");
    // What is typed now is read by one alone.
    talk.line("Are you there?");
    talk.until("Here.");
    // The name of a conversation is completed.
    talk.until("❯");
    talk.pty.write("/load 2\t\r");
    talk.until("continuing");
    talk.line("/branch 1");
    talk.until("begins with 1 turn of this one");
    talk.line("/export");
    talk.until("## You");
    talk.line("/quit");
    assert_eq!(talk.end().0, Some(0));
    let projects = workspace.call("list_projects", &json!({}));
    assert_eq!(projects["items"], json!([]));
}

#[test]
fn lines_typed_in_one_burst_before_a_question_do_not_answer_it() {
    let says = vec![task("One"), task("Two"), words(&["Done."])];
    let (workspace, model) = (Workspace::board(), Fake::ollama("0.12.6", says));
    let mut talk = Talk::start(&workspace, &model, &[]);
    talk.until("❯");
    // One read takes all of it: the terminal has nothing left that could be flushed.
    talk.pty.write("Make two.\ry\ra\ry\r");
    talk.until("Call create_project?");
    talk.until("\"name\": \"One\"");
    talk.until("❯");
    // The second line of this burst comes before the second question.
    talk.pty.write("n\ry\ra\r");
    talk.until("Call create_project?");
    talk.until("\"name\": \"Two\"");
    talk.line("n");
    talk.until("Done.");
    talk.line("/quit");
    assert_eq!(talk.end().0, Some(0));
    let projects = workspace.call("list_projects", &json!({}));
    assert_eq!(projects["items"], json!([]));
}

#[test]
fn ctrl_c_stops_the_model_and_a_second_one_leaves() {
    let says = vec![
        Say::Hang(vec![
            SHAPES.line(&json!({"role": "assistant", "content": "Well, "})),
        ]),
        words(&["Here."]),
    ];
    let (workspace, model) = (Workspace::board(), Fake::ollama("0.12.6", says));
    let mut talk = Talk::start(&workspace, &model, &[]);
    talk.line("Hello?");
    talk.until("Well,");
    kill_process(talk.pty.id(), Signal::INT).unwrap();
    talk.until("stopped");
    // It goes on.
    talk.line("Are you there?");
    talk.until("Here.");
    // At the prompt the key is read by the program itself.
    talk.until("❯");
    talk.pty.write("\u{3}");
    talk.until("press Ctrl-C again to exit");
    talk.until("❯");
    talk.pty.write("\u{3}");
    assert_eq!(talk.end().0, Some(0));
}

#[test]
fn the_commands_do_what_they_say() {
    let says = vec![words(&["First."]), words(&["Second."]), words(&["Third."])];
    let (workspace, model) = (Workspace::board(), Fake::ollama("0.12.6", says));
    workspace.call("create_project", &json!({"name": "Shop"}));
    let mut talk = Talk::start(&workspace, &model, &[]);
    talk.line("/help");
    talk.until("/remember PROJECT [TEXT]");
    talk.line("/tools memory");
    talk.until("save_memory (asks)");
    talk.line("/disable save_memory");
    talk.until("save_memory is switched off");
    talk.line("/tools memory");
    let listed = talk.until("switched off: save_memory");
    assert!(!listed.contains("save_memory (asks)"), "{listed}");
    talk.line("/enable save_memory");
    talk.until("is switched on");
    talk.line("/servers");
    talk.until("there are no servers");
    talk.line("/model");
    talk.until("tiny:latest");
    talk.line("/system Be brief.");
    talk.line("One?");
    talk.until("First.");
    talk.line("/remember shop");
    talk.until("remembered in shop");
    talk.line("/history");
    talk.until("you: One?");
    talk.until("model: First.");
    talk.line("/save saved.jsonl");
    talk.until("written to saved.jsonl");
    talk.line("/clear");
    talk.until("another conversation begins");
    talk.line("Two?");
    talk.until("Second.");
    talk.line("/load saved.jsonl");
    talk.until("after 1 turn");
    talk.line("Three?");
    talk.until("Third.");
    talk.line("/export");
    talk.until("## You");
    talk.line("/nope");
    talk.until("there is no command /nope");
    talk.line("/trace");
    talk.until("the messages of servers are shown");
    talk.line("/quit");
    assert_eq!(talk.end().0, Some(0));
    let chats = model.chats();
    let first = |at: usize| {
        chats[at].body["messages"][0]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(first(0).starts_with("Be brief."));
    // The second began anew, the third went on with the first.
    let said = |at: usize| chats[at].body["messages"].as_array().unwrap().len();
    assert_eq!((said(1), said(2)), (2, 4));
    let found = workspace.call(
        "search_memory",
        &json!({"project": "shop", "query": "First"}),
    );
    assert_eq!(found["items"].as_array().unwrap().len(), 1, "{found}");
    let usage = workspace.call("get_usage", &json!({}));
    assert_eq!(usage["totals"]["total_input"], 3 * 169, "{usage}");
    // What was kept is played again.
    let replay = workspace.run(["chat", "replay", "saved.jsonl"]);
    assert_eq!(replay.code, Some(0), "{replay:?}");
    let sessions = workspace.run(["chat", "sessions", "--json"]);
    let sessions: Value = serde_json::from_str(&sessions.out).unwrap();
    assert_eq!(sessions["total"], 2, "{sessions}");
    // Whatever it was that began it.
    for session in sessions["items"].as_array().unwrap() {
        let name = session["name"].as_str().unwrap();
        let replay = workspace.run(["chat", "replay", name]);
        assert_eq!(replay.code, Some(0), "{replay:?}");
    }
}

#[test]
fn lines_of_several_and_what_was_typed_before_are_there() {
    let says = vec![words(&["A."]), words(&["B."])];
    let (workspace, model) = (Workspace::board(), Fake::ollama("0.12.6", says));
    let mut talk = Talk::start(&workspace, &model, &[]);
    talk.until("❯");
    // Alt-Enter.
    talk.pty.write("one\u{1b}\rtwo\r");
    talk.until("A.");
    talk.until("❯");
    // What was typed before, with the arrow key, and more at its end, with Ctrl-End.
    talk.pty.write("\u{1b}[A\u{1b}[1;5F three\r");
    talk.until("B.");
    // A command is completed.
    talk.until("❯");
    talk.pty.write("/qui\t\r");
    assert_eq!(talk.end().0, Some(0));
    let chats = model.chats();
    let said = |at: usize| {
        let messages = chats[at].body["messages"].as_array().unwrap();
        messages.last().unwrap()["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        (said(0).as_str(), said(1).as_str()),
        ("one\ntwo", "one\ntwo three")
    );
    let history = workspace.home().join(".local/state/orchestra/chat-history");
    assert!(fs::read_to_string(history).unwrap().contains("three"));
}

#[test]
fn nothing_of_a_tool_moves_the_terminal() {
    let evil = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}";
    let says = vec![
        Say::Stream(SHAPES.calls(evil, &[("no_such\u{1b}[2Jtool", json!({"a": evil}))])),
        words(&[evil, "end"]),
    ];
    let (workspace, model) = (Workspace::board(), Fake::ollama("0.12.6", says));
    let mut talk = Talk::start(&workspace, &model, &["--yes"]);
    talk.line("Go.");
    talk.until("end");
    talk.line("/history");
    talk.line("/quit");
    let (_, all) = talk.end();
    for sequence in ["\u{1b}[2J", "\u{1b}]0;", "\u{202e}", "\u{7}"] {
        assert!(!all.contains(sequence), "{sequence:?} in {all:?}");
    }
}

#[test]
fn a_conversation_is_gone_on_with_by_resume() {
    let (workspace, model) = (
        Workspace::board(),
        Fake::ollama("0.12.6", vec![words(&["First."]), words(&["Second."])]),
    );
    let mut talk = Talk::start(&workspace, &model, &[]);
    talk.line("One?");
    talk.until("First.");
    talk.until("❯");
    talk.pty.write("\u{4}");
    assert_eq!(talk.end().0, Some(0));
    let mut talk = Talk::start(&workspace, &model, &["--resume"]);
    talk.until("after 1 turn");
    talk.line("Two?");
    talk.until("Second.");
    // SIGTERM ends it in good order.
    talk.until("❯");
    kill_process(talk.pty.id(), Signal::TERM).unwrap();
    assert_eq!(talk.end().0, Some(0));
    assert_eq!(
        model.chats()[1].body["messages"].as_array().unwrap().len(),
        4
    );
    let replay = workspace.run(["chat", "replay", "--json"]);
    let replay: Value = serde_json::from_str(&replay.out).unwrap();
    assert_eq!(
        (replay["same"].as_bool(), replay["turns"].as_u64()),
        (Some(true), Some(2)),
        "{replay}"
    );
    let export = workspace.run(["chat", "export"]);
    assert!(export.out.contains("## You\n\nTwo?"), "{export:?}");
}

#[test]
fn a_server_that_is_down_leaves_the_prompt_and_comes_back() {
    let (workspace, model) = (
        Workspace::board(),
        Fake::ollama("0.12.6", vec![words(&["Here."])]),
    );
    let nobody = "http://127.0.0.1:1";
    let mut command = workspace.command(["chat", "--host", nobody, "--model", "tiny"]);
    command.env("TERM", "xterm-256color");
    let pty = Pty::start(command, size(80, 24));
    let mut talk = Talk {
        pty,
        seen: 0,
        told: 0,
    };
    talk.line("Hello?");
    talk.until("`ollama serve` starts it");
    talk.line("/quit");
    assert_eq!(talk.end().0, Some(0));
    // The prompt does not wait for a server that is slow to tell of its model.
    let slow = Fake::start(move |asked, times| match asked.what.as_str() {
        "POST /api/show" => {
            std::thread::sleep(Duration::from_millis(500));
            SHAPES.about(&asked.what, &asked.body)
        }
        "POST /api/chat" if times == 0 => words(&["Slow."]),
        _ => SHAPES.about(&asked.what, &asked.body),
    });
    let mut talk = Talk::start(&workspace, &slow, &[]);
    talk.until("❯");
    assert!(slow.chats().is_empty());
    talk.pty.write("Hello?\r");
    talk.until("Slow.");
    drop(model);
}
