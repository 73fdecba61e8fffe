//! `orchestra mcp tap`: what passes is unchanged and recorded.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{PATIENCE, Workspace};

/// A server that answers each line by a line, and more.
const SHELL: [&str; 2] = ["sh", "-c"];

fn tap(workspace: &Workspace, flags: &[&str], script: &str) -> std::process::Command {
    let mut words = vec!["mcp", "tap"];
    words.extend(flags);
    words.push("--");
    words.extend(SHELL);
    words.push(script);
    workspace.command(words)
}

#[test]
fn bytes_pass_unchanged_in_both_directions() {
    let workspace = Workspace::new();
    let mut command = tap(
        &workspace,
        &["--file", "tap.jsonl"],
        "cat; printf 'end \\377'",
    );
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    // A part of a line comes through before its end is there.
    input.write_all(b"{\"jsonrpc\":\"2.0\",").unwrap();
    let mut part = [0; 17];
    output.read_exact(&mut part).unwrap();
    assert_eq!(&part, b"{\"jsonrpc\":\"2.0\",");
    let mut sent = b"\"id\":1,\"method\":\"ping\"}\r\n\0\xff\xfe no JSON\n\n".to_vec();
    sent.extend((0..200_000_u32).map(|byte| (byte % 251) as u8));
    let writer = std::thread::spawn({
        let sent = sent.clone();
        move || input.write_all(&sent)
    });
    let mut received = Vec::new();
    output.read_to_end(&mut received).unwrap();
    writer.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    sent.extend(b"end \xff");
    assert!(received == sent, "{} bytes came back", received.len());
    let lines = workspace.read("tap.jsonl");
    // Which of the two directions is written down first is nobody's to say.
    let sent = lines
        .lines()
        .find(|line| line.contains("\"direction\":\"sent\""));
    let first: Value = serde_json::from_str(sent.unwrap()).unwrap();
    assert_eq!(first["server"], "sh");
    assert_eq!(first["message"]["method"], "ping");
    assert!(lines.contains("\"direction\":\"received\""));
}

#[test]
fn messages_are_shown_and_secrets_are_not() {
    let workspace = Workspace::new();
    let answer = r#"read line; echo '{"jsonrpc":"2.0","id":7,"result":{"env":"'$MY_TOKEN'"}}'"#;
    let flags = [
        "--file",
        "tap.jsonl",
        "--trace",
        "--mask",
        "pin",
        "--name",
        "my-server",
    ];
    let mut command = tap(&workspace, &flags, answer);
    command.env("MY_TOKEN", "planted-env").stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"pin":"planted-pin"}}"#;
    let mut input = child.stdin.take().unwrap();
    input.write_all(format!("{call}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(input);
    assert!(output.status.success());
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("planted-env")
    );
    let shown = String::from_utf8(output.stderr).unwrap();
    assert!(shown.contains(" > my-server 7 tools/call "), "{shown}");
    assert!(shown.contains(" < my-server 7 tools/call "), "{shown}");
    let recorded = workspace.read("tap.jsonl");
    assert_eq!(recorded.lines().count(), 2);
    assert!(
        !format!("{shown}{recorded}").contains("planted"),
        "{recorded}"
    );
}

#[test]
fn a_server_that_fails_or_is_not_there_is_said() {
    let workspace = Workspace::new();
    let said = workspace.run(["mcp", "tap", "--", "no-such-server"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("starting no-such-server"), "{}", said.err);
    let output = tap(&workspace, &[], "exit 3").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the server ended with exit code 3"), "{said}");
    let said = workspace.run(["mcp", "tap"]);
    assert_eq!(said.code, Some(2));
}

#[test]
fn a_signal_ends_the_server_as_well() {
    let workspace = Workspace::new();
    let script = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = tap(&workspace, &[], script).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut ready = [0; 6];
    output.read_exact(&mut ready).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "asked\n");
    assert!(child.wait().unwrap().success());
}

/// However it ends, nothing of the server is left.
#[test]
fn a_tap_that_is_killed_takes_its_server_with_it() {
    let workspace = Workspace::new();
    // It minds neither the end of its input nor of its output.
    let script = "trap '' PIPE; sleep 1000 & echo $$ $!; while :; do sleep 1; done";
    let mut child = tap(&workspace, &[], script).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let ids = line.split_whitespace().map(|id| id.parse().unwrap());
    let server: Vec<_> = ids.filter_map(rustix::process::Pid::from_raw).collect();
    assert_eq!(server.len(), 2, "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
    let end = Instant::now() + PATIENCE;
    for process in server {
        while rustix::process::test_kill_process(process).is_ok() {
            assert!(Instant::now() < end, "{process:?} is left");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
