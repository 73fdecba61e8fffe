//! Messages of configured servers, recorded: `orchestra mcp test --trace`, and `tap` and `replay` by
//! the name of a server.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::support::{Said, Workspace, program};

/// A workspace whose file names a board elsewhere, one that only shows its environment, and one on
/// the network.
fn workspace() -> Workspace {
    let workspace = Workspace::board();
    let other = workspace.home().join("other");
    std::fs::create_dir_all(other.join(".projects")).unwrap();
    let servers = json!({"mcpServers": {
        "board": {"command": program(), "args": ["stdio", "--workspace", other],
            "env": {"MY_TOKEN": "planted-env"}},
        "shows": {"command": "sh", "args": ["-c", "echo \"$MY_TOKEN $PWD $OUTSIDE\"; echo trouble >&2; exit 3"],
            "env": {"MY_TOKEN": "planted-env"}, "cwd": other},
        "far": {"url": "http://127.0.0.1:9/mcp"},
    }});
    workspace.write("servers.json", &servers.to_string());
    workspace.write(
        ".mcp.json",
        r#"{"mcpServers": {"theirs": {"command": "touch", "args": ["started"]}}}"#,
    );
    workspace
}

fn mcp(workspace: &Workspace, words: &[&str]) -> Said {
    let all = ["mcp", "--mcp-config", "servers.json"].into_iter();
    workspace.run(all.chain(words.iter().copied()))
}

#[test]
fn a_test_shows_each_message_and_records_it_without_secrets() {
    let workspace = workspace();
    let said = mcp(&workspace, &["test", "board", "--trace", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report[0]["ok"], true, "stdout has the data alone");
    for shown in [
        " > board ",
        " < board ",
        " tools/list ",
        " server/discover ",
    ] {
        assert!(said.err.contains(shown), "{shown}: {}", said.err);
    }
    let quiet = mcp(&workspace, &["test", "board"]);
    assert!(!quiet.err.contains("tools/list"), "{quiet:?}");

    let call = [
        "call",
        "board",
        "create_project",
        "--arg",
        "name=planted-env and planted-mark",
    ];
    let record = ["--trace-file", "trace.jsonl", "--mask", "nothing"];
    let said = mcp(&workspace, &[&call[..], &record].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    let recorded = workspace.read("trace.jsonl");
    let lines: Vec<Value> = recorded
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let call = lines
        .iter()
        .find(|line| line["message"]["method"] == "tools/call")
        .expect("the call was recorded");
    assert_eq!(call["server"], "board");
    assert!(
        recorded.contains("planted-mark"),
        "what is no secret is there"
    );
    assert!(!recorded.contains("planted-env"), "{recorded}");
    let masked = [
        "call",
        "board",
        "create_project",
        "--arg",
        "name=planted-mark",
    ];
    let record = ["--trace-file", "masked.jsonl", "--mask", "name"];
    mcp(&workspace, &[&masked[..], &record].concat());
    let recorded = workspace.read("masked.jsonl");
    let call = recorded
        .lines()
        .find(|line| line.contains("\"direction\":\"sent\"") && line.contains("tools/call"));
    let call: Value = serde_json::from_str(call.unwrap()).unwrap();
    assert_eq!(call["message"]["params"]["arguments"]["name"], "***");
    assert_eq!(call["masked"], true);
}

/// Every file below a directory.
fn files(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() && !path.is_symlink() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

/// Secrets of the environment, of headers and of calls, while everything is recorded that can be.
#[test]
fn planted_secrets_are_in_no_file_and_in_no_log() {
    let workspace = Workspace::board();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It repeats what it is told in secret, and refuses.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = vec![0; 16 * 1024];
            let read = std::io::Read::read(&mut stream, &mut head).unwrap_or_default();
            let told = String::from_utf8_lossy(&head[..read]).into_owned();
            let length = told.len();
            let answer = format!(
                "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{told}"
            );
            // Whoever does not wait for it need not have it.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let url = format!("http://{address}/mcp");
    let elsewhere = workspace.home().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let servers = json!({"mcpServers": {
        "board": {"command": program(), "args": ["stdio"], "cwd": elsewhere,
            "env": {"MY_TOKEN": "${PLANTED_TOKEN}"}},
        "far": {"url": url, "headers": {"X-Api-Key": "${PLANTED_KEY}"},
            "auth": {"type": "bearer", "token": "${PLANTED_TOKEN}"}},
    }});
    workspace.write("servers.json", &servers.to_string());
    let run = |words: &[&str]| {
        let all = ["mcp", "--mcp-config", "servers.json", "--log", "trace"].into_iter();
        let mut command = workspace.command(all.chain(words.iter().copied()));
        command.env("PLANTED_TOKEN", "planted-token");
        command.env("PLANTED_KEY", "planted-key");
        crate::support::said(command, "")
    };
    let call = [
        "call",
        "board",
        "create_project",
        "--arg",
        "name=planted-token",
        "--arg",
        "description=my password is planted-pin",
    ];
    let record = [
        "--trace",
        "--trace-file",
        "calls.jsonl",
        "--mask",
        "description",
    ];
    let called = run(&[&call[..], &record].concat());
    assert_eq!(called.code, Some(0), "{called:?}");
    let tested = run(&["test", "--trace", "--trace-file", "tests.jsonl"]);
    assert_eq!(tested.code, Some(5), "one is well, one refuses: {tested:?}");
    assert!(tested.out.contains("403"), "{tested:?}");
    let listed = run(&["list", "--json", "--check"]);
    let exported = run(&["export"]);
    for said in [&tested, &listed, &exported] {
        assert!(!said.out.contains("planted-"), "{said:?}");
    }
    for said in [&called, &tested, &listed, &exported] {
        assert!(!said.err.contains("planted-"), "{said:?}");
    }
    let board = workspace.home();
    let mut seen = 0;
    for path in files(&workspace.path()).into_iter().chain(files(&board)) {
        let bytes = std::fs::read(&path).unwrap();
        let holds = bytes.windows(8).any(|part| part == b"planted-");
        // The board of the server itself holds the project that was asked for, and the list of boards its ids.
        let of_board = [".projects", "board", "plans.json"];
        let is_board = path
            .components()
            .any(|part| of_board.iter().any(|name| part.as_os_str() == *name));
        assert!(!holds || is_board, "{}", path.display());
        seen += 1;
    }
    assert!(seen > 3, "{seen}");
}

/// Reads a request; answers its head, and its body as JSON.
fn request(stream: &TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
        let line = head[start..].trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).unwrap_or_default()))
}

#[test]
fn header_that_a_server_repeats_in_a_result_is_in_no_recording() {
    let workspace = Workspace::board();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let Some((head, body)) = request(&stream) else {
                continue;
            };
            let id = &body["id"];
            let answer = match body["method"].as_str() {
                Some("initialize") => json!({"jsonrpc": "2.0", "id": id, "result": {
                    "protocolVersion": "2025-11-25", "capabilities": {}, "instructions": head,
                    "serverInfo": {"name": "repeats", "version": "1"},
                }}),
                _ if id.is_null() => Value::Null,
                _ => {
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
                }
            };
            let (status, answer) = match answer.is_null() {
                true => ("202 Accepted", String::new()),
                false => ("200 OK", answer.to_string()),
            };
            let length = answer.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{answer}"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let servers = json!({"mcpServers": {"far": {
        "type": "http", "flavour": "streamable", "protocol": "2025-11-25",
        "url": format!("http://{address}/mcp"), "headers": {"X-Team": "${PLANTED_TEAM}"},
    }}});
    workspace.write("servers.json", &servers.to_string());
    let words = ["mcp", "--mcp-config", "servers.json", "test", "far"];
    let record = ["--trace-file", "trace.jsonl"];
    let mut command = workspace.command(words.into_iter().chain(record));
    command.env("PLANTED_TEAM", "planted-team");
    let said = crate::support::said(command, "");
    let recorded = workspace.read("trace.jsonl");
    assert!(recorded.contains("x-team: ***"), "{said:?} {recorded}");
    assert!(!recorded.contains("planted-team"), "{recorded}");
}

#[test]
fn a_configured_server_is_tapped_and_a_recording_is_said_to_it_again() {
    let workspace = workspace();
    let words = [
        "mcp",
        "--mcp-config",
        "servers.json",
        "tap",
        "board",
        "--file",
        "tap.jsonl",
    ];
    let mut child = workspace
        .command(words)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let list = json!({"name": "list_projects", "arguments": {}, "token": "planted-env"});
    for (id, method, params) in [
        (1, "initialize", hello),
        (2, "tools/list", json!({})),
        (3, "tools/call", list),
    ] {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{message}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&answer["id"], answer["error"].is_null()),
            (&json!(id), true),
            "{line}"
        );
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    let recorded = workspace.read("tap.jsonl");
    assert_eq!(recorded.lines().count(), 6, "{recorded}");
    assert!(recorded.contains("\"server\":\"board\"") && !recorded.contains("planted-env"));

    let said = mcp(&workspace, &["replay", "tap.jsonl", "--server", "board"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.out
            .starts_with("2 requests: 2 answered alike, 0 differ"),
        "{said:?}"
    );
    let said = mcp(&workspace, &["replay", "tap.jsonl", "--server", "shows"]);
    assert_ne!(said.code, Some(0), "{said:?}");
}

#[test]
fn a_tapped_server_is_started_as_it_is_configured() {
    let workspace = workspace();
    let mut command = workspace.command([
        "mcp",
        "--mcp-config",
        "servers.json",
        "tap",
        "shows",
        "--file",
        "t.jsonl",
    ]);
    command.env("OUTSIDE", "leaked");
    let said = crate::support::said(command, "");
    assert_eq!(said.code, Some(1), "{said:?}");
    let other = workspace.home().join("other").canonicalize().unwrap();
    assert_eq!(said.out, format!("planted-env {} \n", other.display()));
    assert!(
        said.err.contains("trouble") && said.err.contains("exit code 3"),
        "{said:?}"
    );
    assert!(!workspace.read("t.jsonl").contains("planted-env"));

    // What nobody approved is not started, and a server on the network has no bytes to be passed on.
    let said = workspace.run(["mcp", "tap", "theirs"]);
    assert_eq!(said.code, Some(5), "{said:?}");
    assert!(!workspace.join("started").exists());
    let said = mcp(&workspace, &["tap", "far"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("--trace-file"), "{said:?}");
    assert_eq!(mcp(&workspace, &["tap", "nobody"]).code, Some(2));
    assert_eq!(
        mcp(&workspace, &["replay", "t.jsonl", "--server", "nobody"]).code,
        Some(2)
    );
}

#[test]
fn a_signal_ends_a_tapped_server_as_well() {
    let workspace = Workspace::new();
    let script = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let servers = json!({"mcpServers": {"waits": {"command": "sh", "args": ["-c", script]}}});
    workspace.write("servers.json", &servers.to_string());
    let words = [
        "mcp",
        "--mcp-config",
        "servers.json",
        "tap",
        "waits",
        "--file",
        "t.jsonl",
    ];
    let running = crate::support::Running::start(workspace.command(words));
    assert_eq!(running.line().unwrap(), "ready");
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.line().unwrap(), "asked");
    assert!(running.end().success());
}
