//! How the program stops: within its time whatever others do, plugins in their order, and at once
//! when it is told twice.

use std::{
    fs,
    io::Write as _,
    net::TcpStream,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use rustix::{
    fs::OFlags,
    process::{Pid, Signal, kill_process},
};
use serde_json::json;

use crate::{
    plugins::{Up, approve, example, is_gone, pid, sample, workspace},
    support::{Running, Workspace, get, until},
};

/// A program that serves a plugin which hears nothing any more, not even that it is to end, and has
/// a call in its hands.
struct Stuck {
    up: Up,
    plugin: Pid,
    _call: TcpStream,
}

impl Stuck {
    fn start(workspace: &Workspace) -> Self {
        let up = Up::start(workspace);
        let plugin = pid(&up.text("pid", &json!({})));
        kill_process(plugin, Signal::STOP).unwrap();
        let params = json!({"name": "echo", "arguments": {"text": "never"}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let body = body.to_string();
        let mut call = TcpStream::connect(&up.address).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            up.address,
            body.len()
        );
        call.write_all(head.as_bytes()).unwrap();
        // Whoever comes later is answered.
        assert_eq!(get(&up.address, "/health").status, 200);
        Self {
            up,
            plugin,
            _call: call,
        }
    }
}

/// Who reaps what is killed with its parent is for the system to say.
fn is_over(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    is_gone(process) || stat.is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn a_plugin_that_hangs_does_not_hold_up_the_end() {
    let workspace = workspace("");
    let stuck = Stuck::start(&workspace);
    let Stuck { up, plugin, .. } = stuck;
    up.end();
    assert!(is_gone(plugin));
}

#[test]
fn a_second_signal_ends_the_program_at_once() {
    let workspace = workspace("");
    let mut stuck = Stuck::start(&workspace);
    let address = stuck.up.address.clone();
    stuck.up.process.signal(Signal::TERM);
    until(|| TcpStream::connect(&address).is_err().then_some(()));
    // What comes at once is taken for an echo of the first: whoever means it says it again.
    let status = until(|| {
        stuck.up.process.signal(Signal::INT);
        stuck.up.process.ended()
    });
    // Where it has ended in order, it says so.
    assert_eq!(status.code(), Some(1));
    until(|| is_over(stuck.plugin).then_some(()));
}

/// A program that runs another, and notes when that has ended.
fn noting(workspace: &Workspace, name: &str, program: &Path, last_words: &str) -> String {
    let path = workspace.join(name);
    let notes = workspace.join("ends.txt");
    let text = format!(
        "#!/bin/sh\ntrap : TERM\n'{}' \"$@\"\n{last_words}\necho {name} >> '{}'\n",
        program.display(),
        notes.display()
    );
    workspace.write(name, &text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn a_plugin_ends_before_those_that_it_depends_on() {
    let workspace = Workspace::board();
    // The one that is to end first takes longer than the other would.
    let sample = noting(
        &workspace,
        "sample.sh",
        &sample(),
        "(trap '' TERM; sleep 1)",
    );
    let keeper = noting(&workspace, "keeper.sh", &example("keeper"), "");
    workspace.write(
        "orchestra.toml",
        &format!(
            "[plugins.\"tools.sample\"]\nbinary = {sample:?}\n\
             depends_on = [\"storage.memory\"]\n\
             [plugins.\"storage.memory\"]\nbinary = {keeper:?}\n\
             provides_storage = [\"memory\"]\n"
        ),
    );
    approve(&workspace, "tools.sample");
    approve(&workspace, "storage.memory");
    let up = Up::start(&workspace);
    assert_eq!(up.text("echo", &json!({"text": "hi"})), "hi");
    up.end();
    assert_eq!(workspace.read("ends.txt"), "sample.sh\nkeeper.sh\n");
}

/// Ids of the programs that a process started.
fn children(process: u32) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let lists: Vec<String> = tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .collect();
    let ids = lists.iter().flat_map(|ids| ids.split_whitespace());
    ids.filter_map(|id| Pid::from_raw(id.parse().ok()?))
        .collect()
}

/// Makes a named pipe, into which nothing is written.
fn pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

#[test]
fn named_pipe_for_which_git_waits_is_named_by_commands_of_plans() {
    let workspace = Workspace::git();
    workspace.write("sub/file", "x");
    workspace.write(
        "p.yaml",
        "name: P\njobs:\n  - producerId: job\n    task: t\n    work: echo 1 > z\n",
    );
    pipe(&workspace.join("sub/.gitignore"));
    for words in [["plan", "validate", "p.yaml"], ["plan", "create", "p.yaml"]] {
        let said = workspace.run(words);
        assert_ne!(said.code, Some(0), "{said:?}");
        for part in ["sub/.gitignore", "named pipe"] {
            assert!(said.err.contains(part), "{said:?}");
        }
    }
}

#[test]
fn command_of_plans_that_waits_for_git_ends_at_a_signal() {
    let workspace = Workspace::git();
    let head = workspace.join(".git/HEAD");
    workspace.write("p.yaml", "name: P\njobs: []\n");
    fs::remove_file(&head).unwrap();
    pipe(&head);
    for words in [&["plan", "validate", "p.yaml"][..], &["doctor"]] {
        let mut process = Running::start(workspace.command(words));
        process.signal(Signal::TERM);
        assert_ne!(process.wait().code(), Some(0), "{words:?}");
    }
}

#[test]
fn git_that_waits_ends_with_the_command_that_started_it() {
    for command in [&["log"][..], &["sync", "--dry-run"]] {
        let workspace = Workspace::git();
        let pipe = workspace.join(".git/HEAD");
        fs::remove_file(&pipe).unwrap();
        self::pipe(&pipe);
        let mut process = Running::start(workspace.command(command));
        // Git reads from the pipe, into which nothing is written.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
        let mut options = fs::OpenOptions::new();
        options.write(true).custom_flags(flags);
        let writer = until(|| options.open(&pipe).ok());
        let started = children(process.id());
        assert!(!started.is_empty());
        process.signal(Signal::TERM);
        assert_eq!(process.wait().code(), Some(1), "{command:?}");
        until(|| started.iter().all(|git| is_over(*git)).then_some(()));
        drop(writer);
    }
}
