//! What the dashboard of `orchestra up` shows and does beside the tools.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

use crate::{
    others::SERVER,
    support::{PATIENCE, Running, Workspace, get, http, post_to, until},
};

/// The events of a stream, of which each has data.
pub(crate) struct Stream(BufReader<TcpStream>);

impl Stream {
    pub(crate) fn open(address: &str, path: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut stream = Self(BufReader::new(stream));
        // Once something was sent, what happens from now on is told.
        while !stream.line().starts_with(':') {}
        stream
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended");
        line
    }

    /// The data of the next event for which it is true.
    pub(crate) fn next(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.line();
            let Some(data) = line.strip_prefix("data: ") else {
                continue;
            };
            let data: Value = serde_json::from_str(data).unwrap();
            if is_meant(&data) {
                return data;
            }
        }
    }
}

/// A workspace with a server that nobody has approved, and `up` in it.
fn served() -> (Workspace, Running, String) {
    let workspace = Workspace::new();
    workspace.write("server.sh", &format!("echo begun >&2\n{SERVER}"));
    let server = json!({"command": "sh", "args": ["server.sh"], "env": {"API_TOKEN": "hush-hush"}});
    let file = json!({"mcpServers": {"shell": server}});
    workspace.write(".mcp.json", &file.to_string());
    let up = Running::start(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
    let ready = up.json();
    let address = ready["http"].as_str().unwrap().strip_prefix("http://");
    let address = address.unwrap().to_owned();
    (workspace, up, address)
}

#[test]
fn server_that_waits_for_approval_is_not_restarted() {
    let (_workspace, up, address) = served();
    let restarted = post_to(&address, "/api/servers/shell/restart", &[], "{}");
    assert_eq!(restarted.status, 403, "{restarted:?}");
    up.signal(rustix::process::Signal::TERM);
    assert!(up.end().success());
}

#[test]
fn approval_in_a_browser_is_refused_when_a_hidden_value_changed_after_the_look() {
    let (workspace, up, address) = served();
    let look = || {
        let shown = get(&address, "/api/servers/shell/definition").json();
        shown["waits"].clone()
    };
    let seen = look();
    let file = workspace.read(".mcp.json");
    workspace.write(".mcp.json", &file.replace("hush-hush", "other-one"));
    let approve = |seen: &Value| {
        let body = json!({"fingerprint": seen["fingerprint"]}).to_string();
        post_to(&address, "/api/servers/shell/approve", &[], &body)
    };
    let refused = approve(&seen);
    assert_eq!(refused.status, 403, "{refused:?}");
    let again = look();
    assert_eq!(again["shows"], seen["shows"]);
    let approved = approve(&again);
    assert_eq!(approved.status, 200, "{approved:?}");
    until(|| (status(&address) == "ready").then_some(()));
    // A change of its script stops it until that is approved.
    workspace.write("server.sh", "touch ran\n");
    until(|| (status(&address) == "needs_approval").then_some(()));
    let shows = look()["shows"].to_string();
    assert!(shows.contains("the file server.sh changed"), "{shows}");
    assert!(!workspace.join("ran").exists());
    up.signal(rustix::process::Signal::TERM);
    assert!(up.end().success());
}

#[test]
fn definition_in_a_browser_has_secrets_of_arguments_only_where_it_is_approved() {
    let (workspace, up, address) = served();
    let file = workspace.read(".mcp.json");
    let arguments = r#""server.sh","--api-key","kept-445566""#;
    workspace.write(".mcp.json", &file.replace("\"server.sh\"", arguments));
    let shown = get(&address, "/api/servers/shell/definition").json();
    let does = shown["does"].to_string();
    assert!(
        does.contains("server.sh") && !does.contains("kept-445566"),
        "{shown}"
    );
    assert!(
        shown["waits"]["shows"].to_string().contains("kept-445566"),
        "{shown}"
    );
    up.signal(rustix::process::Signal::TERM);
    assert!(up.end().success());
}

fn status(address: &str) -> Value {
    let servers = get(address, "/api/mcp/servers").json();
    servers["servers"][0]["status"].clone()
}

#[test]
fn a_server_is_approved_used_watched_and_switched_off_in_a_browser() {
    let (workspace, up, address) = served();
    assert_eq!(status(&address), "needs_approval");
    let shown = get(&address, "/api/servers/shell/definition").json();
    assert_eq!(shown["state"], "needs_approval");
    assert!(
        shown["does"][0].as_str().unwrap().contains("server.sh"),
        "{shown}"
    );
    assert!(!shown.to_string().contains("hush-hush"), "{shown}");
    let seen = &shown["waits"]["fingerprint"];
    let listed = workspace.run(["mcp", "approve", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(
        listed[0]["fingerprint"], *seen,
        "one fingerprint everywhere"
    );
    assert_eq!(listed[0]["shows"], shown["waits"]["shows"]);
    let act = |verb: &str, body: &Value| {
        let path = format!("/api/servers/shell/{verb}");
        post_to(&address, &path, &[], &body.to_string())
    };
    let other = act("approve", &json!({"fingerprint": "0".repeat(64)}));
    assert_eq!(other.status, 403, "{other:?}");
    assert_eq!(status(&address), "needs_approval");
    let mut traffic = Stream::open(&address, "/api/traffic");
    let approved = act("approve", &json!({"fingerprint": seen}));
    assert_eq!(approved.status, 200, "{approved:?}");
    assert_ne!(status(&address), "needs_approval", "it took effect");
    until(|| (status(&address) == "ready").then_some(()));
    // What is said to it is told to those who look.
    let call = json!({"name": "shell__say_hello", "arguments": {}});
    let answer = post_to(&address, "/api/mcp/tools/call", &[], &call.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    let asked = traffic.next(|told| told["method"] == "tools/call");
    assert_eq!(
        (
            &asked["server"],
            &asked["direction"],
            &asked["type"],
            &asked["tool"]
        ),
        (
            &json!("shell"),
            &json!("sent"),
            &json!("request"),
            &json!("say.hello")
        )
    );
    let answered = traffic.next(|told| told["type"] == "response");
    assert_eq!(answered["id"], asked["id"]);
    assert!(answered["ms"].as_f64().unwrap() >= 0.0, "{answered}");
    assert_eq!(answered["body"]["result"]["content"][0]["text"], "hello");
    let servers = get(&address, "/api/mcp/servers").json();
    let recent = servers["servers"][0]["latency_ms"]["recent"]
        .as_array()
        .unwrap();
    assert!(!recent.is_empty(), "{servers}");
    let log = get(&address, "/api/servers/shell/log?lines=10").json();
    assert!(
        log["lines"].as_array().unwrap().contains(&json!("begun")),
        "{log}"
    );
    // Whoever watches is told how it is, without asking.
    let mut events = Stream::open(&address, "/api/servers/shell/log/follow");
    assert_eq!(act("restart", &json!({})).status, 200);
    events.next(|line| line["text"] == "begun");
    assert_eq!(act("disable", &json!({})).status, 200);
    assert_eq!(status(&address), "disabled");
    assert_eq!(act("enable", &json!({})).status, 200);
    assert_ne!(status(&address), "disabled");
    until(|| (status(&address) == "ready").then_some(()));
    for path in ["/api/servers/none/definition", "/api/servers/none/log"] {
        let unknown = get(&address, path);
        assert_eq!(unknown.status, 404, "{unknown:?}");
        assert!(unknown.body.contains("no server `none`"), "{unknown:?}");
    }
    // Whoever watches holds up no end.
    up.signal(rustix::process::Signal::TERM);
    assert!(up.end().success());
}

#[test]
fn plans_are_resources_that_the_tools_answer_for() {
    let workspace = Workspace::git();
    let up = Running::start(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
    let ready = up.json();
    let address = ready["http"].as_str().unwrap().strip_prefix("http://");
    let address = address.unwrap().to_owned();
    let send = |method: &str, path: &str, body: &Value| {
        let body = body.to_string();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        let head = format!("{head}Content-Type: application/json\r\n");
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        http(&address, request.as_bytes())
    };
    let job = |id: &str, after: &[&str]| json!({"producerId": id, "task": id, "work": "true", "dependencies": after});
    let jobs = json!([job("first", &[]), job("second", &["first"])]);
    let spec = json!({"name": "Two", "startPaused": true, "jobs": jobs});
    let made = send("POST", "/api/plans", &spec);
    assert_eq!(made.status, 200, "{made:?}");
    let made = made.json();
    let plan = made["planId"].as_str().unwrap();
    let at = |rest: &str| format!("/api/plans/{plan}{rest}");
    let listed = get(&address, "/api/plans").json();
    assert_eq!(listed["plans"][0]["id"], plan, "{listed}");
    // What a route answers, the tool does.
    let call = |tool: &str, arguments: Value| {
        let call = json!({"name": tool, "arguments": arguments}).to_string();
        let answer = post_to(&address, "/api/mcp/tools/call", &[], &call).json();
        answer["structuredContent"].clone()
    };
    for (rest, tool) in [
        ("/graph", "get_copilot_plan_graph"),
        ("/jobs", "list_copilot_jobs"),
    ] {
        let answer = get(&address, &at(rest));
        assert_eq!(answer.status, 200, "{rest}: {answer:?}");
        let told = call(tool, json!({"planId": plan}));
        assert!(told.is_object(), "{told}");
        assert_eq!(answer.json(), told, "{rest}");
    }
    let one = get(&address, &at("/jobs?limit=1")).json();
    assert_eq!(one["nodes"].as_array().unwrap().len(), 1, "{one}");
    let status = get(&address, &at("/summary")).json();
    assert_eq!(status["status"], "pending-start", "{status}");
    let narrowed = send("PATCH", &at(""), &json!({"maxParallel": 2}));
    assert_eq!(narrowed.status, 200, "{narrowed:?}");
    // Nothing needs to be sent with a verb.
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n",
        at("/cancel")
    );
    let canceled = http(
        &address,
        format!("{head}Content-Length: 0\r\n\r\n").as_bytes(),
    );
    assert_eq!(canceled.status, 200, "{canceled:?}");
    // What the tool refuses is no success.
    let again = send("POST", &at("/resume"), &json!({}));
    assert_eq!(again.status, 409, "{again:?}");
    assert!(again.json()["error"].is_string(), "{again:?}");
    for (method, rest, body, status) in [
        ("POST", "/explode", json!({}), 404),
        ("POST", "/pause", json!({"planId": "another"}), 400),
        ("POST", "/pause", json!([]), 400),
        ("POST", "/jobs/first/explode", json!({}), 404),
        ("GET", "/jobs/none/attempts", json!({}), 409),
    ] {
        let answer = send(method, &at(rest), &body);
        assert_eq!(answer.status, status, "{method} {rest}: {answer:?}");
    }
    assert_eq!(send("DELETE", &at(""), &json!({})).status, 200);
    let listed = get(&address, "/api/plans").json();
    assert_eq!(listed["plans"], json!([]), "{listed}");
    up.signal(rustix::process::Signal::TERM);
    up.end();
}
