//! Plugins and orchestrators elsewhere, as `orchestra mcp` shows them. None is started.

use insta::assert_snapshot;

use crate::support::Workspace;

const OURS: &str = r#"
[servers.far]
orchestrator = "hub.example:7421"
certs_dir = "certs"
[plugins."tools.features"]
binary = "bin/tools-features"
args = ["--level", "info"]
env = { HOME_TOO = "${HOME}" }
config = { key = "s3cret" }
depends_on = ["storage.markdown"]
"#;

const LIST: &str = r#"
tcp_addr: localhost:50101
plugins:
  - id: storage.markdown
    binary: bin/storage-markdown
    args: ["--workspace=."]
    env: {API_TOKEN: s3cret}
    provides_storage: [markdown]
    enabled: true
"#;

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("orchestra.toml", OURS);
    workspace.write("plugins.yaml", LIST);
    workspace
}

#[test]
fn plugins_are_listed_as_what_they_are() {
    let workspace = workspace();
    let listed = workspace.run(["mcp", "list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let lines: Vec<Vec<&str>> = listed
        .out
        .lines()
        .map(|line| line.split_whitespace().take(5).collect())
        .collect();
    assert_eq!(
        lines[1],
        [
            "far",
            "orchestrator",
            "needs_approval",
            "workspace",
            "hub.example:7421"
        ]
    );
    assert_eq!(
        lines[2][..3],
        ["tools.features", "plugin", "needs_approval"]
    );
    assert_eq!(lines[2][4], "bin/tools-features");
    assert_eq!(
        lines[3][..3],
        ["storage.markdown", "plugin", "needs_approval"]
    );
    assert!(!listed.out.contains("s3cret"), "{}", listed.out);
}

#[test]
fn approval_shows_what_a_plugin_runs_and_is_told() {
    let workspace = workspace();
    let here = workspace.path().display().to_string();
    let shown = workspace.run(["mcp", "approve"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(!shown.out.contains("s3cret"), "{}", shown.out);
    assert_snapshot!(shown.out.replace(&here, "WORKSPACE"), @r#"
    far: waits
      reaches the orchestrator hub.example:7421
      with the certificates of certs
    tools.features: waits
      runs "bin/tools-features" "--level" "info"
      as the plugin tools.features, from WORKSPACE
      in WORKSPACE
      with HOME_TOO="${HOME}"
      with the setting key=…
      is started after storage.markdown
      receives the values of HOME
      its tools have no prefix, so their names may resemble those of other servers
    storage.markdown: waits
      runs "bin/storage-markdown" "--workspace=WORKSPACE"
      as the plugin storage.markdown, from WORKSPACE
      in WORKSPACE
      with API_TOKEN=…
      with all of your environment
      has the key of the certificate authority that old plugins share
      stores documents of kind markdown
      its tools have no prefix, so their names may resemble those of other servers
    `orchestra mcp approve NAME` approves one
    "#);
    // By the id as well as by the name.
    for name in ["tools.features", "storage-markdown", "far"] {
        let approved = workspace.run(["mcp", "approve", "--yes", name]);
        assert_eq!(approved.code, Some(0), "{approved:?}");
    }
    let listed = workspace.run(["mcp", "list"]).out;
    assert_eq!(listed.matches(" enabled ").count(), 3, "{listed}");
    let config = workspace.run(["config", "show"]);
    assert!(
        config.out.contains("[plugins.\"tools.features\"]"),
        "{config:?}"
    );
    assert!(!config.out.contains("s3cret"), "{config:?}");
}

#[test]
fn other_programs_are_handed_no_plugin() {
    let workspace = workspace();
    workspace.write(
        ".mcp.json",
        r#"{"mcpServers": {"plain": {"command": "x"}}}"#,
    );
    let names = ["plain", "far", "tools.features", "storage.markdown"];
    let exported = workspace.run(["mcp", "export"].iter().chain(&names));
    assert_eq!(exported.code, Some(0), "{exported:?}");
    assert!(
        exported.out.contains("plain") && !exported.out.contains("bin/"),
        "{exported:?}"
    );
    let told = "left out, because other programs cannot reach plugins and orchestrators: far, \
                tools.features, storage.markdown";
    assert!(exported.err.contains(told), "{exported:?}");
    let from = workspace.path().join("orchestra.toml");
    let elsewhere = Workspace::new();
    let from = from.display().to_string();
    let imported = elsewhere.run(["mcp", "import", "--from", &from, "--dry-run"]);
    assert_eq!(imported.out.matches("left out").count(), 2, "{imported:?}");
    assert!(imported.out.contains("it is a plugin"), "{imported:?}");
}

#[test]
fn what_is_asked_of_a_plugin_that_it_cannot_do_is_refused_with_what_it_is() {
    let workspace = workspace();
    for name in ["tools-features", "storage-markdown", "far"] {
        assert_eq!(
            workspace.run(["mcp", "approve", "--yes", name]).code,
            Some(0)
        );
    }
    let signed_in = workspace.run(["mcp", "login", "tools.features"]);
    assert!(
        signed_in.err.contains("is a plugin, and needs no sign-in"),
        "{signed_in:?}"
    );
    let tapped = workspace.run(["mcp", "tap", "tools-features"]);
    assert!(tapped.err.contains("is a plugin"), "{tapped:?}");
    let checked = workspace.run(["mcp", "validate"]);
    assert_eq!(checked.code, Some(0), "warnings alone: {checked:?}");
    let text = format!("{}{}", checked.out, checked.err);
    assert!(text.contains("tcp_addr: is not served"), "{checked:?}");
    let list = workspace.path().join("plugins.yaml").display().to_string();
    let checked = workspace.run(["mcp", "validate", &list]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    // Out of one file by the program, out of the other by hand.
    let removed = workspace.run(["mcp", "remove", "storage-markdown"]);
    assert!(removed.err.contains("remove it by hand"), "{removed:?}");
    let removed = workspace.run(["mcp", "remove", "tools.features"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    let listed = workspace.run(["mcp", "list"]).out;
    assert!(!listed.contains("tools.features"), "{listed}");
}
