//! A bridge whose orchestrator is away, comes, goes and comes back, or that is not let in.

use std::{fs, process::Command, time::Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    foreign::Foreign,
    support::{PATIENCE, Running, Session, Workspace, said},
};

fn bridge(workspace: &Workspace, orchestrator: &Foreign) -> Command {
    workspace.command(["stdio", "--orchestrator-addr", &orchestrator.address()])
}

fn certs(workspace: &Workspace) -> std::path::PathBuf {
    workspace.home().join(".orchestra/certs")
}

fn echo(text: &str) -> Value {
    json!({"name": "echo", "arguments": {"text": text}})
}

/// The message of an error of the way to the orchestrator.
fn unreachable(answer: &Value) -> String {
    let error = &answer["error"];
    assert_eq!(error["code"], -32603, "{answer}");
    error["message"].as_str().unwrap().to_owned()
}

/// Asks until it is answered.
fn until_answered(session: &mut Session, method: &str, params: &Value) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = session.request(method, params);
        if answer.get("result").is_some() {
            return answer["result"].clone();
        }
        unreachable(&answer);
        assert!(Instant::now() < end, "{answer}");
    }
}

#[test]
fn what_needs_no_orchestrator_is_answered_without_one_and_the_rest_when_it_comes() {
    let workspace = Workspace::new();
    let mut orchestrator = Foreign::nowhere(&certs(&workspace));
    // It says hello.
    let mut session = Session::start(bridge(&workspace, &orchestrator));
    let pong = session.request("ping", &json!({}));
    assert_eq!(pong["result"], json!({}));
    for (method, params, operation) in [
        ("tools/list", json!({}), "list_tools"),
        ("tools/call", echo("a"), "tool_call"),
        ("prompts/list", json!({}), "list_prompts"),
        ("prompts/get", json!({"name": "greet"}), "prompt_get"),
        ("resources/list", json!({}), "list_resources"),
        (
            "resources/read",
            json!({"uri": "orchestra://docs/a"}),
            "resource_read",
        ),
    ] {
        let told = unreachable(&session.request(method, &params));
        let head = format!("orchestrator {operation} failed: dial failed: ");
        assert!(told.starts_with(&head), "{method}: {told}");
        let said = told.contains("may have run");
        assert!(!said, "nothing was sent: {told}");
    }
    let pong = session.request("ping", &json!({}));
    assert_eq!(pong["result"], json!({}));
    orchestrator.come();
    let listed = until_answered(&mut session, "tools/list", &json!({}));
    assert_eq!(listed["tools"].as_array().unwrap().len(), 3);
    let called = session.tool("echo", &json!({"text": "there"}));
    assert_eq!(called["content"][0]["text"], "there");
}

/// Nothing refuses what is said to it, and nothing answers.
#[test]
fn a_list_of_an_orchestrator_that_is_silent_is_an_error_and_no_warning() {
    let workspace = Workspace::new();
    // Makes an authority.
    drop(Foreign::nowhere(&certs(&workspace)));
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let command = workspace.command(["stdio", "--orchestrator-addr", &address]);
    let mut session = Session::start(command);
    unreachable(&session.request("tools/list", &json!({})));
    drop(session);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let command = workspace.command(["stdio", "--orchestrator-addr", &address]);
    let ended = said(command, &format!("{list}\n"));
    assert!(
        !ended.err.contains("lists are returned without its entries"),
        "{ended:?}"
    );
}

/// Nobody calls, and it is there nevertheless as soon as the orchestrator is.
#[test]
fn the_orchestrator_is_asked_for_in_the_background() {
    let workspace = Workspace::new();
    let mut orchestrator = Foreign::nowhere(&certs(&workspace));
    let session = Session::start(bridge(&workspace, &orchestrator));
    orchestrator.come();
    orchestrator.was_asked_how_it_is();
    drop(session);
}

#[test]
fn an_orchestrator_that_goes_fails_what_runs_and_is_used_again_when_it_is_back() {
    let workspace = Workspace::new();
    let mut orchestrator = Foreign::start(&certs(&workspace));
    let mut session = Session::start(bridge(&workspace, &orchestrator));
    session.tool("echo", &json!({"text": "first"}));
    let before = orchestrator.last().session;
    for id in 100..103 {
        session.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "wait", "arguments": {}}}));
    }
    orchestrator.waits(3);
    let ran = orchestrator.seen().len();
    orchestrator.go();
    for _ in 0..3 {
        let told = unreachable(&session.process.json());
        assert!(
            told.starts_with("orchestrator tool_call failed: "),
            "{told}"
        );
        assert!(told.ends_with("; it may have run"), "{told}");
    }
    let told = unreachable(&session.request("tools/call", &echo("away")));
    assert!(
        told.starts_with("orchestrator tool_call failed: "),
        "{told}"
    );
    orchestrator.come();
    let called = until_answered(&mut session, "tools/call", &echo("back"));
    assert_eq!(called["content"][0]["text"], "back");
    // It is the same session, and what may have run was not made again.
    assert_eq!(orchestrator.last().session, before);
    let seen = orchestrator.seen();
    let again = seen[ran..].iter().filter(|call| call.tool == "wait");
    assert_eq!(again.count(), 0);
}

#[test]
fn another_authority_is_not_believed() {
    let (ours, theirs) = (Workspace::new(), Workspace::new());
    let orchestrator = Foreign::start(&certs(&theirs));
    // Makes an authority of our own.
    drop(Foreign::nowhere(&certs(&ours)));
    let mut session = Session::start(bridge(&ours, &orchestrator));
    let told = unreachable(&session.request("tools/list", &json!({})));
    assert!(
        told.starts_with("orchestrator list_tools failed: dial failed: "),
        "{told}"
    );
    let why = "its certificate is signed by an authority that is not in ";
    assert!(told.contains(why), "{told}");
    assert!(told.contains(".orchestra/certs/ca.crt"), "{told}");
}

#[test]
fn who_has_no_certificate_and_may_sign_none_is_told_what_to_do() {
    let workspace = Workspace::new();
    let orchestrator = Foreign::start(&certs(&workspace));
    fs::remove_file(certs(&workspace).join("ca.key")).unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let refused = said(bridge(&workspace, &orchestrator), &format!("{hello}\n"));
    assert_eq!((refused.code, &*refused.out), (Some(1), ""), "{refused:?}");
    assert!(
        refused
            .err
            .contains("`orchestra certs issue transport.stdio-client`"),
        "{refused:?}"
    );
    // Nor is anything made where there is no authority at all.
    let empty = Workspace::new();
    let refused = said(bridge(&empty, &orchestrator), "");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for helps in ["`orchestra up`", "`orchestra certs init` to create"] {
        assert!(refused.err.contains(helps), "{refused:?}");
    }
    assert!(!certs(&empty).join("ca.crt").exists());
}

/// It need not be started anew for that.
#[test]
fn a_bridge_whose_certificate_is_put_right_answers_again() {
    let workspace = Workspace::new();
    let mut orchestrator = Foreign::start(&certs(&workspace));
    let mut session = Session::start(bridge(&workspace, &orchestrator));
    session.tool("echo", &json!({"text": "first"}));
    // What it shows is gone, as if it had ended, and cannot be made here.
    let files = ["ca.key", "transport.stdio-client.crt"].map(|file| certs(&workspace).join(file));
    let aside = files.clone().map(|file| file.with_extension("aside"));
    for (file, aside) in files.iter().zip(&aside) {
        fs::rename(file, aside).unwrap();
    }
    orchestrator.go();
    orchestrator.come();
    let end = Instant::now() + PATIENCE;
    loop {
        let told = unreachable(&session.request("tools/call", &echo("refused")));
        if told.contains("`orchestra certs issue transport.stdio-client`") {
            break;
        }
        assert!(Instant::now() < end, "{told}");
    }
    for (file, aside) in files.iter().zip(&aside) {
        fs::rename(aside, file).unwrap();
    }
    let called = until_answered(&mut session, "tools/call", &echo("again"));
    assert_eq!(called["content"][0]["text"], "again");
}

#[test]
fn certificates_are_where_it_is_said() {
    let workspace = Workspace::new();
    for (directory, named) in [
        (
            workspace.join("c e r t s"),
            workspace.join("c e r t s").display().to_string(),
        ),
        (workspace.home().join("mine"), "~/mine".to_owned()),
    ] {
        let orchestrator = Foreign::start(&directory);
        let mut command = bridge(&workspace, &orchestrator);
        command.args(["--certs-dir", &named]);
        Session::start(command).tool("nothing", &json!({}));
        assert_eq!(orchestrator.last().peer, "transport.stdio-client");
    }
}

#[test]
fn flags_that_do_not_go_together_are_told() {
    let workspace = Workspace::new();
    for (flags, expected) in [
        (&["--orchestrator-addr", "here"][..], "HOST:PORT"),
        (&["--orchestrator-addr", "127.0.0.1:99999"], "HOST:PORT"),
        (&["--orchestrator-addr", ":7421"], "HOST:PORT"),
        (
            &["--orchestrator-addr", "127.0.0.1:1", "--tools", "lean"],
            "--tools cannot be used with --orchestrator-addr",
        ),
        (
            &["--orchestrator-addr", "127.0.0.1:1", "--only-servers"],
            "--only-servers cannot be used with --orchestrator-addr",
        ),
    ] {
        let said = workspace.run([&["stdio"], flags].concat());
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{said:?}");
        assert!(said.err.contains(expected), "{said:?}");
    }
}

/// Also while it is dialed.
#[test]
fn signal_ends_a_bridge_whose_orchestrator_is_away() {
    let workspace = Workspace::new();
    let orchestrator = Foreign::nowhere(&certs(&workspace));
    // That its terminal is gone as well.
    for signal in [Signal::TERM, Signal::HUP] {
        let mut session = Session::start(bridge(&workspace, &orchestrator));
        session.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
        assert_eq!(session.process.json()["id"], 9);
        let stdin = session.process.stdin.take();
        session.process.signal(signal);
        assert!(session.process.end().success());
        drop(stdin);
    }
    // So does the end of input.
    let mut running = Running::start(bridge(&workspace, &orchestrator));
    drop(running.stdin.take());
    assert!(running.end().success());
}
