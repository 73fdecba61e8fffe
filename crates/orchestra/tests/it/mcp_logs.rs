//! `orchestra mcp logs`: what servers write to standard error.

use serde_json::json;

use crate::support::{Running, Session, Workspace};

/// A server of the session era that complains at each call: of as many things as it is told.
const SERVER: &str = r#"while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"complain","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"method":"tools/call"'*)
      count=$(printf '%s' "$line" | sed -n 's/.*"count":\([0-9][0-9]*\).*/\1/p')
      awk -v n="$count" 'BEGIN { for (i = 1; i <= n; i++) printf "complaint %d of the server, with some words more\n", i }' >&2
      printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' "$id" ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn what_a_server_complains_of_is_followed_line_by_line_wherever_it_is_kept() {
    let workspace = Workspace::board();
    workspace.write("server.sh", SERVER);
    let servers =
        json!({"mcpServers": {"sh": {"command": "sh", "args": [workspace.join("server.sh")]}}});
    workspace.write("servers.json", &servers.to_string());
    let with = ["--mcp-config", "servers.json"];
    let logs = |flags: &[&str]| {
        let words = ["mcp", "logs", "sh"].iter().chain(flags).chain(&with);
        workspace.command(words.copied().collect::<Vec<_>>())
    };
    let none = crate::support::said(logs(&[]), "");
    assert_eq!(none.code, Some(0), "{none:?}");
    assert!(none.err.contains("wrote nothing"), "{none:?}");

    // It follows what does not exist yet.
    let following = Running::start(logs(&["-f"]));
    let mut session = Session::start(workspace.command(["stdio", with[0], with[1]]));
    let mut complain = |count: u32| session.tool("sh__complain", &json!({"count": count}));
    complain(2);
    for number in 1..=2 {
        let line = following.line().unwrap();
        assert!(
            line.starts_with(&format!("complaint {number} of")),
            "{line}"
        );
    }
    // So much that the file is put aside and another one begun.
    let many = 13_000;
    complain(many);
    for number in 1..=many {
        let line = following.line().unwrap();
        assert!(
            line.starts_with(&format!("complaint {number} of")) && line.ends_with("words more"),
            "{number}: {line}"
        );
    }
    let logs_of_all = workspace.home().join(".local/state/orchestra/mcp/logs");
    let mut directories = std::fs::read_dir(logs_of_all).unwrap();
    let kept = directories.next().unwrap().unwrap().path();
    assert!(kept.join("sh.log.1").exists(), "it was put aside");
    let last = crate::support::said(logs(&["-n", "1"]), "");
    assert!(
        last.out.starts_with(&format!("complaint {many} of")) && last.out.lines().count() == 1,
        "{last:?}"
    );
}
