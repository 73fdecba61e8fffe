//! `orchestra mcp import` and `export`: servers are taken over from other programs and handed out, and
//! secrets are not.

use std::fs;

use insta::assert_snapshot;

use crate::{
    mcp::{json, state, states},
    support::{Said, Workspace, said},
};

#[test]
fn servers_that_claude_code_keeps_for_a_project_are_taken_over_there() {
    let workspace = Workspace::new();
    let file = serde_json::json!({
        "mcpServers": {"all": {"command": "cat"}, "both": {"command": "for-all"}},
        "projects": {
            workspace.path().to_str().unwrap(): {
                "allowedTools": [],
                "mcpServers": {"mine": {"command": "cat"}, "both": {"command": "for-here"}, "odd": {"command": 1}},
            },
            "/another/project": {"mcpServers": {"theirs": {"command": "cat"}}},
            "/a/third": {"mcpServers": {}},
        },
    });
    fs::write(workspace.home().join(".claude.json"), file.to_string()).unwrap();
    let import = |scope: &str, expected: [&str; 5]| {
        let words = ["mcp", "import", "claude-code", "--json", "--scope", scope];
        let said = workspace.run(words);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.err.contains("servers of 1 other project;"), "{said:?}");
        let rows = json(&said);
        let rows = rows.as_array().unwrap().iter();
        let told = rows.map(|row| format!("{} {}", row["name"], row["result"]).replace('"', ""));
        assert_eq!(told.collect::<Vec<_>>(), expected);
        json(&said)
    };
    let command = |server: &str| {
        let exported = json(&workspace.run(["mcp", "export", server]));
        exported["mcpServers"][server]["command"].clone()
    };
    // The user's file is for every workspace.
    let everywhere = [
        "mine left_out",
        "both left_out",
        "odd invalid",
        "all added",
        "both added",
    ];
    let rows = import("user", everywhere);
    let reason = "it belongs to this project there: --scope workspace takes it";
    assert_eq!(rows[0]["reason"], reason);
    assert_eq!(state(&workspace, "mine"), "");
    assert_eq!(command("both"), "for-all");
    assert_eq!(workspace.run(["mcp", "remove", "both"]).code, Some(0));
    let here = [
        "mine added",
        "both added",
        "odd invalid",
        "all known",
        "both known",
    ];
    let rows = import("workspace", here);
    assert_eq!(rows[3].get("differs"), None);
    assert_eq!(rows[4]["differs"], serde_json::json!(["command"]));
    assert_eq!(command("both"), "for-here");
    assert!(workspace.read(".mcp.json").contains("mine"));
    assert_eq!(state(&workspace, "theirs"), "");
    let again = workspace.run(["mcp", "import", "claude-code"]);
    assert!(again.out.contains("known, differs (command)"), "{again:?}");
}

#[test]
fn each_secret_is_handed_out_as_a_variable_of_its_own() {
    let workspace = Workspace::new();
    let servers = serde_json::json!({"mcpServers": {
        "a": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer aaaaaaaa"}},
        "c": {"url": "https://c.example/mcp", "headers": {"Authorization": "Bearer cccccccc"}},
        "d": {"command": "x", "env": {"API_KEY": "k1", "PORT": "8080", "PIN": "1234"}},
        "e": {"command": "x", "env": {"API_KEY": "k2", "SHARED": "same"}},
        "f": {"command": "x", "env": {"SHARED": "same", "OTHER": "${E_API_KEY}"}},
    }});
    workspace.write("two.json", &servers.to_string());
    let export = |more: &[&str]| {
        let words = ["mcp", "--mcp-config", "two.json", "export"];
        let mut command = workspace.command(words.iter().chain(more));
        command.env("E_API_KEY", "another");
        said(command, "")
    };
    let said = export(&[]);
    let shared = json(&said)["mcpServers"].clone();
    let header = |server: &str| shared[server]["headers"]["Authorization"].clone();
    assert_eq!(header("a"), "Bearer ${A_AUTHORIZATION}");
    assert_eq!(header("c"), "Bearer ${C_AUTHORIZATION}");
    let env = |server: &str, name: &str| shared[server]["env"][name].clone();
    assert_eq!(env("d", "API_KEY"), "${D_API_KEY}");
    assert_eq!(env("d", "PORT"), "8080");
    assert_eq!(env("d", "PIN"), "${PIN}");
    assert_eq!(env("e", "API_KEY"), "${E_API_KEY_2}", "the name is taken");
    assert_eq!(env("e", "SHARED"), "${SHARED}");
    assert_eq!(env("f", "SHARED"), "${SHARED}");
    let names = "A_AUTHORIZATION, C_AUTHORIZATION, D_API_KEY, E_API_KEY_2, PIN, SHARED";
    assert!(said.err.contains(names), "{said:?}");
    let whole = export(&["--with-values"]);
    assert_eq!(json(&whole), servers);
    assert!(!whole.err.contains("A_AUTHORIZATION"), "{whole:?}");
    let one = export(&["a"]);
    assert!(one.out.contains("Bearer ${AUTHORIZATION}"), "{one:?}");
}

#[test]
fn servers_that_wait_for_an_approval_are_exported_only_by_name() {
    let workspace = Workspace::new();
    workspace.write(
        ".mcp.json",
        r#"{"mcpServers": {"theirs": {"command": "cat"}, "off": {"command": "cat", "disabled": true}}}"#,
    );
    workspace.write(
        "own.json",
        r#"{"mcpServers": {"mine": {"command": "cat"}}}"#,
    );
    let export = |more: &[&str]| {
        let words = ["mcp", "--mcp-config", "own.json", "export"];
        workspace.run(words.iter().chain(more))
    };
    let names = |said: &Said| -> Vec<String> {
        let servers = json(said)["mcpServers"].clone();
        servers.as_object().unwrap().keys().cloned().collect()
    };
    let said = export(&[]);
    assert_eq!(names(&said), ["mine"]);
    assert!(
        said.err.contains("wait for your approval: theirs, off;"),
        "{said:?}"
    );
    assert_eq!(names(&export(&["theirs"])), ["theirs"]);
    let approved = workspace.run(["mcp", "approve", "theirs", "--yes"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert_eq!(names(&export(&[])), ["mine", "theirs"]);
}

#[test]
fn characters_that_turn_text_or_are_invisible_are_escaped_and_keep_their_meaning() {
    let workspace = Workspace::new();
    let text = "true \u{202e} x\u{200b}";
    workspace.write("orchestra.toml", "[chat]\nmodel = \"a\\u202eb\\u200b\"\n");
    let servers = serde_json::json!({"mcpServers": {"s": {"command": "sh", "args": ["-c", text]}}});
    workspace.write("own.json", &servers.to_string());
    let export = ["mcp", "--mcp-config", "own.json", "export"];
    let in_toml = [&export[..], &["--shape", "toml"]].concat();
    for words in [
        &["config", "show"][..],
        &["config", "show", "--origin"],
        &export[..],
        &in_toml[..],
    ] {
        let said = workspace.run(words);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(!said.out.contains(['\u{202e}', '\u{200b}']), "{said:?}");
    }
    assert_eq!(json(&workspace.run(export)), servers);
    let shown: toml::Table = workspace.run(in_toml).out.parse().unwrap();
    let args = shown["mcp"]["servers"]["s"]["args"].as_array().unwrap();
    assert_eq!(args[1].as_str(), Some(text));
}

/// What is masked where a configuration is shown is no more handed out than values are.
#[test]
fn no_secret_is_handed_out_wherever_it_stands() {
    let workspace = Workspace::new();
    let servers = serde_json::json!({"mcpServers": {
        "args": {"command": "x", "args": ["--root", "/srv", "--api-key", "sk-s3cret", "--url=https://me:s3cret@h/"]},
        "env": {"command": "x", "env": {"DATABASE_URL": "postgres://u:s3cret@${HOST}/db", "TOKEN": "${TOKEN:-sk-s3cret}"}},
        "far": {"url": "https://u:s3cret@far.example/mcp?token=s3cret",
            "auth": {"type": "command", "command": ["get", "--password", "s3cret"]}},
        "open": {"url": "https://open.example/mcp?key=s3cret"},
    }});
    workspace.write("two.json", &servers.to_string());
    let export = |more: &[&str]| {
        let words = ["mcp", "--mcp-config", "two.json", "export"];
        let mut command = workspace.command(words.iter().chain(more));
        command.env("HOST", "h");
        said(command, "")
    };
    for shape in ["mcp-servers", "vscode", "toml"] {
        let said = export(&["--shape", shape]);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(!said.out.contains("s3cret"), "{said:?}");
        for name in ["API_KEY", "URL", "DATABASE_URL", "TOKEN", "PASSWORD"] {
            assert!(said.err.contains(name), "{name}: {said:?}");
        }
    }
    let said = export(&[]);
    let shared = json(&said)["mcpServers"].clone();
    assert_eq!(
        shared["args"]["args"],
        serde_json::json!([
            "--root",
            "/srv",
            "--api-key",
            "${API_KEY}",
            "--url=${ARGS_URL}"
        ])
    );
    assert_eq!(shared["env"]["env"]["TOKEN"], "${TOKEN}");
    assert_eq!(
        shared["open"]["url"],
        "https://open.example/mcp?${OPEN_URL}"
    );
}

#[test]
fn an_import_says_which_variable_stands_for_what_is_asked_for() {
    let workspace = Workspace::new();
    workspace.write(
        "code.json",
        r#"{"servers": {"a": {"command": "cat", "env": {"KEY": "${input:my-key}"}}}, "inputs": [{"id": "my-key", "type": "promptString"}]}"#,
    );
    let import = ["mcp", "import", "--from", "code.json"];
    let dry = workspace.run(import.iter().chain(&["--dry-run"]));
    assert!(
        dry.out
            .contains("set ORCHESTRA_INPUT_MY_KEY, for ${input:my-key}"),
        "{dry:?}"
    );
    let mut command = workspace.command(import);
    command.env("ORCHESTRA_INPUT_MY_KEY", "x");
    let added = said(command, "");
    assert!(
        added.out.contains("added") && !added.out.contains("ORCHESTRA_INPUT_MY_KEY"),
        "{added:?}"
    );
}

#[test]
fn secret_in_clear_text_is_reported_when_a_server_is_imported_or_added() {
    let workspace = Workspace::new();
    workspace.write(
        "others.json",
        r#"{"mcpServers": {
            "a": {"command": "cat", "env": {"API_KEY": "k-1234", "PORT": "8080"}},
            "b": {"command": "cat", "env": {"API_KEY": "${API_KEY}"}},
            "c": {"url": "https://c.example/mcp", "headers": {"Authorization": "Bearer cccccccc"}}}}"#,
    );
    let imported = workspace.run(["mcp", "import", "--from", "others.json", "--json"]);
    let rows = json(&imported);
    let note =
        |name: &str| format!("the file contains {name} in clear text; write ${{VARIABLE}} instead");
    assert_eq!(rows[0]["reason"], note("API_KEY"));
    assert_eq!(rows[1].get("reason"), None);
    assert_eq!(rows[2]["reason"], note("Authorization"));
    let added = workspace.run(["mcp", "add", "d", "--env", "API_KEY=k-1234", "--", "cat"]);
    assert!(added.err.contains(&note("API_KEY")), "{added:?}");
    let added = workspace.run([
        "mcp",
        "add",
        "e",
        "--env",
        "API_KEY=${API_KEY}",
        "--",
        "cat",
    ]);
    assert!(!added.err.contains("clear text"), "{added:?}");
}

#[test]
fn disabled_server_imported_into_the_workspace_is_approved_with_its_files() {
    let workspace = Workspace::new();
    workspace.write("server.sh", "cat");
    workspace.write(
        "others.json",
        r#"{"mcpServers": {"a": {"command": "sh", "args": ["server.sh"], "disabled": true}}}"#,
    );
    let import = [
        "mcp",
        "import",
        "--from",
        "others.json",
        "--scope",
        "workspace",
    ];
    let imported = workspace.run(import);
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let of = |state: &str| [("a".to_owned(), state.to_owned())];
    assert_eq!(states(&workspace), of("disabled"));
    assert_eq!(workspace.run(["mcp", "enable", "a"]).code, Some(0));
    assert_eq!(states(&workspace), of("enabled"));
}

#[test]
fn servers_of_other_programs_are_taken_over_and_handed_out() {
    let workspace = Workspace::new();
    let home = |path: &str, text: &str| {
        let path = workspace.home().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    home(
        ".claude.json",
        r#"{"numStartups": 3, "mcpServers": {"a": {"type": "stdio", "command": "cat", "env": {"TOKEN": "s3cret"}},
        "orchestra": {"command": "orchestra", "args": ["stdio"]}}}"#,
    );
    home(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"a": {"command": "other"}, "b": {"url": "https://example.com/mcp"}}}"#,
    );
    home(
        ".codex/config.toml",
        "model = \"x\"\n[mcp_servers.\"C D\"]\ncommand = \"cat\"\n",
    );
    home(
        ".sdek/mcp/one.json",
        r#"{"schemaVersion": "1.0.0", "name": "e", "transport": "http", "baseURL": "https://example.com", "capabilities": []}"#,
    );
    home(".gemini/settings.json", "{broken");
    let dry = workspace.run(["mcp", "import", "--dry-run"]);
    assert_eq!(dry.code, Some(0), "{dry:?}");
    assert!(dry.err.contains("settings.json:1:"), "{}", dry.err);
    assert_eq!(states(&workspace), []);
    let said = workspace.run(["mcp", "import", "--json"]);
    let results: Vec<(String, String)> = json(&said)
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].to_string(), row["result"].to_string()))
        .collect();
    let expected = [
        ("a", "added"),
        ("orchestra", "own"),
        ("a", "known"),
        ("b", "added"),
        ("c-d", "added"),
        ("e", "added"),
    ];
    let expected = expected.map(|(name, result)| (format!("\"{name}\""), format!("\"{result}\"")));
    assert_eq!(results, expected);
    let names: Vec<String> = states(&workspace)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["a", "b", "c-d", "e"]);

    let exported = workspace.run(["mcp", "export", "a"]);
    assert_snapshot!(exported.out, @r#"
    {
      "mcpServers": {
        "a": {
          "command": "cat",
          "env": {
            "TOKEN": "${TOKEN}"
          }
        }
      }
    }
    "#);
    assert!(
        workspace
            .run(["mcp", "export", "--with-values"])
            .out
            .contains("s3cret")
    );
    // What is handed out is read again.
    workspace.write(
        "orchestra.toml",
        &workspace
            .run(["mcp", "export", "--shape", "toml", "--with-values"])
            .out,
    );
    let said = workspace.run(["mcp", "validate"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let code = json(&workspace.run(["mcp", "export", "b", "--shape", "vscode"]));
    assert_eq!(code["servers"]["b"]["type"], "http");
}
