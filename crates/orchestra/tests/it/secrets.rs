//! Secrets that are planted at every entry of the program and searched for in everything that leaves it: recordings,
//! stored events, logs, the audit, readable files of plans, exports, errors, and replies of the dashboard.
//!
//! Beside the secrets stands a text that is none. Each place must contain that text, so that a place at which nothing
//! arrives fails the test.

#[cfg(target_os = "linux")]
mod conversations;
mod servers;

use std::{fs, io::Write as _, path::Path, process::Stdio};

use orchestra_secret::{
    MASK,
    sample::{Sample, samples},
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    plans::{git, plan},
    support::{Running, Said, Workspace, get, said},
};

/// Secret of a variable of the environment. No form of the table matches it.
const KNOWN: &str = "correct horse battery";

/// Text that is planted beside the secrets and is not secret.
const CONTROL: &str = "plainly visible";

/// Most samples in one message.
const AT_ONCE: usize = 100;

/// All bytes of the files below a directory.
fn bytes_below(directory: &Path, bytes: &mut Vec<u8>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            bytes_below(&path, bytes);
        } else if let Ok(content) = fs::read(&path) {
            bytes.extend(content);
            bytes.push(b'\n');
        }
    }
}

/// Samples whose secret is found in some bytes.
fn found<'s>(samples: &'s [Sample], bytes: &[u8]) -> Vec<&'s Sample> {
    let text = String::from_utf8_lossy(bytes);
    samples
        .iter()
        .filter(|sample| text.contains(&sample.secret))
        .collect()
}

/// Text of every sample and the known value, between two controls: some places show the beginning, and some the end.
fn planted(samples: &[Sample]) -> String {
    let texts: Vec<&str> = samples.iter().map(|sample| sample.text.as_str()).collect();
    format!(
        "{CONTROL}\n{}\nvalue: {KNOWN}\n{CONTROL}\n",
        texts.join("\n")
    )
}

/// Asserts that a place contains a text that is not secret, and no secret.
fn assert_masked(samples: &[Sample], place: &str, control: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    assert!(!control.is_empty(), "no control for {place}");
    assert!(text.contains(control), "no {control:?} in {place}: {text}");
    assert_free(samples, place, bytes);
}

/// Asserts that a place contains no secret.
fn assert_free(samples: &[Sample], place: &str, bytes: &[u8]) {
    let found = found(samples, bytes);
    let texts: Vec<&str> = found.iter().map(|sample| sample.text.as_str()).collect();
    assert!(
        found.is_empty(),
        "{} in {place}:\n{}",
        found.len(),
        texts.join("\n")
    );
    assert!(
        !String::from_utf8_lossy(bytes).contains(KNOWN),
        "the known value in {place}"
    );
}

/// Text of a shell that prints [`planted`].
fn printer(workspace: &Workspace, samples: &[Sample]) -> String {
    let file = workspace.home().join("planted.txt");
    fs::write(&file, planted(samples)).unwrap();
    format!("cat '{}'", file.display())
}

/// Server that prints [`planted`] on standard error, and has a tool `leak` whose responses have this member.
fn server(workspace: &Workspace, samples: &[Sample], member: &str, value: &Value) -> String {
    let print = printer(workspace, samples);
    let answer = workspace.home().join("answer.txt");
    fs::write(&answer, format!("\"{member}\":{value}}}\n")).unwrap();
    let answer = answer.display();
    format!(
        r#"{print} >&2
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *initialize\"*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}}}';;
    *tools/list*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"tools":[{{"name":"leak","inputSchema":{{"type":"object"}}}}]}}}}';;
    *tools/call*) printf '{{"jsonrpc":"2.0","id":%s,' $id; cat '{answer}';;
  esac
done
"#
    )
}

/// Stores an event of a hook with some samples on the board, in its tool's input under this name.
fn store_event(workspace: &Workspace, samples: &[Sample], member: &str) {
    let texts: Vec<&str> = samples.iter().map(|sample| sample.text.as_str()).collect();
    let text = format!("{CONTROL}\nvalue: {KNOWN}\n{}", texts.join("\n"));
    let event = json!({"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash",
        "tool_input": {member: text}, "message": texts[0], "title": texts[texts.len() - 1]});
    let mut hook = workspace.command(["--log", "trace", "hook"]);
    hook.env("DB_PASSPHRASE", KNOWN);
    let hook = said(hook, &event.to_string());
    assert_eq!(hook.code, Some(0), "{hook:?}");
    assert_free(samples, "standard error", hook.err.as_bytes());
}

/// Runs a plan `leaky` whose job prints [`planted`] and fails.
fn run_leaky_plan(workspace: &Workspace, samples: &[Sample]) -> Said {
    git(
        workspace,
        &[
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "commit",
            "--allow-empty",
            "-qm",
            "first",
        ],
    );
    let print = printer(workspace, samples);
    let text = format!(
        "name: leaky\njobs:\n- producerId: prints\n  task: Print\n  env: {{DB_PASSPHRASE: $DB_PASSPHRASE}}\n  autoHeal: false\n  work: |\n    {print}; {print} >&2; echo \"$DB_PASSPHRASE\"; exit 3\n"
    );
    workspace.write("leaky.yml", &text);
    let mut command = workspace.command(["--log", "trace", "plan", "run", "leaky.yml"]);
    command.env("DB_PASSPHRASE", KNOWN);
    let run = said(command, "");
    assert_eq!(run.code, Some(6), "{run:?}");
    run
}

/// Removes the files from which the programs of a test read secrets.
fn remove_plants(workspace: &Workspace) {
    for name in ["planted.txt", "answer.txt"] {
        let path = workspace.home().join(name);
        if path.exists() {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn samples_in_a_recording_are_masked() {
    let workspace = Workspace::new();
    let samples = samples("tap");
    let texts: Vec<&str> = samples.iter().map(|sample| sample.text.as_str()).collect();
    let answers = workspace.home().join("answers.jsonl");
    let mut file = fs::File::create(&answers).unwrap();
    for (id, texts) in texts.chunks(AT_ONCE).enumerate() {
        let content: Vec<Value> = texts
            .iter()
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        let result = json!({"content": content, "structuredContent": {"lines": texts, "env": format!("value: {KNOWN}")}});
        writeln!(
            file,
            "{}",
            json!({"jsonrpc": "2.0", "id": id, "result": result})
        )
        .unwrap();
    }
    let script = format!("cat '{}'; cat", answers.display());
    let words = [
        "mcp",
        "tap",
        "--file",
        "tap.jsonl",
        "--trace",
        "--log",
        "trace",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let mut command = workspace.command(words);
    command.env("DB_PASSPHRASE", KNOWN).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for text in texts.iter().copied().chain([KNOWN, CONTROL]) {
        writeln!(
            input,
            "{}",
            json!({"jsonrpc": "2.0", "method": "x", "params": {"text": text}})
        )
        .unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(
        found(&samples, &output.stdout).len() == samples.len(),
        "what passes is not changed"
    );
    assert_masked(
        &samples,
        "the recording",
        CONTROL,
        workspace.read("tap.jsonl").as_bytes(),
    );
    // It shows the length of a message, and not its text.
    assert_masked(&samples, "standard error", "> sh - x", &output.stderr);
}

#[test]
fn samples_in_events_of_hooks_are_masked() {
    let workspace = Workspace::board();
    let samples = samples("hook");
    for samples in samples.chunks(AT_ONCE) {
        for member in ["command", "url"] {
            // An event is cut: each member has few samples.
            for samples in samples.chunks(20) {
                store_event(&workspace, samples, member);
            }
        }
    }
    let stored = workspace.call("get_hook_events", &json!({"limit": 500}));
    let stored = stored.to_string();
    assert_masked(&samples, "the answer", CONTROL, stored.as_bytes());
    let mut bytes = Vec::new();
    bytes_below(&workspace.join(".projects"), &mut bytes);
    assert_free(&samples, "the readable files", &bytes);
    bytes.clear();
    bytes_below(workspace.database().parent().unwrap(), &mut bytes);
    assert_masked(&samples, "the board", CONTROL, &bytes);
}

#[test]
fn samples_in_the_output_of_a_plan_are_masked() {
    let workspace = Workspace::git();
    let samples = samples("plan");
    let run = run_leaky_plan(&workspace, &samples);
    assert_free(&samples, "standard error", run.err.as_bytes());
    assert_masked(&samples, "standard output", "leaky", run.out.as_bytes());
    remove_plants(&workspace);
    let mut stored = Vec::new();
    bytes_below(&workspace.path(), &mut stored);
    bytes_below(&workspace.home(), &mut stored);
    assert_masked(&samples, "the stored plan", CONTROL, &stored);
    for (words, control) in [
        (&["list"][..], "leaky"),
        (&["show", "leaky"][..], "leaky"),
        (&["show", "leaky", "prints"][..], "prints"),
        (&["jobs", "leaky"][..], "prints"),
        (&["attempts", "leaky", "prints"][..], "failed"),
        (&["logs", "leaky", "prints"][..], CONTROL),
    ] {
        for flags in [&[][..], &["--json"]] {
            let shown = plan(&workspace, &[words, flags].concat()).out;
            assert_masked(&samples, words[0], control, shown.as_bytes());
        }
    }
    let mut up = Running::start(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
    let ready = up.json();
    let address = ready["http"].as_str().unwrap().replace("http://", "");
    for (path, control) in [
        ("", "leaky"),
        ("/leaky", "leaky"),
        ("/leaky/summary", "leaky"),
        ("/leaky/jobs", "prints"),
        ("/leaky/jobs/prints", "prints"),
        ("/leaky/jobs/prints/attempts", "failed"),
        ("/leaky/jobs/prints/failure", CONTROL),
        ("/leaky/jobs/prints/logs", CONTROL),
        ("/leaky/jobs/prints/log", CONTROL),
    ] {
        let answer = get(&address, &format!("/api/plans{path}"));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_masked(&samples, path, control, answer.body.as_bytes());
    }
    up.signal(Signal::TERM);
    assert!(up.wait().success());
}

#[test]
fn error_of_a_command_is_masked() {
    let workspace = Workspace::board();
    let samples = samples("error");
    for sample in samples
        .iter()
        // An option, and the tool of a server, have other errors.
        .filter(|sample| !sample.text.starts_with('-') && !sample.text.contains("__"))
        .step_by(23)
    {
        let said = workspace.run(["tool", "call", &sample.text, "--args", "{}"]);
        assert_masked(
            std::slice::from_ref(sample),
            "standard error",
            MASK,
            said.err.as_bytes(),
        );
    }
}
