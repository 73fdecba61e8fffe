//! `orchestra up`: HTTP on this machine, and only for it.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Running, Workspace, get, http, post, post_to, said, until_ready};

/// A running `up` and where it listens.
fn up(workspace: &Workspace) -> (Running, Value, String) {
    let process = Running::start(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
    let ready = process.json();
    assert_eq!(ready["event"], "ready", "{ready}");
    let address = ready["http"]
        .as_str()
        .unwrap()
        .strip_prefix("http://")
        .unwrap()
        .to_owned();
    (process, ready, address)
}

fn call(id: u64, name: &str, arguments: &Value) -> String {
    let params = json!({"name": name, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

#[test]
fn program_that_creates_a_board_reports_it_once() {
    let workspace = Workspace::git();
    let report = format!("creating a board in {}", workspace.path().display());
    let input = call(1, "create_project", &json!({"name": "Shop"}));
    for is_reported in [true, false] {
        let stdio = said(workspace.command(["stdio"]), &format!("{input}\n"));
        assert!(stdio.out.contains("shop"), "{stdio:?}");
        assert_eq!(stdio.err.contains(&report), is_reported, "{stdio:?}");
    }
}

#[test]
fn an_address_may_be_localhost_or_a_port_alone() {
    let workspace = Workspace::git();
    for address in ["localhost:0", "0"] {
        let process = Running::start(workspace.command(["up", "--http", address, "--json"]));
        let ready = process.json();
        let http = ready["http"].as_str().unwrap();
        assert!(http.starts_with("http://127.0.0.1:"), "{ready}");
        process.signal(Signal::TERM);
        assert!(process.end().success());
    }
    for address in [
        "here",
        "here:80",
        "localhost",
        "localhost:x",
        "+80",
        "70000",
        ":80",
        "",
    ] {
        let said = workspace.run(["up", "--http", address]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains("localhost:7420"), "{said:?}");
    }
    let said = workspace.run(["up", "--http", "0.0.0.0:80"]);
    assert!(said.err.contains("other machines"), "{said:?}");
    workspace.write("orchestra.toml", "http = \"localhost:7421\"\n");
    let shown = workspace.run(["config", "show"]).out;
    assert!(shown.contains("http = \"127.0.0.1:7421\""), "{shown}");
}

#[test]
fn it_says_where_it_is_and_serves_mcp() {
    let workspace = Workspace::git();
    let (process, ready, address) = up(&workspace);
    assert_eq!(ready["mcp"], format!("http://{address}/mcp"));
    assert_eq!(ready["already_running"], false);
    let endpoint = workspace.run_directory().join("endpoint.json");
    assert_eq!(
        fs::metadata(&endpoint).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let told: Value = serde_json::from_str(&fs::read_to_string(&endpoint).unwrap()).unwrap();
    assert_eq!(told["mcp"], ready["mcp"]);
    let plans = workspace.plans();
    assert_eq!(ready["plans"], plans.to_str().unwrap());
    let health = get(&address, "/health").json();
    assert_eq!(
        health["parts"],
        json!([{"name": "plans", "status": "available"}]),
        "{health}"
    );

    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }});
    let answer = post(&address, &[], &hello.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        answer
            .head
            .to_ascii_lowercase()
            .contains("content-type: application/json")
    );
    assert_eq!(answer.json()["result"]["serverInfo"]["name"], "orchestra");
    assert_eq!(answer.json()["result"]["serverInfo"]["version"], "1.0.0");

    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let answer = post(&address, &[], &notification.to_string());
    assert_eq!((answer.status, answer.body.as_str()), (202, ""));

    let answer = post(
        &address,
        &[],
        &call(2, "create_project", &json!({"name": "Over HTTP"})),
    );
    assert_eq!(answer.json()["id"], 2);
    assert_eq!(
        answer.json()["result"]["structuredContent"]["slug"],
        "over-http",
        "{answer:?}"
    );
    let answer = post(&address, &[], "{ no json");
    assert_eq!(answer.json()["error"]["code"], -32700);
    let needs = json!({"jsonrpc": "2.0", "id": 3, "method": "logging/setLevel", "params": {"level": "info"}});
    let error = &post(&address, &[], &needs.to_string()).json()["error"];
    let text = "method not found: logging/setLevel: it needs a session; begin one with initialize";
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!(-32601), &json!(text))
    );

    process.signal(Signal::TERM);
    assert!(process.end().success());
    assert!(!endpoint.exists());
    assert!(
        workspace
            .read(".projects/over-http/project-status.toon")
            .contains("Over HTTP")
    );
}

/// Document 001: the tools over REST, and the health of the server.
#[test]
fn rest_and_health_are_served_beside_mcp() {
    let workspace = Workspace::git();
    let (_process, _, address) = up(&workspace);
    let health = get(&address, "/health");
    assert_eq!(health.status, 200, "{health:?}");
    let health = health.json();
    assert_eq!(
        (&health["status"], &health["plugins"]),
        (&json!("ok"), &json!(1))
    );
    assert_eq!(health["version"], env!("CARGO_PKG_VERSION"));
    let ready = get(&address, "/ready");
    assert_eq!(
        (ready.status, &ready.json()["status"]),
        (200, &json!("ready"))
    );

    let tools = get(&address, "/api/mcp/tools").json();
    let listed = workspace.run(["tool", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(tools["count"], listed["total"]);
    let names = |tools: &Value| -> Vec<Value> {
        let tools = tools.as_array().unwrap().iter();
        tools.map(|tool| tool["name"].clone()).collect()
    };
    assert_eq!(names(&tools["tools"]), names(&listed["items"]));

    let create = json!({"name": "create_project", "arguments": {"name": "Over REST"}});
    let answer = post_to(&address, "/api/mcp/tools/call", &[], &create.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["structuredContent"]["slug"], "over-rest");
    let read = json!({"uri": "toon://project/over-rest/status"}).to_string();
    let answer = post_to(&address, "/api/mcp/resources/read", &[], &read);
    assert!(answer.body.contains("Over REST"), "{answer:?}");
    let plan = json!({"name": "plan_sprint", "arguments": {"project": "over-rest"}}).to_string();
    let answer = post_to(&address, "/api/mcp/prompts/get", &[], &plan);
    assert_eq!(answer.json()["messages"][0]["role"], "user", "{answer:?}");
    let unknown = post_to(
        &address,
        "/api/mcp/tools/call",
        &[],
        "{\"name\":\"nobody\"}",
    );
    assert_eq!(
        (unknown.status, unknown.json()),
        (404, json!({"error": "unknown tool: nobody"}))
    );
    let document = get(&address, "/api/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
}

/// W12: neither another host's name nor a page of another origin gets through.
/// An entry of an old `mcp.json`, `{"url": "http://localhost:39219/mcp"}`, goes on working: its
/// client sends plain JSON, in its own revision, and looks at `/health`.
#[test]
fn an_old_entry_with_a_fixed_port_is_served() {
    const PORT: u16 = 39_219;
    let workspace = Workspace::git();
    let up = workspace.command(["up", "--http", "127.0.0.1:39219", "--json"]);
    let process = Running::start(up);
    let ready = process.json();
    let http = ready["http"].as_str().unwrap();
    let port: u16 = http.rsplit(':').next().unwrap().parse().unwrap();
    // The next free one is taken where another program has this one.
    assert!((PORT..PORT + 100).contains(&port), "{http}");
    let address = format!("localhost:{port}");
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2024-11-05", "capabilities": {},
            "clientInfo": {"name": "vscode", "version": "1.85.0"},
        },
    });
    let answer = post(&address, &[], &hello.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["result"]["protocolVersion"], "2024-11-05");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let listed = post(&address, &[], &list).json();
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    assert_eq!(get(&address, "/health").status, 200);
    process.signal(Signal::TERM);
    assert!(process.end().success());
}

#[test]
fn only_this_machine_is_answered() {
    let workspace = Workspace::git();
    let (_process, _, address) = up(&workspace);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for headers in [
        &[("Host", "evil.example")][..],
        &[("Host", "evil.example:7420")],
        &[("Origin", "http://evil.example")],
        &[("Origin", "null")],
        &[("Origin", "http://localhost:3000")],
    ] {
        let answer = post(&address, headers, &ping);
        assert_eq!(answer.status, 403, "{headers:?}: {answer:?}");
        let flag = format!("--allow-{}", headers[0].0.to_ascii_lowercase());
        assert!(answer.body.contains(&flag), "{answer:?}");
        assert_eq!(answer.json()["error"]["code"], -32600);
    }
    let headers = [("Host", "localhost")];
    assert_eq!(post(&address, &headers, &ping).status, 200);
    assert_eq!(
        post(&address, &[("Content-Type", "text/plain")], &ping).status,
        415
    );
    let get = format!("GET /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let answer = http(&address, get.as_bytes());
    assert_eq!(answer.status, 400, "it names no session: {answer:?}");
    let answer = http(&address, get.replace("GET", "PUT").as_bytes());
    assert_eq!(answer.status, 405);
    assert!(
        answer
            .head
            .to_ascii_lowercase()
            .contains("allow: get, post, delete"),
        "{}",
        answer.head
    );
    let other = get.replace("/mcp", "/nothing");
    assert_eq!(http(&address, other.as_bytes()).status, 404);
}

#[test]
fn a_body_that_is_too_large_is_refused_and_the_next_one_served() {
    let workspace = Workspace::git();
    let (_process, _, address) = up(&workspace);
    let text = "x".repeat(10 * 1024 * 1024);
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"text": text}});
    let answer = post(&address, &[], &large.to_string());
    assert_eq!(answer.status, 413, "{}", answer.head);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    assert_eq!(post(&address, &[], &ping).status, 200);
}

#[test]
fn a_second_one_tells_of_the_first() {
    let workspace = Workspace::git();
    let (first, ready, _) = up(&workspace);
    let second = workspace.run(["up", "--http", "127.0.0.1:0", "--json"]);
    assert_eq!(second.code, Some(0), "{second:?}");
    let told: Value = serde_json::from_str(&second.out).unwrap();
    assert_eq!(
        (&told["event"], &told["already_running"]),
        (&json!("ready"), &json!(true))
    );
    assert_eq!(
        (&told["http"], &told["pid"]),
        (&ready["http"], &ready["pid"])
    );
    let elsewhere = workspace.run(["up", "--http", "127.0.0.1:9"]);
    assert_eq!(elsewhere.code, Some(0), "{elsewhere:?}");
    assert!(
        elsewhere.err.contains("--http 127.0.0.1:9 was not used"),
        "{elsewhere:?}"
    );
    let flags = ["--tools", "lean", "--format", "toon", "--allow-origin"];
    let flags = ["up"].into_iter().chain(flags).chain(["http://a.example"]);
    let mut command = workspace.command(flags);
    command.env("ORCHESTRA_TOKEN", "0123456789abcdef0123456789abcdef");
    let told = said(command, "");
    for name in ["--tools", "--format", "--allow-origin", "ORCHESTRA_TOKEN"] {
        let expected = format!("so {name} was not used; stop the running one first");
        assert!(told.err.contains(&expected), "{told:?}");
    }
    assert_eq!(told.err.lines().count(), 4, "{told:?}");
    let people = workspace.run(["up"]);
    assert_eq!(people.err, "");
    assert!(
        people.out.contains("already runs") && people.out.contains(ready["mcp"].as_str().unwrap())
    );

    first.signal(Signal::INT);
    assert!(first.end().success());
    let (third, _, _) = up(&workspace);
    third.signal(Signal::TERM);
    assert!(third.end().success());
}

/// What a process that was killed left behind does not keep the next one out.
#[test]
fn after_a_kill_the_next_one_starts() {
    let workspace = Workspace::git();
    let (killed, _, _) = up(&workspace);
    killed.signal(Signal::KILL);
    assert!(!killed.end().success());
    assert!(workspace.run_directory().join("endpoint.json").exists());
    let (_next, ready, _) = up(&workspace);
    assert_eq!(ready["already_running"], false);
}

/// What is served when the board is taken away under it is nobody's any more.
#[test]
fn one_whose_board_is_removed_ends_and_says_so() {
    let workspace = Workspace::git().with_board_in_checkout();
    let serving = workspace.command(["up", "--http", "127.0.0.1:0", "--json"]);
    let ended = std::thread::spawn(move || said(serving, ""));
    let endpoint = workspace.run_directory().join("endpoint.json");
    let start = std::time::Instant::now();
    while !endpoint.exists() {
        assert!(start.elapsed() < PATIENCE, "it does not start");
        std::thread::yield_now();
    }
    // The board may write a file meanwhile; renamed, all of it is gone at once.
    fs::rename(workspace.join(".projects"), workspace.join("removed")).unwrap();
    let (next, ready, _) = up(&workspace);
    assert_eq!(ready["already_running"], false);
    let said = ended.join().unwrap();
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.err.contains(".projects was removed or replaced"),
        "{said:?}"
    );
    // What the next one says of itself is still there.
    let told: Value = serde_json::from_str(&fs::read_to_string(&endpoint).unwrap()).unwrap();
    assert_eq!(told["mcp"], ready["mcp"]);
    next.signal(Signal::TERM);
    assert!(next.end().success());
}

#[test]
fn a_taken_port_is_left_to_its_owner() {
    let (here, there) = (Workspace::git(), Workspace::git());
    let (_first, _, address) = up(&here);
    let (ready, log) = until_ready(there.command(["up", "--http", &address, "--json"]));
    assert_ne!(ready["http"], format!("http://{address}"));
    assert_eq!(ready["already_running"], false);
    let taken = format!("TCP port for HTTP: {address} is in use; listening on ");
    assert!(log.contains(&taken), "{log}");
}

/// The status of a request of a page at `http://HOST` for a tool list, sent to `address`.
fn status_of_page(address: &str, host: &str) -> u16 {
    let request = format!(
        "GET /api/mcp/tools HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n\
         Sec-Fetch-Site: same-origin\r\nConnection: close\r\n\r\n"
    );
    http(address, request.as_bytes()).status
}

#[test]
fn both_addresses_of_localhost_are_held_at_one_port() {
    for (bound, other) in [("127.0.0.1", "[::1]"), ("[::1]", "127.0.0.1")] {
        let workspace = Workspace::git();
        let address = format!("{bound}:0");
        let command = workspace.command(["up", "--http", &address, "--json"]);
        let process = Running::start(command);
        let ready = process.json();
        let (_, port) = ready["http"].as_str().unwrap().rsplit_once(':').unwrap();
        assert_eq!(ready["http"], format!("http://{bound}:{port}"));
        assert_eq!(ready.get("foreign_localhost"), None, "{ready}");
        let localhost = format!("localhost:{port}");
        for address in [bound, other].map(|host| format!("{host}:{port}")) {
            assert_eq!(status_of_page(&address, &localhost), 200, "{address}");
            let taken = TcpListener::bind(&address).map_err(|error| error.kind());
            assert_eq!(taken.unwrap_err(), std::io::ErrorKind::AddrInUse);
        }
    }
}

/// A page of that program at `localhost` reaches 127.0.0.1 when the program no longer listens.
#[test]
fn localhost_is_refused_where_another_program_listens_on_its_other_address() {
    let workspace = Workspace::git();
    let (other, port) = loop {
        let other = TcpListener::bind("[::1]:0").unwrap();
        let port = other.local_addr().unwrap().port();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            break (other, port);
        }
    };
    let (address, localhost) = (format!("127.0.0.1:{port}"), format!("localhost:{port}"));
    let warnings = workspace.home().join("warnings");
    let command = workspace.command(["up", "--http", &address, "--json"]);
    let process = Running::with_stderr(command, fs::File::create(&warnings).unwrap());
    let ready = process.json();
    assert_eq!(ready["http"], format!("http://{address}"));
    assert_eq!(ready["foreign_localhost"], format!("[::1]:{port}"));
    drop(other);
    assert_eq!(status_of_page(&address, &localhost), 403);
    assert_eq!(status_of_page(&address, &address), 200);
    // What a person is shown.
    let again = workspace.run(["up", "--http", &address]);
    assert!(again.out.contains("localhost        refused"), "{again:?}");
    process.signal(Signal::TERM);
    assert!(process.end().success());
    let warnings = fs::read_to_string(warnings).unwrap();
    let warned = warnings.matches("requests for `localhost` are refused");
    assert_eq!(warned.count(), 1, "{warnings}");
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let workspace = Workspace::git();
    let said = workspace.run(["up", "--http", "0.0.0.0:0"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("loopback"), "{said:?}");
    assert!(!workspace.join(".projects").exists());
}

/// A request that has begun is answered, though the signal comes in the middle of it.
#[test]
fn what_has_begun_is_finished_after_a_signal() {
    let workspace = Workspace::git();
    let (process, _, address) = up(&workspace);
    let body = call(1, "create_project", &json!({"name": "In flight"}));
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    // The server asks for the body once it has begun to read it.
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).unwrap();
    assert!(asked.starts_with(b"HTTP/1.1 100"), "{asked:?}");
    process.signal(Signal::TERM);
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("in-flight"), "{answer}");
    assert!(process.end().success());
}

/// What people read says how each client connects.
#[test]
fn people_are_told_how_to_connect() {
    let workspace = Workspace::git();
    let process = Running::start(workspace.command(["up", "--http", "127.0.0.1:0"]));
    let mut text = String::new();
    while !text.contains("ctrl-c") {
        text.push_str(&process.line().expect("more to read"));
        text.push('\n');
    }
    for expected in [
        "claude mcp add",
        ".vscode/mcp.json",
        ".cursor/mcp.json",
        "orchestra init",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    process.signal(Signal::TERM);
    assert!(process.end().success());
}

/// A client of the shell, as the README shows it, when there is one.
#[test]
fn curl_can_talk_to_it() {
    let workspace = Workspace::git();
    let (_process, ready, _) = up(&workspace);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let url = ready["mcp"].as_str().unwrap();
    let curl = Command::new("curl")
        .args([
            "-s",
            url,
            "-H",
            "Content-Type: application/json",
            "-d",
            &ping,
        ])
        .output();
    if let Ok(output) = curl {
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["result"], json!({}));
    }
}

/// However many messages come at once, their bodies have a bound together.
#[test]
fn bodies_have_a_bound_together() {
    const BODY: usize = 10 * 1024 * 1024;
    let workspace = Workspace::git();
    let (_process, _, address) = up(&workspace);
    let head = |more: &str| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {BODY}\r\n{more}\r\n"
        )
    };
    let begin = |more: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(head(more).as_bytes()).unwrap();
        let mut said = [0; 12];
        stream.read_exact(&mut said).unwrap();
        (stream, String::from_utf8(said.to_vec()).unwrap())
    };
    // Whoever is told to go on has its room.
    let held: Vec<TcpStream> = (0..6)
        .map(|_| {
            let (stream, said) = begin("Expect: 100-continue\r\n");
            assert_eq!(said, "HTTP/1.1 100");
            stream
        })
        .collect();
    assert_eq!(begin("").1, "HTTP/1.1 503");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    assert_eq!(post(&address, &[], &ping).status, 200);
    drop(held);
    let start = std::time::Instant::now();
    while begin("Expect: 100-continue\r\n").1 != "HTTP/1.1 100" {
        assert!(start.elapsed() < PATIENCE);
    }
}

/// Clients that stay connected keep no others out, although few files may be open at first.
#[test]
fn more_clients_than_the_usual_number_of_files_are_served() {
    let workspace = Workspace::git();
    let up = workspace.command(["up", "--http", "127.0.0.1:0", "--json"]);
    let mut limited = workspace.command_as(Path::new("/bin/sh"), ["-c"]);
    limited.arg("ulimit -S -n 300 && exec \"$0\" \"$@\"");
    limited.arg(up.get_program()).args(up.get_args());
    let process = Running::start(limited);
    let ready = process.json();
    let address = ready["http"].as_str().unwrap().strip_prefix("http://");
    let address = address.unwrap();
    let held: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
            stream
        })
        .collect();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    assert_eq!(post(address, &[], &ping).status, 200);
    // Unfinished heads are given up after a while: nobody had to wait for that.
    for stream in held {
        stream.set_nonblocking(true).unwrap();
        let still = stream.peek(&mut [0]).map_err(|error| error.kind());
        assert_eq!(still, Err(std::io::ErrorKind::WouldBlock));
    }
    process.signal(Signal::TERM);
    assert!(process.end().success());
}
