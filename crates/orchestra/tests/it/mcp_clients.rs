//! Clients that offer different capabilities, in front of one upstream server behind `orchestra up`
//! and `orchestra stdio`.

use std::{fs, io::Write as _};

use serde_json::{Value, json};

use crate::support::{Answer, Running, Workspace, post};

/// Answers each call with what its greeting has offered: roots, or none. It speaks sessions alone.
const SERVER: &str = r#"offered=none
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      case "$line" in *'"roots":'*) offered=roots ;; esac
      printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"offered","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"method":"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$id" "$offered" ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

const BOTH: (&str, &str) = ("Accept", "application/json, text/event-stream");

/// Revision and capability of a client.
#[derive(Debug, Clone, Copy)]
struct Client {
    revision: &'static str,
    has_roots: bool,
}

impl Client {
    fn capabilities(self) -> Value {
        match self.has_roots {
            true => json!({"roots": {}}),
            false => json!({}),
        }
    }

    /// Calls the tool of the server, and returns its text.
    fn call(self, address: &str) -> String {
        let params = json!({"name": "sh__offered", "arguments": {}});
        let answer = match self.revision {
            "2026-07-28" => self.call_stateless(address, params),
            revision => {
                let hello = json!({
                    "protocolVersion": revision, "capabilities": self.capabilities(),
                    "clientInfo": {"name": "test", "version": "1"},
                });
                let hello = post(address, &[BOTH], &request("initialize", &hello));
                let session = hello.header("mcp-session-id").expect("a session");
                let headers = [BOTH, ("Mcp-Session-Id", session)];
                post(address, &headers, &request("tools/call", &params))
            }
        };
        let response = response(&answer);
        let text = response["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{response}")).to_owned()
    }

    fn call_stateless(self, address: &str, mut params: Value) -> Answer {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": self.revision,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": self.capabilities(),
        });
        let headers = [
            BOTH,
            ("MCP-Protocol-Version", self.revision),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "sh__offered"),
        ];
        post(address, &headers, &request("tools/call", &params))
    }
}

fn request(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

/// The response, which comes alone or as the last event of a stream.
fn response(answer: &Answer) -> Value {
    let mut events = answer
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data:"));
    let last = events.next_back().unwrap_or(&answer.body);
    serde_json::from_str(last).unwrap_or_else(|_| panic!("{answer:?}"))
}

#[test]
fn upstream_session_is_offered_the_roots_of_each_client_in_any_order() {
    let client = |revision, has_roots| Client {
        revision,
        has_roots,
    };
    let clients = [
        client("2025-11-25", false),
        client("2025-11-25", true),
        client("2026-07-28", false),
        client("2026-07-28", true),
    ];
    for first in 0..clients.len() {
        let workspace = Workspace::new();
        workspace.write("server.sh", SERVER);
        let server = json!({"command": "sh", "args": [workspace.join("server.sh")]});
        let file = workspace.home().join(".config/orchestra/mcp.json");
        fs::create_dir_all(file.parent().expect("a directory")).unwrap();
        fs::write(file, json!({"mcpServers": {"sh": server}}).to_string()).unwrap();
        let flags = ["up", "--only-servers", "--http", "127.0.0.1:0", "--json"];
        let up = Running::start(workspace.command(flags));
        let ready = up.json();
        let address = ready["http"].as_str().unwrap().replace("http://", "");
        let mut order = clients;
        order.rotate_left(first);
        for client in order.iter().chain(&order) {
            let expected = if client.has_roots { "roots" } else { "none" };
            assert_eq!(client.call(&address), expected, "{client:?} of {order:?}");
        }
    }
}

/// Asks for roots once, when it is initialized, and answers each call with whether it got those of the
/// test.
const ROOTS_AT_START: &str = r#"roots=none
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"id":"roots"'*) case "$line" in *'file:///test'*) roots=test ;; *) roots=other ;; esac ;;
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *'"method":"notifications/initialized"'*) printf '{"jsonrpc":"2.0","id":"roots","method":"roots/list"}\n' ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"roots","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"method":"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$id" "$roots" ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn server_that_asks_for_roots_at_its_start_gets_those_of_the_client() {
    let workspace = Workspace::board();
    workspace.write("server.sh", ROOTS_AT_START);
    let server = json!({"command": "sh", "args": [workspace.join("server.sh")]});
    let file = workspace.home().join(".config/orchestra/mcp.json");
    fs::create_dir_all(file.parent().expect("a directory")).unwrap();
    fs::write(file, json!({"mcpServers": {"sh": server}}).to_string()).unwrap();
    let mut client = Running::start(workspace.command(["stdio"]));
    let send = |client: &mut Running, message: Value| {
        writeln!(client.stdin.as_mut().unwrap(), "{message}").unwrap();
    };
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {}},
        "clientInfo": {"name": "test", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello});
    send(&mut client, hello);
    client.json();
    let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    send(&mut client, begun);
    let params = json!({"name": "sh__roots", "arguments": {}});
    let call = json!({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": params});
    send(&mut client, call);
    let response = loop {
        let message = client.json();
        if message["method"] == "roots/list" {
            let roots = json!({"roots": [{"uri": "file:///test"}]});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": roots});
            send(&mut client, answer);
        } else if message["id"] == "call" {
            break message;
        }
    };
    assert_eq!(
        response["result"]["content"][0]["text"], "test",
        "{response}"
    );
}
