//! `orchestra mcp approve` and `mcp list`: hosts.

use serde_json::json;

use crate::support::Workspace;

#[test]
fn host_with_letters_outside_ascii_is_shown_as_it_is_looked_up() {
    let workspace = Workspace::new();
    let file = json!({"mcpServers": {
        "one": {"url": "https://g\u{43e}od.example/mcp"},
        "two": {"url": "https://ex\u{e4}mple.com:8443/mcp"},
    }});
    workspace.write(".mcp.json", &file.to_string());
    for words in [["mcp", "approve"], ["mcp", "list"]] {
        let shown = workspace.run(words).out;
        assert!(!shown.contains(['\u{43e}', '\u{e4}']), "{shown}");
        for host in ["https://xn--", "https://xn--exmple-cua.com:8443/mcp"] {
            assert!(shown.contains(host), "{host}: {shown}");
        }
    }
}
