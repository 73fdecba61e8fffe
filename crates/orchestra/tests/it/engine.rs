//! The memory engine as a process: one for a workspace, found by nobody who has no business with it,
//! and gone when nobody needs it.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    ports::free_port,
    support::{Running, Session, Workspace, said, until},
};

/// Longer than an engine waits for its next client, and than one that hangs takes to be killed.
const END: Duration = Duration::from_secs(60);

/// What the file of the engine says, once it is there.
pub(crate) fn told(workspace: &Workspace) -> Option<Value> {
    let text = fs::read_to_string(workspace.run_directory().join("engine.json")).ok()?;
    serde_json::from_str(&text).ok()
}

/// The process of the engine that is told of, once there is one that is not `other`.
pub(crate) fn engine_but(workspace: &Workspace, other: Option<u32>) -> u32 {
    until(|| {
        let pid = told(workspace)?["pid"].as_u64()?;
        let pid = u32::try_from(pid).unwrap();
        (Some(pid) != other && is_there(pid)).then_some(pid)
    })
}

/// Whether a process runs; one that nobody has asked about since its end does not.
pub(crate) fn is_there(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// The session that a process belongs to.
fn session_of(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Behind the name: the state, the parent, the group, the session.
    let (_, behind) = stat.rsplit_once(") ").unwrap();
    behind.split(' ').nth(3).unwrap().parse().unwrap()
}

fn gone(pid: u32) {
    let begin = Instant::now();
    while is_there(pid) {
        assert!(begin.elapsed() < END, "process {pid} is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The program, which has an engine and says on a file of its own what it says on stderr.
pub(crate) fn with_engine(workspace: &Workspace, words: &[&str]) -> Command {
    of(Path::new(env!("CARGO_BIN_EXE_orchestra")), workspace, words)
}

pub(crate) fn of(program: &Path, workspace: &Workspace, words: &[&str]) -> Command {
    let talk = workspace.home().join("talk");
    let line = ["-c", "exec \"$@\" 2>>\"$0\"", talk.to_str().unwrap()];
    let called = [&line[..], &[program.to_str().unwrap()], words].concat();
    let mut command = workspace.command_as(Path::new("/bin/sh"), called);
    let engine = Path::new(env!("CARGO_BIN_EXE_orchestra")).with_file_name("orchestra-engine");
    assert!(
        engine.exists(),
        "{} is missing: run `cargo build -p orchestra-engine`",
        engine.display()
    );
    command.env("ORCHESTRA_ENGINE", "always");
    command.env("ORCHESTRA_ENGINE_PORT", free_port().to_string());
    command
}

/// What was said on stderr by programs with an engine.
pub(crate) fn talk(workspace: &Workspace) -> String {
    fs::read_to_string(workspace.home().join("talk")).unwrap_or_default()
}

/// An engine that nobody has started for others.
fn engine(workspace: &Workspace, words: &[&str]) -> Running {
    Running::start(workspace.command([&["engine"], words].concat()))
}

#[test]
fn of_engines_that_race_one_serves_and_the_others_say_so() {
    let workspace = Workspace::board();
    let start = |_| engine(&workspace, &["--addr", "127.0.0.1:0"]);
    let mut all: Vec<Running> = (0..4).map(start).collect();
    let serving = engine_but(&workspace, None);
    let place = all.iter().position(|running| running.id() == serving);
    let mut first = all.swap_remove(place.unwrap());
    for mut other in all {
        assert!(other.wait().success());
    }
    assert!(first.line().unwrap().starts_with("memory engine of "));
    // And so does one that comes later.
    let late = workspace.run(["engine"]);
    assert_eq!(late.code, Some(0), "{late:?}");
    let address = told(&workspace).unwrap()["address"].clone();
    let address = address.as_str().unwrap();
    assert!(late.err.contains("another engine serves"), "{late:?}");
    assert!(late.err.contains(address), "{late:?}");
    let same = workspace.run(["engine", "--addr", address]);
    assert_eq!(same.code, Some(0), "{same:?}");
    // Not where it was asked for.
    let other = format!("127.0.0.1:{}", free_port());
    let unmet = workspace.run(["engine", "--addr", &other]);
    assert_eq!(unmet.code, Some(3), "{unmet:?}");
    assert!(
        unmet.err.contains(address) && unmet.err.contains(&other),
        "{unmet:?}"
    );
    first.signal(Signal::TERM);
    assert!(first.wait().success());
    assert!(told(&workspace).is_none());
}

#[test]
fn what_the_file_of_an_engine_says_is_for_its_user_alone() {
    let workspace = Workspace::board();
    let running = engine(&workspace, &["--addr", "127.0.0.1:0"]);
    running.line();
    let file = workspace.run_directory().join("engine.json");
    assert_eq!(
        fs::metadata(file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let told = told(&workspace).unwrap();
    assert_eq!(told["workspace"], workspace.path().to_str().unwrap());
    assert_eq!(told["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(told["pid"], running.id());
    assert_eq!(told["token"].as_str().unwrap().len(), 64);
    let printed = workspace.run(["token", "--engine"]);
    assert_eq!(printed.out.trim_end(), told["token"], "{printed:?}");
}

#[test]
fn w31_an_engine_listens_where_it_is_told_and_on_this_machine_alone() {
    let workspace = Workspace::board();
    let port = free_port();
    let mut command = workspace.command(["engine"]);
    command.env("ORCHESTRA_ENGINE_PORT", port.to_string());
    let mut running = Running::start(command);
    assert!(
        running
            .line()
            .unwrap()
            .contains(&format!("127.0.0.1:{port};"))
    );
    // Both families where this machine has both: `localhost` may mean either.
    TcpStream::connect(("127.0.0.1", port)).unwrap();
    running.kill();
    let running = engine(
        &workspace,
        &["--no-token", "--addr", &format!("[::1]:{port}")],
    );
    let line = running.line().unwrap_or_default();
    match TcpListener::bind("[::1]:0") {
        Ok(_) => assert!(line.contains(&format!("[::1]:{port};")), "{line}"),
        // This machine has no such addresses.
        Err(_) => assert_eq!(line, ""),
    }
    drop(running);
    for (address, said) in [
        ("0.0.0.0:50051", "only on loopback addresses"),
        ("192.0.2.1:1", "only on loopback addresses"),
        ("here", "127.0.0.1:50051"),
    ] {
        let refused = workspace.run(["engine", "--addr", address]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(said), "{refused:?}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = workspace.run(["engine", "--addr", &address]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains(&format!(
            "cannot listen on {address}; pass another address with --addr"
        )),
        "{refused:?}"
    );
}

#[test]
fn an_engine_is_of_a_board_that_is_there() {
    let workspace = Workspace::git();
    let refused = workspace.run(["engine"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("no board in"), "{refused:?}");
    assert!(!workspace.join(".projects").exists());
}

#[test]
fn what_is_no_port_counts_for_nothing_and_is_told() {
    for wrong in ["abc", "70000", "0", "-1"] {
        let workspace = Workspace::board();
        for (words, choice) in [
            (vec!["engine"], "off"),
            (vec!["up", "--http", "127.0.0.1:0", "--quic", "off"], "auto"),
        ] {
            let _ = fs::remove_file(workspace.home().join("talk"));
            let mut command = with_engine(&workspace, &words);
            command.env("ORCHESTRA_ENGINE", choice);
            command.env("ORCHESTRA_ENGINE_PORT", wrong);
            let mut running = Running::start(command);
            assert!(running.line().is_some());
            let expected = format!(
                "ORCHESTRA_ENGINE_PORT: `{wrong}` is not a port and is ignored; set one from 1 to 65535\n"
            );
            assert_eq!(talk(&workspace), expected, "{words:?}");
            running.signal(Signal::TERM);
            assert!(running.wait().success());
        }
    }
}

/// Others on this machine may have the port as well, so what can be told is told.
#[test]
fn the_port_is_the_usual_one_where_that_is_free() {
    const USUAL: u16 = 50_051;
    let port = |workspace: &Workspace| -> u16 {
        let mut command = workspace.command(["engine"]);
        command.env_remove("ORCHESTRA_ENGINE_PORT");
        let running = Running::start(command);
        running.line();
        let address = told(workspace).unwrap()["address"].clone();
        let (_, port) = address.as_str().unwrap().rsplit_once(':').unwrap();
        port.parse().unwrap()
    };
    let taken = until(|| TcpListener::bind(("127.0.0.1", USUAL)).ok());
    assert_ne!(port(&Workspace::board()), USUAL);
    drop(taken);
    let is_free = || TcpListener::bind(("127.0.0.1", USUAL)).is_ok();
    let others = (0..3).all(|_| port(&Workspace::board()) != USUAL && is_free());
    assert!(!others, "{USUAL} was free and not taken");
}

#[test]
fn w14_who_listens_on_the_port_is_not_taken_for_the_engine() {
    let workspace = Workspace::board();
    let foreign = TcpListener::bind("127.0.0.1:0").unwrap();
    foreign.set_nonblocking(true).unwrap();
    let port = foreign.local_addr().unwrap().port();
    let mut command = with_engine(&workspace, &["stdio"]);
    command.env("ORCHESTRA_ENGINE_PORT", port.to_string());
    let mut session = Session::start(command);
    session.ok("create_project", &json!({"name": "Demo"}));
    engine_but(&workspace, None);
    let address = told(&workspace).unwrap()["address"].clone();
    assert_ne!(address, format!("127.0.0.1:{port}"));
    session.ok("search_memory", &json!({"project": "demo", "query": "x"}));
    assert!(
        foreign.accept().is_err(),
        "somebody asked a foreign program"
    );
}

#[test]
fn w14_an_engine_of_another_workspace_is_not_used() {
    let (ours, theirs) = (Workspace::board(), Workspace::board());
    let other = engine(&theirs, &["--addr", "127.0.0.1:0"]);
    other.line();
    // Its file was copied with the directory, and somebody holds the lock.
    let run = ours.run_directory();
    fs::create_dir_all(&run).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
    fs::copy(
        theirs.run_directory().join("engine.json"),
        run.join("engine.json"),
    )
    .unwrap();
    let lock = fs::File::create(run.join("engine.lock")).unwrap();
    lock.lock().unwrap();
    let mut session = Session::start(with_engine(&ours, &["stdio"]));
    until(|| {
        talk(&ours)
            .contains("names an engine of another workspace")
            .then_some(())
    });
    session.ok("create_project", &json!({"name": "Demo"}));
    let ours_alone = json!({"project": "demo", "content": "it is ours", "summary": "ours"});
    session.ok("save_memory", &ours_alone);
    let found = session.ok(
        "search_memory",
        &json!({"project": "demo", "query": "ours"}),
    );
    assert_eq!(found["total"], 1);
    let mut neighbour = Session::start(theirs.command(["stdio"]));
    let seen = neighbour.ok("list_projects", &json!({}));
    assert_eq!(seen["total"], 0, "what was remembered went there");
    // Once nobody holds the place, it has an engine of its own.
    drop(lock);
    assert_ne!(engine_but(&ours, Some(other.id())), other.id());
}

#[test]
fn an_engine_of_another_version_is_not_used_and_said_to_be() {
    let workspace = Workspace::board();
    let running = engine(&workspace, &["--addr", "127.0.0.1:0"]);
    running.line();
    let mut told = told(&workspace).unwrap();
    told["version"] = json!("0.9.0");
    let file = workspace.run_directory().join("engine.json");
    fs::write(file, told.to_string()).unwrap();
    let mut session = Session::start(with_engine(&workspace, &["stdio"]));
    until(|| talk(&workspace).contains("has version 0.9.0").then_some(()));
    session.ok("create_project", &json!({"name": "Demo"}));
    session.ok("search_memory", &json!({"project": "demo", "query": "x"}));
    assert!(is_there(running.id()));
    assert_eq!(talk(&workspace).lines().count(), 1, "{}", talk(&workspace));
}

#[test]
fn w31_an_engine_ends_with_the_last_of_its_clients_however_they_end() {
    let workspace = Workspace::board();
    let start = || Session::start(with_engine(&workspace, &["stdio"]));
    let mut first = start();
    let engine = engine_but(&workspace, None);
    assert_eq!(session_of(engine), engine, "no signal to us reaches it");
    let mut second = start();
    second.ok("create_project", &json!({"name": "Demo"}));
    // Who started it is killed; the other uses it on, and so does the next.
    first.process.kill();
    let third = start();
    second.ok("search_memory", &json!({"project": "demo", "query": "x"}));
    assert_eq!(engine_but(&workspace, None), engine);
    assert!(third.process.end().success());
    second.process.signal(Signal::TERM);
    second.process.wait();
    gone(engine);
    assert!(told(&workspace).is_none());
    assert_eq!(talk(&workspace), "");
}

/// The earlier program had two places for what is remembered, and what was saved in one was not found
/// in the other.
#[test]
fn w29_what_is_saved_with_and_without_an_engine_is_found_with_and_without_one() {
    let workspace = Workspace::board();
    let save = |session: &mut Session, what: &str| {
        let content = format!("the matter of {what}");
        session.ok(
            "save_memory",
            &json!({"project": "demo", "content": content, "summary": what}),
        );
        let told = json!({"project": "demo", "session_id": what, "summary": content});
        session.ok("save_session", &told);
    };
    let check = |session: &mut Session, expected: &[&str]| {
        let found = session.ok(
            "search_memory",
            &json!({"project": "demo", "query": "matter"}),
        );
        let list = session.ok("list_sessions", &json!({"project": "demo"}));
        for (list, field) in [(found, "summary"), (list, "session_id")] {
            let items = list["items"].as_array().unwrap().iter();
            let mut names: Vec<&str> = items.map(|item| item[field].as_str().unwrap()).collect();
            names.sort_unstable();
            assert_eq!(names, expected);
        }
    };
    let mut with = Session::start(with_engine(&workspace, &["stdio"]));
    with.ok("create_project", &json!({"name": "Demo"}));
    let engine = engine_but(&workspace, None);
    save(&mut with, "a");
    signal(engine, Signal::KILL);
    save(&mut with, "b");
    check(&mut with, &["a", "b"]);
    let next = engine_but(&workspace, Some(engine));
    save(&mut with, "c");
    let mut command = workspace.command(["stdio"]);
    command.env("ORCHESTRA_ENGINE", "off");
    let mut without = Session::start(command);
    check(&mut without, &["a", "b", "c"]);
    save(&mut without, "d");
    check(&mut with, &["a", "b", "c", "d"]);
    assert!(with.process.end().success());
    gone(next);
    check(&mut without, &["a", "b", "c", "d"]);
}

#[test]
fn w31_up_has_an_engine_that_a_signal_to_it_ends() {
    let workspace = Workspace::board();
    let mut command = with_engine(
        &workspace,
        &["up", "--http", "127.0.0.1:0", "--quic", "off"],
    );
    command.env_remove("ORCHESTRA_ENGINE");
    let mut up = Running::start(command);
    let engine = engine_but(&workspace, None);
    up.signal(Signal::INT);
    assert!(up.wait().success());
    assert!(!is_there(engine), "nobody else used it");
}

#[test]
fn an_engine_that_a_person_starts_stays_without_clients() {
    let workspace = Workspace::board();
    let mut own = engine(&workspace, &["--addr", "127.0.0.1:0"]);
    own.line();
    let session = Session::start(with_engine(&workspace, &["stdio"]));
    assert_eq!(engine_but(&workspace, None), own.id());
    assert!(session.process.end().success());
    assert!(is_there(own.id()));
    own.signal(Signal::TERM);
    assert!(own.wait().success());
}

/// A directory with the program, and beside it an engine that is a script.
fn with_script(workspace: &Workspace, script: &str) -> PathBuf {
    let directory = workspace.home().join("bin");
    fs::create_dir(&directory).unwrap();
    let program = directory.join("orchestra");
    // A link would be followed to where the real engine is.
    if fs::hard_link(env!("CARGO_BIN_EXE_orchestra"), &program).is_err() {
        fs::copy(env!("CARGO_BIN_EXE_orchestra"), &program).unwrap();
    }
    let engine = directory.join("orchestra-engine");
    let version = env!("CARGO_PKG_VERSION");
    let answer = format!("[ \"$1\" = --version ] && echo orchestra-engine {version} && exit");
    fs::write(&engine, format!("#!/bin/sh\n{answer}\n{script}\n")).unwrap();
    fs::set_permissions(&engine, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Puts the directory of the real engine on the search path.
fn with_ours_on_path(mut command: Command) -> Command {
    let ours = Path::new(env!("CARGO_BIN_EXE_orchestra")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::iter::once(ours.to_owned()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(directories).unwrap());
    command
}

#[test]
fn an_engine_that_says_nothing_holds_up_nobody_and_is_not_left() {
    let workspace = Workspace::board();
    let script =
        "echo $$ >\"$HOME/pid\"; trap 'echo >\"$HOME/told\"' TERM; while :; do sleep 1; done";
    let program = with_script(&workspace, script);
    let mut session = Session::start(of(&program, &workspace, &["stdio"]));
    // It was greeted while the engine was still waited for: giving up is told.
    assert_eq!(talk(&workspace), "");
    session.ok("create_project", &json!({"name": "Demo"}));
    session.ok("search_memory", &json!({"project": "demo", "query": "x"}));
    let pid = until(|| {
        let text = fs::read_to_string(workspace.home().join("pid")).ok()?;
        text.trim().parse().ok()
    });
    assert!(session.process.end().success());
    gone(pid);
    assert!(
        workspace.home().join("told").exists(),
        "it was asked to end"
    );
}

#[test]
fn an_engine_that_cannot_start_is_told_once_and_the_next_of_them_is_tried() {
    let workspace = Workspace::board();
    let program = with_script(&workspace, "exit 7");
    let session = Session::start(with_ours_on_path(of(&program, &workspace, &["stdio"])));
    let engine = engine_but(&workspace, None);
    until(|| {
        talk(&workspace)
            .contains("the engine answers again")
            .then_some(())
    });
    let talk = talk(&workspace);
    assert!(talk.contains("ended (exit status: 7)"), "{talk}");
    assert_eq!(talk.lines().count(), 2, "{talk}");
    assert!(session.process.end().success());
    gone(engine);
}

#[test]
fn an_engine_of_another_version_beside_the_program_is_ended_and_the_next_is_tried() {
    let workspace = Workspace::board();
    // It has the place, says where it listens, and is another.
    let script = r#"umask 077; mkdir -p "$3/.git/.orchestra/_/run"; cd "$3/.git/.orchestra/_/run"
exec 9>>engine.lock; flock -n 9 || exit 0
echo $$ >"$HOME/pid"
printf '{"workspace":"%s","version":"0.9.0","address":"127.0.0.1:1","pid":%d}' "$3" $$ >new
mv new engine.json; exec sleep 600"#;
    let program = with_script(&workspace, script);
    let session = Session::start(with_ours_on_path(of(&program, &workspace, &["stdio"])));
    until(|| (told(&workspace)?["version"] == env!("CARGO_PKG_VERSION")).then_some(()));
    let foreign = fs::read_to_string(workspace.home().join("pid")).unwrap();
    gone(foreign.trim().parse().unwrap());
    until(|| {
        talk(&workspace)
            .contains("the engine answers again")
            .then_some(())
    });
    let talk = talk(&workspace);
    assert!(talk.contains("has version 0.9.0"), "{talk}");
    assert_eq!(talk.lines().count(), 2, "{talk}");
    let engine = engine_but(&workspace, None);
    assert!(session.process.end().success());
    gone(engine);
}

/// A copy of the program without an engine beside it.
fn alone(workspace: &Workspace) -> PathBuf {
    let program = with_script(workspace, "");
    fs::remove_file(program.with_file_name("orchestra-engine")).unwrap();
    program
}

/// A program named `orchestra-engine` in a new directory, which writes that it was called.
fn called_engine(directory: &Path, version: &str) {
    fs::create_dir_all(directory).unwrap();
    let path = directory.join("orchestra-engine");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo orchestra-engine {version} && exit\n\
         echo \"$0 $*\" >\"$HOME/called\"\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn engine_in_the_workspace_or_a_relative_directory_is_not_started() {
    let workspace = Workspace::board();
    let program = alone(&workspace);
    let version = env!("CARGO_PKG_VERSION");
    called_engine(&workspace.path(), version);
    called_engine(&workspace.join("relative"), version);
    let run = |path: &str| {
        let mut command = workspace.command_as(&program, ["engine"]);
        command.current_dir(workspace.path()).env("PATH", path);
        said(command, "")
    };
    let called = || fs::read_to_string(workspace.home().join("called"));
    let inside = workspace.path().display().to_string();
    for path in [
        "",
        ".",
        ":",
        ".:relative:",
        &inside,
        &format!("{inside}/relative"),
    ] {
        let refused = run(path);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let advice = "cargo build --release -p orchestra-engine";
        assert!(refused.err.contains(advice), "{refused:?}");
        assert!(called().is_err(), "{path}");
    }
    let ours = workspace.home().join("ours");
    called_engine(&ours, version);
    run(&format!(".:{}", ours.display()));
    let called = called().unwrap();
    let expected = format!("{} --workspace ", ours.join("orchestra-engine").display());
    assert!(called.starts_with(&expected), "{called}");
}

#[test]
fn engine_of_another_version_is_named_and_not_started() {
    let workspace = Workspace::board();
    let program = alone(&workspace);
    let other = workspace.home().join("other");
    called_engine(&other, "0.9.0");
    let mut command = workspace.command_as(&program, ["engine"]);
    command.env("PATH", &other);
    let refused = said(command, "");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let why = format!(
        "is orchestra-engine 0.9.0, not orchestra-engine {}",
        env!("CARGO_PKG_VERSION")
    );
    assert!(refused.err.contains(&why), "{refused:?}");
    assert!(!workspace.home().join("called").exists());
}

#[test]
fn without_an_engine_all_else_works_and_a_wanted_one_is_reported_missing() {
    let workspace = Workspace::board();
    let program = alone(&workspace);
    let path = workspace.home().join("none");
    let mut command = of(&program, &workspace, &["stdio"]);
    command.env("PATH", &path);
    let mut session = Session::start(command);
    session.ok("create_project", &json!({"name": "Demo"}));
    session.ok(
        "save_memory",
        &json!({"project": "demo", "summary": "s", "content": "blue whale"}),
    );
    let found = session.ok(
        "search_memory",
        &json!({"project": "demo", "query": "whale"}),
    );
    assert_eq!(found["total"], 1, "{found}");
    until(|| talk(&workspace).contains("is not installed").then_some(()));
    assert!(session.process.end().success());
    let mut command = workspace.command_as(&program, ["memory", "model", "install", "/nowhere"]);
    command.env("PATH", &path);
    let refused = said(command, "");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("is not installed"), "{refused:?}");
}

#[test]
fn files_of_the_engine_that_lead_elsewhere_are_not_followed() {
    let workspace = Workspace::board();
    let elsewhere = workspace.home().join("elsewhere");
    let run = workspace.run_directory();
    fs::create_dir_all(&run).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&elsewhere, run.join("engine.lock")).unwrap();
    let refused = said(workspace.command(["engine"]), "");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("engine.lock"), "{refused:?}");
    assert!(!elsewhere.exists());
    let mut session = Session::start(with_engine(&workspace, &["stdio"]));
    session.ok("list_projects", &json!({}));
    until(|| talk(&workspace).contains("engine.lock").then_some(()));
}
