//! `orchestra mcp approve`: what is shown before something is approved.

use insta::assert_snapshot;

use crate::support::Workspace;

#[test]
fn approval_shows_what_a_server_may_do_beside_what_it_runs() {
    let workspace = Workspace::new();
    let file = serde_json::json!({
        "servers": {
            "wide": {"command": "x", "args": ["${input:i}"], "sandbox": {"read": ["${HOME}"], "write": ["/"]},
                "roots": ["/"], "retry": {"unsafe": true}, "prefix": false,
                "env": {"TOKEN": "s3cret"}, "envFile": ".env"},
            "far": {"url": "http://example.com/mcp", "allowInsecure": true, "caFile": "ca.pem",
                "clientCert": "me.pem", "headers": {"X-Key": "s3cret", "X-Home": "${HOME}"}},
            "tame": {"command": "x", "limits": {"dailyQuota": 10, "addressSpace": "1GiB"},
                "tools": {"deny": ["drop"]},
                "rules": [{"effect": "deny", "tool": "write_*", "arguments": {"path": "/etc/*"}}]},
        },
        "inputs": [{"id": "i", "type": "promptString", "default": "--from-file"}],
    });
    workspace.write(".vscode/mcp.json", &file.to_string());
    let shown = workspace.run(["mcp", "approve"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(!shown.out.contains("s3cret"), "{}", shown.out);
    assert_snapshot!(shown.out.replace(&workspace.path().display().to_string(), "WORKSPACE"), @r#"
    wide: waits
      runs "x" "${input:i}"
      in WORKSPACE
      with TOKEN=…
      with the variables of .env
      gets to know HOME, ORCHESTRA_INPUT_I
      where ${input:i} is "--from-file" when nobody sets it
      in a sandbox: its directory, no network
      that may also read "${HOME}"
      that may also write "/"
      is told the roots "/"
      its tools keep their names, which may look like those of others
      calls that may change something are repeated
    far: waits
      reaches http://example.com/mcp
      sends X-Key=…
      sends X-Home=${HOME}
      trusts the certificates of ca.pem
      signs in with the certificate "me.pem"
      also without encryption
      gets to know HOME
    tame: waits
      runs "x"
      in WORKSPACE
      has at most 1073741824 bytes of address space, 10 calls a day
      does not offer drop
      rule: calls of write_* with path="/etc/*" are denied
    `orchestra mcp approve NAME` approves one
    "#);
}
