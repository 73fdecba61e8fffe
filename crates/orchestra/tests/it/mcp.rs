//! `orchestra mcp`: servers of others, without starting one.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::{Said, Workspace, said};

const REPOSITORY: &str = r#"{
  // of the repository
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "server-files", "."], "env": {"TOKEN": "s3cret", "KEY": "${HOME}"}},
    "docs": {"type": "http", "url": "https://me:s3cret@example.com/mcp?key=s3cret", "headers": {"Authorization": "Bearer s3cret"}},
    "odd": {"command": 1}
  }
}
"#;

fn with_repository() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(".mcp.json", REPOSITORY);
    workspace
}

pub(crate) fn json(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

pub(crate) fn states(workspace: &Workspace) -> Vec<(String, String)> {
    let listing = json(&workspace.run(["mcp", "list", "--json"]));
    let servers = listing["servers"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    servers
        .map(|server| (text(&server["name"]), text(&server["state"])))
        .collect()
}

pub(crate) fn state(workspace: &Workspace, name: &str) -> String {
    let states = states(workspace).into_iter();
    let mut found = states.filter(|(other, _)| other == name);
    found.next().map(|(_, state)| state).unwrap_or_default()
}

#[test]
fn servers_are_listed_with_what_keeps_them_from_being_used() {
    let workspace = with_repository();
    let said = workspace.run(["mcp", "list"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_snapshot!(said.out, @r"
    NAME   TRANSPORT  STATE           SOURCE     TARGET                   NOTE
    files  stdio      needs_approval  workspace  npx -y server-files .    it came with the workspace; `orchestra mcp approve files` shows and approves it
    docs   http       needs_approval  workspace  https://example.com/mcp  it came with the workspace; `orchestra mcp approve docs` shows and approves it
    odd    -          invalid         workspace  -                        command: must be a text or a list of texts, not a number
    ");
    assert!(
        said.err
            .contains(".mcp.json:6:24: error: mcpServers.odd.command"),
        "{}",
        said.err
    );
    let said = workspace.run(["mcp", "list", "--json", "--sources"]);
    assert!(!said.out.contains("s3cret"), "{}", said.out);
    let listing = json(&said);
    assert_eq!(listing["servers"][0]["line"], 4);
    assert_eq!(listing["files"].as_array().unwrap().len(), 9, "{listing}");
    assert_eq!(listing["diagnostics"][0]["severity"], "error");
}

#[test]
fn a_workspace_without_servers_says_how_to_get_some() {
    let said = Workspace::new().run(["mcp", "list"]);
    assert_eq!(said.code, Some(0));
    assert!(said.out.contains("orchestra mcp add"), "{}", said.out);
}

#[test]
fn approval_shows_first_and_asks_again_after_a_change() {
    let workspace = with_repository();
    let shown = workspace.run(["mcp", "approve"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert_snapshot!(shown.out.replace(&workspace.path().display().to_string(), "WORKSPACE"), @r#"
    files: waits
      runs "npx" "-y" "server-files" "."
      in WORKSPACE
      with KEY=${HOME}
      with TOKEN=…
      receives the values of HOME
    docs: waits
      reaches https://example.com/mcp
      sends Authorization=…
    `orchestra mcp approve NAME` approves one
    "#);
    // Nobody is there to be asked.
    let refused = workspace.run(["mcp", "approve", "files"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert_eq!(state(&workspace, "files"), "needs_approval");
    let approved = workspace.run(["mcp", "approve", "files", "--yes"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert_eq!(state(&workspace, "files"), "enabled");
    workspace.write(
        ".mcp.json",
        &REPOSITORY.replace("server-files", "server-other"),
    );
    assert_eq!(state(&workspace, "files"), "needs_approval");
    let said = workspace.run(["mcp", "list"]);
    let why = "it changed since it was approved: argument 2 changed";
    assert!(said.out.contains(why), "{}", said.out);
    workspace.write(".mcp.json", REPOSITORY);
    assert_eq!(state(&workspace, "files"), "enabled");
    let revoked = workspace.run(["mcp", "approve", "files", "--revoke"]);
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert_eq!(state(&workspace, "files"), "needs_approval");
    let all = workspace.run(["mcp", "approve", "--all", "--yes", "--json"]);
    assert_eq!(json(&all).as_array().unwrap().len(), 2, "{all:?}");
    assert_eq!(
        workspace.run(["mcp", "approve", "odd", "--yes"]).code,
        Some(3)
    );
}

#[test]
fn servers_are_added_switched_and_removed() {
    let workspace = Workspace::new();
    let added = workspace.run([
        "mcp", "add", "echo", "--env", "A=1", "--lazy", "--", "cat", "-u",
    ]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let file = workspace.home().join(".config/orchestra/mcp.json");
    let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let expected = serde_json::json!({"mcpServers": {"echo":
        {"command": "cat", "args": ["-u"], "env": {"A": "1"}, "lazy": true}}});
    assert_eq!(written, expected);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    assert_eq!(state(&workspace, "echo"), "enabled");
    assert_eq!(
        workspace.run(["mcp", "add", "echo", "--", "cat"]).code,
        Some(3)
    );
    assert_eq!(workspace.run(["mcp", "disable", "echo"]).code, Some(0));
    assert_eq!(state(&workspace, "echo"), "disabled");
    assert_eq!(workspace.run(["mcp", "enable", "echo"]).code, Some(0));
    assert_eq!(state(&workspace, "echo"), "enabled");
    // Nobody runs it.
    assert_eq!(workspace.run(["mcp", "restart", "echo"]).code, Some(4));

    // The workspace's own: whoever adds it has approved it.
    let url = "https://example.com/mcp";
    let scope = [
        "mcp",
        "add",
        "docs",
        "--scope",
        "workspace",
        "--url",
        url,
        "--header",
        "A: ${HOME}",
    ];
    assert_eq!(workspace.run(scope).code, Some(0));
    assert_eq!(state(&workspace, "docs"), "enabled");
    assert!(workspace.read(".mcp.json").contains(url));

    assert_eq!(workspace.run(["mcp", "remove", "echo"]).code, Some(0));
    assert_eq!(workspace.run(["mcp", "remove", "docs"]).code, Some(0));
    assert_eq!(states(&workspace), []);
    assert_eq!(workspace.run(["mcp", "remove", "docs"]).code, Some(2));
    for wrong in [
        &["mcp", "add", "Not A Name", "--", "cat"][..],
        &["mcp", "add", "x", "--url", "ftp://example.com"],
        &[
            "mcp",
            "add",
            "x",
            "--transport",
            "carrier-pigeon",
            "--url",
            url,
        ],
        &["mcp", "add", "x", "--env", "s3cret", "--", "cat"],
        &["mcp", "add", "x"],
        &["mcp", "enable", "nobody"],
        &["mcp", "list", "--mcp-config", "/no/such/file.json"],
    ] {
        let said = workspace.run(wrong);
        assert_eq!(said.code, Some(2), "{wrong:?}: {said:?}");
        assert!(!said.err.contains("s3cret"), "{said:?}");
    }
    assert_eq!(states(&workspace), []);
}

#[test]
fn whoever_adds_a_server_is_told_which_others_have_its_name() {
    let workspace = Workspace::new();
    let add = |words: &[&str]| {
        let words = [&["mcp", "add", "one"], words, &["--", "cat"]].concat();
        let said = workspace.run(words);
        assert_eq!(said.code, Some(0), "{said:?}");
        said
    };
    let user = workspace.home().join(".config/orchestra/mcp.json");
    let here = workspace.join(".mcp.json");
    assert!(!add(&[]).out.contains("shadow"));
    let stronger = add(&["--scope", "workspace"]).out;
    let told = format!("it shadows the one in {}:", user.display());
    assert!(stronger.contains(&told), "{stronger}");
    let weaker = add(&["--force"]).out;
    let told = format!("it is shadowed by the one in {}:", here.display());
    assert!(weaker.contains(&told), "{weaker}");
    let weaker = json(&add(&["--force", "--json"]));
    let by = weaker["shadowed_by"].as_str().unwrap();
    assert!(by.starts_with(here.to_str().unwrap()), "{weaker}");
    let stronger = json(&add(&["--force", "--json", "--scope", "workspace"]));
    let shadows = stronger["shadows"][0].as_str().unwrap();
    assert!(shadows.starts_with(user.to_str().unwrap()), "{stronger}");
    // Both are listed.
    let listed = workspace.run(["mcp", "list", "--sources"]).out;
    let line = listed
        .lines()
        .skip_while(|line| !line.starts_with("SHADOWED"));
    let line = line.skip(1).find(|line| line.starts_with("one ")).unwrap();
    assert!(
        line.contains(user.to_str().unwrap()) && line.contains(here.to_str().unwrap()),
        "{listed}"
    );
    let listed = json(&workspace.run(["mcp", "list", "--sources", "--json"]));
    assert_eq!(listed["shadowed"][0]["source"], "user", "{listed}");
    assert_eq!(listed["shadowed"][0]["by"]["source"], "workspace");
}

#[test]
fn a_name_that_no_server_has_is_answered_with_those_that_have_one() {
    let workspace = Workspace::new();
    let nobody = workspace.run(["mcp", "enable", "weather"]);
    assert_eq!(nobody.code, Some(2), "{nobody:?}");
    assert!(nobody.err.contains("orchestra mcp add"), "{nobody:?}");
    for name in ["files", "weather"] {
        let added = workspace.run(["mcp", "add", name, "--", "cat"]);
        assert_eq!(added.code, Some(0), "{added:?}");
    }
    for verb in ["enable", "disable", "restart", "test", "logs", "remove"] {
        let said = workspace.run(["mcp", verb, "wether"]);
        assert_eq!(said.code, Some(2), "{verb}: {said:?}");
        let told = "no server `wether`; did you mean `weather`? there are files, weather";
        assert!(said.err.contains(told), "{verb}: {said:?}");
    }
    let said = workspace.run(["mcp", "disable", "nothing-like-it"]);
    let told = "no server `nothing-like-it`: there are files, weather";
    assert!(said.err.contains(told), "{said:?}");
    for name in ["files", "weather"] {
        assert_eq!(state(&workspace, name), "enabled");
    }
}

#[test]
fn servers_of_the_system_are_for_everybody_and_switched_off_by_each() {
    let workspace = Workspace::new();
    let directory = workspace.system().join("mcp");
    fs::create_dir_all(&directory).unwrap();
    let server = |name: &str| format!(r#"{{"mcpServers": {{"{name}": {{"command": "cat"}}}}}}"#);
    fs::write(workspace.system().join("mcp.json"), server("one")).unwrap();
    fs::write(directory.join("more.json"), server("two")).unwrap();
    workspace.write(".orchestra/mcp/ours.json", &server("three"));
    let all = |one: &str| -> Vec<(String, String)> {
        let all = [
            ("three", "needs_approval"),
            ("one", one),
            ("two", "enabled"),
        ];
        all.map(|(name, state)| (name.to_owned(), state.to_owned()))
            .into()
    };
    assert_eq!(states(&workspace), all("enabled"));
    let refused = workspace.run(["mcp", "remove", "one"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused.err.contains("for all users of this machine"),
        "{refused:?}"
    );
    assert_eq!(workspace.run(["mcp", "disable", "one"]).code, Some(0));
    assert_eq!(states(&workspace), all("disabled"));
}

#[test]
fn a_file_that_is_not_understood_is_left_alone() {
    let workspace = Workspace::new();
    workspace.write(".mcp.json", "{ this is no JSON");
    let said = workspace.run(["mcp", "add", "a", "--scope", "workspace", "--", "cat"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert_eq!(workspace.read(".mcp.json"), "{ this is no JSON");
    workspace.write(".mcp.json", "{}");
    let entangled = "mcp = {servers = {b = {command = \"cat\"}, c = {command = \"cat\"}}}\n";
    workspace.write("orchestra.toml", entangled);
    let said = workspace.run(["mcp", "remove", "b"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("remove it by hand"), "{said:?}");
    assert_eq!(workspace.read("orchestra.toml"), entangled);
}

#[test]
fn server_whose_name_another_one_of_its_file_has_is_not_added() {
    for (name, other) in [
        ("notes", "Notes"),
        ("a-b", "a_b"),
        ("a-b", "a b"),
        ("a-b", "a-b "),
    ] {
        for force in [None, Some("--force")] {
            let workspace = Workspace::new();
            let theirs =
                serde_json::json!({"mcpServers": {other: {"command": "cat", "args": ["theirs"]}}});
            workspace.write(".mcp.json", &theirs.to_string());
            let add = ["mcp", "add", "--scope", "workspace", name].into_iter();
            let said = workspace.run(add.chain(force).chain(["--", "cat"]));
            assert_eq!(said.code, Some(3), "{said:?}");
            let expected = "already, which has the same name as";
            assert!(said.err.contains(expected), "{said:?}");
            assert_eq!(workspace.read(".mcp.json"), theirs.to_string());
            assert_eq!(state(&workspace, name), "needs_approval", "{other}");
        }
    }
}

#[test]
fn server_that_its_file_defines_differently_than_added_is_not_approved() {
    let workspace = Workspace::new();
    let theirs = serde_json::json!({
        "servers": {},
        "inputs": [{"id": "line", "type": "promptString", "default": "theirs"}],
    });
    workspace.write(".mcp.json", &theirs.to_string());
    let add = ["mcp", "add", "--scope", "workspace"];
    let added = workspace.run([&add[..], &["mine", "--", "cat"]].concat());
    assert_eq!(added.code, Some(0), "{added:?}");
    assert_eq!(state(&workspace, "mine"), "enabled");
    let line = ["changed", "--", "sh", "-c", "${input:line}"];
    let added = workspace.run([&add[..], &line].concat());
    assert!(added.err.contains("defines it differently"), "{added:?}");
    assert_eq!(state(&workspace, "changed"), "needs_approval");
}

#[test]
fn servers_are_removed_from_files_of_toml_and_yaml() {
    let workspace = Workspace::new();
    workspace.write(
        "orchestra.toml",
        "tools = \"lean\" # few\n\n[mcp.servers.a]\ncommand = \"cat\"\n[mcp.servers.a.env]\nK = \"1\"\n\n\
         # the second\n[mcp.servers.b]\ncommand = \"cat\"\n",
    );
    let said = workspace.run(["mcp", "remove", "a"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        workspace.read("orchestra.toml"),
        "tools = \"lean\" # few\n\n\n# the second\n[mcp.servers.b]\ncommand = \"cat\"\n"
    );
    assert_eq!(states(&workspace).len(), 1);
    assert_eq!(workspace.run(["config", "show"]).code, Some(0));
    // A file that was named by hand is nobody's to change.
    workspace.write("c.yaml", "mcp:\n  servers:\n    c: {command: cat}\n");
    let said = workspace.run(["mcp", "--mcp-config", "c.yaml", "remove", "c"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("mcp disable c"), "{said:?}");
}

#[test]
fn comments_and_all_else_in_a_file_stay() {
    let workspace = with_repository();
    let added = workspace.run(["mcp", "add", "a", "--scope", "workspace", "--", "cat"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert_eq!(workspace.run(["mcp", "remove", "a"]).code, Some(0));
    assert!(workspace.read(".mcp.json").contains("// of the repository"));
    assert_eq!(state(&workspace, "docs"), "needs_approval");
}

#[test]
fn files_are_checked_and_the_exit_code_tells() {
    let workspace = with_repository();
    let said = workspace.run(["mcp", "validate"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.out.contains(": invalid, 3 servers"), "{}", said.out);
    workspace.write(
        "good.yaml",
        "mcp:\n  servers:\n    a: {command: cat, comand: x}\n",
    );
    let path = workspace.join("good.yaml").display().to_string();
    let said = workspace.run(["mcp", "validate", &path]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.out.contains("valid, 1 server\n") && said.out.contains(":3:23: warning"),
        "{}",
        said.out
    );
    workspace.write(
        "unset.json",
        r#"{"mcpServers": {"a": {"command": "${NOT_SET_ANYWHERE}"}}}"#,
    );
    let path = workspace.join("unset.json").display().to_string();
    let said = workspace.run(["mcp", "validate", "--json", &path]);
    assert_eq!(said.code, Some(3));
    let message = &json(&said)[0]["diagnostics"][0]["message"];
    assert!(
        message.as_str().unwrap().contains("NOT_SET_ANYWHERE"),
        "{message}"
    );
    assert_eq!(
        workspace.run(["mcp", "validate", "/no/such.json"]).code,
        Some(2)
    );
}

#[test]
fn a_file_of_the_workspace_is_checked_as_one_also_where_it_is_named() {
    let workspace = Workspace::new();
    workspace.write(
        ".mcp.json",
        r#"{"mcpServers": {"a": {"command": "cat", "trust": true}}}"#,
    );
    let absolute = workspace.join(".mcp.json").display().to_string();
    for named in [&[][..], &[".mcp.json"], &["./.mcp.json"], &[&*absolute]] {
        let words = ["mcp", "validate", "--json"].iter().chain(named);
        let said = workspace.run(words);
        assert_eq!(said.code, Some(0), "{named:?}: {said:?}");
        let diagnostic = &json(&said)[0]["diagnostics"][0];
        assert_eq!(diagnostic["severity"], "warning", "{named:?}: {said:?}");
        assert!(diagnostic.to_string().contains("trust"), "{diagnostic}");
    }
}

#[test]
fn files_of_the_environment_and_the_command_line_are_trusted() {
    let workspace = Workspace::new();
    workspace.write("given.json", r#"{"mcpServers": {"a": {"command": "cat"}}}"#);
    workspace.write("path/b.json", r#"{"name": "b", "command": "cat"}"#);
    let given = workspace.join("given.json").display().to_string();
    let mut command = workspace.command(["mcp", "list", "--json", "--mcp-config", &given]);
    command.env("SDEK_MCP_PATH", workspace.join("path"));
    let listing = json(&said(command, ""));
    let sources: Vec<&Value> = (0..2).map(|n| &listing["servers"][n]["source"]).collect();
    assert_eq!(sources, ["command-line", "environment"]);
    for command in ["stdio", "up"] {
        let said = workspace.run([command, "--mcp-config", "/no/such/file.json"]);
        assert_eq!(said.code, Some(2), "{said:?}");
    }
}

#[test]
fn a_section_of_servers_is_no_fault_of_the_configuration() {
    let workspace = Workspace::new();
    workspace.write(
        "orchestra.toml",
        "tools = \"lean\"\n[mcp.servers.a]\ncommand = 1\n",
    );
    assert_eq!(workspace.run(["config", "show"]).code, Some(0));
    assert_eq!(state(&workspace, "a"), "invalid");
}

#[test]
fn name_of_a_file_adds_no_line_to_the_output() {
    let workspace = Workspace::new();
    let name = ".orchestra/mcp/a\nforged: approved.json";
    workspace.write(name, r#"{"mcpServers": {"s": {"command": "cat"}}}"#);
    for words in [
        &["mcp", "validate"][..],
        &["mcp", "list", "--sources"],
        &["mcp", "approve", "s"],
        &["mcp", "add", "s", "--", "cat"],
        &["mcp", "remove", "s"],
    ] {
        let said = workspace.run(words);
        let mut lines = said.out.lines().chain(said.err.lines());
        assert!(!lines.any(|line| line.starts_with("forged")), "{said:?}");
    }
}
