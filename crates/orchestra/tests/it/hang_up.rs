//! Commands that a person operates: each ends when its terminal hangs up or a signal arrives, and its servers end with
//! it.

use std::fs;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;

use crate::{
    chat_terminal::Talk,
    mcp_call::SERVER,
    models::{Fake, Ollama, Say},
    plan_watch,
    pty::{Pty, size},
    support::{Workspace, until},
    top,
};

const SHAPES: Ollama = Ollama("0.12.6");

/// Reasons to end.
const ENDS: [End; 3] = [
    End::HangUp,
    End::Signal(Signal::HUP),
    End::Signal(Signal::TERM),
];

#[derive(Debug, Clone, Copy)]
enum End {
    /// The terminal is gone.
    HangUp,
    Signal(Signal),
}

impl End {
    /// Ends a program, and waits for its end.
    fn of(self, pty: &mut Pty) -> Option<i32> {
        match self {
            Self::HangUp => pty.hang_up(),
            Self::Signal(signal) => kill_process(pty.id(), signal).unwrap(),
        }
        pty.ended().code()
    }
}

/// A workspace whose user has a server that writes down its process.
fn served() -> Workspace {
    let workspace = Workspace::board();
    let server = format!("echo $$ >> \"$2\"\n{SERVER}");
    workspace.write("server.sh", &server);
    let file = workspace.home().join(".config/orchestra/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let shell = json!({"command": "sh", "rules": [{"effect": "ask", "tool": "add*"}],
        "args": [workspace.join("server.sh"), workspace.join("journal"), workspace.join("process")]});
    fs::write(file, json!({"mcpServers": {"shell": shell}}).to_string()).unwrap();
    workspace
}

/// Waits until the servers of a workspace have ended, of which there was one at least.
fn servers_end(workspace: &Workspace) {
    assert!(all_servers_end(workspace) > 0);
}

/// Waits until the servers of a workspace have ended, and returns how many there were.
fn all_servers_end(workspace: &Workspace) -> usize {
    let all = fs::read_to_string(workspace.join("process")).unwrap_or_default();
    for process in all.lines() {
        let process = Pid::from_raw(process.parse().unwrap()).unwrap();
        until(|| test_kill_process(process).is_err().then_some(()));
    }
    if !all.is_empty() {
        fs::remove_file(workspace.join("process")).unwrap();
    }
    all.lines().count()
}

/// Waits until a text is on a terminal.
fn shows(pty: &mut Pty, text: &str) {
    while !pty.all.contains(text) {
        let more = pty.more();
        assert!(more.is_some(), "it has ended: {}", pty.all);
    }
}

#[test]
fn chat_at_its_prompt_ends_with_its_terminal_and_with_a_signal() {
    let workspace = served();
    for end in ENDS {
        let model = Fake::ollama("0.12.6", Vec::new());
        let mut talk = Talk::start(&workspace, &model, &[]);
        talk.line("/servers");
        talk.until("shell: ");
        talk.until("❯");
        assert_eq!(end.of(&mut talk.pty), Some(0), "{end:?}");
        servers_end(&workspace);
    }
}

#[test]
fn chat_that_waits_for_its_model_or_for_consent_ends_with_its_terminal_and_with_a_signal() {
    let workspace = served();
    let hangs = || {
        Say::Hang(vec![
            SHAPES.line(&json!({"role": "assistant", "content": "Well, "})),
        ])
    };
    let create = || Say::Stream(SHAPES.calls("", &[("create_project", json!({"name": "Shop"}))]));
    for end in ENDS {
        for (says, shown) in [(hangs(), "Well,"), (create(), "[y] once")] {
            let model = Fake::ollama("0.12.6", vec![says]);
            let mut talk = Talk::start(&workspace, &model, &[]);
            talk.line("Go.");
            talk.until(shown);
            end.of(&mut talk.pty);
            servers_end(&workspace);
        }
    }
    let projects = workspace.call("list_projects", &json!({}));
    assert_eq!(projects["items"], json!([]));
}

#[test]
fn top_ends_with_its_terminal_and_with_a_signal() {
    let workspace = top::planned();
    let up = top::up(&workspace);
    for end in ENDS {
        let mut command = workspace.command(["top"]);
        command.env("TERM", "xterm-256color");
        let mut pty = Pty::start(command, size(100, 30));
        shows(&mut pty, "Weather");
        assert_eq!(end.of(&mut pty), Some(0), "{end:?}");
    }
    up.signal(Signal::TERM);
    assert!(up.end().success());
}

#[test]
fn plan_run_and_plan_watch_end_with_their_terminal_and_with_a_signal() {
    let workspace = plan_watch::slow();
    let mut words = vec!["plan", "run", "diamond.yaml"];
    for end in ENDS {
        let mut pty = Pty::start(plan_watch::command(&workspace, &words), size(80, 24));
        shows(&mut pty, " work ");
        assert_eq!(end.of(&mut pty), Some(8), "{end:?}");
        words = vec!["plan", "watch", "Diamond"];
    }
    for job in ["words", "count", "shout"] {
        plan_watch::open(&workspace, job);
    }
    let watch = plan_watch::command(&workspace, &words);
    let said = crate::support::said(watch, "");
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn questions_end_with_their_terminal_and_with_a_signal() {
    let workspace = served();
    workspace.write(
        ".vscode/mcp.json",
        &json!({"servers": {"other": {"command": "x"}}}).to_string(),
    );
    for end in ENDS {
        for words in [
            &["mcp", "call", "shell", "add.up", "a=1"][..],
            &["tool", "call", "shell__add_up", "a=1"],
            &["mcp", "approve", "other"],
        ] {
            let mut pty = Pty::start(workspace.command(words), size(80, 24));
            shows(&mut pty, "[y/N]");
            assert_ne!(end.of(&mut pty), Some(0), "{words:?}, {end:?}");
            // A question about a known tool comes before its server starts.
            all_servers_end(&workspace);
        }
    }
    let journal = fs::read_to_string(workspace.join("journal")).unwrap();
    assert!(!journal.contains("called"), "{journal}");
}
