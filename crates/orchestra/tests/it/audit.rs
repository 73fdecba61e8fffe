//! The records of calls follow each other, whoever writes them, and what is changed of them is found.

use std::{fs, path::PathBuf, thread::yield_now, time::Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Session, Workspace};

/// Calls of each program before one of them is killed.
const CALLS: u64 = 400;

struct Records {
    workspace: Workspace,
    file: PathBuf,
}

impl Records {
    fn new() -> Self {
        let workspace = Workspace::board();
        let file = workspace.run_directory().join("audit.jsonl");
        Self { workspace, file }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }

    /// What `audit verify` says, and its exit code.
    fn verify(&self) -> (Value, Option<i32>) {
        let said = self.workspace.run(["audit", "verify", "--json"]);
        (serde_json::from_str(&said.out).expect(&said.err), said.code)
    }

    fn head(&self) -> PathBuf {
        self.file.with_file_name("audit.jsonl.head")
    }

    /// Leaves what is noted as somebody does who is killed while they write.
    fn leave_on_the_way(&self) {
        let text = fs::read_to_string(self.head()).unwrap();
        let noted: Vec<&str> = text.lines().collect();
        let next = "f".repeat(64);
        fs::write(self.head(), format!("{}\n{}\n{next}\n", noted[0], noted[1])).unwrap();
    }

    /// A program that has made a call, and ends with its records written.
    fn call_once(&self) {
        let mut session = Session::start(self.workspace.command(["stdio"]));
        session.ok("list_projects", &json!({}));
        assert!(session.process.end().success());
    }
}

#[test]
fn decisions_about_servers_in_a_shell_are_recorded() {
    let records = Records::new();
    let file = r#"{"mcpServers": {"other": {"command": "cat"}}}"#;
    records.workspace.write(".mcp.json", file);
    for words in [
        &["approve", "other", "--yes"][..],
        &["disable", "other"],
        &["enable", "other"],
        &["approve", "other", "--revoke"],
    ] {
        let decided = records.workspace.run([&["mcp"], words].concat());
        assert_eq!(decided.code, Some(0), "{decided:?}");
    }
    let text = records.text();
    let rows = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows = rows.filter(|row| row["kind"] == "action" && row["face"] == "cli");
    let names: Vec<Value> = rows.map(|row| row["name"].clone()).collect();
    let expected = ["approve", "disable", "enable", "revoke"];
    assert_eq!(names, expected.map(|verb| format!("{verb} server other")));
}

#[test]
fn two_programs_write_one_chain_and_a_kill_breaks_nothing() {
    let records = Records::new();
    let start = |name| Session::start_as(records.workspace.command(["stdio"]), name);
    let (mut one, mut other) = (start("one"), start("other"));
    let call = json!({"name": "list_projects", "arguments": {}});
    for id in 100..100 + CALLS {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call});
        one.send(&message);
        other.send(&message);
    }
    // Both are in the middle of it.
    let by = |name: &str| {
        let text = fs::read_to_string(&records.file).unwrap_or_default();
        let is_by = |line: &&str| line.contains(&format!("\"client\":\"{name}\""));
        text.lines().filter(is_by).count() as u64
    };
    let until = Instant::now() + PATIENCE;
    while by("one") == 0 || by("other") == 0 {
        assert!(Instant::now() < until, "not both are recorded");
        yield_now();
    }
    one.process.signal(Signal::KILL);
    for _ in 0..CALLS {
        let _ = other.process.json();
    }
    assert!(other.process.end().success());
    let (found, code) = records.verify();
    assert_eq!((code, &found["intact"]), (Some(0), &json!(true)), "{found}");
    assert!(by("one") > 0, "{found}");
    assert_eq!(by("other"), CALLS, "{found}");
    // A kill in the middle of a write, at whatever byte, is a torn line and no change.
    let text = records.text();
    let part = &text[..text.len() / 7 % 200 + 20];
    let lines = text.lines().count();
    fs::write(&records.file, format!("{text}{part}")).unwrap();
    records.leave_on_the_way();
    let torn = json!({"file": records.file, "line": lines + 1});
    for _ in 0..2 {
        let (found, code) = records.verify();
        let all = found["torn"].as_array().unwrap();
        assert!(code == Some(0) && all.contains(&torn), "{found}");
        records.call_once();
    }
    let said = records.workspace.run(["audit", "verify"]);
    let place = format!("{}:{}: torn", records.file.display(), lines + 1);
    assert!(said.out.contains(&place), "{said:?}");
    assert!(
        said.out
            .contains("records in 1 file form an unbroken chain"),
        "{said:?}"
    );
}

#[test]
fn what_is_changed_removed_or_put_in_is_named() {
    let records = Records::new();
    let (found, code) = records.verify();
    assert_eq!((code, &found["records"]), (Some(0), &json!(0)), "{found}");
    (0..4).for_each(|_| records.call_once());
    let good = records.text();
    let lines: Vec<&str> = good.lines().collect();
    assert_eq!(lines.len(), 4, "{good}");
    let changed = lines[1].replace("answered", "denied");
    let last = fs::read_to_string(records.head()).unwrap();
    let last = last.lines().next().unwrap();
    let mut forged: Value = serde_json::from_str(lines[3]).unwrap();
    forged["prev"] = json!(last);
    let forged = forged.to_string();
    for (what, line, now) in [
        ("changed", 3, vec![lines[0], &changed, lines[2], lines[3]]),
        ("removed", 3, vec![lines[0], lines[1], lines[3]]),
        (
            "put in",
            3,
            vec![lines[0], lines[1], lines[0], lines[2], lines[3]],
        ),
        ("the beginning removed", 1, vec![lines[2], lines[3]]),
        ("all removed", 0, vec![]),
        ("put behind", 5, [&lines[..], &[&*forged]].concat()),
        ("the end removed", 3, vec![lines[0], lines[1], lines[2]]),
        (
            "the end changed",
            4,
            vec![lines[0], lines[1], lines[2], &changed],
        ),
    ] {
        let text: String = now.iter().flat_map(|line| [line, "\n"]).collect();
        fs::write(&records.file, text).unwrap();
        let (found, code) = records.verify();
        assert_eq!(
            (code, &found["intact"]),
            (Some(4), &json!(false)),
            "{what}: {found}"
        );
        assert_eq!(found["misfit"]["line"], line, "{what}: {found}");
        let said = records.workspace.run(["audit", "verify"]);
        let place = format!("{}:{line}: ", records.file.display());
        assert!(said.out.starts_with(&place), "{what}: {said:?}");
    }
    // A call that comes later covers nothing up, nor where there is no file any more.
    for _ in 0..2 {
        records.call_once();
        let (found, code) = records.verify();
        assert_eq!(
            (code, &found["intact"]),
            (Some(4), &json!(false)),
            "{found}"
        );
        fs::remove_file(&records.file).unwrap();
    }
}

#[test]
fn access_token_in_the_place_of_the_name_of_a_tool_is_masked() {
    let records = Records::new();
    let token = records.workspace.run(["token"]).out;
    let token = token.trim();
    let mut session = Session::start(records.workspace.command(["stdio"]));
    let call = json!({"name": token, "arguments": {}});
    session.send(&json!({"jsonrpc": "2.0", "id": 100, "method": "tools/call", "params": call}));
    let _ = session.process.json();
    assert!(session.process.end().success());
    let text = records.text();
    assert!(!token.is_empty() && !text.contains(token), "{text}");
    assert!(text.contains(r#""name":"***""#), "{text}");
}

#[test]
fn the_trace_of_a_call_stands_in_its_record() {
    let records = Records::new();
    let mut session = Session::start(records.workspace.command(["stdio"]));
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let call = json!({"name": "list_projects", "arguments": {}, "_meta": {"traceparent": parent}});
    session.request("tools/call", &call);
    assert!(session.process.end().success());
    let record: Value = serde_json::from_str(&records.text()).unwrap();
    assert_eq!(record["trace"], trace);
}

/// As many files as may be kept, where fewer may be open at once.
#[test]
fn more_files_are_verified_than_may_be_open() {
    const FILES: usize = 200;
    let records = Records::new();
    let text = {
        let mut session = Session::start(records.workspace.command(["stdio"]));
        for _ in 0..FILES {
            session.ok("list_projects", &json!({}));
        }
        assert!(session.process.end().success());
        records.text()
    };
    // One record a file; the last stays where it is.
    let lines: Vec<&str> = text.lines().collect();
    for (place, line) in lines.iter().rev().enumerate() {
        let name = match place {
            0 => "audit.jsonl".to_owned(),
            place => format!("audit.jsonl.{place}"),
        };
        fs::write(records.file.with_file_name(name), format!("{line}\n")).unwrap();
    }
    let program = records.workspace.command(["audit", "verify", "--json"]);
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -n 128; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(program.get_args())
        .current_dir(records.workspace.path());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let said = limited.output().unwrap();
    let found: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    assert_eq!(found["files"], lines.len(), "{found}");
    assert!(lines.len() >= FILES && found["intact"] == true, "{found}");
}
