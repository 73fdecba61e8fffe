//! `orchestra mcp approve` and `mcp list`: values that are not shown, and hosts.

use serde_json::{Value, json};

use crate::support::Workspace;

const UNCLEAR: &str = "Orchestra cannot tell which files this command runs";

/// Returns the question about a server that starts a script with these variables.
fn question(env: &Value, file: &str, default: &str) -> String {
    let workspace = Workspace::new();
    workspace.write("run.sh", "eval \"$API_TOKEN\"\n");
    workspace.write(".env", file);
    let input = json!({"id": "key", "type": "promptString", "password": true, "default": default});
    let server = json!({"command": "sh", "args": ["run.sh"], "env": env, "envFile": ".env"});
    let file = json!({"servers": {"theirs": server}, "inputs": [input]});
    workspace.write(".vscode/mcp.json", &file.to_string());
    let shown = workspace.run(["mcp", "approve"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    shown.out
}

#[test]
fn value_that_may_run_is_shown_or_reported() {
    for line in [
        "exec touch mark",
        "eval touch mark",
        "command touch mark",
        "builtin eval touch mark",
        r"\touch mark",
        "'touch' mark",
        "to''uch mark",
        "{touch,mark}",
        "t{ouch,} mark",
        "if touch mark\nthen true\nfi",
        "! touch mark",
        "Bearer touch mark",
        "https://exec touch mark",
        "${NOWHERE:-exec touch} mark",
        "exec${NOWHERE:- }touch",
    ] {
        let shown = question(&json!({"API_TOKEN": line}), "", "");
        let is_hidden = !shown.contains("touch");
        assert!(!is_hidden || shown.contains(UNCLEAR), "{line}: {shown}");
    }
    let shown = question(&json!({}), "API_TOKEN='exec touch mark'\n", "");
    assert!(shown.contains(UNCLEAR), "{shown}");
    let shown = question(&json!({}), "API_TOKEN='touch${IFS}mark'\n", "");
    assert!(shown.contains(UNCLEAR), "{shown}");
    let input = json!({"API_TOKEN": "${input:key}"});
    let shown = question(&input, "", "exec touch mark");
    assert!(shown.contains(UNCLEAR), "{shown}");
    let shown = question(&input, "", "s3cret");
    assert!(!shown.contains(UNCLEAR), "{shown}");
}

#[test]
fn password_is_never_shown_and_key_is_not_reported() {
    for (value, is_reported) in [
        ("correct horse battery staple", true),
        ("x!#%^*?", true),
        ("p@ss,word", true),
        ("sk-ant_a1.b2~c3", false),
        ("abc/def+ghi==", false),
        ("user:a1b2c3", false),
        ("https://user:a%40b@db.example/name", false),
        ("Bearer a1b2c3d4", false),
        ("Basic dXNlcjpwYXNz", false),
        ("Bearer ${HOME}", false),
        ("${NOWHERE:-s3cret}", false),
    ] {
        let shown = question(&json!({"API_TOKEN": value}), "", "");
        assert!(shown.contains("with API_TOKEN="), "{value}: {shown}");
        assert_eq!(shown.contains(UNCLEAR), is_reported, "{value}: {shown}");
        let is_reference = value.contains("${");
        assert!(is_reference || !shown.contains(value), "{value}: {shown}");
    }
}

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
