//! Secrets that are planted at every entry of the program and searched for in everything that leaves it: recordings,
//! stored events, logs, the audit, readable files of plans, exports, errors, and replies of the dashboard.

use std::{fs, io::Write as _, path::Path, process::Stdio};

use orchestra_secret::sample::{Sample, samples};
use serde_json::{Value, json};

use crate::{
    plans::{git, ok},
    support::{Running, Workspace, get, post_to, said, until},
};

/// Secret of a variable of the environment. No form of the table matches it.
const KNOWN: &str = "correct horse battery";

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

fn assert_masked(samples: &[Sample], place: &str, bytes: &[u8]) {
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

/// Text of a shell that prints every sample, and the known value.
fn printer(workspace: &Workspace, samples: &[Sample]) -> String {
    let texts: Vec<&str> = samples.iter().map(|sample| sample.text.as_str()).collect();
    let file = workspace.home().join("planted.txt");
    fs::write(&file, format!("{}\nvalue: {KNOWN}\n", texts.join("\n"))).unwrap();
    format!("cat '{}'", file.display())
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
    for text in texts.iter().copied().chain([KNOWN]) {
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
        workspace.read("tap.jsonl").as_bytes(),
    );
    assert_masked(&samples, "standard error", &output.stderr);
}

#[test]
fn samples_in_events_of_hooks_are_masked() {
    let workspace = Workspace::board();
    let samples = samples("hook");
    for samples in samples.chunks(AT_ONCE) {
        for member in ["command", "url"] {
            // An event is cut: each member has few samples.
            for samples in samples.chunks(20) {
                let texts: Vec<&str> = samples.iter().map(|sample| sample.text.as_str()).collect();
                let event = json!({"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash",
                    "tool_input": {member: texts.join("\n")}, "message": texts[0], "title": texts[texts.len() - 1]});
                let said = workspace.run_with_input(["--log", "trace", "hook"], &event.to_string());
                assert_eq!(said.code, Some(0), "{said:?}");
                assert_masked(samples, "standard error", said.err.as_bytes());
            }
        }
    }
    let stored = workspace.call("get_hook_events", &json!({"limit": 500}));
    assert_masked(&samples, "the answer", stored.to_string().as_bytes());
    let mut bytes = Vec::new();
    bytes_below(&workspace.join(".projects"), &mut bytes);
    bytes_below(workspace.database().parent().unwrap(), &mut bytes);
    assert_masked(&samples, "the board and its files", &bytes);
}

#[test]
fn samples_in_the_output_of_a_plan_are_masked() {
    let workspace = Workspace::git();
    git(
        &workspace,
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
    let samples = samples("plan");
    let print = printer(&workspace, &samples);
    let plan = format!(
        "name: leaky\njobs:\n- producerId: prints\n  task: Print\n  env: {{DB_PASSPHRASE: $DB_PASSPHRASE}}\n  autoHeal: false\n  work: |\n    {print}; {print} >&2; echo \"$DB_PASSPHRASE\"; exit 3\n"
    );
    workspace.write("leaky.yml", &plan);
    let mut command = workspace.command(["--log", "trace", "plan", "run", "leaky.yml"]);
    command.env("DB_PASSPHRASE", KNOWN);
    let run = said(command, "");
    assert_eq!(run.code, Some(6), "{run:?}");
    assert_masked(&samples, "standard error", run.err.as_bytes());
    assert_masked(&samples, "standard output", run.out.as_bytes());
    let mut stored = Vec::new();
    bytes_below(&workspace.path(), &mut stored);
    fs::remove_file(workspace.home().join("planted.txt")).unwrap();
    bytes_below(&workspace.home(), &mut stored);
    assert_masked(&samples, "the workspace and the home directory", &stored);
    let listed = ok(&workspace, &["list"]);
    assert_masked(&samples, "the list of plans", listed.to_string().as_bytes());
}

#[test]
fn samples_of_a_server_are_masked_in_logs_the_audit_and_the_dashboard() {
    let workspace = Workspace::new();
    let samples = samples("up");
    let print = printer(&workspace, &samples);
    let server = format!(
        r#"{print} >&2
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *initialize\"*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}}}';;
    *tools/list*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"tools":[{{"name":"leak","inputSchema":{{"type":"object"}}}}]}}}}';;
    *tools/call*) echo '{{"jsonrpc":"2.0","id":'$id',"error":{{"code":-32000,"message":"bad DB_PASSWORD='"$DB_PASSPHRASE"'"}}}}';;
  esac
done
"#
    );
    workspace.write("server.sh", &server);
    workspace.write(
        "orchestra.toml",
        "[mcp.servers.leaky]\ncommand = \"sh\"\nargs = [\"server.sh\"]\nenv = { DB_PASSPHRASE = \"${DB_PASSPHRASE}\" }\n",
    );
    let approve = said(workspace.command(["mcp", "approve", "leaky", "--yes"]), "");
    let log = workspace.home().join("up.log");
    let mut command = workspace.command([
        "--log",
        "trace",
        "up",
        "--http",
        "127.0.0.1:0",
        "--json",
        "--trace-file",
        "traffic.jsonl",
    ]);
    command.env("DB_PASSPHRASE", KNOWN);
    let mut up = Running::with_stderr(command, fs::File::create(&log).unwrap());
    let ready = up.json();
    let address = ready["http"]
        .as_str()
        .unwrap()
        .strip_prefix("http://")
        .unwrap()
        .to_owned();
    let state = until(|| {
        let servers = get(&address, "/api/mcp/servers").json();
        let status = servers["servers"][0]["status"].as_str()?.to_owned();
        (status != "starting").then_some(status)
    });
    assert_eq!(state, "ready", "{approve:?}");
    for sample in samples.iter().step_by(7) {
        let call = json!({"name": "leaky__leak", "arguments": {"text": sample.text}});
        post_to(&address, "/api/mcp/tools/call", &[], &call.to_string());
        post_to(
            &address,
            "/api/mcp/tools/call",
            &[],
            &json!({"name": sample.text, "arguments": {}}).to_string(),
        );
    }
    let mut replies = Vec::new();
    for path in [
        "/api/mcp/servers",
        "/api/servers/leaky/log",
        "/api/servers/leaky/definition",
        "/api/board",
        "/api/plans",
    ] {
        replies.extend(get(&address, path).body.into_bytes());
    }
    assert_masked(&samples, "the dashboard", &replies);
    up.signal(rustix::process::Signal::TERM);
    assert!(up.wait().success());
    assert_masked(&samples, "the log", &fs::read(&log).unwrap());
    let mut stored = Vec::new();
    bytes_below(&workspace.path(), &mut stored);
    fs::remove_file(workspace.home().join("planted.txt")).unwrap();
    bytes_below(&workspace.home(), &mut stored);
    assert_masked(&samples, "the workspace and the home directory", &stored);
}

#[test]
fn error_of_a_command_is_masked() {
    let workspace = Workspace::board();
    let samples = samples("error");
    for sample in samples
        .iter()
        .filter(|sample| !sample.text.starts_with('-'))
        .step_by(23)
    {
        let said = workspace.run(["tool", "call", &sample.text, "--args", "{}"]);
        assert_masked(
            std::slice::from_ref(sample),
            "standard error",
            said.err.as_bytes(),
        );
    }
}
