//! JSON that few programs read alike: halves of surrogate pairs, numbers of any size, names that occur twice, deep
//! nesting. Over every transport it is passed on as it came, or answered with an error at once.

use std::{fs, io::Write as _};

use serde_json::json;

use crate::support::{Running, Session, Workspace, post_to};

/// Writes the calls that it receives to the file `$2`, and answers them with the file `$1`.
const SERVER: &str = r#"while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"ask","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}]}}\n' "$id" ;;
    *'"method":"tools/call"'*)
      printf '%s\n' "$line" >> "$2"
      printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(cat "$1")" ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

const HUGE: &str = "340282366920938463463374607431768211456";

/// A workspace whose user has the server `odd`.
fn workspace() -> Workspace {
    let workspace = Workspace::board();
    workspace.write("server.sh", SERVER);
    workspace.write("answer", r#"{"content":[]}"#);
    workspace.write("calls", "");
    let args = ["server.sh", "answer", "calls"].map(|name| workspace.join(name));
    let servers = json!({"mcpServers": {"odd": {"command": "sh", "args": args}}});
    let file = workspace.home().join(".config/orchestra/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, servers.to_string()).unwrap();
    workspace
}

/// The transports: stdio, and the routes of a running `up`.
struct Transports {
    session: Session,
    address: String,
    _up: Running,
}

impl Transports {
    fn start(workspace: &Workspace) -> Self {
        let up = Running::start(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
        let ready = up.json();
        let address = ready["http"].as_str().unwrap().strip_prefix("http://");
        Self {
            session: Session::start(workspace.command(["stdio"])),
            address: address.unwrap().to_owned(),
            _up: up,
        }
    }

    /// The response to a request over stdio, as it came.
    fn stdio(&mut self, id: u64, request: &str) -> String {
        writeln!(self.session.process.stdin.as_mut().unwrap(), "{request}").unwrap();
        loop {
            let line = self.session.process.line().expect("a response");
            if line.contains(&format!("\"id\":{id},")) {
                return line;
            }
        }
    }

    /// The responses to the same parameters of a call over each transport.
    fn call(&mut self, params: &str) -> [(&'static str, String); 4] {
        let id = 77;
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        let post = |path: &str, body: &str| post_to(&self.address, path, &[], body).body;
        let (mcp, rpc) = (post("/mcp", &request), post("/rpc", &request));
        let rest = post("/api/mcp/tools/call", params);
        let stdio = self.stdio(id, &request);
        [
            ("stdio", stdio),
            ("/mcp", mcp),
            ("/rpc", rpc),
            ("REST", rest),
        ]
    }
}

#[test]
fn odd_arguments_reach_a_server_as_they_came_over_each_transport() {
    let workspace = workspace();
    let mut transports = Transports::start(&workspace);
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(100), "]".repeat(100));
    for arguments in [
        r#"{"x":"a\ud800b","\udc00":[1]}"#,
        r#"{"x":[1e400,-1E+999,0.10]}"#,
        &format!(r#"{{"n":{HUGE}}}"#),
        r#"{"x":1,"x":2}"#,
        &deep,
    ] {
        fs::write(workspace.join("calls"), "").unwrap();
        let params = format!(r#"{{"name":"odd__ask","arguments":{arguments}}}"#);
        for (transport, response) in transports.call(&params) {
            assert!(
                response.contains(r#""content":[]"#),
                "{transport} {arguments}: {response}"
            );
        }
        let calls = workspace.read("calls");
        assert_eq!(calls.matches(arguments).count(), 4, "{arguments}: {calls}");
    }
    // A schema holds for them, too.
    let params = r#"{"name":"odd__ask","arguments":{"n":"\ud800"}}"#;
    for (transport, response) in transports.call(params) {
        assert!(
            response.contains("invalid_arguments"),
            "{transport}: {response}"
        );
    }
}

/// Parsers of several official clients refuse halves of surrogate pairs and numbers that no float holds.
#[test]
fn odd_results_reach_a_client_in_a_form_that_it_reads_over_each_transport() {
    let workspace = workspace();
    let mut transports = Transports::start(&workspace);
    let structured = format!(r#"{{"x":[1e400,"\udc00",{HUGE}],"y":1,"y":2}}"#);
    let content = r#"{"type":"text","text":"a\ud800b"}"#;
    workspace.write(
        "answer",
        &format!(r#"{{"content":[{content}],"structuredContent":{structured},"\ud800":1e400}}"#),
    );
    let structured = structured.replace("1e400", "1.7976931348623157e308");
    let structured = structured.replace("udc00", "ufffd");
    let content = content.replace("ud800", "ufffd");
    for (transport, response) in transports.call(r#"{"name":"odd__ask"}"#) {
        for part in [&content, &structured] {
            assert!(response.contains(part), "{transport}: {response}");
        }
    }
}

#[test]
fn odd_requests_are_refused_at_once_under_their_id() {
    let workspace = workspace();
    let mut transports = Transports::start(&workspace);
    let deep = format!(
        r#"{{"name":"odd__ask","arguments":{{"x":{}{}}}}}"#,
        "[".repeat(500),
        "]".repeat(500)
    );
    for (params, code) in [
        (deep.as_str(), "-32700"),
        ("1e400", "-32602"),
        (r#""\ud800""#, "-32602"),
        (r#"{"name":"\ud800"}"#, "-32602"),
        (r#"{"name":"a","name":"b"}"#, "-32602"),
    ] {
        for (transport, response) in transports.call(params) {
            if transport == "REST" {
                assert!(response.contains("error"), "{params}: {response}");
                continue;
            }
            let head = format!(r#"{{"jsonrpc":"2.0","id":77,"error":{{"code":{code},"#);
            assert!(
                response.starts_with(&head),
                "{transport} {params}: {response}"
            );
        }
    }
    // A tool of this program names the argument.
    let params = r#"{"name":"create_project","arguments":{"name":"\ud800"}}"#;
    for (transport, response) in transports.call(params) {
        assert!(response.contains("`name`"), "{transport}: {response}");
    }
    assert_eq!(workspace.read("calls"), "");
}

#[test]
fn integer_of_more_than_64_bits_passes_through_commands_as_it_is() {
    let workspace = workspace();
    let object = format!(r#"{{"n":{HUGE}}}"#);
    workspace.write(
        "answer",
        &format!(r#"{{"content":[],"structuredContent":{object}}}"#),
    );
    for (words, form) in [
        (&["mcp", "call", "odd", "ask"][..], &["--json"][..]),
        (&["mcp", "call", "odd", "ask"], &[]),
        (&["tool", "call", "odd__ask"], &["--json"]),
        (&["tool", "call", "odd__ask"], &[]),
    ] {
        fs::write(workspace.join("calls"), "").unwrap();
        let said = workspace.run([words, &["--args", &object], form].concat());
        assert_eq!(said.code, Some(0), "{words:?}: {said:?}");
        assert!(said.out.contains(&object), "{words:?}: {said:?}");
        let calls = workspace.read("calls");
        assert!(calls.contains(&object), "{words:?}: {calls}");
    }
    let pair = format!("n={HUGE}");
    let refused = workspace.run(["tool", "call", "odd__ask", &pair]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("more than 64 bits"), "{refused:?}");
}
